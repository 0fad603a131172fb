//! The threshold between user and kernel, for every processor: what happens, and in which order, when a system call,
//! an interrupt, a fault or an NMI arrives, and when the kernel returns to user mode.
//!
//! An architecture's assembly saves all registers into a [`Frame`] and calls one function of the kernel, which calls
//! one function of this crate: [`syscall`], [`interrupt`], [`fault`], [`nmi`] or [`return_from_fork`]. All policy is here. What
//! the kernel does at each step it provides by implementing [`Kernel`]; dispatch is static and everything inlines, so a
//! hook that does nothing costs nothing.
//!
//! Order on the way in, interrupts off: architecture sanity, lock validator told, context tracking leaves user mode,
//! and only then code that may be traced. Order on the way out: the work loop until no flag is set, restartable
//! sequences once, then trace and validator told, context tracking enters user mode, last architecture step.
//! The tokens of [`token`] make a wrong order fail to compile.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

mod interrupt;
mod kernel;
mod syscall;
pub mod token;
mod user;
pub mod work;

pub use interrupt::{FaultIrqs, fault, interrupt, nmi};
pub use kernel::{Frame, Kernel, SyscallVerdict, TraceVerdict};
pub use syscall::{return_from_fork, syscall};
pub use user::{Interrupted, return_to_user};
pub use work::{SyscallWork, ThreadFlags, WorkWords};
