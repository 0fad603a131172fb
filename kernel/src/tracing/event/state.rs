//! What an instance wants of events. Everything here changes under the instance's `states`.

use super::pids::Pids;
use super::trigger::Trigger;
use crate::mm::reserve::room;
use crate::sync::Mutex;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use limen_linux_abi::Errno;
use limen_trace_events::filter::{Error, Filter};

/// Whether an event that is attached records at this moment: triggers change that in any context.
pub struct Soft(AtomicBool);

impl Soft {
    /// Whether it does not.
    #[inline]
    pub fn is_off(&self) -> bool {
        self.0.load(Relaxed)
    }
    /// Lets it record, or not. Returns whether that was a change: of several CPUs, one is told so.
    pub fn set(&self, on: bool) -> bool {
        self.0.swap(!on, Relaxed) == on
    }
}

/// What an instance wants of one event.
pub struct State {
    /// The event's number.
    pub id: u16,
    /// How many triggers, its own and those that turn it on or off, keep it attached though it is off.
    pub softly: u32,
    /// It was turned on.
    pub on: bool,
    /// See [`Soft`].
    pub soft: Arc<Soft>,
    /// Which records are kept.
    pub filter: Option<Arc<Filter>>,
    /// What was written instead of a filter, and what is wrong with it.
    pub refused: Option<(Vec<u8>, Error)>,
    /// What happens when it comes.
    pub(super) triggers: Vec<Arc<Trigger>>,
}

impl State {
    fn new(id: u16) -> Self {
        Self {
            id,
            softly: 0,
            on: false,
            soft: Arc::new(Soft(AtomicBool::new(true))),
            filter: None,
            refused: None,
            triggers: Vec::new(),
        }
    }

    /// Whether trace points must find it.
    pub fn is_attached(&self) -> bool {
        self.on || self.softly > 0
    }

    /// Whether it records now.
    pub fn records(&self) -> bool {
        self.is_attached() && !self.soft.is_off()
    }

    /// Turns it on or off, as `enable` does.
    pub fn turn(&mut self, on: bool) {
        self.on = on;
        self.soft.set(on);
    }

    /// One more trigger keeps it attached.
    pub fn hold(&mut self) {
        if self.softly == 0 {
            self.soft.set(self.on);
        }
        self.softly += 1;
    }

    /// One fewer. What the triggers have left on stays on.
    pub fn release(&mut self) {
        self.softly -= 1;
        if self.softly == 0 {
            self.on = !self.soft.is_off();
        }
    }
}

/// An instance's part in events.
pub struct InInstance {
    states: Mutex<Vec<State>>,
    /// Which threads are traced.
    pub pids: Arc<Pids>,
    /// A trigger has asked for a snapshot.
    pub(super) snapshot_waits: AtomicBool,
    /// The instance is being removed.
    pub(super) gone: Arc<AtomicBool>,
    /// What was written to systems' `filter` files.
    pub systems: Mutex<Vec<(&'static str, Vec<u8>, Option<Error>)>>,
}

/// The states of an instance, locked. Sorted by number; events of which nothing is wanted may be missing.
pub struct States<'a>(crate::sync::MutexGuard<'a, Vec<State>>);

impl InInstance {
    /// Nothing is wanted.
    pub fn new() -> Self {
        Self {
            states: Mutex::new(Vec::new()),
            pids: Arc::new(Pids::new()),
            snapshot_waits: AtomicBool::new(false),
            gone: Arc::new(AtomicBool::new(false)),
            systems: Mutex::new(Vec::new()),
        }
    }

    /// Locks the states. May sleep.
    pub fn states(&self) -> States<'_> {
        States(self.states.lock())
    }
}

impl States<'_> {
    /// What is wanted of an event, if anything ever was.
    pub fn get(&self, id: u16) -> Option<&State> {
        let found = self.0.binary_search_by_key(&id, |state| state.id);
        found.ok().map(|at| &self.0[at])
    }

    /// The same, to be changed. `ENOMEM`.
    pub fn of(&mut self, id: u16) -> Result<&mut State, Errno> {
        let at = match self.0.binary_search_by_key(&id, |state| state.id) {
            Ok(at) => at,
            Err(at) => {
                room(&mut *self.0, 1)?;
                self.0.insert(at, State::new(id));
                at
            }
        };
        Ok(&mut self.0[at])
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &State> {
        self.0.iter()
    }

    /// Forgets all, and returns them.
    pub(super) fn take(&mut self) -> Vec<State> {
        core::mem::take(&mut *self.0)
    }
}
