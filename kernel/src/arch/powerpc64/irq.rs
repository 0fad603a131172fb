//! This CPU's interrupt flag (`MSR.EE`): interrupts are masked in reality, nothing is replayed.

pub use super::super::irq_calls::{local_disable, local_enable, local_restore, local_save};
use super::hcall;
use super::spr::{self, MSR_EE, MSR_RI};
use core::arch::asm;

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

/// Sets `EE` and `RI`, the two bits this form changes, from `msr`.
#[inline(always)]
fn set(msr: usize) {
    // SAFETY: masking interrupts only delays them; the caller says when they may arrive. Not `nomem`: memory accesses must not move across.
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

/// Turns interrupts off and returns the state before, without telling the lock validator.
#[inline(always)]
pub fn raw_save() -> Flags {
    let flags = Flags(spr::msr());
    raw_disable();
    flags
}

/// Restores a saved state, without telling the lock validator.
#[inline(always)]
pub fn raw_restore(flags: Flags) {
    set(flags.0 | MSR_RI);
}

/// Whether interrupts are on.
#[inline(always)]
pub fn enabled() -> bool {
    Flags(spr::msr()).enabled()
}

/// Turns interrupts on and sleeps until one arrives, without a gap in between (idle). Returns with interrupts on.
pub fn enable_and_wait() {
    crate::sync::lockdep::irqs_on();
    // The hypervisor turns interrupts on, and comes back at once if one is pending.
    hcall::call(hcall::CEDE, 0, 0, 0, 0);
    raw_enable();
}

/// A hint inside a spinning loop.
#[inline(always)]
pub fn spin_hint() {
    core::hint::spin_loop()
}
