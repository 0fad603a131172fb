//! This CPU's interrupt flag (`MSR.EE`): interrupts are masked in reality, nothing is replayed.

pub use super::super::irq_calls::{
    enabled, local_disable, local_enable, local_restore, local_save, raw_save,
};
use super::hcall;
use super::spr::{self, MSR_EE, MSR_RI};
use core::arch::asm;

/// A hint inside a spinning loop: `yield`, for which `core::hint` has nothing here. QEMU lets another of its
/// processors run, without which one that holds a lock may never run under `-icount`.
#[inline(always)]
pub fn spin_hint() {
    // SAFETY: changes nothing.
    unsafe { asm!("or 27, 27, 27", options(nomem, nostack, preserves_flags)) }
}

/// The saved interrupt state (`MSR`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(usize);

impl Flags {
    /// Whether interrupts were on.
    #[inline(always)]
    pub fn enabled(self) -> bool {
        self.0 & MSR_EE != 0
    }
}

/// The state now.
#[inline(always)]
pub(in crate::arch) fn read() -> Flags {
    Flags(spr::msr())
}

/// Sets `EE` and `RI`, the two bits this form changes, from `msr`.
#[inline(always)]
fn set(msr: usize) {
    // SAFETY: masking interrupts only delays them; the caller says when they may arrive. Not `nomem`: memory
    // accesses must not move across.
    unsafe { asm!("mtmsrd {}, 1", in(reg) msr, options(nostack, preserves_flags)) }
}

/// Turns interrupts off, without telling the lock validator.
#[inline(always)]
pub fn raw_disable() {
    set(MSR_RI);
}

/// Turns interrupts on, without telling the lock validator.
#[inline(always)]
pub fn raw_enable() {
    // One instruction loads it if it is negative.
    set(!0 << 16 | MSR_EE | MSR_RI);
}

/// Turns interrupts off and returns the state before, without telling the lock validator. NMIs cannot be held
/// off.
#[inline(always)]
pub fn raw_save_nmis() -> Flags {
    raw_save()
}

/// Restores a saved state, without telling the lock validator.
#[inline(always)]
pub fn raw_restore(flags: Flags) {
    set(flags.0 | MSR_RI);
}

/// Turns interrupts on and sleeps until one arrives, without a gap in between (idle). Returns with interrupts
/// on.
pub fn enable_and_wait() {
    crate::sync::lockdep::irqs_on();
    // The hypervisor turns interrupts on, and comes back at once if one is pending.
    hcall::call(hcall::CEDE, 0, 0, 0, 0);
    raw_enable();
}
