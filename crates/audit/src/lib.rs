//! Audit (`linux/audit.h`): rules as `auditctl` hands them over, which calls of whom they mean, status and
//! features, what records tell of files and arguments, and how texts stand in them. The kernel knows threads
//! and files; all decisions about rules are here.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod arguments;
mod class;
pub mod field;
mod matching;
pub mod names;
mod rule;
mod status;
pub mod text;

pub use class::Classes;
pub use matching::{Facts, Ids, succeeded};
pub use rule::{Action, List, Rule};
pub use status::{Features, Rate, STATUS_SIZE, Status, TtyStatus, feature, set};

/// Why a rule is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// `EINVAL`.
    Invalid,
    /// `ENAMETOOLONG`: a text is longer than a path can be.
    LongText,
    /// There is no memory.
    NoMemory,
}
