//! The monotonic counter and this CPU's one-shot timer event: the architected virtual timer.

use super::sysreg;
use core::sync::atomic::{AtomicU64, Ordering};

/// Nanoseconds per counter step, 32.32 fixed point.
static TO_NS: AtomicU64 = AtomicU64::new(0);
/// Counter steps per nanosecond, 32.32 fixed point.
static TO_STEPS: AtomicU64 = AtomicU64::new(0);

const ENABLE: u64 = 1;

/// Reads the counter's frequency. Called when the console works, long before anyone needs the time.
pub(super) fn init() {
    let frequency = sysreg::read!("cntfrq_el0").max(1);
    TO_NS.store(
        ((1_000_000_000u128 << 32) / u128::from(frequency)) as u64,
        Ordering::Relaxed,
    );
    TO_STEPS.store(
        ((u128::from(frequency) << 32) / 1_000_000_000) as u64,
        Ordering::Relaxed,
    );
}

/// `CNTVCT_EL0`, not read early.
#[inline(always)]
fn counter() -> u64 {
    sysreg::isb();
    sysreg::read!("cntvct_el0")
}

#[inline(always)]
fn scale(value: u64, factor: u64) -> u64 {
    ((u128::from(value) * u128::from(factor)) >> 32) as u64
}

/// Nanoseconds since boot, monotonic and the same on every CPU. (The counter starts at zero with the machine.)
#[inline]
pub fn now_ns() -> u64 {
    scale(counter(), TO_NS.load(Ordering::Relaxed))
}

/// Programs this CPU's event for `deadline_ns` (as [`now_ns`]; in the past: at once). `u64::MAX` turns it off. When it fires the architecture calls
/// `crate::time::timer_interrupt()` inside `threshold::interrupt`.
pub fn set_event(deadline_ns: u64) {
    // SAFETY: this CPU's own timer; its interrupt is handled.
    unsafe {
        if deadline_ns == u64::MAX {
            sysreg::write!("cntv_ctl_el0", 0u64);
        } else {
            let steps = scale(deadline_ns, TO_STEPS.load(Ordering::Relaxed)).saturating_add(1);
            sysreg::write!("cntv_cval_el0", steps);
            sysreg::write!("cntv_ctl_el0", ENABLE);
        }
    }
    sysreg::isb();
}

/// The timer's interrupt: quiet until the next event is set.
pub(super) fn interrupt() {
    // SAFETY: as above.
    unsafe { sysreg::write!("cntv_ctl_el0", 0u64) }
    sysreg::isb();
    crate::time::timer_interrupt();
}

/// What the vDSO needs to turn the counter (`cntvct_el0`, readable in user mode) into nanoseconds: its value at time zero, and
/// nanoseconds per step as 32.32 fixed point.
pub fn clock_parameters() -> (u64, u64) {
    (0, TO_NS.load(Ordering::Relaxed))
}
