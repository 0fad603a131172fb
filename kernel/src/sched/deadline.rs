//! The ends of waits, as times of clocks, also of those that can be set meanwhile (`time::wall`).

use super::{current, sleep_timer};
use crate::sync::SpinLock;
use crate::task::Task;
use crate::time::{monotonic_at, now_ns, realtime_ns, sleep_until, sleep_until_passed, tai_ns};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use limen_linux_abi::Errno;

/// Threads that sleep until such a clock shows a time, by thread id. Their sleep timers are armed under this
/// lock.
static SLEEPERS: SpinLock<BTreeMap<i32, (Arc<Task>, Deadline)>> = SpinLock::new(BTreeMap::new());

/// A clock was set.
pub fn clock_was_set() {
    for (task, deadline) in SLEEPERS.lock().values() {
        sleep_timer(task).arm(deadline.monotonic());
    }
}

#[inline(never)]
fn of_realtime(at: u64) -> u64 {
    monotonic_at(realtime_ns(), at)
}

#[inline(never)]
fn of_tai(at: u64) -> u64 {
    monotonic_at(tai_ns(), at)
}

/// The end of a wait: a time of a clock in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub enum Deadline {
    /// A time of `CLOCK_MONOTONIC`.
    Monotonic(u64),
    /// A time of `CLOCK_REALTIME`, which may be set meanwhile.
    Realtime(u64),
    /// A time of `CLOCK_TAI`, which may be set meanwhile.
    Tai(u64),
}

impl Deadline {
    /// The time of `CLOCK_MONOTONIC` at which it comes, if no clock is set before.
    #[inline]
    fn monotonic(self) -> u64 {
        match self {
            Self::Monotonic(at) => at,
            Self::Realtime(at) => of_realtime(at),
            Self::Tai(at) => of_tai(at),
        }
    }

    /// Whether it has come.
    #[inline]
    pub fn passed(self) -> bool {
        now_ns() >= self.monotonic()
    }

    /// Wakes `me`, the running thread, when it comes, until the result is dropped.
    #[inline]
    pub fn alarm(self, me: &Arc<Task>) -> Alarm<'_> {
        let wall = !matches!(self, Self::Monotonic(_));
        match self {
            Self::Monotonic(at) => sleep_timer(me).arm(at),
            _ => self.arm_sleeper(me),
        }
        Alarm { me, wall }
    }
    #[inline(never)]
    fn arm_sleeper(self, me: &Arc<Task>) {
        let timer = sleep_timer(me);
        let mut sleepers = SLEEPERS.lock();
        sleepers.insert(me.tid(), (me.clone(), self));
        timer.arm(self.monotonic());
    }

    /// Sleeps until it comes. `ERESTARTSYS`: a signal is pending before that.
    pub fn sleep(self) -> Result<(), Errno> {
        if let Self::Monotonic(at) = self {
            return sleep_until(at);
        }
        let me = current();
        let _alarm = self.alarm(&me);
        sleep_until_passed(|| self.passed(), || ())
    }
}

/// Wakes the running thread at a [`Deadline`].
pub struct Alarm<'a> {
    me: &'a Arc<Task>,
    /// Whether the thread is in [`SLEEPERS`].
    wall: bool,
}

impl Alarm<'_> {
    #[inline(never)]
    fn remove_sleeper(&self) {
        let old = SLEEPERS.lock().remove(&self.me.tid());
        drop(old);
    }
}

impl Drop for Alarm<'_> {
    #[inline]
    fn drop(&mut self) {
        // Comes first: afterwards nothing arms the timer again.
        if self.wall {
            self.remove_sleeper();
        }
        sleep_timer(self.me).cancel();
    }
}
