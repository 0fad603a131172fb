//! Linux's user-space ABI: errno, system call numbers per ABI, flags and structure layouts.
//!
//! Everything on which the kernel and programs must agree to the byte is here, so that the rest of the kernel
//! can use names. What differs between ABIs is in [`abi`], a module for each. What is the same everywhere,
//! and the flags of `open`, come from `linux-raw-sys`; system call numbers come from the `syscalls` crate.
//! Nothing here depends on the processor for which the crate is compiled, except `linux-raw-sys`, which
//! follows the target, and the choice of [`native`].

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

pub mod abi;
pub mod errno;
pub mod id;
pub mod sysno;

pub use abi::{EpollLayout, FileStatus, FsStatus, Layout, LockRequest, SystemInfo, native};
pub use errno::{Errno, Restart, SysResult};
pub use linux_raw_sys as raw;
