//! Linux's user-space ABI: errno, system call numbers per ABI, flags and structure layouts.
//!
//! Everything the kernel and user space must agree on to the byte lives here, so that the rest of the kernel can
//! use names. What differs between ABIs is in [`abi`], a module each; what is the same everywhere, and the flags of `open`, come from
//! `linux-raw-sys`, system call numbers from the `syscalls` crate. Nothing here depends on the processor the crate is compiled for,
//! except `linux-raw-sys`, whose definitions follow the compilation target, and the one choice of [`native`].

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

pub mod abi;
pub mod errno;
pub mod sysno;

pub use abi::{FileStatus, FsStatus, Layout, LockRequest, SystemInfo, native};
pub use errno::{Errno, Restart};
pub use linux_raw_sys as raw;
