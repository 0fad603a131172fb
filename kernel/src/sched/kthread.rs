//! Kernel threads.

use super::entity::{ContextCell, TaskState};
use super::{CpuSet, current, nohz, run, wake, wake_new_task};
use crate::arch::frame::Frame;
use crate::arch::switch::Context;
use crate::mm::KernelStack;
use crate::mm::reserve::room_behind;
use crate::sync::SpinLock;
use crate::task::Task;
use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;

/// A thread of the kernel, for who started it.
pub type KernelThread = Arc<Task>;

/// Threads of the kernel, but not those that are idle; and places of some that have ended.
static ALL: SpinLock<Vec<Weak<Task>>> = SpinLock::new(Vec::new());

/// Others can find a new thread from now on. `None`: there is no memory.
fn publish(task: &Arc<Task>) -> Option<()> {
    let new = Arc::downgrade(task);
    let mut all = room_behind(|| ALL.lock(), |all| all, 1).ok()?;
    let former = match all.iter_mut().find(|one| one.strong_count() == 0) {
        Some(place) => Some(core::mem::replace(place, new)),
        None => {
            all.push(new);
            None
        }
    };
    drop(all);
    // May free a thread's memory.
    drop(former);
    Some(())
}

/// Calls `f` with the threads of the kernel, idle ones as well. Those that are started meanwhile may be among
/// them. `f` may sleep.
pub fn each_kernel_thread(mut f: impl FnMut(&Task)) {
    super::cpu::idle_threads().for_each(&mut f);
    let next = |from: usize| {
        let all = ALL.lock();
        (from..all.len()).find_map(|n| Some((n, all[n].upgrade()?)))
    };
    let mut at = 0;
    while let Some((n, task)) = next(at) {
        f(&task);
        at = n + 1;
    }
}

/// Starts a kernel thread that runs `f` and then ends. At boot and when devices appear. May sleep.
///
/// # Panics
/// If there is no memory for a kernel stack.
pub fn spawn_kthread(name: &str, f: impl FnOnce() + Send + 'static) -> KernelThread {
    try_spawn_kthread(name, f).expect("memory for a kernel thread")
}

/// [`spawn_kthread`] for threads that programs can cause to be started: `None` if there is no memory.
pub fn try_spawn_kthread(name: &str, f: impl FnOnce() + Send + 'static) -> Option<Arc<Task>> {
    let stack = KernelStack::new()?;
    let context = Context::new(stack.top(), &Frame::new_user(0, 0));
    let task = Task::new_kernel(name, stack, ContextCell::new(context), false);
    *task.kernel_function.lock() = Some(Box::new(f));
    publish(&task)?;
    crate::task::patch::inherit(&task);
    wake::set_affinity(&task, nohz::housekeeping());
    wake_new_task(&task);
    Some(task)
}

/// The first thing that every new thread does on its own stack: it finishes the switch to it. A kernel thread
/// then runs its function and ends, unless the function made it a user thread (init's exec).
pub fn start_thread() {
    super::run::finish_switch();
    // SAFETY: the context is the running thread's own, and preemption is off.
    unsafe { (*current().context.get()).resume.set(false) }
    super::preempt::enable();
    let function = current().kernel_function.lock().take();
    if let Some(f) = function {
        f();
        if current().mm().is_none() {
            end_thread();
        }
        // A program may run anywhere.
        wake::set_affinity(&current(), CpuSet::ALL);
    }
}

/// Ends the running thread: it never runs again. Its memory is freed when it has been switched away from and
/// nothing refers to it.
pub fn end_thread() -> ! {
    crate::sync::lockdep::thread_ends();
    let me = current();
    // From now on it is not preempted: who moves it to another CPU would take it for a thread that runs on.
    super::preempt::disable();
    // Takes the lock of wake-ups: a waker that still saw this thread asleep would overwrite the state, and
    // the thread would go on, or be queued again after its end.
    crate::sync::without_interrupts(|| {
        me.sched.wake_lock.lock();
        me.sched.set_state(TaskState::DEAD);
        me.sched.wake_lock.unlock();
    });
    run::leave()
}
