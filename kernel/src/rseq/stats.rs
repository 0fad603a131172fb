//! Counters: each CPU's, each thread's.

use crate::sched;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use limen_rseq::Event;

/// One counter. Only one CPU, or one thread, adds to it.
pub struct Count(AtomicU64);

impl Count {
    const fn new() -> Self {
        Self(AtomicU64::new(0))
    }
    /// One more.
    #[inline(always)]
    pub fn add(&self) {
        self.0.store(self.0.load(Relaxed) + 1, Relaxed);
    }
    /// Its value.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// What a CPU did. On cache lines of its own.
#[repr(align(128))]
pub struct Counts {
    /// Ways out to user mode, while they are counted.
    pub exits: Count,
    /// Handlers entered by a thread whose critical section was to be looked at.
    pub signal: Count,
    /// Ways out that found user memory missing.
    pub slow: Count,
    /// Ways out that had something to do and did it at once.
    pub fast: Count,
    /// Identifiers written.
    pub ids: Count,
    /// Critical sections looked for.
    pub checks: Count,
    /// Critical sections forgotten because the thread was not in them.
    pub clears: Count,
    /// Critical sections aborted.
    pub fixups: Count,
}

impl Counts {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self {
            exits: Count::new(),
            signal: Count::new(),
            slow: Count::new(),
            fast: Count::new(),
            ids: Count::new(),
            checks: Count::new(),
            clears: Count::new(),
            fixups: Count::new(),
        }
    }
}

/// Adds to one of this CPU's counters where the thread may be moved to another meanwhile.
pub fn count(which: impl FnOnce(&Counts) -> &Count) {
    crate::sync::without_preemption(|| which(&sched::this_cpu().rseq).add());
}

/// What was done for a thread.
pub struct ThreadCounts {
    /// Identifiers written.
    pub ids: Count,
    /// Critical sections aborted because it was preempted, moved to another CPU, got a signal, or `membarrier` said so.
    pub aborts: [Count; 4],
}

impl ThreadCounts {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self {
            ids: Count::new(),
            aborts: [const { Count::new() }; 4],
        }
    }

    /// A critical section was aborted.
    pub fn aborted(&self, event: Event, signal: bool) {
        let cause = if signal {
            2
        } else if event.contains(Event::BARRIER) {
            3
        } else if event.contains(Event::MIGRATED) {
            1
        } else {
            0
        };
        self.aborts[cause].add();
    }
}
