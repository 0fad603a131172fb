//! Triggers: what an instance does when an event comes, besides recording it.

use super::list::{self, Event};
use super::state::Soft;
use super::{later, stack};
use crate::mm::reserve::room_exact;
use crate::tracing::Instance;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::Release};
use limen_linux_abi::Errno;
use limen_trace_events::filter::{Context, Filter};
use limen_trace_events::trigger::{Action, Command};

/// What to do.
enum Do {
    On,
    Off,
    Snapshot,
    Stack,
    Event { enable: bool, id: u16, soft: Arc<Soft> },
}

/// A trigger of an event in an instance.
pub(super) struct Trigger {
    what: Do,
    filter: Option<Filter>,
    /// How often it will still do something. `None`: without limit.
    left: Option<AtomicU64>,
}

/// The event that an action turns on or off.
pub(super) fn target(action: &Action<'_>) -> Result<Option<&'static Event>, Errno> {
    match action {
        Action::Event { system, name, .. } => list::named(system, name).map(Some).ok_or(Errno::EINVAL),
        _ => Ok(None),
    }
}

impl Trigger {
    /// A trigger as `command` says. `soft`: of the event that it turns on or off.
    pub fn new(
        command: &Command<'_>,
        filter: Option<Filter>,
        target: Option<(u16, Arc<Soft>)>,
    ) -> Result<Arc<Self>, Errno> {
        let what = match (command.action, target) {
            (Action::TraceOn, _) => Do::On,
            (Action::TraceOff, _) => Do::Off,
            (Action::Snapshot, _) => Do::Snapshot,
            (Action::StackTrace, _) => Do::Stack,
            (Action::Event { enable, .. }, Some((id, soft))) => Do::Event { enable, id, soft },
            (Action::Event { .. }, None) => return Err(Errno::EINVAL),
        };
        let left = command.count.map(AtomicU64::new);
        Ok(Arc::new(Self { what, filter, left }))
    }

    /// Whether it is of the kind that `command` names: there is one of each for an event.
    pub fn is_like(&self, action: &Action<'_>, of: Option<u16>) -> bool {
        match (&self.what, action) {
            (Do::On, Action::TraceOn)
            | (Do::Off, Action::TraceOff)
            | (Do::Snapshot, Action::Snapshot)
            | (Do::Stack, Action::StackTrace) => true,
            // Whether it turns it on or off: only one can be there.
            (Do::Event { id, .. }, Action::Event { .. }) => Some(*id) == of,
            _ => false,
        }
    }

    /// Whether it comes after the record.
    pub fn is_after(&self) -> bool {
        matches!(self.what, Do::Stack)
    }

    /// Takes one of the times that are left.
    fn spend(&self) -> bool {
        let Some(left) = &self.left else { return true };
        left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1))
            .is_ok()
    }

    /// Does `switch` as one of the times. It is given back if another CPU was faster: `switch` says so.
    fn spend_on(&self, switch: impl FnOnce() -> bool) {
        if self.spend()
            && !switch()
            && let Some(left) = &self.left
        {
            left.fetch_add(1, Relaxed);
        }
    }

    /// The event came. In any context.
    pub fn meet(&self, instance: &Arc<Instance>, record: &[u8], context: &Context) {
        if self
            .filter
            .as_ref()
            .is_some_and(|filter| !filter.keeps(record, context))
        {
            return;
        }
        match &self.what {
            Do::On if !instance.is_on() => self.spend_on(|| instance.turn_quietly(true)),
            Do::Off if instance.is_on() => self.spend_on(|| instance.turn_quietly(false)),
            Do::Snapshot if self.spend() => {
                instance.events.snapshot_waits.store(true, Release);
                later::snapshot();
            }
            Do::Stack if instance.is_on() && self.spend() => stack::record(instance),
            Do::Event { enable, soft, .. } if soft.is_off() == *enable => {
                self.spend_on(|| soft.set(*enable));
            }
            _ => {}
        }
    }

    /// Writes it as the `trigger` file lists it.
    pub fn write(&self, out: &mut dyn core::fmt::Write) -> core::fmt::Result {
        let left = self.left.as_ref().map(|left| left.load(Relaxed));
        let filter = self.filter.as_ref().map(Filter::text);
        let mut show = |action: Action<'_>| {
            let command = Command {
                remove: false,
                action,
                count: None,
                filter,
            };
            command.write(left, out)
        };
        match &self.what {
            Do::On => show(Action::TraceOn),
            Do::Off => show(Action::TraceOff),
            Do::Snapshot => show(Action::Snapshot),
            Do::Stack => show(Action::StackTrace),
            Do::Event { enable, id, .. } => match list::numbered(*id) {
                None => Ok(()),
                Some(event) => event.with_name(|name| {
                    let (enable, system) = (*enable, event.system().as_bytes());
                    show(Action::Event {
                        enable,
                        system,
                        name: name.as_bytes(),
                    })
                }),
            },
        }
    }
}

/// The same triggers without those for which `gone` holds.
pub(super) fn without(
    all: &[Arc<Trigger>],
    gone: impl Fn(&Trigger) -> bool,
) -> Result<Vec<Arc<Trigger>>, Errno> {
    let mut kept = Vec::new();
    room_exact(&mut kept, all.len())?;
    kept.extend(all.iter().filter(|one| !gone(one)).cloned());
    Ok(kept)
}
