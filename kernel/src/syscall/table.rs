//! The native ABI's dispatch table, put together at compile time from the rooms' lists.

use super::{Call, Handler, SysResult};
use limen_linux_abi::Errno;

/// Longest table of any ABI.
const LEN: usize = 512;

/// Every list of handlers.
const LISTS: &[&[(&str, Handler)]] = &[
    crate::arch::syscalls::HANDLERS,
    super::futex::HANDLERS,
    super::mm::HANDLERS,
    super::sched::HANDLERS,
    super::time::HANDLERS,
];
