//! The parts of the kernel that must know whether the CPU runs user or kernel code, and whether its
//! interrupts are on: the lock validator, context tracking with RCU, and the tracers of interrupt state.

use super::Processor;
use crate::token::InKernel;

/// What is counted at the threshold ([`Observers::count`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Crossing {
    /// A system call came from user mode.
    Call,
    /// An interrupt, whatever it interrupted. NMIs are not counted.
    Interrupt,
    /// A fault in user mode.
    UserFault,
    /// A fault in kernel mode: in a copy from or to user memory, as a rule.
    KernelFault,
    /// A turn of the work loop, which had something to do.
    Turn,
    /// A system call began again without a round trip to user mode.
    Restart,
    /// The scheduler was called on the way out to user mode.
    Reschedule,
    /// The kernel opened its window to user memory. Who opens it counts that, not this crate.
    Window,
}

impl Crossing {
    /// How many there are.
    pub const COUNT: usize = Self::Window as usize + 1;
}

/// What these observers are told, and when.
pub trait Observers: Processor {
    /// The lock validator learns that interrupts went off.
    #[inline(always)]
    fn lockdep_irqs_off(&self) {}
    /// The lock validator checks that the thread, on its way to user mode, holds no lock.
    #[inline(always)]
    fn lockdep_sys_exit(&self, _in_kernel: &InKernel) {}
    /// The lock validator prepares for interrupts being turned on. No lock may be taken from here on.
    #[inline(always)]
    fn lockdep_irqs_on_prepare(&self) {}
    /// The lock validator learns that interrupts are about to go on.
    #[inline(always)]
    fn lockdep_irqs_on(&self) {}
    /// Context tracking leaves user mode: RCU watches again.
    #[inline(always)]
    fn context_user_exit(&self) {}
    /// Context tracking enters user mode: RCU stops watching.
    #[inline(always)]
    fn context_user_enter(&self) {}
    /// On an interrupt or fault from kernel mode. If the CPU was idle (RCU not watching), tells RCU that it
    /// no longer is and returns `true`.
    #[inline(always)]
    fn context_irq_enter_if_idle(&self) -> bool {
        false
    }
    /// Undoes a [`Observers::context_irq_enter_if_idle`] that returned `true`.
    #[inline(always)]
    fn context_irq_exit(&self) {}
    /// On an interrupt from kernel mode that did not find the CPU idle (Linux: `rcu_irq_enter_check_tick`).
    #[inline(always)]
    fn context_irq_check_tick(&self, _in_kernel: &InKernel) {}
    /// On an NMI, which may interrupt any other hook, even itself: tells context tracking and validator, and
    /// counts it in the preempt count. The result is handed to [`Observers::nmi_exit`].
    #[inline(always)]
    fn nmi_enter(&self, _frame: &Self::Frame) -> u32 {
        0
    }
    /// Undoes [`Observers::nmi_enter`].
    #[inline(always)]
    fn nmi_exit(&self, _frame: &Self::Frame, _state: u32) {}
    /// The tracers of interrupt state learn that interrupts went off.
    #[inline(always)]
    fn trace_irqs_off(&self, _in_kernel: &InKernel) {}
    /// The tracers of interrupt state learn that interrupts go on.
    #[inline(always)]
    fn trace_irqs_on(&self, _in_kernel: &InKernel) {}
    /// Something happened that may be counted.
    #[inline(always)]
    fn count(&self, _what: Crossing, _in_kernel: &InKernel) {}
    /// The trace event of context tracking: user mode has ended.
    #[inline(always)]
    fn trace_user_exit(&self, _in_kernel: &InKernel) {}
    /// The trace event of context tracking: user mode is about to begin.
    #[inline(always)]
    fn trace_user_enter(&self, _in_kernel: &InKernel) {}
    /// From here on code may be traced and instrumented. Marks the place in the linked image; costs no
    /// instruction.
    #[inline(always)]
    fn instrumentation_begin(&self, _in_kernel: &InKernel) {}
    /// No tracing or instrumentation after this place.
    #[inline(always)]
    fn instrumentation_end(&self) {}
}
