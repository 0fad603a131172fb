//! Sockets. There is only the local family so far; all others give `EAFNOSUPPORT`. Called by
//! `syscall/socket.rs`.

#![forbid(unsafe_code)]

pub mod absent;
pub mod unix;

/// `AF_UNIX`.
pub const AF_UNIX: u32 = 1;
