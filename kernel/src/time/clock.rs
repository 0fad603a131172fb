//! The clocks user space names by number, fixed ones and those of a process or thread.

use super::{NSEC_PER_SEC, now_ns, realtime_ns, tai_offset};
use crate::sched::stats::{run_time_ns, user_system_ns};
use crate::task::creds::cap;
use crate::task::{Process, Task, current, find_process, find_task};
use alloc::sync::Arc;
use limen_linux_abi::Errno;

/// What a clock number names.
pub enum Clock {
    /// CLOCK_REALTIME and its coarse variant.
    Realtime,
    /// CLOCK_MONOTONIC, its raw and coarse variants, CLOCK_BOOTTIME (the machine never sleeps).
    Monotonic,
    /// CLOCK_TAI.
    Tai,
    /// CPU time of a process.
    Process(Arc<Process>, CpuKind),
    /// CPU time of a thread.
    Thread(Arc<Task>, CpuKind),
}

/// Whether clock `id` is one of those that would wake a machine that sleeps (`CLOCK_REALTIME_ALARM`, `CLOCK_BOOTTIME_ALARM`).
pub fn is_alarm(id: i32) -> bool {
    id == 8 || id == 9
}

/// Whether the running thread may wait by clock `id`, or set timers of it: waking the machine is a privilege.
pub fn may_wait_by(id: i32) -> Result<(), Errno> {
    if is_alarm(id) && !current().creds().capable(cap::WAKE_ALARM) {
        Err(Errno::EPERM)
    } else {
        Ok(())
    }
}

/// Which CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuKind {
    /// User and system (`CPUCLOCK_PROF`).
    UserSystem,
    /// User (`CPUCLOCK_VIRT`).
    User,
    /// What the scheduler counted (`CPUCLOCK_SCHED`).
    Sched,
}

/// For what is set to some time from now of a clock that can be set.
static MONOTONIC: Clock = Clock::Monotonic;

impl Clock {
    /// From the number; `EINVAL` if it names nothing.
    pub fn from_id(id: i32) -> Result<Self, Errno> {
        Ok(match id {
            0 | 5 | 8 => Self::Realtime,
            1 | 4 | 6 | 7 | 9 => Self::Monotonic,
            11 => Self::Tai,
            2 => Self::Process(current().process.clone(), CpuKind::Sched),
            3 => Self::Thread((*current()).clone(), CpuKind::Sched),
            id if id < 0 => Self::of_pid(id)?,
            _ => return Err(Errno::EINVAL),
        })
    }

    /// Per-process numbers: the complemented identifier, a bit for "thread", two bits for the kind.
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
                find_task(pid).ok_or(Errno::EINVAL)?
            };
            if !Arc::ptr_eq(&task.process, &current().process) {
                return Err(Errno::EINVAL);
            }
            Ok(Self::Thread(task, kind))
        } else if pid == 0 {
            Ok(Self::Process(current().process.clone(), kind))
        } else {
            Ok(Self::Process(find_process(pid).ok_or(Errno::EINVAL)?, kind))
        }
    }

    /// The clock now, nanoseconds.
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
            Self::Realtime => realtime_ns(),
            Self::Tai => realtime_ns().wrapping_add_signed(i64::from(tai_offset()) * NSEC_PER_SEC as i64),
            Self::Process(process, kind) => process_time(process, *kind),
            Self::Thread(task, CpuKind::User) => user_system_ns(task).0,
            Self::Thread(task, _) => run_time_ns(task),
        }
    }

    /// Whether it can be set.
    #[inline]
    pub fn can_be_set(&self) -> bool {
        matches!(self, Self::Realtime | Self::Tai)
    }

    /// The clock that a timer of this one goes by: this one, or, if it is set to some time from now (`relative`), one that cannot be set.
    #[inline]
    pub fn going_by(&self, relative: bool) -> &Self {
        if relative && self.can_be_set() {
            &MONOTONIC
        } else {
            self
        }
    }

    /// Whether it counts CPU time.
    pub fn is_cpu(&self) -> bool {
        matches!(self, Self::Process(..) | Self::Thread(..))
    }

    /// The CLOCK_MONOTONIC time at which this clock shows `at`, if it is not set meanwhile. `None` for CPU clocks.
    #[inline]
    pub fn to_monotonic(&self, at: u64) -> Option<u64> {
        match self {
            Self::Monotonic => Some(at),
            Self::Realtime | Self::Tai => Some(self.shifted(at)),
            _ => None,
        }
    }
    /// When what is set to `value`, nanoseconds from now or (`absolute`) a time of this clock, is due: a time of the clock it is [`Self::going_by`], and
    /// of CLOCK_MONOTONIC (`u64::MAX`: none).
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
    #[inline(never)]
    fn shifted(&self, at: u64) -> u64 {
        let now = self.now();
        // Either way: the distance may be more than a signed number holds.
        if at >= now {
            now_ns().saturating_add(at - now)
        } else {
            now_ns().saturating_sub(now - at)
        }
    }
}

/// Resolution of clock `id`, nanoseconds: the coarse clocks are as fine as the others here.
pub fn resolution(id: i32) -> Result<u64, Errno> {
    Clock::from_id(id).map(|_| 1)
}

/// The CPU time of a process: its threads', living and dead.
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
