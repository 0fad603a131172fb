//! Signals to several processes at once reach those that are just being made, too.

use super::send::Shared;
use super::{SIGCONT, SigSet};
use crate::task::{Process, Task};
use limen_entry::ThreadFlags;

/// `sig` is being sent to `process` as one of several: keeps it for the processes that threads of `process`
/// are making. The lock held is the one under which the signal is sent, so a thread that has begun to make a
/// process either finds the signal pending, or the signal is kept for the new process.
pub(super) fn keep_for_new(process: &Process, shared: &Shared<'_>, sig: u32) {
    for task in process.threads_under(shared).iter() {
        if let Some(sent) = &mut task.signals.lock_under(shared).sent_to_many {
            let undone = match sig {
                SIGCONT => SigSet::STOP,
                _ if SigSet::STOP.has(sig) => SigSet::of(&[SIGCONT]),
                _ => SigSet::EMPTY,
            };
            *sent = sent.minus(undone).with(sig);
        }
    }
}

/// The running thread begins to make a process. Signals sent to several processes are kept for the new one,
/// until one of the two functions below is called.
pub fn keep_sent_to_many(task: &Task) {
    let shared = task.process.signals.lock();
    task.signals.lock_under(&shared).sent_to_many = Some(SigSet::EMPTY);
}

/// Keeps no more signals. The new process gets those that were kept; its only thread `new` has not started.
pub fn give_sent_to_many(task: &Task, new: &Task) {
    let sent = task.signals.lock().sent_to_many.take();
    if let Some(sent) = sent
        && !sent.is_empty()
    {
        new.process.signals.lock().pending.mark_all(sent);
        new.info.work.set(ThreadFlags::SIGPENDING);
    }
}

/// Keeps no more signals and drops those that were kept: making the process failed.
pub fn forget_sent_to_many(task: &Task) {
    task.signals.lock().sent_to_many = None;
}
