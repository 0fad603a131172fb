//! The names of code and data, for backtraces and `/proc/kallsyms`. Where they are kept: `mm::symbols`.

pub use crate::mm::symbols::{Symbol, each_outside, table};
