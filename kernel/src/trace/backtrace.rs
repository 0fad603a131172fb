//! Backtraces.

/// Prints the call chain of the caller.
pub fn print_here() {}
