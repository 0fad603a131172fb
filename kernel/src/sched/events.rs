//! The scheduler's trace events.

use super::entity::TaskState;
use super::policy::kernel_priority;
use crate::task::Task;
use crate::tracepoint;
use core::sync::atomic::Ordering::Relaxed;

/// A thread as events show it: name, number, priority.
fn shown(task: &Task) -> ([u8; 16], i32, i32) {
    (task.comm_now(), task.tid(), kernel_priority(task))
}

macro_rules! wakeups {
    ($($(#[$meta:meta])* $name:ident: $event:ident;)*) => { $(
        $(#[$meta])*
        #[inline(always)]
        pub(super) fn $name(task: &Task) {
            tracepoint!(sched::$event {
                comm: shown(task).0,
                pid: shown(task).1,
                prio: shown(task).2,
                target_cpu: task.info.cpu.load(Relaxed) as i32,
            });
        }
    )* };
}

wakeups! {
    /// A waker begins to wake `task`.
    waking: SchedWaking;
    /// `task` has become runnable.
    wakeup: SchedWakeup;
    /// The new `task` has become runnable.
    wakeup_new: SchedWakeupNew;
}

/// `task` goes to another CPU.
#[inline(always)]
pub(super) fn migrates(task: &Task, to: usize) {
    tracepoint!(sched::SchedMigrateTask {
        comm: shown(task).0,
        pid: shown(task).1,
        prio: shown(task).2,
        orig_cpu: task.info.cpu.load(Relaxed) as i32,
        dest_cpu: to as i32,
    });
}

/// The CPU goes from `prev` to `next`.
#[inline(always)]
pub(super) fn switches(prev: &Task, next: &Task, preempted: bool) {
    tracepoint!(sched::SchedSwitch {
        prev_comm: shown(prev).0,
        prev_pid: shown(prev).1,
        prev_prio: shown(prev).2,
        prev_state: state(prev, preempted),
        next_comm: shown(next).0,
        next_pid: shown(next).1,
        next_prio: shown(next).2,
    });
}

/// Why `prev` stops, in Linux's bits.
fn state(prev: &Task, preempted: bool) -> isize {
    /// It is preempted.
    const MAX: isize = 0x100;
    /// A dead thread whose memory goes away (`EXIT_DEAD`).
    const DEAD: isize = 0x10;
    const ZOMBIE: isize = 0x20;
    let state = prev.sched.state();
    if preempted {
        return MAX;
    }
    let same = TaskState::NORMAL | TaskState::STOPPED | TaskState::TRACED;
    let mut bits = (state & same).bits() as isize;
    if state.contains(TaskState::ZOMBIE) {
        bits |= ZOMBIE;
    }
    if state.contains(TaskState::DEAD) {
        bits |= DEAD;
    }
    bits
}
