//! What a thread does in the kernel and where it left user mode (`/proc/<pid>/syscall`).

use super::entity::on_rq;
use super::{TaskState, WaitQueue, current, preempt};
use crate::arch::frame::Frame;
use crate::arch::{
    irq,
    switch::{Context, user_frame},
};
use crate::sync::without_interrupts;
use crate::task::Task;
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

/// How often to look again at a thread that is just leaving its CPU.
const TRIES: usize = 1000;

/// Runs `f` with the registers of `task`, if it is in a state of `state` and off its CPU. It stays so
/// meanwhile: `f` runs with interrupts off, must be short and take no locks.
pub fn with_registers<R>(
    task: &Arc<Task>,
    state: TaskState,
    f: impl FnOnce(&mut Frame, &mut Context) -> R,
) -> Option<R> {
    let frame = user_frame(task.stack.top());
    let s = &task.sched;
    without_interrupts(|| {
        s.wake_lock.lock();
        preempt::disable();
        let asleep = s.state().intersects(state)
            && s.on_rq.load(Ordering::Acquire) == on_rq::NO
            && !s.on_cpu.load(Ordering::Acquire);
        // SAFETY: the thread sleeps and cannot be woken while the lock is held, so nobody uses its frame or
        // its context.
        let found = asleep.then(|| unsafe { f(&mut *frame, &mut *task.context.get()) });
        s.wake_lock.unlock();
        preempt::enable_no_resched();
        found
    })
}

/// Waits until `task`, which is in a state of `state`, is off its CPU. `false`: it is in another state. May
/// sleep.
pub fn wait_off_cpu(task: &Arc<Task>, state: TaskState) -> bool {
    let s = &task.sched;
    let mut tries = 0;
    loop {
        if !s.state().intersects(state) {
            return false;
        }
        if s.on_rq.load(Ordering::Acquire) == on_rq::NO && !s.on_cpu.load(Ordering::Acquire) {
            return true;
        }
        tries += 1;
        if tries < TRIES {
            irq::spin_hint();
        } else {
            // It was preempted on its way, perhaps by the caller.
            tries = 0;
            pause();
        }
    }
}

/// Sleeps for a moment, so that others can run.
pub fn pause() {
    WaitQueue::new().wait_until_deadline_uninterruptible(crate::time::now_ns() + 1_000_000, || false);
}

/// How `task` left user mode, where it must have been. `None` unless it sleeps or is the caller itself.
pub fn user_state(task: &Arc<Task>) -> Option<UserState> {
    let frame = user_frame(task.stack.top());
    if Arc::ptr_eq(task, &current()) {
        // SAFETY: the frame of the system call that the running thread is in, which only that thread uses.
        return Some(UserState::of(unsafe { &*frame }));
    }
    let s = &task.sched;
    for _ in 0..TRIES {
        let state = s.state();
        if state == TaskState::RUNNING
            || state.intersects(TaskState::WAKING | TaskState::NEW | TaskState::DEAD)
        {
            return None;
        }
        let found = without_interrupts(|| {
            s.wake_lock.lock();
            preempt::disable();
            let asleep = s.state() == state
                && s.on_rq.load(Ordering::Acquire) == on_rq::NO
                && !s.on_cpu.load(Ordering::Acquire);
            // SAFETY: the thread sleeps and cannot be woken while the lock is held, so nobody uses its frame.
            let found = asleep.then(|| UserState::of(unsafe { &*frame }));
            s.wake_lock.unlock();
            preempt::enable_no_resched();
            found
        });
        if found.is_some() {
            return found;
        }
        irq::spin_hint();
    }
    None
}
