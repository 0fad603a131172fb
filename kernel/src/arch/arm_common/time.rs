//! The monotonic counter and this CPU's one-shot timer event: the architected virtual timer.

use super::sysreg;
use core::sync::atomic::{AtomicU64, Ordering};
use limen_vdso::scale::{mult_for, scale};

/// Nanoseconds per counter step, 32.32 fixed point.
static TO_NS: AtomicU64 = AtomicU64::new(0);
/// Counter steps per nanosecond, 32.32 fixed point.
static TO_STEPS: AtomicU64 = AtomicU64::new(0);

const ENABLE: u64 = 1;

/// Reads the counter's frequency. Called when the console works, long before anyone needs the time.
pub(super) fn init() {
    let frequency = sysreg::counter_frequency().max(1);
    TO_NS.store(mult_for(frequency), Ordering::Relaxed);
    TO_STEPS.store(
        ((u128::from(frequency) << 32) / 1_000_000_000) as u64,
        Ordering::Relaxed,
    );
}

/// Nanoseconds since boot, monotonic and the same on every CPU. (The counter starts at zero with the
/// machine.)
#[inline]
pub fn now_ns() -> u64 {
    scale(sysreg::counter(), TO_NS.load(Ordering::Relaxed))
}

/// The counter, maybe read early.
#[inline(always)]
pub fn cycles() -> u64 {
    sysreg::counter()
}

/// Linux has no clock of traces that is the counter.
pub const COUNTER: Option<(&str, fn() -> u64)> = None;

/// Programs this CPU's event for `deadline_ns` (as [`now_ns`]; in the past: at once). `u64::MAX` turns it
/// off. When it fires, the architecture calls `crate::arch::above::timer_interrupt()` inside
/// `threshold::interrupt`.
pub fn set_event(deadline_ns: u64) {
    if deadline_ns == u64::MAX {
        sysreg::set_timer_control(0);
    } else {
        let steps = scale(deadline_ns, TO_STEPS.load(Ordering::Relaxed)).saturating_add(1);
        sysreg::set_timer_compare(steps);
        sysreg::set_timer_control(ENABLE);
    }
}

/// The timer's interrupt: quiet until the next event is set.
pub(super) fn interrupt() {
    sysreg::set_timer_control(0);
    crate::arch::above::timer_interrupt();
}

/// What the vDSO needs to turn the counter (readable in user mode) into nanoseconds: its value at time zero,
/// and nanoseconds per step as 32.32 fixed point.
pub fn clock_parameters() -> (u64, u64) {
    (0, TO_NS.load(Ordering::Relaxed))
}
