//! System calls only this architecture has: none.

pub use super::no_compat::{
    COMPAT, Segment, call_arg, compat_arch_prctl, get_thread_area, give_segment, is_compat, read_segment,
    restart_in_user_mode, set_call_arg, set_thread_area,
};
pub use super::one_abi::{OLD_ABI, find_call, is_old_call, program_is_old, was_not_made};
use super::vectors;
use limen_linux_abi::Errno;

/// This file's system calls, by name.
pub const HANDLERS: &[(&str, crate::arch::Handler)] = &[];

/// A call with a number beyond the table: none.
pub fn private(_: &mut crate::arch::frame::Frame) -> Option<usize> {
    None
}

/// `prctl` options that only this architecture has: the length of SVE's vectors.
pub fn prctl(_: &mut crate::arch::frame::Frame, option: u32, arg: usize) -> Result<usize, Errno> {
    const SVE_SET_VL: u32 = 50;
    const SVE_GET_VL: u32 = 51;
    match option {
        SVE_SET_VL => vectors::set_running_length(arg),
        SVE_GET_VL => vectors::get_running_length(),
        _ => Err(Errno::EINVAL),
    }
}

/// Strict mode takes nothing but system calls from a thread.
pub fn enter_strict_mode() {}
