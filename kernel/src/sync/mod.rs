//! Locks and the like. Sleeping locks build on `sched::WaitQueue`.

mod direct;
pub mod lockdep;
mod mutex;
mod once;
mod own;
pub mod pairing;
mod raw;
mod rwlock;
mod spin;

pub use direct::DirectArc;
pub use mutex::{Mutex, MutexGuard};
pub use once::{Lazy, Once};
pub use own::OwnSlot;
pub use raw::{RawSpinLock, SchedLock};
pub use rwlock::RwLock;
pub use spin::{InnerGuard, IrqSpinGuard, IrqSpinLock, SpinGuard, SpinLock};

/// The most CPUs a kernel can use (`NR_CPUS`).
pub const MAX_CPUS: usize = 64;

/// Runs `f` with preemption off.
#[inline(always)]
pub fn without_preemption<R>(f: impl FnOnce() -> R) -> R {
    crate::sched::preempt::disable();
    let r = f();
    crate::sched::preempt::enable();
    r
}

/// Runs `f` with interrupts (and thereby preemption) off.
#[inline(always)]
pub fn without_interrupts<R>(f: impl FnOnce() -> R) -> R {
    let flags = crate::arch::irq::local_save();
    let r = f();
    crate::arch::irq::local_restore(flags);
    r
}
