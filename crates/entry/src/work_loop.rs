//! The work loop: what a thread does on its way to user mode until no flag is set.

use crate::frame::{Cause, Frame};
use crate::hooks::{Crossing, Kernel};
use crate::token::{InKernel, IrqsOff};
use crate::work::ThreadFlags;

/// How the work loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// No work is left: the thread goes to user mode.
    User,
    /// The interrupted system call is to run again.
    Restart,
}

/// Does all work that is due before user mode. Returns with interrupts off. No flag is set then, unless a
/// system call is to be restarted.
#[inline(always)]
pub(crate) fn exit_work<K: Kernel>(
    k: &K,
    frame: &mut K::Frame,
    irqs: IrqsOff,
    in_kernel: &InKernel,
    cause: Cause,
) -> (IrqsOff, Next) {
    // Nearly always no flag at all is set, and a test against zero is shorter than one against a mask.
    let flags = k.work().flags();
    if flags.is_empty() {
        return (irqs, Next::User);
    }
    // The next most frequent case: the C library registered a `struct rseq`, and the thread was switched.
    if flags == ThreadFlags::RSEQ_AGAIN && k.rseq_again(&irqs) {
        return (irqs, Next::User);
    }
    if !flags.intersects(ThreadFlags::ANY_EXIT) {
        return (irqs, Next::User);
    }
    work_loop(k, frame, irqs, in_kernel, cause)
}

#[cold]
#[inline(never)]
fn work_loop<K: Kernel>(
    k: &K,
    frame: &mut K::Frame,
    mut irqs: IrqsOff,
    in_kernel: &InKernel,
    cause: Cause,
) -> (IrqsOff, Next) {
    let mut signals_seen = false;
    loop {
        let flags = k.work().flags();
        if !flags.intersects(ThreadFlags::EXIT_WORK) {
            if signals_seen && frame.restart().is_some() {
                return (irqs, Next::Restart);
            }
            let rseq = flags.intersection(ThreadFlags::ANY_RSEQ);
            if rseq.is_empty()
                || rseq == ThreadFlags::RSEQ_AGAIN && k.rseq_again(&irqs)
                || k.rseq_exit(frame, cause, &irqs)
            {
                if flags.intersects(ThreadFlags::LAST) {
                    last_steps(k, frame, flags, &irqs);
                }
                return (irqs, Next::User);
            }
            // Writing to the user's `struct rseq` would have faulted, and interrupts were off throughout. The
            // kernel has arranged for its notify-resume hook to do the work, where faults are allowed.
            k.work().set(ThreadFlags::NOTIFY_RESUME);
            continue;
        }
        k.count(Crossing::Turn, in_kernel);
        if flags.intersects(ThreadFlags::RESCHED) {
            if cause == Cause::Exception && flags.may_put_off() {
                let granted;
                (irqs, granted) = k.grant_slice_extension(irqs, in_kernel);
                if granted {
                    continue;
                }
            }
            k.irqs_enable(irqs);
            k.count(Crossing::Reschedule, in_kernel);
            k.schedule(in_kernel);
        } else {
            k.irqs_enable(irqs);
        }
        if flags.contains(ThreadFlags::PATCH_PENDING) {
            k.patch_pending(in_kernel);
        }
        if flags.intersects(ThreadFlags::SIGPENDING.union(ThreadFlags::NOTIFY_SIGNAL)) {
            if flags.contains(ThreadFlags::NOTIFY_SIGNAL) {
                k.work().clear(ThreadFlags::NOTIFY_SIGNAL);
            }
            k.signals(frame, cause, in_kernel);
            signals_seen = true;
        }
        if flags.contains(ThreadFlags::NOTIFY_RESUME) {
            k.work().clear(ThreadFlags::NOTIFY_RESUME);
            k.notify_resume(frame, in_kernel);
        }
        irqs = k.irqs_disable();
    }
}

/// What each way to user mode ends with, for threads that have any of it.
#[cold]
fn last_steps<K: Kernel>(k: &K, frame: &mut K::Frame, flags: ThreadFlags, irqs: &IrqsOff) {
    if flags.contains(ThreadFlags::DEBUG) {
        k.debug_exit(irqs);
    }
    if flags.contains(ThreadFlags::RETURN) {
        frame.prepare_return();
    }
}
