//! System calls: work on the way in, dispatch, work on the way out, and restart inside the kernel.

use crate::crossing::{enter_from_user, exit_to_user};
use crate::frame::{Cause, Frame};
use crate::hooks::{Crossing, Kernel, SyscallVerdict, TraceVerdict};
use crate::token::{InKernel, IrqsOff};
use crate::work::SyscallWork;
use crate::work_loop::{Next, exit_work};

/// A system call, from the entry stub to the point where the stub restores the registers. Interrupts are off
/// on entry and on return.
#[inline(always)]
pub fn syscall<K: Kernel>(k: &K, frame: &mut K::Frame, irqs: IrqsOff) {
    let in_kernel = enter_from_user(k, &irqs);
    k.count(Crossing::Call, &in_kernel);
    k.irqs_enable(irqs);
    call::<K, true>(k, frame, &in_kernel);
    let irqs = finish(k, frame, &in_kernel);
    exit_to_user(k, irqs, in_kernel);
}

/// The first way to user mode of a new thread. It ends like the system call that made the thread.
#[inline(always)]
pub fn return_from_fork<K: Kernel>(k: &K, frame: &mut K::Frame) {
    // The thread starts inside the scheduler's switch, in the kernel: there is no entry to be told.
    // Interrupts go on when `finish_fork` has finished the switch.
    let in_kernel = InKernel::established();
    k.instrumentation_begin(&in_kernel);
    k.finish_fork(frame, &in_kernel);
    exit_side(k, frame);
    let irqs = finish(k, frame, &in_kernel);
    exit_to_user(k, irqs, in_kernel);
}

/// Entry work, dispatch and exit work of one system call. Interrupts are on. `NEW`: user mode makes it now;
/// else it runs again, and which call it is was found out before.
#[inline(always)]
fn call<K: Kernel, const NEW: bool>(k: &K, frame: &mut K::Frame, in_kernel: &InKernel) {
    let mut work = k.work().syscall_work();
    if !NEW {
        work.remove(SyscallWork::OLD_ABI);
    }
    // A test against zero is cheaper than one against the bits of the way in; `enter_work` ignores the
    // others.
    let number = if !work.is_empty() {
        enter_watched(k, frame, work)
    } else {
        Some(frame.syscall_number())
    };
    if let Some(number) = number {
        k.dispatch(frame, number, in_kernel);
    }
    exit_side(k, frame);
}

#[inline(always)]
fn exit_side<K: Kernel>(k: &K, frame: &mut K::Frame) {
    let work = k.work().syscall_work();
    if work.intersects(SyscallWork::EXIT) {
        exit_side_work(k, frame, work);
    }
}

/// The way out of a system call: the work loop, and the call again for as long as it asks for a restart.
#[inline(always)]
fn finish<K: Kernel>(k: &K, frame: &mut K::Frame, in_kernel: &InKernel) -> IrqsOff {
    let irqs = k.irqs_disable();
    let (irqs, next) = exit_work(k, frame, irqs, in_kernel, Cause::Syscall);
    match next {
        Next::User => irqs,
        Next::Restart => finish_restarted(k, frame, irqs, in_kernel),
    }
}

/// [`finish`] of a call that must restart.
#[cold]
#[inline(never)]
fn finish_restarted<K: Kernel>(
    k: &K,
    frame: &mut K::Frame,
    mut irqs: IrqsOff,
    in_kernel: &InKernel,
) -> IrqsOff {
    loop {
        restart(k, frame, irqs, in_kernel, Cause::Syscall);
        let next;
        (irqs, next) = exit_work(k, frame, k.irqs_disable(), in_kernel, Cause::Syscall);
        if let Next::User = next {
            return irqs;
        }
    }
}

/// Runs an interrupted system call again without going through user mode. Tracer and seccomp see a second
/// system call entry.
#[cold]
#[inline(never)]
fn restart<K: Kernel>(k: &K, frame: &mut K::Frame, irqs: IrqsOff, in_kernel: &InKernel, cause: Cause) {
    k.irqs_enable(irqs);
    if let Some(restart) = frame.restart()
        && !k.leaves_restart(frame, restart, cause)
    {
        frame.rearm(restart);
        k.count(Crossing::Restart, in_kernel);
        call::<K, false>(k, frame, in_kernel);
    }
}

