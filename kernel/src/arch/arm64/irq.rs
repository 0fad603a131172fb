//! This CPU's interrupt flag (`PSTATE.I`). SError and FIQs, which are NMIs (`arm_common/gic.rs`), are unmasked
//! together with interrupts and stay so until the next exception. Debug exceptions are never used by the
//! kernel and stay masked.

pub use super::super::irq_calls::{
    enabled, local_disable, local_enable, local_restore, local_save, raw_save,
};
use core::arch::asm;

/// A hint inside a spinning loop.
pub use core::hint::spin_loop as spin_hint;

/// The saved interrupt state (`DAIF`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(usize);

impl Flags {
    /// Whether interrupts were on.
    #[inline(always)]
    pub fn enabled(self) -> bool {
        self.0 & super::frame::PSTATE_I == 0
    }
}

/// Turns interrupts off, without telling the lock validator.
#[inline(always)]
pub fn raw_disable() {
    // SAFETY: masking interrupts only delays them. Not `nomem`: memory accesses must not move across.
    unsafe { asm!("msr daifset, #2", options(nostack, preserves_flags)) }
}

/// Turns interrupts on, without telling the lock validator.
#[inline(always)]
pub fn raw_enable() {
    // SAFETY: the caller says interrupts may arrive here.
    unsafe { asm!("msr daifclr, #7", options(nostack, preserves_flags)) }
}

/// Turns interrupts and FIQs off and returns the state before, without telling the lock validator.
#[inline(always)]
pub fn raw_save_nmis() -> Flags {
    let flags = read();
    // SAFETY: as in `raw_disable`.
    unsafe { asm!("msr daifset, #3", options(nostack, preserves_flags)) }
    flags
}

/// The state now.
#[inline(always)]
pub(in crate::arch) fn read() -> Flags {
    let daif: usize;
    // SAFETY: only reads the flags.
    unsafe { asm!("mrs {}, daif", out(reg) daif, options(nomem, nostack, preserves_flags)) }
    Flags(daif)
}

/// Restores a saved state, without telling the lock validator.
#[inline(always)]
pub fn raw_restore(flags: Flags) {
    // SAFETY: `flags` came from `raw_save` on this CPU.
    unsafe { asm!("msr daif, {}", in(reg) flags.0, options(nostack, preserves_flags)) }
}

/// Turns interrupts on and sleeps until one arrives, without a gap in between (idle). Returns with interrupts
/// on.
pub fn enable_and_wait() {
    // A masked interrupt still ends `wfi`, so an interrupt that came since the caller's last look ends it at
    // once.
    // SAFETY: waiting for an interrupt has no other effect.
    unsafe { asm!("dsb sy", "wfi", options(nostack, preserves_flags)) }
    local_enable();
}
