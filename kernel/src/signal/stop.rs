//! Job control: stopping, and telling the parent.

use super::{
    ActionFlags, Besides, IGNORE, ProcessSignals, SIGCHLD, SIGCONT, SigInfo, SigSet, StopNews, info::code,
    send, wake,
};
use crate::sched::{self, entity::TaskState};
use crate::sync::IrqSpinGuard;
use crate::task::{CurrentTask, Process, Task, TaskFlags, ptrace};
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use limen_entry::ThreadFlags;

/// A stop signal with its default action was taken: all threads are to stop, and this one does so at once.
pub(super) fn begin(task: &CurrentTask, sig: u32) {
    let mut shared = task.process.signals.lock();
    let dequeued = core::mem::take(&mut task.signals.lock_under(&shared).stop_dequeued);
    if dequeued && shared.group_exit.is_none() && shared.exec.is_none() {
        if shared.stop_signal.is_none() {
            shared.stop_signal = Some(sig);
        }
        shared.stopped = false;
        let mut remaining = 0;
        task.process.with_threads(|threads| {
            for other in threads {
                if other.flags().contains(TaskFlags::EXITING) {
                    continue;
                }
                {
                    let mut own = other.signals.lock();
                    if own.stopped {
                        continue;
                    }
                    own.besides.insert(Besides::STOP);
                    own.besides.remove(Besides::UNCOUNTED);
                    let seized = other.trace.options().contains(ptrace::Options::SEIZED);
                    if seized && ptrace::notify(other, &mut own, true) {
                        sched::wake_task(other, TaskState::TRACED);
                    }
                }
                remaining += 1;
                if !Arc::ptr_eq(other, task) {
                    wake::wake(other, false);
                }
            }
        });
        shared.stop_remaining = remaining;
        if task.trace.is_traced() {
            // It stops for its tracer, as the next thing that it does.
            ptrace::notify(task, &mut task.signals.lock_under(&shared), false);
            return;
        }
        take_part(task, shared);
    }
}

/// This thread stops because its process is stopping. Returns when it continues or is killed.
pub(super) fn take_part(task: &CurrentTask, mut shared: IrqSpinGuard<'_, ProcessSignals>) {
    let counted = {
        let mut own = task.signals.lock();
        if task.trace.is_traced() {
            ptrace::notify(task, &mut own, false);
            return;
        }
        let counted = !own.besides.contains(Besides::UNCOUNTED);
        own.besides.remove(Besides::STOP | Besides::UNCOUNTED);
        own.stopped = true;
        counted
    };
    let complete = if counted { count_stopped(&mut shared) } else { None };
    // Before the parent is told: then the thread has stopped, for who looks at it.
    task.sched.set_state(TaskState::STOPPED_KILLABLE);
    drop(shared);
    if let Some(sig) = complete {
        tell_parent(&task.process, StopNews::Stopped(sig));
    }
    loop {
        sched::schedule();
        let _shared = task.process.signals.lock();
        if !task.signals.lock().stopped {
            return;
        }
        task.sched.set_state(TaskState::STOPPED_KILLABLE);
    }
}

/// `maker`'s process is stopping: `new`, a thread of it that has not started, has to stop as well.
#[inline]
pub(crate) fn join(maker: &Task, new: &Task, shared: &mut ProcessSignals) {
    if shared.stop_signal.is_some() && maker.signals.lock().besides.contains(Besides::STOP) {
        new.signals.lock().besides.insert(Besides::STOP);
        new.info.work.set(ThreadFlags::SIGPENDING);
        shared.stop_remaining += 1;
    }
}

/// One more thread has stopped. Returns the stop signal if it was the last one.
pub(crate) fn count_stopped(shared: &mut ProcessSignals) -> Option<u32> {
    shared.stop_remaining = shared.stop_remaining.saturating_sub(1);
    let sig = shared.stop_signal?;
    if shared.stop_remaining == 0 && !shared.stopped {
        shared.stopped = true;
        shared.news = StopNews::Stopped(sig);
        shared.untold = StopNews::None;
        return Some(sig);
    }
    None
}

/// The running thread ends: it takes no more signals and does not count in a stop. May sleep.
pub(crate) fn leave(task: &CurrentTask) {
    let complete = {
        let mut shared = task.process.signals.lock();
        // Under the lock: a sender to the process either sees that this thread is ending, or what it chose
        // this thread for is handed to another below.
        task.set_flags(TaskFlags::EXITING);
        let mut own = task.signals.lock();
        // A process that ends does not stop any more.
        let pending = own.besides & (Besides::STOP | Besides::UNCOUNTED) == Besides::STOP
            && shared.group_exit.is_none();
        own.besides.remove(Besides::STOP | Besides::UNCOUNTED);
        let taken = SigSet(!own.blocked.0);
        drop(own);
        wake::retarget(task, &shared, taken);
        if pending { count_stopped(&mut shared) } else { None }
    };
    if let Some(sig) = complete {
        tell_parent(&task.process, StopNews::Stopped(sig));
    }
}

/// The running thread `task`, which is traced, was the last one of its process to stop: tells the parent,
/// unless that traces it, and so knows.
#[cold]
pub(crate) fn tell_real_parent(task: &CurrentTask, sig: u32) {
    let tracer = task.trace.tracer().map(|tracer| tracer.process.clone());
    let parent = task.process.parent();
    if tracer.is_some() && tracer.map(|process| process.tgid) == parent.map(|process| process.tgid) {
        return;
    }
    tell_parent(&task.process, StopNews::Stopped(sig));
}

/// Tells the parent that its child stopped or continued. May sleep.
pub(super) fn tell_parent(process: &Arc<Process>, news: StopNews) {
    let Some(parent) = process.parent() else { return };
    let (code, status) = match news {
        StopNews::None => return,
        StopNews::Stopped(sig) => (code::CLD_STOPPED, sig as i32),
        StopNews::Continued => (code::CLD_CONTINUED, SIGCONT as i32),
    };
    let action = parent.signals.lock().actions.get(SIGCHLD);
    if action.handler != IGNORE && !action.flags.contains(ActionFlags::NOCLDSTOP) {
        let uid = process.real_uid.load(Ordering::Relaxed);
        let usage = process.usage();
        let info = SigInfo::child(
            code,
            process.number_in(&parent.pid_ns),
            uid,
            status,
            usage.user_ticks(),
            usage.system_ticks(),
        );
        send::send_to_process(&parent, SIGCHLD, info);
    }
    parent.child_wait.wake_all();
}
