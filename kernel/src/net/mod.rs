//! Sockets. Only the local family exists yet; every other one is `EAFNOSUPPORT`. Called by `syscall/socket.rs`.

pub mod unix;
pub mod unix_file;

/// `AF_UNIX`.
pub const AF_UNIX: u32 = 1;
