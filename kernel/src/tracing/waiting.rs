//! Waiting for records. Writers must not wake anybody, since they may be the scheduler, or an NMI: while
//! somebody waits they leave a word, and a timer finds it.

use crate::sched::WaitQueue;
use crate::sync::Once;
use crate::time::{Timer, now_ns};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use limen_linux_abi::Errno;

/// How long a record may lie until who waits hears of it, nanoseconds.
const PERIOD: u64 = 10_000_000;

/// Who waits for an instance's records.
pub struct Waiting {
    /// For `poll`: register there, then call [`Self::watch`], then look.
    pub queue: WaitQueue,
    /// How many threads are between a look and the end of their sleep.
    sleepers: AtomicU32,
    /// Whether somebody waits, and whether something was recorded meanwhile.
    waited: AtomicBool,
    news: AtomicBool,
    /// How often who waits was told.
    told: AtomicU32,
    timer: Once<Timer>,
}

/// A thread that is about to look at the buffers, and to sleep if there is nothing.
pub struct Sleeper<'a> {
    waiting: &'a Waiting,
    told: u32,
}

impl Sleeper<'_> {
    /// Sleeps until there may be more than when this was made. `ERESTARTSYS`.
    pub fn sleep(self) -> Result<(), Errno> {
        let waiting = self.waiting;
        waiting
            .queue
            .wait_until(|| waiting.told.load(Ordering::Acquire) != self.told)
    }
}

impl Drop for Sleeper<'_> {
    fn drop(&mut self) {
        self.waiting.sleepers.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Waiting {
    /// Nobody waits.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            queue: WaitQueue::new(),
            sleepers: AtomicU32::new(0),
            waited: AtomicBool::new(false),
            news: AtomicBool::new(false),
            told: AtomicU32::new(0),
            timer: Once::new(),
        })
    }

    /// Something was recorded. In any context.
    #[inline(always)]
    pub(super) fn note(&self) {
        if self.waited.load(Ordering::Relaxed) {
            self.news.store(true, Ordering::Relaxed);
        }
    }

    /// The running thread is about to look, and to sleep if there is nothing.
    pub fn begin(self: &Arc<Self>) -> Sleeper<'_> {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let told = self.told.load(Ordering::Acquire);
        self.watch();
        Sleeper { waiting: self, told }
    }

    /// Who is in the queue, or begins to sleep, is told of what is recorded from now on.
    pub fn watch(self: &Arc<Self>) {
        if !self.waited.swap(true, Ordering::SeqCst) {
            // A writer that has not seen this may have recorded what the caller does not see yet.
            self.news.store(true, Ordering::Relaxed);
        }
        let timer = self.timer.get_or_init(|| {
            let this = Arc::downgrade(self);
            Timer::new(move || {
                if let Some(this) = this.upgrade() {
                    this.look();
                }
            })
        });
        if !timer.is_armed() {
            timer.arm(now_ns() + PERIOD);
        }
    }

    /// Tells all who wait. Not in an NMI, and not with locks of the scheduler.
    pub fn tell(&self) {
        self.told.fetch_add(1, Ordering::Release);
        self.queue.wake_all();
    }

    fn is_unused(&self) -> bool {
        self.sleepers.load(Ordering::SeqCst) == 0 && self.queue.is_empty()
    }

    /// The timer has expired.
    fn look(&self) {
        if self.news.swap(false, Ordering::Relaxed) {
            self.tell();
        }
        if self.is_unused() {
            self.waited.store(false, Ordering::SeqCst);
            // Whoever comes from here on finds that nobody waits, and arms the timer.
            if self.is_unused() {
                return;
            }
            self.waited.store(true, Ordering::SeqCst);
            // What was recorded in between left no word.
            self.news.store(true, Ordering::Relaxed);
        }
        if let Some(timer) = self.timer.get() {
            timer.arm(now_ns() + PERIOD);
        }
    }
}
