//! Locks and the like. Sleeping locks build on `sched::WaitQueue`.

mod spin;

pub use spin::{IrqSpinGuard, IrqSpinLock, SpinGuard, SpinLock};

/// The most CPUs a kernel can use (`NR_CPUS`).
pub const MAX_CPUS: usize = 64;
