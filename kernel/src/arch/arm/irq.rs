//! This CPU's interrupt flag (`CPSR.I`). FIQs are NMIs (`arm_common/gic.rs`): they go on with the first
//! interrupts and are hardly ever masked again. Asynchronous aborts stay masked.

pub use super::super::irq_calls::{
    enabled, local_disable, local_enable, local_restore, local_save, raw_save,
};
use core::arch::asm;

/// A hint inside a spinning loop.
pub use core::hint::spin_loop as spin_hint;

/// The saved interrupt state (`CPSR`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(usize);

impl Flags {
    /// Whether interrupts were on.
    #[inline(always)]
    pub fn enabled(self) -> bool {
        self.0 & super::frame::PSR_I == 0
    }
}

/// Turns interrupts off, without telling the lock validator.
#[inline(always)]
pub fn raw_disable() {
    // SAFETY: masking interrupts only delays them. Not `nomem`: memory accesses must not move across.
    unsafe { asm!("cpsid i", options(nostack, preserves_flags)) }
}

/// Turns interrupts on, without telling the lock validator. An FIQ that came in the first instructions of an
/// exception has masked itself there, and comes now.
#[inline(always)]
pub fn raw_enable() {
    // SAFETY: the caller says interrupts may arrive here.
    unsafe { asm!("cpsie if", options(nostack, preserves_flags)) }
}

/// Turns interrupts and FIQs off and returns the state before, without telling the lock validator.
#[inline(always)]
pub fn raw_save_nmis() -> Flags {
    let flags = read();
    // SAFETY: as in `raw_disable`.
    unsafe { asm!("cpsid if", options(nostack, preserves_flags)) }
    flags
}

/// The state now.
#[inline(always)]
pub(in crate::arch) fn read() -> Flags {
    let cpsr: usize;
    // SAFETY: only reads the flags.
    unsafe { asm!("mrs {}, cpsr", out(reg) cpsr, options(nomem, nostack, preserves_flags)) }
    Flags(cpsr)
}

/// Restores a saved state, without telling the lock validator.
#[inline(always)]
pub fn raw_restore(flags: Flags) {
    // SAFETY: `flags` came from `raw_save` on this CPU. Only the control byte: the conditions are the
    // compiler's.
    unsafe { asm!("msr cpsr_c, {}", in(reg) flags.0, options(nostack, preserves_flags)) }
}

/// The processor's mode.
#[inline(always)]
pub(super) fn mode() -> usize {
    read().0 & super::frame::PSR_MODE_MASK
}

/// Turns interrupts on and sleeps until one arrives, without a gap in between (idle). Returns with interrupts
/// on.
pub fn enable_and_wait() {
    // A masked interrupt still ends `wfi`, so an interrupt that came since the caller's last look ends it at
    // once.
    super::sysreg::wfi();
    local_enable();
}
