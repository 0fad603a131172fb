//! Interrupts on and off as the kernel uses it: each architecture's `irq` with the lock validator told, and
//! what is made of that alike on all.

use super::imp::irq::{Flags, raw_disable, raw_enable, raw_restore, read};
use crate::sync::lockdep;

/// Whether interrupts are on.
#[inline(always)]
pub fn enabled() -> bool {
    read().enabled()
}

/// Turns interrupts off and returns the state before, without telling the lock validator.
#[inline(always)]
pub fn raw_save() -> Flags {
    let flags = read();
    raw_disable();
    flags
}

/// Turns interrupts off.
#[inline(always)]
pub fn local_disable() {
    raw_disable();
    lockdep::irqs_off();
}

/// Turns interrupts on.
#[inline(always)]
pub fn local_enable() {
    lockdep::irqs_on();
    raw_enable();
}

/// Turns interrupts off and returns the state before.
#[inline(always)]
pub fn local_save() -> Flags {
    let flags = raw_save();
    lockdep::irqs_off();
    flags
}

/// Restores a saved state.
#[inline(always)]
pub fn local_restore(flags: Flags) {
    if flags.enabled() {
        lockdep::irqs_on();
    }
    raw_restore(flags);
}
