//! Zero-sized proofs of processor state. Holding one means the state is established; each is made only by the step that
//! establishes it, and consumed by the step that ends it.

use core::marker::PhantomData;

/// Not `Send`, not `Sync`: processor state belongs to the CPU that established it.
type Local = PhantomData<*const ()>;

/// Interrupts are off on this CPU.
#[must_use]
#[derive(Debug)]
pub struct IrqsOff(Local);

impl IrqsOff {
    /// For the two steps that turn interrupts off: the processor's own entry, and [`crate::Kernel::irqs_disable`].
    /// Calling it where interrupts may be on is a bug of the caller.
    #[inline(always)]
    pub fn established() -> Self {
        Self(PhantomData)
    }
}

/// RCU watches this CPU and context tracking says "kernel": code that runs from here on may be traced, may use
/// RCU-protected data, and may take locks.
#[must_use]
#[derive(Debug)]
pub struct Watching(Local);

impl Watching {
    #[inline(always)]
    pub(crate) fn established() -> Self {
        Self(PhantomData)
    }
}
