//! Values without size that prove a state of the processor. The step that establishes the state makes the
//! token; the step that ends the state consumes it.

use core::marker::PhantomData;

/// Not `Send`, not `Sync`: processor state belongs to the CPU that established it.
type Local = PhantomData<*const ()>;

/// Interrupts are off on this CPU.
#[must_use]
#[derive(Debug)]
pub struct IrqsOff(Local);

impl IrqsOff {
    /// For the two places where interrupts are known to be off: the processor's own entry, and the end of
    /// [`crate::Processor::irqs_disable`]. Calling it where interrupts may be on is a bug of the caller.
    #[inline(always)]
    pub fn established() -> Self {
        Self(PhantomData)
    }
}

/// The kernel knows that this CPU is in it: the lock validator and context tracking have been told of the
/// entry, so RCU waits for this CPU's readers. Code may be traced, may read RCU-protected data and may take
/// locks. The token begins and ends where the linked image has the marks of
/// [`crate::Observers::instrumentation_begin`] and its opposite; the build checks that no path reaches a
/// reader, a call or a pointer outside of them. So code behind the threshold needs no token in hand.
#[must_use]
#[derive(Debug)]
pub struct InKernel(Local);

impl InKernel {
    #[inline(always)]
    pub(crate) fn established() -> Self {
        Self(PhantomData)
    }
}
