//! Looking at the kernel: symbols, backtraces, tracing.

pub mod backtrace;
pub mod symbols;
