//! The monotonic counter and this CPU's one-shot timer event.

/// Nanoseconds since boot, monotonic and the same on every CPU.
#[inline]
pub fn now_ns() -> u64 {
    0
}

/// Programs this CPU's event for `deadline_ns` (as [`now_ns`]; in the past: at once). `u64::MAX` turns it off. When it fires the architecture calls
/// `crate::time::timer_interrupt()` inside `threshold::interrupt`.
pub fn set_event(deadline_ns: u64) {
    let _ = deadline_ns;
}

/// What the vDSO needs to turn the counter into nanoseconds: `ns = (counter * mult) >> shift`, with `counter` readable in user mode.
pub fn clock_parameters() -> (u32, u32) {
    (1, 0)
}
