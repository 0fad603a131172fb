//! Who listens to an event: for each instance that wants it, what it does with it. Published as a whole, so
//! that a trace point finds it without a lock.

use super::Event;
use super::list::Which;
use super::state::{Soft, State};
use super::trigger::Trigger;
use crate::jump_label;
use crate::mm::reserve::room_exact;
use crate::rcu::{self, Retire, Shared};
use crate::tracing::Instance;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use limen_linux_abi::Errno;
use limen_trace_events::filter::Filter;

/// An instance that wants an event.
pub(super) struct Listener {
    pub instance: Arc<Instance>,
    /// The instance is being removed.
    pub gone: Arc<AtomicBool>,
    /// Records are wanted, as far as `soft` lets them.
    pub records: bool,
    pub soft: Arc<Soft>,
    pub filter: Option<Arc<Filter>>,
    pub triggers: Vec<Arc<Trigger>>,
}

/// All of an event's. Never empty.
pub(super) struct Listeners(pub Vec<Listener>);

impl Retire for Listeners {}

impl Event {
    /// Publishes what `instance` wants of it now. `None`: nothing any more. `ENOMEM`: it stays as it was. May
    /// sleep.
    pub(super) fn publish(&self, instance: &Arc<Instance>, state: Option<&State>) -> Result<(), Errno> {
        let _changing = self.changing.lock();
        let state = state.filter(|state| state.is_attached() || !state.triggers.is_empty());
        let old = self.listeners.get(&rcu::read());
        let others = old.iter().flat_map(|old| &old.0);
        let others = others.filter(|other| !Arc::ptr_eq(&other.instance, instance));
        let mut new = Vec::new();
        room_exact(&mut new, others.clone().count() + usize::from(state.is_some()))?;
        for other in others {
            new.push(other.try_clone()?);
        }
        if let Some(state) = state {
            new.push(Listener {
                instance: instance.clone(),
                gone: instance.events.gone.clone(),
                records: state.is_attached(),
                soft: state.soft.clone(),
                filter: state.filter.clone(),
                triggers: copied(&state.triggers)?,
            });
        }
        let on = !new.is_empty();
        let new = match on {
            true => Some(Shared::try_new(Listeners(new)).ok_or(Errno::ENOMEM)?),
            false => None,
        };
        let was_on = old.is_some();
        // What can fail comes first. A point that is on finds nobody before the next line.
        if on && let Which::Declared(place) = self.which {
            jump_label::enable(place)?;
        }
        drop(self.listeners.replace(new));
        match self.which {
            Which::Declared(place) => {
                if !on && !super::pids::needs(place) {
                    jump_label::disable(place);
                }
                super::calls::changed(super::calls::is_raw(place), was_on, on);
            }
            Which::Call(..) => super::calls::changed(true, was_on, on),
        }
        Ok(())
    }

    /// Whether somebody listens.
    pub(super) fn is_wanted(&self) -> bool {
        self.listeners.found(&rcu::read()).is_some()
    }
}

/// Counted references to the same.
fn copied<T>(from: &[Arc<T>]) -> Result<Vec<Arc<T>>, Errno> {
    let mut to = Vec::new();
    room_exact(&mut to, from.len())?;
    to.extend(from.iter().cloned());
    Ok(to)
}

impl Listener {
    fn try_clone(&self) -> Result<Self, Errno> {
        Ok(Self {
            instance: self.instance.clone(),
            gone: self.gone.clone(),
            records: self.records,
            soft: self.soft.clone(),
            filter: self.filter.clone(),
            triggers: copied(&self.triggers)?,
        })
    }

    /// Whether records are wanted at this moment.
    #[inline]
    pub fn is_recording(&self) -> bool {
        self.records && !self.gone.load(Relaxed) && !self.soft.is_off()
    }
}
