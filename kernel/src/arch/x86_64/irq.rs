//! This CPU's interrupt flag.

pub use super::super::irq_calls::{
    enabled, local_disable, local_enable, local_restore, local_save, raw_save,
};
use crate::sync::lockdep;
use core::arch::asm;

const RFLAGS_IF: usize = 1 << 9;

/// A hint inside a spinning loop.
pub use core::hint::spin_loop as spin_hint;

/// The saved interrupt state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(usize);

impl Flags {
    /// Whether interrupts were on.
    #[inline(always)]
    pub fn enabled(self) -> bool {
        self.0 & RFLAGS_IF != 0
    }
}

/// The state now.
#[inline(always)]
pub(in crate::arch) fn read() -> Flags {
    let flags: usize;
    // SAFETY: reads the flags; the stack use is balanced (no red zone in the kernel).
    unsafe { asm!("pushfq", "pop {}", out(reg) flags, options(nomem, preserves_flags)) }
    Flags(flags)
}

/// Turns interrupts off, without telling the lock validator.
#[inline(always)]
pub fn raw_disable() {
    // SAFETY: turning interrupts off is always allowed. It is a compiler barrier (no `nomem`).
    unsafe { asm!("cli", options(nostack, preserves_flags)) }
}

/// Turns interrupts on, without telling the lock validator.
#[inline(always)]
pub fn raw_enable() {
    // SAFETY: callers are where interrupts may be taken; the tables for them are in place before the first
    // call.
    unsafe { asm!("sti", options(nostack, preserves_flags)) }
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
    if flags.enabled() {
        raw_enable();
    }
}

/// Turns interrupts on and sleeps until one arrives, without a gap in between (idle). Returns with interrupts
/// on.
#[inline(always)]
pub fn enable_and_wait() {
    lockdep::irqs_on();
    // SAFETY: `sti` takes effect after the next instruction, so an interrupt cannot come between the two.
    unsafe { asm!("sti", "hlt", options(nostack, preserves_flags)) }
}

/// Halts this CPU for good.
pub(super) fn stop() -> ! {
    loop {
        local_disable();
        // SAFETY: halts with interrupts off.
        unsafe { asm!("hlt", options(nomem, nostack)) };
    }
}
