//! Making threads look at their signals, and telling whether they have any to look at.

use super::{Besides, ProcessSignals, SigSet, StopNews, TaskSignals};
use crate::arch::{interrupt, smp};
use crate::sched::{self, entity::TaskState, preempt};
use crate::task::{Task, TaskFlags};
use alloc::sync::Arc;
use limen_entry::ThreadFlags;

/// Makes a thread look at its signals: wakes it from a sleep that signals (or, if `fatal`, only fatal ones)
/// end, or interrupts the CPU on which it runs.
pub(crate) fn wake(task: &Arc<Task>, fatal: bool) {
    task.info.work.set(ThreadFlags::SIGPENDING);
    let mask = if fatal {
        TaskState::FOR_KILL
    } else {
        TaskState::INTERRUPTIBLE
    };
    if Arc::ptr_eq(task, &sched::current()) {
        // The running thread itself: it looks at its flags on its way to user mode, and the scheduler does
        // before it sleeps; but not if it is about to stop for its tracer, and an interrupt kills it.
        if fatal {
            sched::wake_task(task, mask);
        }
        return;
    }
    if !sched::wake_task(task, mask) {
        kick(task);
    }
}

/// Interrupts the CPU on which `task` runs, so that it looks at its flags. If the task has just left that
/// CPU, the interrupt does no harm.
fn kick(task: &Task) {
    preempt::disable();
    let cpu = task.info.cpu.load(core::sync::atomic::Ordering::Relaxed) as usize;
    if cpu != smp::cpu_id() {
        interrupt::send_ipi(cpu, interrupt::Ipi::Reschedule);
    }
    preempt::enable();
}

/// Sets or clears `SIGPENDING` of the running thread as its signals say. Both locks are held.
#[inline]
pub(crate) fn recalculate(task: &Task, shared: &ProcessSignals, own: &TaskSignals) {
    let deliverable = own.pending.set().or(shared.pending.set()).minus(own.blocked);
    if deliverable.is_empty()
        && !own.besides.intersects(Besides::STOP | Besides::TRAP)
        && shared.untold == StopNews::None
        && shared.group_exit.is_none()
        && shared.exec.is_none()
    {
        task.info.work.clear(ThreadFlags::SIGPENDING);
    } else {
        task.info.work.set(ThreadFlags::SIGPENDING);
    }
}

/// [`recalculate`] if the caller knows that only pending signals can matter.
#[inline]
pub(super) fn recalculate_pending(task: &Task, shared: &ProcessSignals, own: &TaskSignals) {
    if own
        .pending
        .set()
        .or(shared.pending.set())
        .minus(own.blocked)
        .is_empty()
    {
        task.info.work.clear(ThreadFlags::SIGPENDING);
    } else {
        task.info.work.set(ThreadFlags::SIGPENDING);
    }
}

/// `task` no longer takes signals of `set`. For each of them that is pending for the process another thread
/// is woken, since `task` may have been the one that was woken for it.
#[inline]
pub(super) fn retarget(task: &Arc<Task>, shared: &ProcessSignals, set: SigSet) {
    let orphans = shared.pending.set().and(set);
    if !orphans.is_empty() {
        wake_others(task, orphans);
    }
}

#[cold]
#[inline(never)]
fn wake_others(task: &Arc<Task>, mut left: SigSet) {
    task.process.with_threads(|threads| {
        for other in threads.iter().filter(|other| !Arc::ptr_eq(other, task)) {
            if left.is_empty() {
                break;
            }
            if other.flags().contains(TaskFlags::EXITING) {
                continue;
            }
            let takes = left.minus(other.signals.lock().blocked);
            if !takes.is_empty() {
                left = left.minus(takes);
                wake(other, false);
            }
        }
    });
}
