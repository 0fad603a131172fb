//! The crossing itself: leaving user mode and returning to it.

use crate::kernel::{Frame, Kernel};
use crate::token::{IrqsOff, Watching};
use crate::work::ThreadFlags;

/// What brought the thread into the kernel; decides which work belongs to its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupted {
    /// A system call.
    BySyscall,
    /// An interrupt or a fault.
    ByException,
}

/// What the work loop ended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing is left to do: go to user mode.
    User,
    /// The interrupted system call is to run again.
    Restart,
}

/// First steps after leaving user mode, interrupts off.
#[inline(always)]
pub(crate) fn enter_from_user<K: Kernel>(k: &K, frame: &K::Frame, _irqs: &IrqsOff) -> Watching {
    k.sanity(frame);
    k.lockdep_irqs_off();
    k.context_user_exit();
    let watching = Watching::established();
    k.instrumentation_begin(&watching);
    k.trace_irqs_off(&watching);
    watching
}

/// Does what must be done before user mode. Returns with interrupts off and, unless a system call is to be restarted, no flag
/// set.
#[inline(always)]
pub(crate) fn exit_work<K: Kernel>(
    k: &K,
    frame: &mut K::Frame,
    irqs: IrqsOff,
    watching: &Watching,
    interrupted: Interrupted,
) -> (IrqsOff, Next) {
    // Nearly always: nothing at all, which is quicker to see than nothing of the mask.
    let flags = k.work().flags();
    if flags.is_empty() {
        return (irqs, Next::User);
    }
    // In programs whose C library registers one: a restartable sequence's area after a switch.
    if flags == ThreadFlags::RSEQ_AGAIN && k.rseq_again(&irqs) {
        return (irqs, Next::User);
    }
    let mask = match interrupted {
        Interrupted::BySyscall => ThreadFlags::ANY_EXIT,
        Interrupted::ByException => ThreadFlags::ANY_IRQ_EXIT,
    };
    if !flags.intersects(mask) {
        return (irqs, Next::User);
    }
    work_loop(k, frame, irqs, watching, interrupted)
}

#[cold]
#[inline(never)]
fn work_loop<K: Kernel>(
    k: &K,
    frame: &mut K::Frame,
    mut irqs: IrqsOff,
    watching: &Watching,
    interrupted: Interrupted,
) -> (IrqsOff, Next) {
    let mut signals_seen = false;
    loop {
        let flags = k.work().flags();
        if !flags.intersects(ThreadFlags::EXIT_WORK) {
            if signals_seen && frame.restart().is_some() {
                return (irqs, Next::Restart);
            }
            if interrupted == Interrupted::ByException && flags.contains(ThreadFlags::HRTIMER_REARM) {
                k.work().clear(ThreadFlags::HRTIMER_REARM);
                k.hrtimer_rearm(&irqs);
            }
            let rseq = flags.intersection(ThreadFlags::ANY_RSEQ);
            if rseq.is_empty()
                || rseq == ThreadFlags::RSEQ_AGAIN && k.rseq_again(&irqs)
                || k.rseq_exit(frame, interrupted, &irqs)
            {
                return (irqs, Next::User);
            }
            // User memory was not there. Interrupts were off throughout, so only the kernel's own arrangement (notify-resume)
            // brings us back here.
            k.work().set(ThreadFlags::NOTIFY_RESUME);
            continue;
        }
        k.irqs_enable(irqs);
        if flags.intersects(ThreadFlags::RESCHED)
            && !(interrupted == Interrupted::ByException
                && !flags.intersects(ThreadFlags::EXIT_WORK.difference(ThreadFlags::RESCHED))
                && k.grant_slice_extension(watching))
        {
            k.schedule(watching);
        }
        if flags.contains(ThreadFlags::UPROBE) {
            k.work().clear(ThreadFlags::UPROBE);
            k.uprobe(frame, watching);
        }
        if flags.contains(ThreadFlags::PATCH_PENDING) {
            k.patch_pending(watching);
        }
        if flags.intersects(ThreadFlags::SIGPENDING.union(ThreadFlags::NOTIFY_SIGNAL)) {
            if flags.contains(ThreadFlags::NOTIFY_SIGNAL) {
                k.work().clear(ThreadFlags::NOTIFY_SIGNAL);
            }
            k.signals(frame, interrupted, watching);
            signals_seen = true;
        }
        if flags.contains(ThreadFlags::NOTIFY_RESUME) {
            k.work().clear(ThreadFlags::NOTIFY_RESUME);
            k.notify_resume(frame, watching);
        }
        if flags.contains(ThreadFlags::USER_RETURN_NOTIFY) {
            k.work().clear(ThreadFlags::USER_RETURN_NOTIFY);
            k.user_return_notify(watching);
        }
        let arch = flags.intersection(ThreadFlags::ARCH);
        if !arch.is_empty() {
            k.arch_work(frame, arch.bits(), watching);
        }
        irqs = k.irqs_disable();
    }
}

/// Last steps before user mode, interrupts off, no work left.
#[inline(always)]
pub(crate) fn exit_to_user<K: Kernel>(k: &K, frame: &mut K::Frame, irqs: IrqsOff, watching: Watching) {
    k.lockdep_sys_exit(&watching);
    k.trace_irqs_on(&watching);
    k.lockdep_irqs_on_prepare();
    let Watching { .. } = watching;
    k.instrumentation_end();
    k.context_user_enter();
    k.last_step(frame, &irqs);
    k.lockdep_irqs_on();
    // The stub's return instruction restores the user's interrupt state with the frame.
    let IrqsOff { .. } = irqs;
}

/// The whole way out for a thread that is in the kernel with interrupts off and RCU watching: the work loop, then user mode. Used by
/// exits that are not the end of a system call of the frame's own.
#[inline(always)]
pub fn return_to_user<K: Kernel>(k: &K, frame: &mut K::Frame, mut irqs: IrqsOff, watching: Watching) {
    loop {
        let next;
        (irqs, next) = exit_work(k, frame, irqs, &watching, Interrupted::ByException);
        match next {
            Next::User => return exit_to_user(k, frame, irqs, watching),
            // A frame of another kind never asks for a restart; if a kernel's frame does, the next user instruction is the call
            // itself once rearmed by the system call path, so there is nothing to do but go on.
            Next::Restart => irqs = crate::syscall::restart_from_exception(k, frame, irqs, &watching),
        }
    }
}
