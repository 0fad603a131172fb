//! What a thread does in the kernel and where it left user mode (`/proc/<pid>/syscall`).

use super::entity::on_rq;
use super::{TaskState, WaitQueue, current, preempt};
use crate::arch::frame::Frame;
use crate::arch::{irq, switch::user_frame};
use crate::sync::without_interrupts;
use crate::task::Task;
use crate::time::now_ns;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;

/// How a thread came into the kernel.
pub struct UserState {
    /// The number of the system call that it is in, -1 for none.
    pub number: isize,
    /// The call's arguments.
    pub arguments: [usize; 6],
    /// The address of its stack in user mode.
    pub sp: usize,
    /// The address of its next instruction in user mode.
    pub ip: usize,
}

impl UserState {
    fn of(frame: &Frame) -> Self {
        Self {
            number: limen_entry::Frame::syscall_number(frame),
            arguments: core::array::from_fn(|n| frame.arg(n)),
            sp: frame.sp(),
            ip: frame.ip(),
        }
    }
}

/// How long to sleep before looking again at a thread that waits for its turn, in nanoseconds.
const TURN_NS: u64 = 1_000_000;

/// How `task` left user mode, where it must have been. `None` while it runs or is about to; its frame is then its
/// own. May sleep.
pub fn user_state(task: &Arc<Task>) -> Option<UserState> {
    let frame = user_frame(task.stack.top());
    if Arc::ptr_eq(task, &current()) {
        // SAFETY: the frame of the system call that the running thread is in, which only that thread uses.
        return Some(UserState::of(unsafe { &*frame }));
    }
    off_cpu(task, || {
        // SAFETY: the thread is off its CPU and cannot be woken during this closure, so nobody uses its frame.
        UserState::of(unsafe { &*frame })
    })
}

/// Calls `read` while `task`, another thread than the caller, is off its CPU and cannot be woken: with interrupts
/// off, under the task's wake lock. A thread that has said that it will sleep or stop, and still runs, is waited
/// for. `None` if it runs, is being woken, is not started or has ended, or if a fatal signal is pending for the
/// caller. May sleep.
pub fn off_cpu<T>(task: &Arc<Task>, read: impl Fn() -> T) -> Option<T> {
    let s = &task.sched;
    loop {
        let state = s.state();
        if state == TaskState::RUNNING
            || state.intersects(TaskState::WAKING | TaskState::NEW | TaskState::DEAD)
        {
            return None;
        }
        let (found, running) = without_interrupts(|| {
            s.wake_lock.lock();
            preempt::disable();
            let running = s.on_cpu.load(Ordering::Acquire);
            let asleep = s.state() == state && s.on_rq.load(Ordering::Acquire) == on_rq::NO && !running;
            let found = asleep.then(&read);
            s.wake_lock.unlock();
            preempt::enable_no_resched();
            (found, running)
        });
        if found.is_some() {
            return found;
        }
        if current().fatal_signal_pending() {
            return None;
        }
        // From a CPU it goes soon. One that was preempted on its way to sleep needs a turn, perhaps of this CPU.
        if running {
            irq::spin_hint();
        } else {
            WaitQueue::new().wait_until_deadline_uninterruptible(now_ns() + TURN_NS, || false);
        }
    }
}
