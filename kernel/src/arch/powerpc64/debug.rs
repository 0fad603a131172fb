//! Breakpoints and watchpoints of the processor: none.

/// A thread's.
#[derive(Debug)]
pub struct Registers;

impl Registers {
    /// None.
    pub const NONE: Self = Self;

    /// Whether there are any.
    pub fn is_used(&self) -> bool {
        false
    }

    /// Makes them this CPU's.
    pub fn load(&self) {}
}
