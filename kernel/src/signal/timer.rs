//! Signals of POSIX timers. Each timer has reserved a place for its one signal.

use super::pending::Queued;
use super::send::{How, Sent, Target, finish, push_prepared, send};
use super::{DEFAULT, IGNORE, SigInfo, SigSet};
use crate::sched;
use crate::task::{Process, Task, TaskFlags};
use alloc::sync::Arc;

/// For whom a timer's signal is: for a thread, or for a process. Of that the running thread is preferred,
/// which the timer's interrupt found at work, so that no other is woken for it.
fn target<'a>(process: &Process, task: Option<&'a Arc<Task>>, running: &'a Arc<Task>) -> Target<'a> {
    match task {
        Some(task) => Target::Task(task),
        None if core::ptr::eq(&raw const *running.process, process)
            && !running.flags().contains(TaskFlags::EXITING) =>
        {
            Target::Running(running)
        }
        None => Target::Process,
    }
}

/// Sends a timer's signal to `task` of `process` or, with `None`, to the process. Returns whether there was
/// room for it, or none was needed because it is ignored or pending already. In any context.
pub fn timer_to(process: &Arc<Process>, task: Option<&Arc<Task>>, info: SigInfo) -> bool {
    let running = sched::current();
    let target = target(process, task, &running);
    send(process, target, info.signal(), info, How::Prepared) != Sent::NoRoom
}

/// A timer expired while its signal was ignored: queues the signal, if it is not ignored any more and the
/// timer still `waits` for it to be taken, which is asked with the process's signals locked. Returns whether
/// there was room.
pub fn timer_heeded(
    process: &Arc<Process>,
    task: Option<&Arc<Task>>,
    info: SigInfo,
    waits: impl FnOnce() -> bool,
) -> bool {
    let running = sched::current();
    let target = target(process, task, &running);
    let mut shared = process.signals.lock();
    let sig = info.signal();
    let handler = shared.actions.table.lock_under(&shared)[sig as usize - 1].handler;
    let ignored = handler == IGNORE || handler == DEFAULT && (SigSet::IGNORED.has(sig) || shared.unkillable);
    if ignored || shared.group_exit.is_some() || !waits() {
        return true;
    }
    let queued = push_prepared(&mut shared, task, info);
    if queued == Queued::Already {
        return true;
    }
    finish(process, shared, target, &info, How::Prepared, handler, queued) != Sent::NoRoom
}

/// Timer `id`, which sends its signal to `task` of `process` or to the process, has been deleted: nobody gets
/// its signal that is pending.
pub fn timer_deleted(process: &Process, task: Option<&Task>, id: i32) {
    let mut shared = process.signals.lock();
    match task {
        Some(task) => task.signals.lock_under(&shared).pending.forget_timer(id),
        None => shared.pending.forget_timer(id),
    }
}
