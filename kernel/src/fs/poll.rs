//! Readiness: what a file reports ([`PollEvents`]), and how a caller that wants to sleep until it changes gets onto the file's wait
//! queues ([`PollTable`]). `poll`, `select` and `epoll` (see `syscall/poll.rs`, `fs/epoll`) are built on this.
//!
//! A file's `poll` names each wait queue that may announce a change with [`PollTable::register`], always the same ones, whatever its
//! state. The same walk run with a removing table takes the waiter off again, so nobody has to remember where it was put.

use crate::fs::file::File;
use crate::sched::{WaitQueue, Waiter};
use alloc::sync::Arc;
use bitflags::bitflags;
use core::sync::atomic::{AtomicBool, Ordering};
use limen_linux_abi::Errno;

bitflags! {
    /// `POLL*`/`EPOLL*` bits.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct PollEvents: u32 {
        /// Data to read.
        const IN = 1;
        /// Exceptional data.
        const PRI = 2;
        /// Room to write.
        const OUT = 4;
        /// An error; always reported.
        const ERR = 8;
        /// Hung up; always reported.
        const HUP = 16;
        /// Not an open descriptor (`poll` only).
        const NVAL = 32;
        /// Normal data to read.
        const RDNORM = 64;
        /// Priority band data to read.
        const RDBAND = 128;
        /// Room for normal data.
        const WRNORM = 256;
        /// Room for priority data.
        const WRBAND = 512;
        /// Unused, kept for completeness.
        const MSG = 1024;
        /// The peer closed its writing half.
        const RDHUP = 0x2000;
    }
}

impl PollEvents {
    /// Ready to read, in both spellings.
    pub const READABLE: Self = Self::IN.union(Self::RDNORM);
    /// Ready to write, in both spellings.
    pub const WRITABLE: Self = Self::OUT.union(Self::WRNORM);
}

/// Puts one waiter on, or takes it off, the queues a file names.
pub struct PollTable<'a> {
    waiter: &'a Arc<dyn Waiter>,
    remove: bool,
}

impl<'a> PollTable<'a> {
    /// A table that registers `waiter`.
    pub fn adding(waiter: &'a Arc<dyn Waiter>) -> Self {
        Self {
            waiter,
            remove: false,
        }
    }
    /// A table that unregisters `waiter`.
    pub fn removing(waiter: &'a Arc<dyn Waiter>) -> Self {
        Self { waiter, remove: true }
    }
    /// Called by files: `queue` announces changes.
    pub fn register(&mut self, queue: &WaitQueue) {
        if self.remove {
            queue.remove(self.waiter);
        } else {
            queue.add(self.waiter);
        }
    }
}

/// Sleeps for the callers of `poll` and `select`.
struct Sleeper {
    triggered: AtomicBool,
    queue: WaitQueue,
}

impl Waiter for Sleeper {
    fn notify(&self, _key: u32) {
        self.triggered.store(true, Ordering::Release);
        self.queue.wake_all();
    }
}

/// How long a caller is willing to sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// Not at all.
    Now,
    /// So many nanoseconds, from when it turns out that it must.
    In(u64),
    /// Until CLOCK_MONOTONIC has this value.
    Until(u64),
    /// For ever.
    Never,
}

impl Timeout {
    /// The end of a sleep that begins now, on the monotonic clock; `u64::MAX`: none.
    pub fn deadline(self) -> u64 {
        match self {
            Self::Now => 0,
            Self::In(ns) => crate::time::now_ns().saturating_add(ns),
            Self::Until(at) => at,
            Self::Never => u64::MAX,
        }
    }
}

/// One file being polled.
pub struct PollEntry {
    /// The file; `None` is skipped.
    pub file: Option<Arc<File>>,
    /// What is asked for (error and hang-up are always).
    pub events: PollEvents,
    /// What was found.
    pub revents: PollEvents,
}

/// What there is of what was asked for.
#[inline]
pub fn ask(file: &File, events: PollEvents) -> PollEvents {
    file.poll(None) & (events | PollEvents::ERR | PollEvents::HUP)
}

fn scan(entries: &mut [PollEntry]) -> usize {
    let mut ready = 0;
    for e in entries {
        if let Some(file) = &e.file {
            e.revents = ask(file, e.events);
        }
        ready += usize::from(!e.revents.is_empty());
    }
    ready
}

/// Waits until one of `entries` is ready or the time is over. Returns how many are ready; `ERESTARTSYS`-like errors from an interrupted
/// sleep are passed through.
pub fn wait(entries: &mut [PollEntry], timeout: Timeout) -> Result<usize, Errno> {
    let ready = scan(entries);
    if ready != 0 || timeout == Timeout::Now {
        return Ok(ready);
    }
    sleep(entries, timeout)
}

/// [`wait`] for those who have just looked.
pub fn sleep(entries: &mut [PollEntry], timeout: Timeout) -> Result<usize, Errno> {
    let deadline = timeout.deadline();
    let sleeper = Arc::new(Sleeper {
        triggered: AtomicBool::new(false),
        queue: WaitQueue::new(),
    });
    let waiter: Arc<dyn Waiter> = sleeper.clone();
    for e in entries.iter() {
        if let Some(file) = &e.file {
            file.poll(Some(&mut PollTable::adding(&waiter)));
        }
    }
    let result = loop {
        let ready = scan(entries);
        if ready != 0 {
            break Ok(ready);
        }
        let awake = || sleeper.triggered.swap(false, Ordering::Acquire);
        match sleeper.queue.wait_until_deadline(deadline, awake) {
            Ok(true) => {}
            Ok(false) => break Ok(scan(entries)),
            Err(e) => break Err(e),
        }
    };
    for e in entries.iter() {
        if let Some(file) = &e.file {
            file.poll(Some(&mut PollTable::removing(&waiter)));
        }
    }
    result
}
