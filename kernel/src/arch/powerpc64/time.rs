//! The monotonic counter (the time base) and this CPU's one-shot timer event (the decrementer).

use super::vdso::counter;
use super::{cpus, devicetree, spr};
use crate::sync::MAX_CPUS;
use core::sync::atomic::{AtomicU64, Ordering};
use limen_vdso::scale::{mult_for, scale};

/// Nanoseconds per time base step, 32.32 fixed point.
static TO_NS: AtomicU64 = AtomicU64::new(0);
/// Time base steps per nanosecond, 32.32 fixed point.
static TO_STEPS: AtomicU64 = AtomicU64::new(0);
/// Steps per second.
static FREQUENCY: AtomicU64 = AtomicU64::new(512_000_000);
/// When each CPU's event is due, in steps.
static DUE: [AtomicU64; MAX_CPUS] = [const { AtomicU64::new(u64::MAX) }; MAX_CPUS];

/// The longest the decrementer counts: an event further away is armed again. The least it has is 32 bits.
static LONGEST: AtomicU64 = AtomicU64::new(0x7fff_ffff);

/// Reads the frequency. Called when the devicetree is there, long before anyone needs the time.
pub(super) fn init() {
    if let Some(frequency @ 1..) = devicetree::of_cpus("timebase-frequency") {
        FREQUENCY.store(frequency, Ordering::Relaxed);
    }
    if let Some(bits @ 33..=64) = devicetree::of_cpus("ibm,dec-bits") {
        LONGEST.store(u64::MAX >> (65 - bits), Ordering::Relaxed);
    }
    let frequency = frequency();
    TO_NS.store(mult_for(frequency), Ordering::Relaxed);
    TO_STEPS.store(
        ((u128::from(frequency) << 32) / 1_000_000_000) as u64,
        Ordering::Relaxed,
    );
}

/// Time base steps per second.
pub(super) fn frequency() -> u64 {
    FREQUENCY.load(Ordering::Relaxed)
}

/// Nanoseconds since boot, monotonic and the same on every CPU. (The time base starts at zero with the
/// machine.)
#[inline]
pub fn now_ns() -> u64 {
    scale(counter(), TO_NS.load(Ordering::Relaxed))
}

/// The time base itself.
#[inline(always)]
pub fn cycles() -> u64 {
    counter()
}

/// The time base as a clock of traces.
pub const COUNTER: Option<(&str, fn() -> u64)> = Some(("ppc-tb", || counter()));

fn arm(due: u64) {
    let steps = due.saturating_sub(counter()).min(LONGEST.load(Ordering::Relaxed));
    // SAFETY: this CPU's own timer; its interrupt is handled.
    unsafe { spr::write!(spr::DEC, steps) }
}

/// Programs this CPU's event for `deadline_ns` (as [`now_ns`]; in the past: at once). `u64::MAX` turns it
/// off. When it fires, the architecture calls `crate::arch::above::timer_interrupt()` inside
/// `threshold::interrupt`.
pub fn set_event(deadline_ns: u64) {
    let due = if deadline_ns == u64::MAX {
        u64::MAX
    } else {
        scale(deadline_ns, TO_STEPS.load(Ordering::Relaxed)).saturating_add(1)
    };
    DUE[cpus::cpu_id()].store(due, Ordering::Relaxed);
    arm(due);
}

/// The decrementer's interrupt: quiet until the next event is set.
pub(super) fn interrupt() {
    let due = &DUE[cpus::cpu_id()];
    let at = due.load(Ordering::Relaxed);
    if at > counter() {
        arm(at);
        return;
    }
    due.store(u64::MAX, Ordering::Relaxed);
    arm(u64::MAX);
    crate::arch::above::timer_interrupt();
}

/// What the vDSO needs to turn the counter (the time base, readable in user mode) into nanoseconds: its value
/// at time zero, and nanoseconds per step as 32.32 fixed point.
pub fn clock_parameters() -> (u64, u64) {
    (0, TO_NS.load(Ordering::Relaxed))
}
