//! Interrupts, faults and NMIs, from user and from kernel mode.

use crate::crossing::{enter_from_user, exit_to_user};
use crate::frame::{Cause, Frame};
use crate::hooks::{Crossing, Kernel};
use crate::syscall::restart_from_exception;
use crate::token::{InKernel, IrqsOff};
use crate::work::ThreadFlags;
use crate::work_loop::{Next, exit_work};

/// Whether a fault's handler runs with interrupts as the faulting code had them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultIrqs {
    /// Interrupts are turned on before the handler if they were on in the faulting code (page faults,
    /// undefined instructions, ...).
    AsInterrupted,
    /// Interrupts stay off (debug exceptions, machine checks that are not NMIs, ...).
    Off,
}

/// What entering from kernel mode did, for the way out to undo.
struct FromKernel {
    /// The CPU was idle, so RCU had to be told that it is not; the way out tells it the opposite.
    was_idle: bool,
}

#[inline(always)]
fn enter_from_kernel<K: Kernel>(k: &K) -> (FromKernel, InKernel) {
    k.lockdep_irqs_off();
    let was_idle = k.context_irq_enter_if_idle();
    let in_kernel = InKernel::established();
    k.instrumentation_begin(&in_kernel);
    if !was_idle {
        k.context_irq_check_tick(&in_kernel);
    }
    k.trace_irqs_off(&in_kernel);
    (FromKernel { was_idle }, in_kernel)
}

/// The way out to interrupted kernel code. Preempts that code first if a reschedule is due and allowed.
#[inline(always)]
fn return_to_kernel<K: Kernel>(
    k: &K,
    frame: &K::Frame,
    mut irqs: IrqsOff,
    from: FromKernel,
    in_kernel: InKernel,
) {
    if frame.interrupts_enabled() {
        if !from.was_idle && k.work().has(ThreadFlags::NEED_RESCHED) && k.preemptible() {
            irqs = k.preempt_schedule(irqs, &in_kernel);
        }
        k.trace_irqs_on(&in_kernel);
        k.lockdep_irqs_on_prepare();
        let InKernel { .. } = in_kernel;
        k.instrumentation_end();
        if from.was_idle {
            k.context_irq_exit();
        }
        k.lockdep_irqs_on();
    } else {
        let InKernel { .. } = in_kernel;
        k.instrumentation_end();
        if from.was_idle {
            k.context_irq_exit();
        }
    }
    let IrqsOff { .. } = irqs;
}

/// The way out to user mode of an interrupt or a fault: the work loop, then user mode. On entry interrupts
/// are off and RCU watches.
#[inline(always)]
fn return_to_user<K: Kernel>(k: &K, frame: &mut K::Frame, mut irqs: IrqsOff, in_kernel: InKernel) {
    loop {
        let next;
        (irqs, next) = exit_work(k, frame, irqs, &in_kernel, Cause::Exception);
        match next {
            Next::User => return exit_to_user(k, irqs, in_kernel),
            // The frame of an interrupt or a fault never asks for a restart. Should an architecture's frame
            // do so all the same, the call is run here, as at the end of a system call.
            Next::Restart => irqs = restart_from_exception(k, frame, irqs, &in_kernel),
        }
    }
}

/// A hardware interrupt, from the entry stub to the point where the stub restores the registers: entry, the
/// switch to the interrupt stack, `handler`, and the way out. Interrupts are off on entry and on return.
#[inline(always)]
pub fn interrupt<K: Kernel>(k: &K, frame: &mut K::Frame, irqs: IrqsOff, handler: impl FnOnce(&mut K::Frame)) {
    if frame.from_user() {
        let in_kernel = enter_from_user(k, &irqs);
        run_handler(k, frame, &irqs, &in_kernel, handler);
        return_to_user(k, frame, irqs, in_kernel);
    } else {
        let (from, in_kernel) = enter_from_kernel(k);
        run_handler(k, frame, &irqs, &in_kernel, handler);
        return_to_kernel(k, frame, irqs, from, in_kernel);
    }
}

#[inline(always)]
fn run_handler<K: Kernel>(
    k: &K,
    frame: &mut K::Frame,
    irqs: &IrqsOff,
    in_kernel: &InKernel,
    handler: impl FnOnce(&mut K::Frame),
) {
    k.count(Crossing::Interrupt, in_kernel);
    k.hardirq_enter(in_kernel);
    k.on_interrupt_stack(irqs, || handler(frame));
    k.hardirq_exit(in_kernel);
}

/// A synchronous exception (page fault, undefined instruction, breakpoint, ...). Entered like an interrupt,
/// but the handler runs on the thread's own stack. From user mode it may sleep if `mode` turned interrupts
/// on.
#[inline(always)]
pub fn fault<K: Kernel>(
    k: &K,
    frame: &mut K::Frame,
    irqs: IrqsOff,
    mode: FaultIrqs,
    handler: impl FnOnce(&mut K::Frame),
) {
    if frame.from_user() {
        let in_kernel = enter_from_user(k, &irqs);
        k.count(Crossing::UserFault, &in_kernel);
        let irqs = run_fault(k, frame, irqs, mode, handler);
        return_to_user(k, frame, irqs, in_kernel);
    } else {
        let (from, in_kernel) = enter_from_kernel(k);
        k.count(Crossing::KernelFault, &in_kernel);
        let irqs = run_fault(k, frame, irqs, mode, handler);
        return_to_kernel(k, frame, irqs, from, in_kernel);
    }
}

#[inline(always)]
fn run_fault<K: Kernel>(
    k: &K,
    frame: &mut K::Frame,
    irqs: IrqsOff,
    mode: FaultIrqs,
    handler: impl FnOnce(&mut K::Frame),
) -> IrqsOff {
    if mode == FaultIrqs::AsInterrupted && frame.interrupts_enabled() {
        k.irqs_enable(irqs);
        handler(frame);
        k.irqs_disable()
    } else {
        handler(frame);
        irqs
    }
}

/// An NMI, or what the architecture treats like one. It may arrive anywhere, even inside this crate, and
/// never does exit work. `handler` must not take locks.
#[inline(always)]
pub fn nmi<K: Kernel>(k: &K, frame: &mut K::Frame, _irqs: IrqsOff, handler: impl FnOnce(&mut K::Frame)) {
    let state = k.nmi_enter(frame);
    let in_kernel = InKernel::established();
    k.instrumentation_begin(&in_kernel);
    handler(frame);
    let InKernel { .. } = in_kernel;
    k.instrumentation_end();
    k.nmi_exit(frame, state);
}
