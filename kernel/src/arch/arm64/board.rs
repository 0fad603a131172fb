//! Machines without firmware: none.

/// Looks for what the board has.
pub fn init() {}

/// Starts a CPU at physical `entry`, if this is such a machine.
pub fn start(_cpu: usize, _entry: u64) -> bool {
    false
}

/// Turns it off, if this is one.
pub fn power_off() {}

/// Restarts it, if this is one.
pub fn reset() {}
