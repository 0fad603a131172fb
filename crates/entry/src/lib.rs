//! The threshold between user and kernel, for every processor: what happens, and in which order, when a
//! system call, an interrupt, a fault or an NMI arrives, and when the kernel returns to user mode.
//!
//! An architecture's assembly saves all registers into a [`Frame`] and calls one function of the kernel,
//! which calls one function of this crate: [`syscall()`], [`interrupt()`], [`fault`], [`nmi`] or
//! [`return_from_fork`]. The order of all steps is decided here. What a step does is decided by the kernel,
//! which implements the traits that make up [`Kernel`]. Calls of these hooks are resolved at compile time and
//! inlined, so a hook that does nothing costs no instruction.
//!
//! On the way in, with interrupts off: the lock validator is told, context tracking leaves user mode, and
//! only then may code be traced. On the way out: the work loop runs until no flag is set, restartable
//! sequences are handled once, then tracers and validator are told and context tracking enters user mode.
//! Each step takes or returns a token of [`token`], so a wrong order does not compile.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

mod crossing;
mod frame;
mod hooks;
mod interrupt;
mod syscall;
pub mod token;
pub mod work;
mod work_loop;

pub use frame::{Cause, Frame};
pub use hooks::{CallWork, Crossing, Kernel, Observers, Processor, SyscallVerdict, ThreadWork, TraceVerdict};
pub use interrupt::{FaultIrqs, fault, interrupt, nmi};
pub use syscall::{return_from_fork, syscall};
pub use work::{SyscallWork, ThreadFlags, WorkWords};
