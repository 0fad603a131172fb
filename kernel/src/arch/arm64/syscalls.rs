//! System calls only this architecture has: none.

pub use super::one_abi::{OLD_ABI, find_call, is_old_call, program_is_old, was_not_made};

/// This file's system calls, by name.
pub const HANDLERS: &[(&str, crate::arch::Handler)] = &[];

/// A call with a number beyond the table: none.
pub fn private(_: &mut crate::arch::frame::Frame) -> Option<usize> {
    None
}

/// `prctl` options that only this architecture has: none.
pub fn prctl(_: &mut crate::arch::frame::Frame, _: u32, _: usize) -> Result<usize, limen_linux_abi::Errno> {
    Err(limen_linux_abi::Errno::EINVAL)
}

/// Strict mode takes nothing but system calls from a thread.
pub fn enter_strict_mode() {}
