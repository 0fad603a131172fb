//! Time accounting: of CPUs (`/proc/stat`), of tasks, and the load averages.
//!
//! Run time and idle time are exact: taken at switches. The division of a CPU's busy time into user and
//! system is sampled: each tick charges the time since the last one to the mode that it interrupted, as
//! Linux's tick accounting does.

use super::cpu::{cpu, online};
use super::entity::on_rq;
use super::wake::lock_queue_of;
use crate::sync::{SpinLock, without_interrupts};
use crate::task::Task;
use crate::time::raw_ns;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// One CPU's times in nanoseconds. Only that CPU writes them, or a CPU that holds its run queue's lock.
pub struct CpuStats {
    user: AtomicU64,
    nice: AtomicU64,
    system: AtomicU64,
    idle: AtomicU64,
    /// When it began to idle, 0 if it does not idle.
    idle_since: AtomicU64,
    /// The end of the busy time that has been charged.
    charged: AtomicU64,
    /// Device and timer interrupts.
    interrupts: AtomicU64,
    /// Whether the interrupt being handled came from user mode.
    from_user: AtomicBool,
}

impl CpuStats {
    pub(super) const fn new() -> Self {
        Self {
            user: AtomicU64::new(0),
            nice: AtomicU64::new(0),
            system: AtomicU64::new(0),
            idle: AtomicU64::new(0),
            idle_since: AtomicU64::new(0),
            charged: AtomicU64::new(0),
            interrupts: AtomicU64::new(0),
            from_user: AtomicBool::new(false),
        }
    }
    /// An interrupt arrived, from user mode or not.
    #[inline(always)]
    pub fn begin_interrupt(&self, from_user: bool) {
        self.from_user.store(from_user, Ordering::Relaxed);
        add(&self.interrupts, 1);
    }
    #[inline]
    pub(super) fn enter_idle(&self, now: u64) {
        add(
            &self.system,
            now.saturating_sub(self.charged.load(Ordering::Relaxed)),
        );
        self.idle_since.store(now.max(1), Ordering::Relaxed);
    }
    #[inline]
    pub(super) fn leave_idle(&self, now: u64) {
        let since = self.idle_since.swap(0, Ordering::Relaxed);
        if since != 0 {
            add(&self.idle, now.saturating_sub(since));
        }
        self.charged.store(now, Ordering::Relaxed);
    }
    /// Charges the time since the last tick, or the end of idling, to the task and mode that the tick
    /// interrupted.
    pub(super) fn tick(&self, now: u64, task: &Task) {
        self.charge(now, task, self.from_user.load(Ordering::Relaxed));
    }
    /// The same, by any CPU: the task runs there now, in user mode or not. The run queue is locked.
    pub(super) fn charge(&self, now: u64, task: &Task, user: bool) {
        let since = now.saturating_sub(self.charged.load(Ordering::Relaxed));
        self.charged.store(now, Ordering::Relaxed);
        add(
            if user {
                &task.sched.user_samples
            } else {
                &task.sched.system_samples
            },
            since.max(1),
        );
        let to = match (user, task.sched.nice() > 0) {
            (true, true) => &self.nice,
            (true, false) => &self.user,
            (false, _) => &self.system,
        };
        add(to, since);
    }
}

#[inline(always)]
fn add(to: &AtomicU64, n: u64) {
    to.store(to.load(Ordering::Relaxed) + n, Ordering::Relaxed);
}

/// A CPU's times as `/proc/stat` wants them, nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuTimes {
    /// User mode, nice 0 or less.
    pub user: u64,
    /// User mode, nice above 0.
    pub nice: u64,
    /// Kernel mode.
    pub system: u64,
    /// Idle.
    pub idle: u64,
}

/// The times of CPU `n`.
pub fn cpu_times(n: usize) -> CpuTimes {
    let Some(cpu) = cpu(n) else {
        return CpuTimes::default();
    };
    let s = &cpu.stats;
    let since = s.idle_since.load(Ordering::Relaxed);
    let idle_now = if since != 0 {
        raw_ns().saturating_sub(since)
    } else {
        0
    };
    CpuTimes {
        user: s.user.load(Ordering::Relaxed),
        nice: s.nice.load(Ordering::Relaxed),
        system: s.system.load(Ordering::Relaxed),
        idle: s.idle.load(Ordering::Relaxed) + idle_now,
    }
}

/// Context switches since boot, all CPUs.
pub fn total_switches() -> u64 {
    online()
        .iter()
        .filter_map(cpu)
        .map(|c| c.rq.switches.load(Ordering::Relaxed))
        .sum()
}

/// A count that changes whenever the scheduler of CPU `n` decides which thread is next, even if the same one
/// goes on. Read under the lock that the CPU holds until then: what the caller did before is seen by the code
/// that goes on there, and what was done there before is seen by the caller.
pub fn decisions_of(n: usize) -> usize {
    cpu(n).map_or(0, |cpu| {
        without_interrupts(|| {
            cpu.rq.lock.lock();
            let switches = cpu.rq.switches.load(Ordering::Relaxed) as usize;
            let decisions = switches.wrapping_add(cpu.rq.stays.load(Ordering::Relaxed));
            cpu.rq.lock.unlock();
            decisions
        })
    })
}

