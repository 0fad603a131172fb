//! Waiting until another thread has passed a point at which it holds nothing that it read before.

use super::entity::on_rq;
use super::{WaitQueue, current};
use crate::sync::without_interrupts;
use crate::task::Task;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use limen_entry::ThreadFlags;

/// How long to wait before looking again, nanoseconds.
const PAUSE: u64 = 1_000_000;

/// Returns when `task` has slept, or was about to return to user mode, at least once since the call began.
/// All that the task did in the kernel before that without sleeping is over, and what it does next sees
/// everything that the caller wrote before the call. So the writer of another thread's data can call this,
/// and the thread itself reads its data without a lock. It is a grace period, as `synchronize_rcu` waits for,
/// of one thread. Sleeps. Not for kernel threads, which never return to user mode.
pub fn settle(task: &Arc<Task>) {
    if Arc::ptr_eq(task, &current()) || sleeps(task) {
        return;
    }
    // The task clears this flag before its next return to user mode. If it is in user mode now, its next tick
    // at the latest brings it into the kernel, or an interrupt where there is no tick.
    task.info.work.set(ThreadFlags::NOTIFY_RESUME);
    let pause = WaitQueue::new();
    while task.info.work.has(ThreadFlags::NOTIFY_RESUME) && !sleeps(task) {
        super::nohz::interrupt(task);
        pause.wait_until_deadline_uninterruptible(crate::time::now_ns() + PAUSE, || false);
    }
    core::sync::atomic::fence(Ordering::Acquire);
}

/// Whether `task` sleeps or has ended. Takes the lock that its waker takes, so a wake-up comes after this
/// call.
fn sleeps(task: &Task) -> bool {
    without_interrupts(|| {
        task.sched.wake_lock.lock();
        let sleeps = task.sched.on_rq.load(Ordering::Acquire) == on_rq::NO;
        task.sched.wake_lock.unlock();
        sleeps
    })
}
