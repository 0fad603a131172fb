//! Linux's user-space ABI: errno, system call numbers per ABI, flags and structure layouts.
//!
//! Everything the kernel and user space must agree on to the byte lives here, so that the rest of the kernel can
//! use names. Layouts come from `linux-raw-sys` where it has them; numbers come from the `syscalls` crate.
//! Nothing here depends on the processor the crate is compiled for, except through `linux-raw-sys`, whose
//! definitions follow the compilation target.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

pub mod errno;
pub mod sysno;

pub use errno::{Errno, Restart};
pub use linux_raw_sys as raw;
