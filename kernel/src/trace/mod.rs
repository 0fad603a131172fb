//! Inspecting the kernel: symbols, backtraces, tracing.

#![forbid(unsafe_code)]

/// How many hexadecimal digits an address has.
pub const WORD_DIGITS: usize = 2 * size_of::<usize>();

pub mod backtrace;
pub mod point;
pub mod symbols;
