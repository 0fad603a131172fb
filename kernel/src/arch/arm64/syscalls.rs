//! System calls only this architecture has: none.

/// This file's system calls, by name.
pub const HANDLERS: &[(&str, crate::syscall::Handler)] = &[];
