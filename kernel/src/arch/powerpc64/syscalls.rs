//! System calls only this architecture has.

/// This file's system calls, by name.
pub const HANDLERS: &[(&str, crate::syscall::Handler)] = &[];
