//! Read-copy-update (`docs/rcu.md`): readers that take no lock and write nothing that other CPUs read, and
//! writers that wait for a *grace period* before they free what readers may still see. The rules are those of
//! `crates/rcu`; this room has the thread that drives grace periods, the CPUs' reports and their callbacks.
//!
//! A reader ([`read`]) only holds off preemption. A CPU has passed a *quiescent state*, a moment outside of
//! all readers, when it has switched to another thread. A CPU that does not switch is asked by an interrupt,
//! which finds out whether it came while a reader could run; only then is the driver itself run there.

mod callbacks;
mod driver;
mod glance;
pub mod selftest;
mod shared;
mod sleepable;
mod stats;
pub mod torture;

pub use callbacks::{barrier, hasten};
pub use driver::{cookie, is_over, start, synchronize, synchronize_expedited};
pub use glance::{Former, Glance, Shown, glance};
pub use shared::{Found, Held, HeldSlot, Retire, Retiring, Shared, Slot, Weak};
pub use sleepable::Domain;
pub use stats::stats;

use crate::sched::preempt;
use crate::sched::preempt::Still;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use driver::want;

/// A reader: while it exists, the running thread is not preempted, and no element that it finds in a [`Slot`]
/// is freed. It must not sleep. Nests. Whoever leaks one and then sleeps breaks what the types promise; the
/// validator reports the sleep.
#[must_use]
pub struct Reader(PhantomData<*const ()>);

/// Begins to read. In any context but idle. A reader in an NMI handler has ended before what the NMI came
/// upon goes on and could report a quiescent state.
#[inline(always)]
pub fn read() -> Reader {
    preempt::disable();
    mark();
    crate::sched::context::must_watch();
    Reader(PhantomData)
}

/// A reader where preemption is off in any case.
#[must_use]
pub struct Within<'a>(ManuallyDrop<Reader>, PhantomData<&'a ()>);

impl Deref for Within<'_> {
    type Target = Reader;
    #[inline(always)]
    fn deref(&self) -> &Reader {
        &self.0
    }
}

/// Begins to read as [`read`] does, as long as `still` is there. It costs nothing.
#[inline(always)]
pub fn read_within<S: Still>(_still: &S) -> Within<'_> {
    mark();
    crate::sched::context::must_watch();
    Within(ManuallyDrop::new(Reader(PhantomData)), PhantomData)
}

/// Marks the place in the linked image. The build checks that no path leads here before the threshold has
/// established that the CPU is in the kernel (`limen_entry::token::InKernel`).
#[inline(always)]
fn mark() {
    // SAFETY: emits no instruction, only an address into a section that is not loaded.
    unsafe {
        core::arch::asm!(
            "773:",
            ".pushsection .noinstr.reader,\"\",%progbits",
            crate::arch::mark_address!("773b"),
            ".popsection",
            options(nomem, nostack, preserves_flags)
        )
    }
}

/// In builds with lock validation, reports a caller that can be preempted: its reader has ended.
#[inline(always)]
fn must_read() {
    #[cfg(feature = "lockdep")]
    if preempt::count() == 0 && crate::arch::irq::enabled() {
        crate::sched::context::complain("what RCU protects is used outside of a reader");
    }
}

impl Drop for Reader {
    #[inline(always)]
    fn drop(&mut self) {
        preempt::enable();
    }
}
