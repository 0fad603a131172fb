//! Signals that wait for delivery.

use super::{SIGRTMIN, SigInfo, SigSet};
use alloc::vec::Vec;

/// Pending signals of a thread or of a process. Ordinary signals are there at most once, and once more for each timer; real-time signals queue up in
/// order.
#[derive(Debug, Default)]
pub struct Pending {
    set: SigSet,
    /// Details, oldest first. A member of `set` may be missing here (memory was short): it is delivered without details.
    queue: Vec<SigInfo>,
}

/// Where the details of a signal go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// Nowhere: the user's limit is reached.
    None,
    /// Into the queue.
    Queue,
    /// Into a place of the sender's own (a timer's): also when the signal is pending already.
    Own,
}

/// What became of a signal that was to be queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queued {
    /// It is pending now.
    Yes,
    /// An ordinary signal that was pending already, or this timer's was.
    Already,
    /// A real-time signal for which there was no room.
    NoRoom,
}

impl Pending {
    /// Nothing pending.
    pub const fn new() -> Self {
        Self {
            set: SigSet::EMPTY,
            queue: Vec::new(),
        }
    }
    /// Which signals are pending.
    #[inline]
    pub fn set(&self) -> SigSet {
        self.set
    }
    /// How many are queued with details.
    pub fn len(&self) -> usize {
        self.queue.len()
    }
    /// Adds a signal. Inlined, since most signals are sent by one caller.
    #[inline(always)]
    pub fn push(&mut self, info: SigInfo, room: Room) -> Queued {
        if room == Room::Own {
            return self.push_own(info);
        }
        let sig = info.signal();
        if sig < SIGRTMIN && self.set.has(sig) {
            return Queued::Already;
        }
        if room == Room::None || self.queue.try_reserve(1).is_err() {
            // A real-time signal sent with `sigqueue` must not lose its value silently; others are marked all the same.
            if sig >= SIGRTMIN && info.is_from_user() && info.code() != super::info::code::USER {
                return Queued::NoRoom;
            }
        } else {
            self.queue.push(info);
        }
        self.set = self.set.with(sig);
        Queued::Yes
    }
    /// Adds a timer's signal, unless there is one of it that was not taken.
    #[cold]
    #[inline(never)]
    fn push_own(&mut self, info: SigInfo) -> Queued {
        let sig = info.signal();
        let here = self.queue.iter().any(|other| {
            other.may_be_awaited() && other.signal() == sig && other.timer_id() == info.timer_id()
        });
        if here {
            return Queued::Already;
        }
        if self.queue.try_reserve(1).is_err() {
            return Queued::NoRoom;
        }
        self.queue.push(info);
        self.set = self.set.with(sig);
        Queued::Yes
    }
    /// Marks a signal pending without details (SIGKILL for the threads of a dying process).
    pub fn mark(&mut self, sig: u32) {
        self.set = self.set.with(sig);
    }
    /// Marks several.
    pub fn mark_all(&mut self, set: SigSet) {
        self.set = self.set.or(set);
    }
    /// The signal to take next that is not in `blocked`: faults first, then by number.
    #[inline]
    pub fn next(&self, blocked: SigSet) -> Option<u32> {
        let ready = self.set.minus(blocked);
        ready.and(SigSet::SYNCHRONOUS).first().or_else(|| ready.first())
    }
    /// Takes the next signal that is not in `blocked`.
    pub fn take_next(&mut self, blocked: SigSet) -> Option<SigInfo> {
        let mut info = SigInfo::NOTHING;
        self.take(self.next(blocked)?, &mut info);
        Some(info)
    }
    /// Takes the oldest `sig`, which is pending.
    #[inline]
    pub fn take(&mut self, sig: u32, info: &mut SigInfo) {
        let Some(at) = self.queue.iter().position(|info| info.signal() == sig) else {
            self.set = self.set.without(sig);
            *info = SigInfo::user(sig, 0, 0);
            return;
        };
        *info = self.queue[at];
        if at + 1 == self.queue.len() {
            self.queue.pop();
        } else {
            self.queue.remove(at);
        }
        if !self.queue.iter().any(|info| info.signal() == sig) {
            self.set = self.set.without(sig);
        }
    }
    /// Forgets all signals of `set`.
    pub fn discard(&mut self, set: SigSet) {
        if !self.set.and(set).is_empty() {
            self.set = self.set.minus(set);
            self.queue.retain(|info| !set.has(info.signal()));
        }
    }
}
