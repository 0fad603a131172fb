//! What waits by a clock that can be set (CLOCK_REALTIME, CLOCK_TAI): timers and sleeping threads. What waits for some time from now is not among
//! them: that goes by CLOCK_MONOTONIC.
//!
//! Each of them works out its time of CLOCK_MONOTONIC and arms its timer in one step under a lock. Who sets a clock does that first, and then the
//! same for everybody, under the same locks: whoever arms a timer last goes by the new time.

use super::clock::Clock;
use super::{now_ns, sleep_until};
use crate::sched::{TaskState, current, schedule, sleep_timer};
use crate::sync::{IrqSpinLock, SpinLock};
use crate::task::Task;
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use limen_linux_abi::Errno;

/// A timer of a clock that can be set.
pub trait WallTimer: Send + Sync {
    /// Its clock was set; `realtime`: CLOCK_REALTIME was, and not only CLOCK_TAI.
    fn clock_was_set(&self, realtime: bool);
}

/// By address. They come when they are made, not when they are set, which happens more often. In interrupts, too: the last reference may be a
/// callback's.
static TIMERS: IrqSpinLock<BTreeMap<usize, Weak<dyn WallTimer>>> = IrqSpinLock::new(BTreeMap::new());

/// Threads that sleep until such a clock shows a time, by identifier. Their sleep timers are armed under this lock.
static SLEEPERS: SpinLock<BTreeMap<i32, (Arc<Task>, Deadline)>> = SpinLock::new(BTreeMap::new());

/// From now on `timer` is told when its clock is set.
pub fn add<T: WallTimer + 'static>(timer: &Arc<T>) {
    let weak = Arc::downgrade(timer);
    TIMERS.lock().insert(Arc::as_ptr(timer).addr(), weak);
}

/// `timer` goes away: undoes [`add`].
pub fn remove<T: WallTimer>(timer: &T) {
    let old = TIMERS.lock().remove(&core::ptr::from_ref(timer).addr());
    drop(old);
}

/// A clock was set; `realtime`: CLOCK_REALTIME was, and not only CLOCK_TAI.
pub(super) fn clock_was_set(realtime: bool) {
    for (task, deadline) in SLEEPERS.lock().values() {
        sleep_timer(task).arm(deadline.monotonic());
    }
    let timers: Vec<_> = TIMERS.lock().values().filter_map(Weak::upgrade).collect();
    for timer in timers {
        timer.clock_was_set(realtime);
    }
}

/// When a wait ends: a time of a clock, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub enum Deadline {
    /// Of CLOCK_MONOTONIC.
    Monotonic(u64),
    /// Of CLOCK_REALTIME, which may be set meanwhile.
    Realtime(u64),
    /// Of CLOCK_TAI, which may be set meanwhile.
    Tai(u64),
}

impl Deadline {
    /// Time `at` of `clock`; `None` for CPU time.
    pub fn of(clock: &Clock, at: u64) -> Option<Self> {
        match clock {
            Clock::Monotonic => Some(Self::Monotonic(at)),
            Clock::Realtime => Some(Self::Realtime(at)),
            Clock::Tai => Some(Self::Tai(at)),
            _ => None,
        }
    }

    /// The time of CLOCK_MONOTONIC at which it comes, if no clock is set meanwhile.
    #[inline]
    fn monotonic(self) -> u64 {
        match self {
            Self::Monotonic(at) => at,
            Self::Realtime(at) => Clock::Realtime.to_monotonic(at).unwrap_or(u64::MAX),
            Self::Tai(at) => Clock::Tai.to_monotonic(at).unwrap_or(u64::MAX),
        }
    }

    /// Whether it has come.
    #[inline]
    pub fn passed(self) -> bool {
        now_ns() >= self.monotonic()
    }

    /// Has `me`, the running thread, woken when it comes, until the alarm is dropped.
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

    /// Sleeps until it comes. `ERESTARTSYS` if a signal is pending before.
    pub fn sleep(self) -> Result<(), Errno> {
        if let Self::Monotonic(at) = self {
            return sleep_until(at);
        }
        let me = current();
        let _alarm = self.alarm(&me);
        let result = loop {
            me.sched.set_state(TaskState::INTERRUPTIBLE);
            if self.passed() {
                break Ok(());
            }
            if me.signal_pending() {
                break Err(Errno::ERESTARTSYS);
            }
            schedule();
        };
        me.sched.set_state(TaskState::RUNNING);
        result
    }
}

/// Wakes the running thread at a [`Deadline`].
pub struct Alarm<'a> {
    me: &'a Arc<Task>,
    /// The thread is among those that go by a clock that can be set.
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
        // First: nobody else arms the timer any more.
        if self.wall {
            self.remove_sleeper();
        }
        sleep_timer(self.me).cancel();
    }
}
