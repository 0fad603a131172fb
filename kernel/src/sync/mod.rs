//! Locks, and cells for values that are made once. Sleeping locks use `sched::WaitQueue`.

mod direct;
pub mod loan;
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

/// How many CPUs a kernel can use at most (`NR_CPUS`).
pub const MAX_CPUS: usize = 64;

/// Runs `f` with preemption off.
#[inline(always)]
pub fn without_preemption<R>(f: impl FnOnce() -> R) -> R {
    crate::sched::preempt::disable();
    let r = f();
    crate::sched::preempt::enable();
    r
}

/// Runs `f` with interrupts off, and so without preemption.
#[inline(always)]
pub fn without_interrupts<R>(f: impl FnOnce() -> R) -> R {
    let flags = crate::arch::irq::local_save();
    let r = f();
    crate::arch::irq::local_restore(flags);
    r
}
