//! What drivers and other CPUs connect to interrupts, where each has a number of the controller's.

use crate::arch::events;
use alloc::boxed::Box;
use core::sync::atomic::{AtomicU32, Ordering};

/// What one CPU can ask of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Ipi {
    /// Look at the thread flags: reschedule, or a signal for the running thread. (The interrupt's exit does
    /// the work.)
    Reschedule = 0,
    /// Run queued cross-CPU calls (`sched::call`), used for TLB invalidation and the like.
    Call = 1,
    /// Stop for good (panic, power-off).
    Stop = 2,
}

/// A device interrupt's handler; runs on the interrupt stack with interrupts off.
pub type Handler = Box<dyn Fn() + Send + Sync>;

/// An interrupt line or message, as the architecture's platform code hands it to drivers: its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Irq(pub u32);

/// What is connected to one. Never freed: an interrupt may be looking at it.
pub(super) struct Line {
    irq: Irq,
    handler: Handler,
    /// Whose it is, for `/proc/interrupts`.
    pub(super) name: &'static str,
    count: AtomicU32,
}

impl Line {
    /// Nothing has arrived yet.
    pub(super) fn new(irq: Irq, name: &'static str, handler: Handler) -> Self {
        Self {
            irq,
            handler,
            name,
            count: AtomicU32::new(0),
        }
    }
    /// The interrupt arrived.
    pub(super) fn handle(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
        events::handle(self.irq.0, self.name, &self.handler);
    }
    /// How often it did.
    pub(super) fn count(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }
}
