//! The processor: its interrupt flag, its interrupt stack, and preemption of interrupted kernel code.

use crate::frame::Frame;
use crate::token::{InKernel, IrqsOff};

/// What the threshold does with the processor.
pub trait Processor {
    /// The architecture's saved register file.
    type Frame: Frame;

    /// Turns interrupts on.
    fn irqs_enable(&self, off: IrqsOff);
    /// Turns interrupts off.
    fn irqs_disable(&self) -> IrqsOff;
    /// Runs `f` on this CPU's interrupt stack; on the stack in use if that already is the interrupt stack.
    fn on_interrupt_stack<R>(&self, irqs: &IrqsOff, f: impl FnOnce() -> R) -> R;
    /// A hardware interrupt begins (`irq_enter`: preempt count, tick accounting).
    #[inline(always)]
    fn hardirq_enter(&self, _in_kernel: &InKernel) {}
    /// A hardware interrupt ends.
    #[inline(always)]
    fn hardirq_exit(&self, _in_kernel: &InKernel) {}
    /// Whether the interrupted kernel code may be preempted now (preempt count zero).
    fn preemptible(&self) -> bool;
    /// Switches away from interrupted kernel code and comes back to it later. Returns with interrupts off.
    fn preempt_schedule(&self, irqs: IrqsOff, in_kernel: &InKernel) -> IrqsOff;
}