/// [`restart`] for a frame that came to its exit as an interrupt or a fault.
#[cold]
pub(crate) fn restart_from_exception<K: Kernel>(
    k: &K,
    frame: &mut K::Frame,
    irqs: IrqsOff,
    in_kernel: &InKernel,
) -> IrqsOff {
    restart(k, frame, irqs, in_kernel, Cause::Exception);
    k.irqs_disable()
}

/// [`enter_work`], with a quick way for the call that is always allowed of a thread with filters.
#[cold]
#[inline(never)]
fn enter_watched<K: Kernel>(k: &K, frame: &mut K::Frame, work: SyscallWork) -> Option<isize> {
    if work == SyscallWork::SECCOMP && k.seccomp_always_allows(frame) {
        return Some(frame.syscall_number());
    }
    if work.intersects(SyscallWork::OLD_ABI.union(SyscallWork::VIEW)) {
        return enter_own(k, frame, work);
    }
    enter_work(k, frame, work)
}

/// [`enter_work`] of a thread whose calls are not those of all others.
#[cold]
#[inline(never)]
fn enter_own<K: Kernel>(k: &K, frame: &mut K::Frame, work: SyscallWork) -> Option<isize> {
    // Before anybody asks for the call's number.
    if work.contains(SyscallWork::OLD_ABI) && !k.old_abi(frame) {
        return None;
    }
    let number = enter_work(k, frame, work)?;
    // After everybody who may change it.
    let has = !work.contains(SyscallWork::VIEW) || k.view(frame, number);
    has.then_some(number)
}

/// Work on the way in, in the order that Linux documents. `None`: the call does not run. `work` was read
/// before any stop: a tracer that changes the work bits while the task is stopped changes the next call, not
/// this one.
#[cold]
#[inline(never)]
fn enter_work<K: Kernel>(k: &K, frame: &mut K::Frame, work: SyscallWork) -> Option<isize> {
    // Comes first: on user dispatch the signal handler must see the registers unchanged.
    if work.contains(SyscallWork::USER_DISPATCH) && k.user_dispatch(frame) {
        return None;
    }
    frame.preset_result();
    if work.contains(SyscallWork::RSEQ_SLICE) {
        k.rseq_slice_end(frame);
    }
    if work.intersects(SyscallWork::TRACE.union(SyscallWork::EMU)) {
        let verdict = k.trace_enter(frame);
        if verdict == TraceVerdict::Skip || work.contains(SyscallWork::EMU) {
            return None;
        }
    }
    if work.contains(SyscallWork::SECCOMP) && k.seccomp(frame) == SyscallVerdict::Skip {
        return None;
    }
    if work.contains(SyscallWork::TRACEPOINT) {
        k.tracepoint_enter(frame, frame.syscall_number());
    }
    if work.contains(SyscallWork::AUDIT) {
        k.audit_enter(frame);
    }
    // Read last: tracer, seccomp and tracepoint may each have changed the number. -1 cancels the call; its
    // result is what they put into the frame, or the preset one. Another negative one is an unknown call.
    let number = frame.syscall_number();
    if number == -1 { None } else { Some(number) }
}

/// Work on the way out, once per call.
#[cold]
#[inline(never)]
fn exit_side_work<K: Kernel>(k: &K, frame: &mut K::Frame, work: SyscallWork) {
    if work.contains(SyscallWork::OLD_ABI) && k.was_not_made(frame)
        || work.contains(SyscallWork::USER_DISPATCH) && k.user_dispatch_rolled_back()
    {
        return;
    }
    if work.contains(SyscallWork::AUDIT) {
        k.audit_exit(frame);
    }
    if work.contains(SyscallWork::TRACEPOINT) {
        k.tracepoint_exit(frame);
    }
    // Under `PTRACE_SYSEMU` the tracer already sees the step as its system call entry stop.
    let step = work.contains(SyscallWork::EXIT_TRAP) && !work.contains(SyscallWork::EMU);
    if step || work.contains(SyscallWork::TRACE) {
        k.trace_exit(frame, step);
    }
}
