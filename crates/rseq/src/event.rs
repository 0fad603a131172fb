//! What has happened to a thread since it entered the kernel, and the work that follows from it.
//!
//! How the thread entered is not noted: the code on the way out to user mode knows that
//! (`limen_entry::Cause`) and passes it on, so an entry costs nothing. The record is empty whenever the
//! thread is in user mode.

use crate::{Done, Fatal, Said, Stop};
use bitflags::bitflags;

bitflags! {
    /// The record.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Event: u32 {
        /// The thread was switched away from and back to, or its critical section must be aborted for another
        /// reason.
        const SWITCHED = 1 << 0;
        /// Its identifiers may have changed.
        const IDS = 1 << 1;
        /// It was switched to on another CPU.
        const MIGRATED = 1 << 2;
        /// `membarrier` aborts its critical section.
        const BARRIER = 1 << 3;
        /// An access to user memory faulted: the work is done again where sleeping is allowed.
        const SLOW = 1 << 4;
        /// Only with `SLOW`: the thread came from user mode by an interrupt.
        const USER_IRQ = 1 << 5;
        /// Only with `SLOW`: a read-only field, which has been overwritten since, did not have what the
        /// kernel had written there.
        const BROKEN = 1 << 6;
        /// A time-slice extension has ended: user memory must say so.
        const SLICE = 1 << 7;
        /// Only with `SLOW`, in debug mode: a system call was made inside a critical section.
        const IN_CALL = 1 << 8;
        /// Only with `SLOW`: the identifiers in user memory are those that were told last, those that were
        /// being written when an access faulted, or some of both.
        const TRIED = 1 << 9;
    }
}

/// How an area is treated. See the crate's description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// 32 bytes.
    Legacy,
    /// More.
    Optimised,
}

/// The work to be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Bring the identifiers up to date.
    pub ids: bool,
    /// Check the critical section, and abort it if the thread is in it.
    pub section: bool,
}

impl Work {
    /// Whether there is any work.
    pub fn any(self) -> bool {
        self.ids | self.section
    }
}

impl Event {
    /// The thread was switched to again. `migrated`: on another CPU than its area says. `user_irq`: it had
    /// come from user mode by an interrupt (`true` is safe if that is not known). Returns what to add to the
    /// record; `None`: no work.
    #[inline(always)]
    pub fn resumed(mode: Mode, migrated: bool, user_irq: bool) -> Option<Self> {
        let moved = if migrated {
            Self::IDS.union(Self::MIGRATED)
        } else {
            Self::empty()
        };
        match mode {
            Mode::Legacy => Some(Self::ALL.union(moved)),
            Mode::Optimised if migrated || user_irq => Some(Self::SWITCHED.union(moved)),
            Mode::Optimised => None,
        }
    }

    /// The interrupt of `membarrier` found the thread running. Legacy areas always get all of the work.
    pub fn barrier(mode: Mode) -> Self {
        match mode {
            Mode::Legacy => Self::ALL.union(Self::BARRIER),
            Mode::Optimised => Self::SWITCHED.union(Self::BARRIER),
        }
    }

    /// All work of the way out. By far most often a legacy area's thread was switched away from and back to,
    /// and everything is as it was told. Also for threads whose area is new or a copy of their parent's, and
    /// for those whose concurrency id may have changed: they must not continue in a critical section that
    /// they began with the old id, which another thread may soon have.
    pub const ALL: Self = Self::SWITCHED.union(Self::IDS);

    /// The work on the way to user mode. `user_irq`: the thread came from there by an interrupt. A system
    /// call inside a critical section is against the rules, so on the way out of one the section of an
    /// optimised area is not checked.
    #[inline(always)]
    pub fn at_exit(self, mode: Mode, user_irq: bool) -> Work {
        let user_irq = user_irq || self.contains(Self::USER_IRQ);
        match mode {
            Mode::Legacy => Work {
                ids: self.contains(Self::IDS),
                section: self.contains(Self::SWITCHED),
            },
            Mode::Optimised => Work {
                ids: self.contains(Self::IDS),
                section: self.contains(Self::SWITCHED) && user_irq,
            },
        }
    }

    /// The work before a signal frame is built. It is not part of the record: the way out comes afterwards,
    /// as ever.
    #[inline(always)]
    pub fn at_signal(mode: Mode, user_irq: bool) -> Work {
        match mode {
            Mode::Legacy => Work {
                ids: true,
                section: true,
            },
            Mode::Optimised => Work {
                ids: false,
                section: user_irq,
            },
        }
    }

    /// The work at exit could not be completed; `done` says how far it came. Returns the record with which it
    /// is repeated where sleeping is allowed. Whatever kills the thread will be found again, except a value
    /// that has been overwritten.
    pub fn failed(self, user_irq: bool, why: Stop, done: &Done) -> Self {
        let irq = if user_irq { Self::USER_IRQ } else { Self::empty() };
        let broken = match why {
            Stop::Fatal(Fatal::ReadOnly) => Self::BROKEN,
            _ => Self::empty(),
        };
        let tried = if done.said == Said::Either {
            Self::TRIED
        } else {
            Self::empty()
        };
        self.union(Self::SLOW).union(irq).union(broken).union(tried)
    }
}
