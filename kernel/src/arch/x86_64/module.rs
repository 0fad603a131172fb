//! What loading modules needs of this processor.

pub use limen_module::X86_64 as Format;

pub use super::helper::Helper;

/// What the compiler calls without being asked: nothing of its own.
pub const HELPERS: &[(&str, Helper)] = &[];
