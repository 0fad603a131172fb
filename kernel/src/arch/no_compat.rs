//! System calls of an architecture whose 64-bit programs, if it has such, cannot make those of 32-bit ones.

use super::frame::Frame;
use super::switch::Context;
use crate::arch::CompatAbi;
use crate::signal::{CompatRestored, Delivery};
use limen_linux_abi::{Errno, Restart, SysResult};

/// There is no such ABI.
pub const COMPAT: Option<CompatAbi> = None;

/// Whether the call is one of that ABI.
#[inline(always)]
pub fn is_compat(_: &Frame) -> bool {
    false
}

/// Argument `n` (from 0) of the call.
#[inline(always)]
pub fn call_arg(frame: &Frame, n: usize) -> usize {
    frame.arg(n)
}

/// Makes it another one.
pub fn set_call_arg(frame: &mut Frame, n: usize, value: usize) {
    frame.set_arg(n, value);
}

/// Enters a handler that such a call has set: there are none.
pub fn setup_compat(_: &mut Frame, _: &Delivery<'_>, _: Option<usize>) -> Result<(), Errno> {
    Err(Errno::EFAULT)
}

/// Takes everything back from such a handler's frame: there are none.
pub fn restore_compat(_: &mut Frame, _: bool) -> Result<CompatRestored, Errno> {
    Err(Errno::EFAULT)
}

/// The frame of an exception has become that of a call: the kernel makes the call.
pub fn restart_in_user_mode(_: &mut Frame, _: Restart) {}

/// A segment that such a call gives a new thread: there are none.
#[derive(Clone, Copy, Debug)]
pub enum Segment {}

/// `clone`'s, read by such a call.
pub fn read_segment(_: usize) -> Result<Segment, Errno> {
    Err(Errno::EINVAL)
}

/// A new thread gets it.
pub fn give_segment(_: &mut Context, segment: &Segment) {
    match *segment {}
}

/// Nobody makes such calls.
pub fn set_thread_area(_: usize) -> SysResult {
    Err(Errno::ENOSYS)
}
pub use set_thread_area as get_thread_area;

/// The same.
pub fn compat_arch_prctl(_: i32, _: usize) -> SysResult {
    Err(Errno::ENOSYS)
}
