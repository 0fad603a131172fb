//! Changing what an instance wants of events: what is written to `enable`, `filter`, `trigger`, `set_event`.

use super::list::{self, Event};
use super::state::State;
use super::trigger::{self, Trigger};
use crate::mm::reserve::{copy_of, room};
use crate::tracing::Instance;
use alloc::sync::Arc;
use core::sync::atomic::Ordering::Relaxed;
use limen_linux_abi::Errno;
use limen_trace_events::filter::{self, Cause, Error, Filter};
use limen_trace_events::select::Selection;
use limen_trace_events::trigger::{Action, Command};

/// The caption of filters' errors in `error_log`.
pub const FILTER_ERROR: &str = "event filter parse error";

impl Instance {
    /// Turns an event on or off. May sleep.
    pub fn turn_event(self: &Arc<Self>, event: &Event, on: bool) -> Result<(), Errno> {
        if on {
            self.expand()?;
        }
        let mut states = self.events.states();
        if !on && states.get(event.id).is_none() {
            return Ok(());
        }
        let state = states.of(event.id)?;
        let before = (state.on, state.soft.is_off());
        if before == (on, !on) {
            return Ok(());
        }
        state.turn(on);
        let result = event.publish(self, Some(state));
        if result.is_err() {
            state.on = before.0;
            state.soft.set(!before.1);
        }
        result
    }

    /// Turns all events for which `is_meant` holds on or off. `EINVAL`: there is none. May sleep.
    pub fn turn_events(self: &Arc<Self>, on: bool, is_meant: impl Fn(&Event) -> bool) -> Result<(), Errno> {
        let mut any = false;
        for event in list::all()?.iter().filter(|event| is_meant(event)) {
            self.turn_event(event, on)?;
            any = true;
        }
        if any { Ok(()) } else { Err(Errno::EINVAL) }
    }

    /// Does what a word of `set_event` says. `EINVAL`: it names no event. May sleep.
    pub fn select_events(self: &Arc<Self>, word: &[u8]) -> Result<(), Errno> {
        let selection = Selection::parse(word).ok_or(Errno::EINVAL)?;
        self.turn_events(selection.on, |event| {
            event.with_name(|name| selection.covers(event.system(), name, None))
        })
    }

    /// Gives an event a filter; `0` removes it. `EINVAL`: it is wrong, which is shown from then on. May
    /// sleep.
    pub fn filter_event(self: &Arc<Self>, event: &Event, text: &[u8]) -> Result<(), Errno> {
        let mut states = self.events.states();
        let state = states.of(event.id)?;
        if filter::clears(text) {
            (state.filter, state.refused) = (None, None);
            return event.publish(self, Some(state));
        }
        match Filter::parse(text, &event.fields()) {
            Ok(filter) => {
                let former = state.filter.replace(Arc::new(filter));
                let result = event.publish(self, Some(state));
                if result.is_err() {
                    state.filter = former;
                } else {
                    state.refused = None;
                }
                result
            }
            Err(error) if error.cause == Cause::NoMemory => Err(Errno::ENOMEM),
            Err(error) => {
                let text = text.trim_ascii();
                state.refused = Some((copy_of(text)?, error));
                state.filter = None;
                event.publish(self, Some(state))?;
                drop(states);
                self.report(FILTER_ERROR, error.cause.text(), text, error.column);
                Err(Errno::EINVAL)
            }
        }
    }

    /// Gives all events of a system a filter, as far as they have its fields. `EINVAL`: none has. May sleep.
    pub fn filter_system(self: &Arc<Self>, system: &'static str, text: &[u8]) -> Result<(), Errno> {
        let clears = filter::clears(text);
        let text = text.trim_ascii();
        let mut failed = Error {
            cause: Cause::BadSubsystemFilter,
            column: 0,
        };
        let mut any = clears;
        for event in list::all()?.iter().filter(|event| event.system() == system) {
            if !clears {
                if let Err(error) = Filter::parse(text, &event.fields()) {
                    if error.cause != Cause::FieldNotFound {
                        failed = error;
                    }
                    continue;
                }
                any = true;
            }
            self.filter_event(event, text)?;
        }
        let mut systems = self.events.systems.lock();
        systems.retain(|(of, ..)| *of != system);
        if !clears {
            room(&mut *systems, 1)?;
            systems.push((system, copy_of(text)?, (!any).then_some(failed)));
        }
        drop(systems);
        if any {
            return Ok(());
        }
        self.report(FILTER_ERROR, failed.cause.text(), text, failed.column);
        Err(Errno::EINVAL)
    }

