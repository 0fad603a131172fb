//! Policies, priorities, nice values and affinity, as the system calls set them.

use super::entity::Policy;
use super::{CpuSet, wake};
use crate::task::Task;
use core::sync::atomic::Ordering;
use limen_linux_abi::Errno;

pub use super::fair::{RR_SLICE, SLICE, rr_slice, set_rr_slice};

/// Sets policy, real-time priority (0 for the fair policies, else 1 to 99) and nice value of `task`. The
/// caller has checked permissions and ranges.
pub fn set_policy(task: &Task, policy: Policy, rt_priority: u8, nice: i32, reset_on_fork: bool) {
    wake::requeue(task, || task.sched.set_policy_fields(policy, rt_priority, nice));
    task.sched.reset_on_fork.store(reset_on_fork, Ordering::Relaxed);
    super::futex::priority_changed(task);
}

/// Sets the nice value.
pub fn set_nice(task: &Task, nice: i32) {
    let s = &task.sched;
    wake::requeue(task, || s.set_policy_fields(s.policy(), s.rt_priority(), nice));
}

/// Whether a fork resets the child's policy.
pub fn reset_on_fork(task: &Task) -> bool {
    task.sched.reset_on_fork.load(Ordering::Relaxed)
}

/// Lets `task` run at least at real-time priority `level` (priority inheritance). 0 ends that.
pub fn inherit(task: &Task, level: u8) {
    let s = &task.sched;
    if s.inherited_rt.swap(level, Ordering::Relaxed) != level
        && s.effective_rt.load(Ordering::Relaxed) != level.max(s.rt_priority())
    {
        wake::requeue(task, || s.update_effective());
    }
}

/// The real-time priority at which `task` runs, inheritance included. 0: it has a fair policy.
pub fn effective_priority(task: &Task) -> u8 {
    task.sched.effective_rt.load(Ordering::Relaxed)
}

/// Restricts `task` to `cpus`. `EINVAL` if none of them is online.
pub fn set_affinity(task: &Task, cpus: CpuSet) -> Result<(), Errno> {
    if cpus.and(super::online()).is_empty() {
        return Err(Errno::EINVAL);
    }
    wake::set_affinity(task, cpus);
    Ok(())
}

/// The running thread lets other tasks of the same rank run first (`sched_yield`).
#[inline]
pub fn yield_now() {
    // If the thread is moved to another CPU here, it looks at the wrong queue; that does no harm.
    if super::this_cpu().rq.running() <= 1 {
        return;
    }
    super::current().sched.yielding.store(true, Ordering::Relaxed);
    super::schedule();
}

/// The priority as the kernel counts it, with what is lent to it: 0 to 98 real-time, 100 to 139 fair; less
/// is more, and -1 what comes before all. In any context.
pub fn kernel_priority(task: &Task) -> i32 {
    match effective_priority(task) {
        0 => 120 + task.sched.nice(),
        level => 99 - i32::from(level),
    }
}