/// Interrupts of CPU `n` since boot: of devices, its timer, and other CPUs.
pub fn interrupts_of(n: usize) -> u64 {
    cpu(n).map_or(0, |c| c.stats.interrupts.load(Ordering::Relaxed))
}

/// Interrupts since boot, all CPUs.
pub fn total_interrupts() -> u64 {
    online().iter().map(interrupts_of).sum()
}

/// Runnable tasks, all CPUs.
pub fn total_running() -> u32 {
    online().iter().filter_map(cpu).map(|c| c.rq.running()).sum()
}

/// The run time of a task so far in nanoseconds. It never decreases.
pub fn run_time_ns(task: &Task) -> u64 {
    without_interrupts(|| {
        // The queue's lock makes the charged time and the time of the last charge belong together.
        let cpu = lock_queue_of(task);
        let s = &task.sched;
        let mut total = s.sum_exec.load(Ordering::Relaxed);
        // A task on its way out has been charged for the last time, but may still be the one the CPU ran
        // last.
        if cpu.rq.inner().curr.is(task) && s.on_rq.load(Ordering::Relaxed) == on_rq::QUEUED {
            total += raw_ns().saturating_sub(s.exec_start.load(Ordering::Relaxed));
        }
        cpu.rq.lock.unlock();
        total
    })
}

/// What `/proc/<pid>/sched` tells of a task.
pub struct Account {
    /// When its run time was added up last, nanoseconds since boot.
    pub charged: u64,
    /// Its virtual run time, nanoseconds of a task of nice 0.
    pub virtual_ns: u64,
    /// Its run time, nanoseconds.
    pub run_ns: u64,
    /// How often it went to another CPU.
    pub migrations: usize,
    /// Its share beside others: 1024 at nice 0.
    pub weight: u32,
}

/// A task's account as it was added up last.
pub fn account(task: &Task) -> Account {
    without_interrupts(|| {
        let cpu = lock_queue_of(task);
        let s = &task.sched;
        let account = Account {
            charged: s.exec_start.load(Ordering::Relaxed),
            virtual_ns: s.fair.key(),
            run_ns: s.sum_exec.load(Ordering::Relaxed),
            migrations: s.migrations.load(Ordering::Relaxed),
            weight: s.weight.load(Ordering::Relaxed),
        };
        cpu.rq.lock.unlock();
        account
    })
}

/// The run time of a task so far as (user, system) in nanoseconds. The sum is exact. Neither part ever
/// decreases, although the samples that divide the time vary.
pub fn user_system_ns(task: &Task) -> (u64, u64) {
    let total = run_time_ns(task);
    let user = task.sched.user_samples.load(Ordering::Relaxed);
    let system = task.sched.system_samples.load(Ordering::Relaxed);
    let part = match system {
        0 => total,
        _ => (u128::from(total) * u128::from(user) / u128::from(user + system)) as u64,
    };
    let mut told = task.sched.told.lock();
    let (user, system) = *told;
    // Another reader may meanwhile have been given a later value, which then stands.
    if total > user + system {
        let user = part.clamp(user, total - system);
        *told = (user, total - user);
    }
    *told
}

/// 1.0 of the load averages, a fixed-point number (as in `/proc/loadavg`; `sysinfo` shifts it by 5 more).
pub const LOAD_ONE: u64 = 1 << 11;

struct Load {
    next: u64,
    averages: [u64; 3],
}

static LOAD: SpinLock<Load> = SpinLock::new(Load {
    next: 5_000_000_000,
    averages: [0; 3],
});

/// `exp(-5s/1min)`, and the same for 5 and 15 minutes, in fixed point.
const DECAY: [u64; 3] = [1884, 2014, 2037];

/// The load averages over 1, 5 and 15 minutes, in units of 1/[`LOAD_ONE`].
pub fn load_averages() -> [u64; 3] {
    update_load(raw_ns());
    LOAD.lock().averages
}

/// Brings the averages up to date, one step per 5 seconds that passed. Called by readers and by ticks, which
/// exist only while something runs.
pub(super) fn update_load(now: u64) {
    let Some(mut load) = LOAD.try_lock() else { return };
    if now < load.next {
        return;
    }
    let active = u64::from(total_running()) * LOAD_ONE;
    // Nothing ran while there was no tick: all but the last period count as idle.
    let mut periods = (now - load.next) / 5_000_000_000 + 1;
    load.next += periods * 5_000_000_000;
    periods = periods.min(720);
    for i in 0..periods {
        let active = if i + 1 == periods { active } else { 0 };
        for (average, decay) in load.averages.iter_mut().zip(DECAY) {
            let up = u64::from(active >= *average) * (LOAD_ONE - 1);
            *average = (*average * decay + active * (LOAD_ONE - decay) + up) / LOAD_ONE;
        }
    }
}
