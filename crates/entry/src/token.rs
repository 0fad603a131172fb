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

/// Context tracking says "kernel" on this CPU and RCU, once there is one, watches it: code may be traced, may
/// read RCU-protected data and may take locks. Limen has no RCU yet and no context tracking: today the token
/// only proves that the lock validator has been told of the entry, and so marks where instrumentation may
/// begin.
#[must_use]
#[derive(Debug)]
pub struct InKernel(Local);

impl InKernel {
    #[inline(always)]
    pub(crate) fn established() -> Self {
        Self(PhantomData)
    }
}
