//! System calls of an architecture that has one ABI for all its programs.

use super::frame::Frame;
use crate::arch::OldAbi;

/// There is no old ABI.
pub const OLD_ABI: Option<OldAbi> = None;

/// Whether a program with these flags and this entry point is of the old ABI.
pub fn program_is_old(_flags: u32, _entry: usize) -> Option<bool> {
    Some(false)
}

/// Which call of which ABI it is, is known.
pub fn find_call(_: &mut Frame) -> bool {
    true
}

/// Whether [`find_call`] could not find out which call it is.
pub fn was_not_made(_: &Frame) -> bool {
    false
}

/// Whether the call is one of the old ABI.
pub fn is_old_call(_: &Frame) -> bool {
    false
}
