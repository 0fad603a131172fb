//! Interrupts, faults and NMIs, from user and from kernel mode.

use crate::kernel::{Frame, Kernel};
use crate::token::{IrqsOff, Watching};
use crate::user::{enter_from_user, return_to_user};
use crate::work::ThreadFlags;

/// Whether a fault's handler runs with the interrupts of the faulting context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultIrqs {
    /// Interrupts go on before the handler if they were on in the interrupted context (page faults, undefined instructions, ...).
    AsInterrupted,
    /// Interrupts stay off (debug exceptions, machine checks that are not NMIs, ...).
    Off,
}

/// How an exception from kernel mode was entered.
struct FromKernel {
    /// RCU had to be told; undo it on the way out.
    was_idle: bool,
}

#[inline(always)]
fn enter_from_kernel<K: Kernel>(k: &K) -> (FromKernel, Watching) {
    k.lockdep_irqs_off();
    let was_idle = k.context_irq_enter_if_idle();
    let watching = Watching::established();
    k.instrumentation_begin(&watching);
    if !was_idle {
        k.context_irq_check_tick(&watching);
    }
    k.trace_irqs_off(&watching);
    (FromKernel { was_idle }, watching)
}

/// The way out to interrupted kernel code: preempts it if that is due and allowed.
#[inline(always)]
fn return_to_kernel<K: Kernel>(
    k: &K,
    frame: &K::Frame,
    mut irqs: IrqsOff,
    from: FromKernel,
    watching: Watching,
) {
    if frame.interrupts_enabled() {
        if !from.was_idle && k.work().has(ThreadFlags::NEED_RESCHED) && k.preemptible() {
            irqs = k.preempt_schedule(irqs, &watching);
        }
        k.trace_irqs_on(&watching);
        k.lockdep_irqs_on_prepare();
        let Watching { .. } = watching;
        k.instrumentation_end();
        if from.was_idle {
            k.context_irq_exit();
        }
        k.lockdep_irqs_on();
    } else {
        let Watching { .. } = watching;
        k.instrumentation_end();
        if from.was_idle {
            k.context_irq_exit();
        }
    }
    let IrqsOff { .. } = irqs;
}

/// A hardware interrupt: entry, the switch to the interrupt stack, `handler`, and the way out, all in this one function.
#[inline(always)]
pub fn interrupt<K: Kernel>(k: &K, frame: &mut K::Frame, irqs: IrqsOff, handler: impl FnOnce(&mut K::Frame)) {
    if frame.from_user() {
        let watching = enter_from_user(k, frame, &irqs);
        k.note_user_interrupted();
        run_handler(k, frame, &irqs, &watching, handler);
        return_to_user(k, frame, irqs, watching);
    } else {
        let (from, watching) = enter_from_kernel(k);
        run_handler(k, frame, &irqs, &watching, handler);
        return_to_kernel(k, frame, irqs, from, watching);
    }
}

#[inline(always)]
fn run_handler<K: Kernel>(
    k: &K,
    frame: &mut K::Frame,
    irqs: &IrqsOff,
    watching: &Watching,
    handler: impl FnOnce(&mut K::Frame),
) {
    k.hardirq_enter(watching);
    k.on_interrupt_stack(irqs, || handler(frame));
    k.hardirq_exit(watching);
}

/// A synchronous exception (page fault, undefined instruction, breakpoint, ...): entered like an interrupt, on the thread's own stack.
#[inline(always)]
pub fn fault<K: Kernel>(
    k: &K,
    frame: &mut K::Frame,
    irqs: IrqsOff,
    mode: FaultIrqs,
    handler: impl FnOnce(&mut K::Frame),
) {
    if frame.from_user() {
        let watching = enter_from_user(k, frame, &irqs);
        k.note_user_interrupted();
        let irqs = run_fault(k, frame, irqs, mode, handler);
        return_to_user(k, frame, irqs, watching);
    } else {
        let (from, watching) = enter_from_kernel(k);
        let irqs = run_fault(k, frame, irqs, mode, handler);
        return_to_kernel(k, frame, irqs, from, watching);
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

/// An NMI (or what the architecture treats like one): may arrive anywhere, even inside this crate; never does exit work.
#[inline(always)]
pub fn nmi<K: Kernel>(k: &K, frame: &mut K::Frame, _irqs: IrqsOff, handler: impl FnOnce(&mut K::Frame)) {
    let state = k.nmi_enter(frame);
    let watching = Watching::established();
    k.instrumentation_begin(&watching);
    handler(frame);
    let Watching { .. } = watching;
    k.instrumentation_end();
    k.nmi_exit(frame, state);
}
