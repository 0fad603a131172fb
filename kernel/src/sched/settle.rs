//! Waiting until another thread is done with what it does in the kernel without sleeping.

use super::entity::on_rq;
use super::{WaitQueue, current};
use crate::sync::without_interrupts;
use crate::task::Task;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use limen_entry::ThreadFlags;

/// How long to wait before looking again, nanoseconds.
const PAUSE: u64 = 1_000_000;

/// Returns when `task` has slept, or was about to return to user mode, since the call began: whatever it began before without sleeping is over,
/// and in what it does next it sees all that the caller wrote before the call. So who changes from outside what is the thread's own can let
/// the thread itself do without a lock. Sleeps; not for the kernel's own threads, which never return.
pub fn settle(task: &Arc<Task>) {
    if Arc::ptr_eq(task, &current()) || sleeps(task) {
        return;
    }
    // It clears this before its next return to user mode. A thread in user mode now comes by at the next tick at the latest.
    task.info.work.set(ThreadFlags::NOTIFY_RESUME);
    let pause = WaitQueue::new();
    while task.info.work.has(ThreadFlags::NOTIFY_RESUME) && !sleeps(task) {
        pause.wait_until_deadline_uninterruptible(crate::time::now_ns() + PAUSE, || false);
    }
    core::sync::atomic::fence(Ordering::Acquire);
}

/// Whether `task` sleeps (or has ended). Under the lock its wake-up takes, so that it wakes after us.
fn sleeps(task: &Task) -> bool {
    without_interrupts(|| {
        task.sched.wake_lock.lock();
        let sleeps = task.sched.on_rq.load(Ordering::Acquire) == on_rq::NO;
        task.sched.wake_lock.unlock();
        sleeps
    })
}
