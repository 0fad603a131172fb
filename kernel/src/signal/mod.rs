//! Signals: generation, delivery, masks, stops, alternate stacks.

#![allow(unused_imports)] // while the rooms are being furnished

pub mod info;
mod pending;
mod set;
mod state;

pub use info::SigInfo;
pub use pending::{Pending, Queued};
pub use set::*;
pub use state::{
    Action, ActionFlags, Actions, AltStack, DEFAULT, IGNORE, ProcessSignals, StopNews, TaskSignals,
};

use crate::arch::frame::Frame;
use crate::task::{Process, Task};
use alloc::sync::Arc;
use limen_linux_abi::Errno;

/// Delivers what is pending for the running thread before it returns to user mode; see `limen_entry::Kernel::signals`.
pub fn deliver_pending(frame: &mut Frame) {
    let _ = frame;
}

/// Sends a signal to a process: any of its threads that does not block it takes it.
pub fn send_to_process(process: &Arc<Process>, sig: u32, info: SigInfo) {
    let _ = (process, sig, info);
}

/// Sends a signal to one thread.
pub fn send_to_task(task: &Arc<Task>, sig: u32, info: SigInfo) {
    let _ = (task, sig, info);
}

/// Sends a signal to every process of a group. `ESRCH` if there is none.
pub fn send_to_pgrp(pgrp: i32, sig: u32, info: SigInfo) -> Result<(), Errno> {
    let _ = (pgrp, sig, info);
    Err(Errno::ESRCH)
}

/// A synchronous fault of the running thread (SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP): cannot be blocked or ignored.
pub fn force_fault(sig: u32, code: i32, addr: usize) {
    let _ = (sig, code, addr);
}
