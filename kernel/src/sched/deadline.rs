//! The ends of waits, as times of clocks, also of those that can be set meanwhile (`time::wall`).

use super::{current, sleep_timer};
use crate::task::{Task, all_tasks};
use crate::time::{Timer, monotonic_of_realtime, monotonic_of_tai, now_ns, sleep_until, sleep_until_passed};
use alloc::sync::Arc;
use limen_linux_abi::Errno;

/// A clock was set. A thread that this walk over all threads misses began its sleep after it.
pub fn clock_was_set() {
    for task in all_tasks() {
        if let Some(deadline) = *task.sched.wall_deadline.lock() {
            sleep_timer(&task).arm(deadline.monotonic());
        }
    }
}

/// Whether the wait that `timer` ends at `deadline`, a time of `CLOCK_MONOTONIC`, is over. A timer that has
/// expired wakes nobody again, so its word counts, whatever this CPU's clock shows.
#[inline(always)]
pub(crate) fn is_over(timer: &Timer, deadline: impl FnOnce() -> u64) -> bool {
    !timer.is_armed() || now_ns() >= deadline()
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
    pub(super) fn monotonic(self) -> u64 {
        match self {
            Self::Monotonic(at) => at,
            Self::Realtime(at) => monotonic_of_realtime(at),
            Self::Tai(at) => monotonic_of_tai(at),
        }
    }

    /// Wakes `me`, the running thread, when it comes, until the result is dropped.
    #[inline]
    pub fn alarm(self, me: &Arc<Task>) -> Alarm<'_> {
        match self {
            Self::Monotonic(at) => sleep_timer(me).arm(at),
            _ => self.arm_sleeper(me),
        }
        Alarm { me, deadline: self }
    }
    #[inline(never)]
    fn arm_sleeper(self, me: &Arc<Task>) {
        let timer = sleep_timer(me);
        let mut deadline = me.sched.wall_deadline.lock();
        *deadline = Some(self);
        timer.arm(self.monotonic());
    }

    /// Sleeps until it comes. `ERESTARTSYS`: a signal is pending before that.
    pub fn sleep(self) -> Result<(), Errno> {
        if let Self::Monotonic(at) = self {
            return sleep_until(at);
        }
        let me = current();
        let alarm = self.alarm(&me);
        sleep_until_passed(|| alarm.is_over(), || ())
    }
}

/// Wakes the running thread at a [`Deadline`].
pub struct Alarm<'a> {
    me: &'a Arc<Task>,
    deadline: Deadline,
}

impl Alarm<'_> {
    /// Whether the deadline has come. Asked after the thread has set its sleeping state: if not, the timer
    /// finds the thread asleep.
    #[inline]
    pub fn is_over(&self) -> bool {
        let timer = sleep_timer(self.me);
        match self.deadline {
            Deadline::Monotonic(at) => is_over(timer, || at),
            _ => self.wall_is_over(timer),
        }
    }
    #[inline(never)]
    fn wall_is_over(&self, timer: &Timer) -> bool {
        if now_ns() >= self.deadline.monotonic() {
            return true;
        }
        if !timer.is_armed() {
            // The timer expired, and then the clock was set back.
            self.deadline.arm_sleeper(self.me);
        }
        false
    }
    #[inline(never)]
    fn forget(&self) {
        *self.me.sched.wall_deadline.lock() = None;
    }
}

impl Drop for Alarm<'_> {
    #[inline]
    fn drop(&mut self) {
        // Comes first: afterwards nothing arms the timer again.
        if !matches!(self.deadline, Deadline::Monotonic(_)) {
            self.forget();
        }
        sleep_timer(self.me).cancel();
    }
}
