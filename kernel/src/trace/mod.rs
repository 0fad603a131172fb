//! Looking at the kernel: symbols, backtraces, tracing.

/// Hexadecimal digits of an address.
pub const WORD_DIGITS: usize = 2 * size_of::<usize>();

pub mod backtrace;
pub mod symbols;
