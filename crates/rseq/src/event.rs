//! What happened to a thread since it entered the kernel, and what follows from it.
//!
//! How the thread entered is not noted: whoever handles the way out to user mode knows it (`limen_entry::Interrupted`) and passes it on, so an entry
//! costs nothing. The record is empty whenever the thread is in user mode.

use crate::{Fatal, Stop};
use bitflags::bitflags;

bitflags! {
    /// The record.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Event: u32 {
        /// The thread was switched away from and came back, or somebody wants its critical section to be over.
        const SWITCHED = 1 << 0;
        /// Its identifiers may have changed.
        const IDS = 1 << 1;
        /// It came back on another CPU.
        const MIGRATED = 1 << 2;
        /// `membarrier` wants its critical section to be over.
        const BARRIER = 1 << 3;
        /// User memory was not there when the work was to be done: it is done once more where sleeping is allowed.
        const SLOW = 1 << 4;
        /// Only with `SLOW`: the thread had been interrupted in user mode.
        const USER_IRQ = 1 << 5;
        /// Only with `SLOW`: what was found in a read-only field, and is overwritten now, was not what the kernel had put there.
        const BROKEN = 1 << 6;
        /// A time-slice extension is over: user memory must say so.
        const SLICE = 1 << 7;
        /// Only with `SLOW`, debug mode: a system call was made inside a critical section.
        const IN_CALL = 1 << 8;
    }
}

/// How an area is treated; see the crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// 32 bytes.
    Legacy,
    /// More.
    Optimised,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Bring the identifiers up to date.
    pub ids: bool,
    /// Look at the critical section.
    pub section: bool,
}

impl Work {
    /// Whether that is anything.
    pub fn any(self) -> bool {
        self.ids | self.section
    }
}

impl Event {
    /// The thread runs again after a switch; `migrated`: on another CPU than the one its area says, `user_irq`: it had been interrupted in user
    /// mode (if that is not known for certain, `true` is right too). What is to be added to the record, `None` for nothing: no work is raised.
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

    /// `membarrier`'s interrupt found the thread running. Legacy areas are always looked at as a whole.
    pub fn barrier(mode: Mode) -> Self {
        match mode {
            Mode::Legacy => Self::ALL.union(Self::BARRIER),
            Mode::Optimised => Self::SWITCHED.union(Self::BARRIER),
        }
    }

    /// All that the way out looks at. By far most often a legacy area's thread was switched away from and came back, and everything is as it was told.
    /// It is the record, too, of a thread whose area is new or a copy of its parent's, and of one whose concurrency id may be another now: it must not go
    /// on in a critical section that it began with the old one, which may be somebody else's soon.
    pub const ALL: Self = Self::SWITCHED.union(Self::IDS);

    /// What must be done on the way to user mode; `user_irq`: the thread had been interrupted there. A system call inside a critical section breaks
    /// the rules, so an optimised area's is not looked at on the way out of one.
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

    /// What must be done before a handler's frame is made. It is not part of the record: the way out comes afterwards as ever.
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

    /// The work at exit could not be finished: the record for doing it again where sleeping is allowed. Whatever kills the thread is found once more
    /// then, except what has been overwritten.
    pub fn failed(self, user_irq: bool, why: Stop) -> Self {
        let irq = if user_irq { Self::USER_IRQ } else { Self::empty() };
        let broken = match why {
            Stop::Fatal(Fatal::ReadOnly) => Self::BROKEN,
            _ => Self::empty(),
        };
        self.union(Self::SLOW).union(irq).union(broken)
    }
}
