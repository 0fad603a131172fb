//! Sockets. There are the local family and netlink so far; all others give `EAFNOSUPPORT`. Called by
//! `syscall/socket.rs` and `syscall/netlink.rs`.

#![forbid(unsafe_code)]

pub mod absent;
pub mod netlink;
pub mod unix;

/// Sockets can be made from now on. At boot.
pub fn init() {
    netlink::init();
}

/// `AF_UNIX`.
pub const AF_UNIX: u32 = 1;
