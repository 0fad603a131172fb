//! Whose system calls a thread makes: the native ABI's, or those of the architecture's old one
//! (`docs/oabi.md`). Only the thread itself changes that.

use super::{CurrentTask, Task, current};
use crate::arch::AUDIT_ARCH;
use crate::arch::frame::Frame;
use crate::arch::syscalls::{self, OLD_ABI};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use limen_entry::{Frame as _, SyscallWork};

/// A thread's choice.
pub struct Calls {
    /// Its program is of the old ABI.
    old: AtomicBool,
}

impl Calls {
    /// The native ABI's.
    pub const fn new() -> Self {
        Self {
            old: AtomicBool::new(false),
        }
    }
}

/// exec by `task`, the running thread: the new program is of the old ABI, or not.
pub fn begin_program(task: &CurrentTask, old: bool) {
    task.calls.old.store(old, Relaxed);
    if old {
        task.info.work.set_syscall_work(SyscallWork::OLD_ABI);
    }
    // Else the bit, if there is one, goes with the next call: this one ends as what it began as.
}

/// A new thread, which nobody has seen yet, makes the calls that `parent` makes.
pub(super) fn inherit(parent: &Task, new: &Task) {
    if parent.calls.old.load(Relaxed) {
        new.calls.old.store(true, Relaxed);
        new.info.work.set_syscall_work(SyscallWork::OLD_ABI);
    }
}

/// The running thread, which has the bit, makes the call in `frame`: which one it is. `false`: that cannot be
/// read, and user mode makes the call again. May sleep.
#[cold]
pub fn find(frame: &mut Frame) -> bool {
    let task = current();
    if !task.calls.old.load(Relaxed) {
        task.info.work.clear_syscall_work(SyscallWork::OLD_ABI);
        return true;
    }
    syscalls::find_call(frame)
}

/// Whether the call in `frame`, `task`'s, is one of the old ABI.
pub fn is_old(task: &Task, frame: &Frame) -> bool {
    OLD_ABI.is_some()
        && task.info.work.syscall_work().contains(SyscallWork::OLD_ABI)
        && syscalls::is_old_call(frame)
}

/// `AUDIT_ARCH_*` of the call in `frame`, `task`'s.
pub fn audit_arch(task: &Task, frame: &Frame) -> u32 {
    match OLD_ABI {
        Some(old) if is_old(task, frame) => old.audit_arch,
        _ => AUDIT_ARCH,
    }
}

/// The place in its ABI's table of the call `number` of the ABI `arch`.
pub fn number_in(arch: u32, number: usize) -> usize {
    match OLD_ABI {
        Some(old) if arch == old.audit_arch => number.wrapping_sub(old.first),
        _ => number,
    }
}

/// The place in its ABI's table of the call in `frame`, `task`'s. Both ABIs have the same names there. `None`:
/// it has a negative number.
pub fn in_table(task: &Task, frame: &Frame) -> Option<usize> {
    let number = usize::try_from(frame.syscall_number()).ok()?;
    Some(number_in(audit_arch(task, frame), number))
}
