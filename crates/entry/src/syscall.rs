//! System calls: work on the way in, dispatch, work on the way out, and restart inside the kernel.

use crate::kernel::{Frame, Kernel, SyscallVerdict, TraceVerdict};
use crate::token::{IrqsOff, Watching};
use crate::user::{Interrupted, Next, enter_from_user, exit_to_user, exit_work};
use crate::work::SyscallWork;

/// A system call, from the entry stub to the point where the stub restores the registers. Interrupts are off on entry and on
/// return.
#[inline(always)]
pub fn syscall<K: Kernel>(k: &K, frame: &mut K::Frame, irqs: IrqsOff) {
    let watching = enter_from_user(k, frame, &irqs);
    k.irqs_enable(irqs);
    call(k, frame, &watching);
    let irqs = finish(k, frame, &watching);
    exit_to_user(k, frame, irqs, watching);
}

/// A new thread's way to user mode for the first time: the same exit as that of the system call that made it.
#[inline(always)]
pub fn return_from_fork<K: Kernel>(k: &K, frame: &mut K::Frame) {
    // The thread starts inside the scheduler's switch: RCU watches, interrupts are on once the switch is finished.
    let watching = Watching::established();
    k.instrumentation_begin(&watching);
    k.finish_fork(frame, &watching);
    exit_side(k, frame);
    let irqs = finish(k, frame, &watching);
    exit_to_user(k, frame, irqs, watching);
}

/// Entry work, dispatch and exit work of one system call, interrupts on.
#[inline(always)]
fn call<K: Kernel>(k: &K, frame: &mut K::Frame, watching: &Watching) {
    let work = k.work().syscall_work();
    // One test against all bits is cheaper than one against those for the way in; the others come to nothing.
    let number = if !work.is_empty() {
        enter_work(k, frame, work)
    } else {
        Some(frame.syscall_number())
    };
    if let Some(number) = number {
        k.dispatch(frame, number, watching);
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

/// The way out of a system call up to the point where nothing is left to do, running it again as often as it must restart.
#[inline(always)]
fn finish<K: Kernel>(k: &K, frame: &mut K::Frame, watching: &Watching) -> IrqsOff {
    let irqs = k.irqs_disable();
    let (irqs, next) = exit_work(k, frame, irqs, watching, Interrupted::BySyscall);
    match next {
        Next::User => irqs,
        Next::Restart => finish_restarted(k, frame, irqs, watching),
    }
}

/// [`finish`] of a call that must restart.
#[cold]
#[inline(never)]
fn finish_restarted<K: Kernel>(
    k: &K,
    frame: &mut K::Frame,
    mut irqs: IrqsOff,
    watching: &Watching,
) -> IrqsOff {
    loop {
        restart(k, frame, irqs, watching);
        let next;
        (irqs, next) = exit_work(k, frame, k.irqs_disable(), watching, Interrupted::BySyscall);
        if let Next::User = next {
            return irqs;
        }
    }
}

/// Runs an interrupted system call again, without user mode in between. Tracers and seccomp see a second entry.
#[cold]
#[inline(never)]
fn restart<K: Kernel>(k: &K, frame: &mut K::Frame, irqs: IrqsOff, watching: &Watching) {
    k.irqs_enable(irqs);
    if let Some(restart) = frame.restart() {
        frame.rearm(restart);
        k.count_restart();
        call(k, frame, watching);
    }
}

/// [`restart`] for a frame that reached its exit by another way than the system call's.
#[cold]
pub(crate) fn restart_from_exception<K: Kernel>(
    k: &K,
    frame: &mut K::Frame,
    irqs: IrqsOff,
    watching: &Watching,
) -> IrqsOff {
    restart(k, frame, irqs, watching);
    k.irqs_disable()
}

/// Work on the way in, in Linux's documented order. `None`: the call does not run. Which work there is was read before any stop,
/// so a tracer that changes its mind while the task is stopped changes the next call, not this one.
#[cold]
#[inline(never)]
fn enter_work<K: Kernel>(k: &K, frame: &mut K::Frame, work: SyscallWork) -> Option<isize> {
    // Before anything looks at the frame: user dispatch must see it untouched.
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
    // Read last: tracer, seccomp and tracepoint may each have changed it. A negative number cancels the call; its result is
    // what they left, or the preset one.
    let number = frame.syscall_number();
    if number < 0 { None } else { Some(number) }
}

/// Work on the way out, once per call.
#[cold]
#[inline(never)]
fn exit_side_work<K: Kernel>(k: &K, frame: &mut K::Frame, work: SyscallWork) {
    k.rseq_debug_check(frame);
    if work.contains(SyscallWork::USER_DISPATCH) && k.user_dispatch_rolled_back() {
        return;
    }
    if work.contains(SyscallWork::AUDIT) {
        k.audit_exit(frame);
    }
    if work.contains(SyscallWork::TRACEPOINT) {
        k.tracepoint_exit(frame);
    }
    // Under emulation the step is reported by the tracer's own entry stop.
    let step = work.contains(SyscallWork::EXIT_TRAP) && !work.contains(SyscallWork::EMU);
    if step || work.contains(SyscallWork::TRACE) {
        k.trace_exit(frame, step);
    }
}
