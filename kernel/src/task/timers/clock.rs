//! The clocks that programs name by number: fixed ones, and CPU time of a process or thread.

use crate::sched::Deadline;
use crate::sched::stats::{run_time_ns, user_system_ns};
use crate::task::creds::cap;
use crate::task::pid::{find_process_here, find_task_here};
use crate::task::{Process, Task, current};
use crate::time::{monotonic_of_realtime, monotonic_of_tai, now_ns, raw_ns, realtime_ns, tai_ns};
use alloc::sync::Arc;
use limen_linux_abi::Errno;

/// The clock that a number names.
pub enum Clock {
    /// `CLOCK_REALTIME` and `CLOCK_REALTIME_COARSE`.
    Realtime,
    /// `CLOCK_MONOTONIC`, `CLOCK_MONOTONIC_COARSE` and `CLOCK_BOOTTIME` (the machine never suspends).
    Monotonic,
    /// `CLOCK_MONOTONIC_RAW`. It is never steered, and there are no sleeps and timers by it.
    Raw,
    /// `CLOCK_TAI`.
    Tai,
    /// CPU time of a process.
    Process(Arc<Process>, CpuKind),
    /// CPU time of a thread.
    Thread(Arc<Task>, CpuKind),
}

/// Whether clock `id` would wake a suspended machine (`CLOCK_REALTIME_ALARM`, `CLOCK_BOOTTIME_ALARM`).
pub fn is_alarm(id: i32) -> bool {
    id == 8 || id == 9
}

/// `EPERM` unless the running thread may sleep by clock `id` or set its timers: alarm clocks need
/// `CAP_WAKE_ALARM`.
#[inline(always)]
pub fn may_wait_by(id: i32) -> Result<(), Errno> {
    if is_alarm(id) { may_wake() } else { Ok(()) }
}

#[cold]
#[inline(never)]
fn may_wake() -> Result<(), Errno> {
    if current().creds().capable(cap::WAKE_ALARM) {
        Ok(())
    } else {
        Err(Errno::EPERM)
    }
}

/// Which part of CPU time a clock counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuKind {
    /// User and system time (`CPUCLOCK_PROF`).
    UserSystem,
    /// User time (`CPUCLOCK_VIRT`).
    User,
    /// Run time as the scheduler charges it (`CPUCLOCK_SCHED`).
    Sched,
}

/// For timers that are set relative to the present time of a clock that can be set.
static MONOTONIC: Clock = Clock::Monotonic;

impl Clock {
    /// The clock with number `id`. `EINVAL`: there is none.
    pub fn from_id(id: i32) -> Result<Self, Errno> {
        Ok(match id {
            0 | 5 | 8 => Self::Realtime,
            1 | 6 | 7 | 9 => Self::Monotonic,
            4 => Self::Raw,
            11 => Self::Tai,
            2 => Self::Process(current().process.clone(), CpuKind::Sched),
            3 => Self::Thread((*current()).clone(), CpuKind::Sched),
            id if id < 0 => Self::of_pid(id)?,
            _ => return Err(Errno::EINVAL),
        })
    }

    /// Numbers for CPU time: the inverted id, a bit for "thread", and two bits for the kind.
    fn of_pid(id: i32) -> Result<Self, Errno> {
        let kind = match id & 3 {
            0 => CpuKind::UserSystem,
            1 => CpuKind::User,
            2 => CpuKind::Sched,
            _ => return Err(Errno::EINVAL),
        };
        let pid = !(id >> 3);
        if id & 4 != 0 {
            let task = if pid == 0 {
                (*current()).clone()
            } else {
                find_task_here(pid).ok_or(Errno::EINVAL)?
            };
            if !Arc::ptr_eq(&task.process, &current().process) {
                return Err(Errno::EINVAL);
            }
            Ok(Self::Thread(task, kind))
        } else if pid == 0 {
            Ok(Self::Process(current().process.clone(), kind))
        } else {
            Ok(Self::Process(find_process_here(pid).ok_or(Errno::EINVAL)?, kind))
        }
    }

