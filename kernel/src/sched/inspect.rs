//! What a thread does in the kernel and where it left user mode (`/proc/<pid>/syscall`, `stack`, `wchan`).

use super::entity::{on_rq, with_current_context};
use super::{TaskState, WaitQueue, current, preempt};
use crate::arch::frame::Frame;
use crate::arch::{
    irq, stack_calls,
    switch::{Context, user_frame},
};
use crate::mm::{KernelStack, STACK_SHIFT};
use crate::sync::without_interrupts;
use crate::task::{Task, TaskFlags};
use crate::time::now_ns;
use crate::trace::backtrace;
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
            arguments: core::array::from_fn(|n| crate::arch::syscalls::call_arg(frame, n)),
            sp: frame.sp(),
            ip: frame.ip(),
        }
    }
}

/// How long to sleep before looking again at a thread that waits for its turn, in nanoseconds.
const TURN_NS: u64 = 1_000_000;

/// How often to look before that.
const TRIES: usize = 1000;

/// Runs `f` if the state of `task` fits and it is off its CPU. It stays so meanwhile: `f` runs with
/// interrupts off, under the task's wake lock, must be short and take no locks.
fn while_off_cpu<R>(task: &Task, fits: impl Fn(TaskState) -> bool, f: impl FnOnce() -> R) -> Option<R> {
    let s = &task.sched;
    without_interrupts(|| {
        s.wake_lock.lock();
        preempt::disable();
        let is_off = fits(s.state())
            && s.on_rq.load(Ordering::Acquire) == on_rq::NO
            && !s.on_cpu.load(Ordering::Acquire);
        let found = is_off.then(f);
        s.wake_lock.unlock();
        preempt::enable_no_resched();
        found
    })
}

