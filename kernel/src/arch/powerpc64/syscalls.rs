//! System calls only this architecture has.

/// This file's system calls, by name.
pub const HANDLERS: &[(&str, crate::syscall::Handler)] = &[];

/// A call with a number beyond the table: none.
pub fn private(_: &mut crate::arch::frame::Frame) -> Option<usize> {
    None
}