    /// The present time in nanoseconds.
    #[inline]
    pub fn now(&self) -> u64 {
        match self {
            Self::Monotonic => now_ns(),
            other => other.now_of_others(),
        }
    }
    #[inline(never)]
    fn now_of_others(&self) -> u64 {
        match self {
            Self::Monotonic => now_ns(),
            Self::Raw => raw_ns(),
            Self::Realtime => realtime_ns(),
            Self::Tai => tai_ns(),
            Self::Process(process, kind) => process_time(process, *kind),
            Self::Thread(task, CpuKind::User) => user_system_ns(task).0,
            Self::Thread(task, _) => run_time_ns(task),
        }
    }

    /// Whether the clock can be set.
    #[inline]
    pub fn can_be_set(&self) -> bool {
        matches!(self, Self::Realtime | Self::Tai)
    }

    /// The clock by which a timer of this clock runs: this one, unless that can be set and the timer was set
    /// relative to the present time (`relative`).
    #[inline]
    pub fn going_by(&self, relative: bool) -> &Self {
        if relative && self.can_be_set() {
            &MONOTONIC
        } else {
            self
        }
    }

    /// Time `at` of this clock, to be waited for. `None` for CPU time.
    pub fn deadline(&self, at: u64) -> Option<Deadline> {
        match self {
            Self::Monotonic => Some(Deadline::Monotonic(at)),
            Self::Realtime => Some(Deadline::Realtime(at)),
            Self::Tai => Some(Deadline::Tai(at)),
            _ => None,
        }
    }

    /// Whether it counts CPU time.
    pub fn is_cpu(&self) -> bool {
        matches!(self, Self::Process(..) | Self::Thread(..))
    }

    /// The process that passes this clock's time, of a clock of CPU time.
    pub fn timed_process(&self) -> Option<&Arc<Process>> {
        match self {
            Self::Process(process, _) => Some(process),
            Self::Thread(task, _) => Some(&task.process),
            _ => None,
        }
    }

    /// The `CLOCK_MONOTONIC` time at which this clock will show `at` if it is not set before. `None` for CPU
    /// time.
    #[inline]
    pub fn to_monotonic(&self, at: u64) -> Option<u64> {
        match self {
            Self::Monotonic => Some(at),
            Self::Realtime => Some(monotonic_of_realtime(at)),
            Self::Tai => Some(monotonic_of_tai(at)),
            _ => None,
        }
    }
    /// When a timer expires that is set to `value`: nanoseconds from now or, if `absolute`, a time of this
    /// clock. Returned as a time of the clock [`Self::going_by`], and of `CLOCK_MONOTONIC` (`u64::MAX`:
    /// none).
    #[inline]
    pub fn expiry(&self, value: u64, absolute: bool) -> (u64, u64) {
        match self {
            Self::Monotonic if absolute => (value, value),
            Self::Monotonic => {
                let at = now_ns().saturating_add(value);
                (at, at)
            }
            other => other.expiry_of_others(value, absolute),
        }
    }
    #[inline(never)]
    fn expiry_of_others(&self, value: u64, absolute: bool) -> (u64, u64) {
        let clock = self.going_by(!absolute);
        let at = if absolute {
            value
        } else {
            clock.now().saturating_add(value)
        };
        (at, clock.to_monotonic(at).unwrap_or(u64::MAX))
    }
}

/// The resolution of clock `id` in nanoseconds. Coarse clocks are as fine as the others.
pub fn resolution(id: i32) -> Result<u64, Errno> {
    Clock::from_id(id).map(|_| 1)
}

/// The CPU time of a process, threads that have ended included, in nanoseconds.
pub fn process_time(process: &Process, kind: CpuKind) -> u64 {
    process.with_threads(|threads| {
        let living: u64 = threads
            .iter()
            .map(|t| {
                if kind == CpuKind::User {
                    user_system_ns(t).0
                } else {
                    run_time_ns(t)
                }
            })
            .sum();
        let dead = process.dead_threads.lock();
        living + dead.user_ns + if kind == CpuKind::User { 0 } else { dead.system_ns }
    })
}
