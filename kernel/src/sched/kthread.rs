//! Kernel threads.

use super::entity::{ContextCell, TaskState};
use super::{current, schedule, wake_new_task};
use crate::arch::frame::Frame;
use crate::arch::switch::Context;
use crate::mm::KernelStack;
use crate::task::Task;
use alloc::boxed::Box;
use alloc::sync::Arc;

/// Starts a kernel thread that runs `f` and ends. For the rooms' own threads, at boot and when devices appear.
///
/// # Panics
/// If there is no memory for a kernel stack.
pub fn spawn_kthread(name: &str, f: impl FnOnce() + Send + 'static) -> Arc<Task> {
    let stack = KernelStack::new().expect("memory for a kernel thread");
    let context = Context::new(stack.top(), &Frame::new_user(0, 0));
    let task = Task::new_kernel(name, stack, ContextCell::new(context), false);
    *task.kernel_function.lock() = Some(Box::new(f));
    wake_new_task(&task);
    task
}

/// The first thing every new thread does, on its own stack: the second half of the switch to it. A kernel thread then runs its function
/// and ends, unless the function made it a user thread (init's exec).
pub fn start_thread() {
    super::run::finish_switch();
    // SAFETY: the running thread's own, and preemption is off.
    unsafe { (*current().context.get()).resume.set(false) }
    super::preempt::enable();
    let function = current().kernel_function.lock().take();
    if let Some(f) = function {
        f();
        if current().mm().is_none() {
            end_thread();
        }
    }
}

/// The running thread never runs again; its memory goes away once it has been switched away from and nobody refers to it.
pub fn end_thread() -> ! {
    crate::sync::lockdep::thread_ends();
    let me = current();
    // Under the lock of wake-ups: one that still saw this thread asleep would overwrite the state, and the thread would go on, or be
    // queued again after its end.
    crate::sync::without_interrupts(|| {
        me.sched.wake_lock.lock();
        me.sched.set_state(TaskState::DEAD);
        me.sched.wake_lock.unlock();
    });
    loop {
        schedule();
    }
}