/// Waits until `task`, whose state fits, is off its CPU. `false`: its state does not fit (any more), or a
/// fatal signal is pending for the caller. May sleep.
fn wait_while(task: &Arc<Task>, fits: impl Fn(TaskState) -> bool) -> bool {
    let s = &task.sched;
    let mut tries = 0;
    loop {
        if !fits(s.state()) {
            return false;
        }
        if s.on_rq.load(Ordering::Acquire) == on_rq::NO && !s.on_cpu.load(Ordering::Acquire) {
            return true;
        }
        if current().fatal_signal_pending() {
            return false;
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

/// Runs `f` with the registers of `task`, if it is in a state of `state` and off its CPU. It stays so
/// meanwhile: `f` runs with interrupts off, must be short and take no locks.
pub fn with_registers<R>(
    task: &Arc<Task>,
    state: TaskState,
    f: impl FnOnce(&mut Frame, &mut Context) -> R,
) -> Option<R> {
    let frame = user_frame(task.stack.top());
    let fits = |now: TaskState| now.intersects(state);
    // SAFETY: the thread is off its CPU and cannot be woken meanwhile, so nobody uses its frame or its
    // context.
    while_off_cpu(task, fits, || unsafe { f(&mut *frame, &mut *task.context.get()) })
}

/// Runs `f` with a copy of the running thread's registers, which came from user mode. `None`: there is no
/// memory. May sleep.
pub fn with_own_registers<R>(f: impl FnOnce(&mut Frame, &mut Context) -> R) -> Option<R> {
    // A context belongs to a stack.
    let stack = KernelStack::new()?;
    let task = current();
    // SAFETY: the frame with which the running thread entered the kernel, which only that thread uses.
    let mut frame = unsafe { (*user_frame(task.stack.top())).clone() };
    let mut context = Context::new(stack.top(), &frame);
    with_current_context(|own| {
        context.fork_from(own, None, None);
        context.exchange_rest(own);
    });
    let result = f(&mut frame, &mut context);
    with_current_context(|own| context.exchange_rest(own));
    Some(result)
}

/// Calls `f` with what the calls return to that are traced until they return and have not: it is not on the
/// stack, which is used from `sp` on. `false`: `f` returned that.
fn each_kept_return(task: &Task, sp: usize, f: impl FnMut(usize) -> bool) -> bool {
    let Some(returns) = task.info.returns.get() else {
        return true;
    };
    let calls = (0..returns.depth()).filter_map(|n| returns.get(n));
    calls.filter(|call| call.sp >= sp).map(|call| call.parent).all(f)
}

/// How many calls of a thread are told at most.
const DEPTH: usize = 64;

/// Calls `f` with each return address on the kernel stack of `task`, the innermost first. Of a thread that
/// runs or may run, is not started or has ended nothing is told, but of the running one.
pub fn each_return(task: &Arc<Task>, f: impl FnMut(usize)) {
    let (mut found, mut depth) = ([0; DEPTH], 0);
    let mut keep = |ip| {
        if let Some(slot) = found.get_mut(depth) {
            (*slot, depth) = (ip, depth + 1);
        }
    };
    if Arc::ptr_eq(task, &current()) {
        backtrace::walk(stack_calls::here(), &mut keep);
    } else {
        let _ = while_off_cpu(task, is_asleep, || {
            // SAFETY: the thread is off its CPU and cannot be woken meanwhile, so nobody uses its context.
            let fp = unsafe { (*task.context.get()).frame_pointer() };
            let top = task.stack.top();
            if fp < top && top - fp < 1 << STACK_SHIFT {
                stack_calls::walk_other(&task.info, fp, keep);
            }
        });
    }
    found[..depth].iter().copied().for_each(f);
}

/// Whether a thread in this state is off its CPU, or will be soon, and was on one.
fn is_asleep(state: TaskState) -> bool {
    let awake = TaskState::WAKING | TaskState::NEW | TaskState::DEAD;
    state != TaskState::RUNNING && !state.intersects(awake)
}

/// Calls `f` with each word of the kernel stack that `task` uses, if it is off its CPU and asleep, and with
/// what its traced calls return to: its return addresses are among them. One that is dead returns nowhere:
/// `f` is not called. `f` runs with interrupts off, is called a few thousand times at most, and takes no
/// locks; when it returns `false` it is called no more. `then` is called if it never did: nobody wakes the
/// thread before. Whether it never did.
pub fn each_stack_word(task: &Task, mut f: impl FnMut(usize) -> bool, then: impl FnOnce()) -> bool {
    let top = task.stack.top();
    let asleep = |now: TaskState| now != TaskState::RUNNING;
    let looked = while_off_cpu(task, asleep, || {
        if task.sched.state().contains(TaskState::DEAD) {
            then();
            return true;
        }
        // SAFETY: the thread is off its CPU and cannot be woken meanwhile, so nobody uses its context.
        let mut at = unsafe { (*task.context.get()).sp() };
        if !each_kept_return(task, at, &mut f) {
            return false;
        }
        while at < top {
            // SAFETY: its stack, which stays as long as the task.
            if !f(unsafe { (at as *const usize).read() }) {
                return false;
            }
            at += size_of::<usize>();
        }
        then();
        true
    });
    looked == Some(true)
}

/// The same with this CPU's idle thread, if another one runs. By a function of `on_each_cpu`.
pub fn each_idle_stack_word(mut f: impl FnMut(usize) -> bool, then: impl FnOnce(&Task)) {
    let cpu = super::this_cpu();
    let Some(idle) = super::cpu::idle_threads().nth(cpu.id) else {
        return;
    };
    if core::ptr::eq(&raw const *preempt::current_info(), &raw const idle.info) {
        return;
    }
    // SAFETY: nobody else runs it, or uses its context, than this CPU, which has interrupts off.
    let mut at = unsafe { (*idle.context.get()).sp() };
    // It may be the stack with which the CPU booted.
    let end = cpu.idle_base.load(Ordering::Acquire);
    if end < at || !each_kept_return(idle, at, &mut f) {
        return;
    }
    while at < end {
        // SAFETY: its stack.
        if !f(unsafe { (at as *const usize).read() }) {
            return;
        }
        at += size_of::<usize>();
    }
    then(idle);
}

/// Whether `task` is the idle thread of a CPU that could not be started, and so executes nothing.
pub fn never_started(task: &Task) -> bool {
    let is_idle = task.flags().contains(TaskFlags::IDLE);
    is_idle && !super::online().contains(task.info.cpu.load(Ordering::Relaxed) as usize)
}

/// Waits until `task`, which is in a state of `state`, is off its CPU. `false`: it is in another state, or a
/// fatal signal is pending for the caller. May sleep.
pub fn wait_off_cpu(task: &Arc<Task>, state: TaskState) -> bool {
    wait_while(task, |now| now.intersects(state))
}

/// Sleeps for a moment, so that others can run.
pub fn pause() {
    WaitQueue::new().wait_until_deadline_uninterruptible(now_ns() + TURN_NS, || false);
}

/// How `task` left user mode, where it must have been. `None` if it runs, is being woken, is not started or
/// has ended, or if a fatal signal is pending for the caller. A thread that has said that it will sleep or
/// stop, and still runs, is waited for. May sleep.
pub fn user_state(task: &Arc<Task>) -> Option<UserState> {
    let frame = user_frame(task.stack.top());
    if Arc::ptr_eq(task, &current()) {
        // SAFETY: the frame of the system call that the running thread is in, which only that thread uses.
        return Some(UserState::of(unsafe { &*frame }));
    }
    while wait_while(task, is_asleep) {
        // SAFETY: the thread is off its CPU and cannot be woken meanwhile, so nobody uses its frame.
        let found = while_off_cpu(task, is_asleep, || UserState::of(unsafe { &*frame }));
        if found.is_some() {
            return found;
        }
    }
    None
}
