//! Clocks, timers and the timer interrupt.

/// Brings the room up.
pub fn init() {}

/// This CPU's timer event fired. Called by the architecture inside `threshold::interrupt`.
pub fn timer_interrupt() {}
