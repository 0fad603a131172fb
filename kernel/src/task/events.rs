//! Trace events of threads' lives.

use super::Task;
use crate::sched::policy::kernel_priority;
use crate::sync::Once;
use crate::trace::point;
use crate::tracepoint;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::fence;
use limen_entry::SyscallWork;
use limen_trace_events::Str;

/// What wants to know of threads whether or not there are trace events: called with the numbers of who makes
/// one and of that, and of one that ends. Both may sleep.
pub struct Told {
    /// A thread was made, and has not started.
    pub forked: fn(i32, i32),
    /// The running thread ends.
    pub exits: fn(i32),
}

static TOLD: Once<Told> = Once::new();

/// From now on `told` is called. The first caller's is. Boot.
pub fn tell(told: Told) {
    let _ = TOLD.set(told);
}

fn prio(task: &Task) -> i32 {
    kernel_priority(task)
}

fn oom_score_adj(task: &Task) -> i16 {
    task.process.oom_score_adj.load(Relaxed) as i16
}

/// `task` traces its system calls if all do. It can be found by now, so whoever turns that on or off sees
/// it, or it sees that.
#[inline(always)]
pub(in crate::task) fn may_trace_calls(task: &Task) {
    fence(SeqCst);
    if point::traces_calls() {
        task.info.work.set_syscall_work(SyscallWork::TRACEPOINT);
        if !point::traces_calls() {
            task.info.work.clear_syscall_work(SyscallWork::TRACEPOINT);
        }
    }
}

/// `parent` has made `child`, which has not started.
#[inline(always)]
pub(in crate::task) fn forked(parent: &Task, child: &Task, clone_flags: u64) {
    tracepoint!(task::TaskNewtask {
        pid: child.tid(),
        comm: child.comm_now(),
        clone_flags: clone_flags as usize,
        oom_score_adj: oom_score_adj(child),
    });
    tracepoint!(sched::SchedProcessFork {
        parent_comm: parent.comm_now(),
        parent_pid: parent.tid(),
        child_comm: child.comm_now(),
        child_pid: child.tid(),
    });
    if let Some(told) = TOLD.get() {
        (told.forked)(parent.tid(), child.tid());
    }
}

/// The running thread `task`, whose number was `old_pid`, begins a program.
#[inline(always)]
pub(in crate::task) fn execs(task: &Task, old_pid: i32, filename: &[u8]) {
    tracepoint!(sched::SchedProcessExec {
        filename: Str(filename),
        pid: task.tid(),
        old_pid,
    });
}

/// The running thread `task` exits.
#[inline(always)]
pub(in crate::task) fn exits(task: &Task) {
    tracepoint!(sched::SchedProcessExit {
        comm: task.comm_now(),
        pid: task.tid(),
        prio: prio(task),
    });
    if let Some(told) = TOLD.get() {
        (told.exits)(task.tid());
    }
}

/// The running thread `task` waits for a child: `pid`, or any (0).
#[inline(always)]
pub(in crate::task) fn waits(task: &Task, pid: i32) {
    tracepoint!(sched::SchedProcessWait {
        comm: task.comm_now(),
        pid,
        prio: prio(task),
    });
}

/// The memory of `task` is given back.
#[inline(always)]
pub(in crate::task) fn freed(task: &Task) {
    tracepoint!(sched::SchedProcessFree {
        comm: task.comm_now(),
        pid: task.tid(),
        prio: prio(task),
    });
}

/// `task` gets the name `new`.
#[inline(always)]
pub(in crate::task) fn renamed(task: &Task, new: [u8; 16]) {
    tracepoint!(task::TaskRename {
        pid: task.tid(),
        oldcomm: task.comm_now(),
        newcomm: new,
        oom_score_adj: oom_score_adj(task),
    });
}