    /// Does what a line of an event's `trigger` file says. `EINVAL`; `EEXIST`: there is such a trigger;
    /// `ENOENT`: there is none to remove. May sleep.
    pub fn trigger_event(self: &Arc<Self>, event: &Event, line: &[u8]) -> Result<(), Errno> {
        let command = Command::parse(line).ok_or(Errno::EINVAL)?;
        let target = trigger::target(&command.action)?;
        if !command.remove {
            self.expand()?;
            if matches!(command.action, Action::Snapshot) {
                self.allocate_snapshot()?;
            }
        }
        let mut states = self.events.states();
        let of = target.map(|target| target.id);
        let exists = |state: &State| state.triggers.iter().any(|one| one.is_like(&command.action, of));
        if command.remove {
            let state = states.of(event.id)?;
            if !exists(state) {
                return Err(Errno::ENOENT);
            }
            let kept = trigger::without(&state.triggers, |one| one.is_like(&command.action, of))?;
            let former = core::mem::replace(&mut state.triggers, kept);
            let was_on = state.on;
            state.release();
            if let Err(error) = event.publish(self, Some(state)) {
                // It stays, and with it what it holds of the event that it turns on or off.
                state.triggers = former;
                state.hold();
                state.on = was_on;
                return Err(error);
            }
            return match target {
                Some(target) => {
                    let state = states.of(target.id)?;
                    state.release();
                    target.publish(self, Some(state))
                }
                None => Ok(()),
            };
        }
        let filter = match command.filter.map(|text| Filter::parse(text, &event.fields())) {
            None => None,
            Some(Ok(filter)) => Some(filter),
            Some(Err(error)) if error.cause == Cause::NoMemory => return Err(Errno::ENOMEM),
            Some(Err(error)) => {
                drop(states);
                let text = command.filter.unwrap_or_default();
                self.report(FILTER_ERROR, error.cause.text(), text, error.column);
                return Err(Errno::EINVAL);
            }
        };
        if exists(states.of(event.id)?) {
            return Err(Errno::EEXIST);
        }
        let soft = match target {
            Some(target) => {
                let state = states.of(target.id)?;
                state.hold();
                target
                    .publish(self, Some(state))
                    .inspect_err(|_| state.release())?;
                Some((target.id, state.soft.clone()))
            }
            None => None,
        };
        let new = Trigger::new(&command, filter, soft);
        let state = states.of(event.id)?;
        let added = new.and_then(|new| {
            room(&mut state.triggers, 1)?;
            state.triggers.push(new);
            state.hold();
            event.publish(self, Some(state)).inspect_err(|_| {
                state.triggers.pop();
                state.release();
            })
        });
        if let (Err(_), Some(target)) = (added, target) {
            let state = states.of(target.id)?;
            state.release();
            target.publish(self, Some(state))?;
        }
        added
    }

    /// Writes the triggers of an event. `false`: there are none.
    pub fn write_triggers(&self, event: &Event, out: &mut dyn core::fmt::Write) -> bool {
        let states = self.events.states();
        let triggers = states.get(event.id).map_or(&[][..], |state| &state.triggers);
        for one in triggers {
            let _ = one.write(out);
        }
        !triggers.is_empty()
    }

    /// The instance is being removed: nobody records there any more. May sleep.
    pub(in crate::tracing) fn leave_events(self: &Arc<Self>) {
        // If there is no memory for the lists without it, this keeps its events away.
        self.events.gone.store(true, Relaxed);
        let states = self.events.states().take();
        for event in states.iter().filter_map(|state| list::numbered(state.id)) {
            let _ = event.publish(self, None);
        }
    }
}
