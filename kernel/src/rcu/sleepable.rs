//! Readers that may sleep (`limen_rcu::Sleepable`): each use has a [`Domain`] of its own.

use crate::arch::smp;
use crate::sched::{WaitQueue, might_sleep};
use crate::sync::{MAX_CPUS, Mutex, without_preemption};
use crate::time::now_ns;
use limen_rcu::{Native, Reader, Sleepable};

/// How long an updater sleeps before it looks again, nanoseconds.
const PAUSE: u64 = 500_000;

/// A domain of readers that may sleep.
pub struct Domain {
    counts: Sleepable<Native, MAX_CPUS>,
    /// One updater at a time.
    updater: Mutex<()>,
}

/// A reader of a [`Domain`]. It may sleep, and end on another CPU.
#[must_use]
pub struct SleepableReader<'a> {
    of: &'a Domain,
    reader: Option<Reader>,
}

impl Domain {
    /// Without readers.
    #[cfg_attr(feature = "lockdep", track_caller)]
    pub const fn new() -> Self {
        Self {
            counts: Sleepable::new(),
            updater: Mutex::new(()),
        }
    }

    /// Begins to read.
    pub fn read(&self) -> SleepableReader<'_> {
        SleepableReader {
            of: self,
            reader: Some(without_preemption(|| self.counts.enter(smp::cpu_id()))),
        }
    }

    /// Waits until all readers that have begun have ended. Sleeps. Not for a reader of the same domain, which
    /// would wait for itself.
    #[cfg_attr(any(debug_assertions, feature = "lockdep"), track_caller)]
    pub fn synchronize(&self) {
        might_sleep();
        let _one = self.updater.lock();
        let mut waiting = self.counts.begin();
        let pause = WaitQueue::new();
        while !waiting.is_over() {
            pause.wait_until_deadline_uninterruptible(now_ns() + PAUSE, || false);
        }
    }
}

impl Drop for SleepableReader<'_> {
    fn drop(&mut self) {
        if let Some(reader) = self.reader.take() {
            without_preemption(|| self.of.counts.leave(smp::cpu_id(), reader));
        }
    }
}
