//! Sockets. Only the local family exists yet; every other one is `EAFNOSUPPORT`. Called by `syscall/socket.rs`.

pub mod unix;

/// `AF_UNIX`.
pub const AF_UNIX: u32 = 1;
