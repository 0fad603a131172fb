//! Events: which of them a file has ([`PollEvents`]), and how a caller that wants to sleep until there are
//! others gets onto the file's wait queues ([`PollTable`]). `poll`, `select` (`syscall/poll.rs`) and `epoll`
//! (`fs/epoll`) use this.
//!
//! A file's `poll` method calls [`PollTable::register`] for each wait queue that may announce a change:
//! always for the same ones, whatever the file's state. So calling it again with a table that removes takes
//! the waiter off all of them.

use crate::fs::file::File;
use crate::sched::{News, WaitQueue, Waiter};
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
    /// Can be read, in both spellings.
    pub const READABLE: Self = Self::IN.union(Self::RDNORM);
    /// Can be written, in both spellings.
    pub const WRITABLE: Self = Self::OUT.union(Self::WRNORM);
}

/// Adds a waiter to all queues of a file, or removes it from them.
pub struct PollTable<'a> {
    waiter: &'a Arc<dyn Waiter>,
    remove: bool,
    exclusive: bool,
}

impl<'a> PollTable<'a> {
    /// A table that adds `waiter`.
    pub fn adding(waiter: &'a Arc<dyn Waiter>) -> Self {
        Self {
            waiter,
            remove: false,
            exclusive: false,
        }
    }
    /// A table that adds `waiter` as an exclusive one ([`WaitQueue::add`]).
    pub fn adding_exclusively(waiter: &'a Arc<dyn Waiter>) -> Self {
        Self {
            exclusive: true,
            ..Self::adding(waiter)
        }
    }
    /// A table that removes `waiter`.
    pub fn removing(waiter: &'a Arc<dyn Waiter>) -> Self {
        Self {
            remove: true,
            ..Self::adding(waiter)
        }
    }
    /// Whether it removes the waiter: nobody asks what the file is ready for.
    pub fn removes(&self) -> bool {
        self.remove
    }
    /// Files call it for each `queue` that announces changes.
    pub fn register(&mut self, queue: &WaitQueue) {
        if self.remove {
            queue.remove(self.waiter);
        } else {
            queue.add(self.waiter, self.exclusive);
        }
    }
}

/// The waiter of a thread that sleeps in `poll` or `select`.
struct Sleeper {
    triggered: AtomicBool,
    queue: WaitQueue,
}

impl Waiter for Sleeper {
    fn notify(&self, _: News) -> bool {
        self.triggered.store(true, Ordering::Release);
        self.queue.wake_all();
        true
    }
}

/// How long a caller may sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// Not at all.
    Now,
    /// So many nanoseconds, counted from when the sleep begins.
    In(u64),
    /// Until `CLOCK_MONOTONIC` has this value, in nanoseconds.
    Until(u64),
    /// For ever.
    Never,
}

impl Timeout {
    /// The end of a sleep that begins now, in nanoseconds of `CLOCK_MONOTONIC`. `u64::MAX`: none.
    pub fn deadline(self) -> u64 {
        match self {
            Self::Now => 0,
            Self::In(ns) => crate::time::now_ns().saturating_add(ns),
            Self::Until(at) => at,
            Self::Never => u64::MAX,
        }
    }
}

/// A file to be polled.
pub struct PollEntry {
    /// The file. `None` is skipped.
    pub file: Option<Arc<File>>,
    /// Which events to report. Errors and hang-ups are always reported.
    pub events: PollEvents,
    /// Which events there were.
    pub revents: PollEvents,
}

/// Which of the given events, errors and hang-ups the file has.
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

/// Waits until one of `entries` has an event or the time is over. Returns how many have one. An error of an
/// interrupted sleep (`ERESTARTSYS`) is passed on.
pub fn wait(entries: &mut [PollEntry], timeout: Timeout) -> Result<usize, Errno> {
    let ready = scan(entries);
    if ready != 0 || timeout == Timeout::Now {
        return Ok(ready);
    }
    sleep(entries, timeout)
}

/// [`wait`] for callers that have just polled the files.
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
