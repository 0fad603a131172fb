//! Which system calls a thread has: the native ABI's, or those of the architecture's old one
//! (`docs/oabi.md`); all of them, or those in a view (`docs/views.md`). Only the thread itself changes that.

use super::{CurrentTask, Task, current};
use crate::arch::AUDIT_ARCH;
use crate::arch::NATIVE_ABI;
use crate::arch::frame::Frame;
use crate::arch::syscalls::{self, COMPAT as COMPAT_ABI, OLD_ABI};
use crate::sync::SpinLock;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use limen_entry::{Frame as _, SyscallWork};

/// A thread's choice.
pub struct Calls {
    /// Its program is of the old ABI.
    old: AtomicBool,
    /// The calls that it has; `None`: all.
    view: SpinLock<Option<Arc<View>>>,
}

/// How many numbers a view has bits for: as many as the largest table.
pub const NUMBERS: usize = 512;

/// A view of the table: the calls that a thread has.
pub struct View {
    /// A bit for each number, of the native ABI's and the old one's alike.
    pub has: [u64; NUMBERS / 64],
    /// Another call is a signal, not `ENOSYS`.
    pub signals: bool,
}

impl View {
    /// Whether the call is in it. What is beyond the table is no matter of the table's.
    pub fn contains(&self, number: usize) -> bool {
        crate::arch::index::get(&self.has, number / 64).is_none_or(|word| word >> (number % 64) & 1 != 0)
    }
}

impl Calls {
    /// The native ABI's.
    pub const fn new() -> Self {
        Self {
            old: AtomicBool::new(false),
            view: SpinLock::new(None),
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
    if parent.info.work.syscall_work().contains(SyscallWork::VIEW) {
        let own = view(parent);
        *new.calls.view.lock() = own;
        new.info.work.set_syscall_work(SyscallWork::VIEW);
    }
}

/// The view that `task` has.
pub fn view(task: &Task) -> Option<Arc<View>> {
    task.calls.view.lock().clone()
}

/// From now on `task`, the running thread, has only what is in `new`, and was in its view before. It does not
/// get it back.
pub fn narrow(task: &CurrentTask, mut new: View) {
    if let Some(old) = view(task) {
        for (word, before) in new.has.iter_mut().zip(&old.has) {
            *word &= before;
        }
        new.signals |= old.signals;
    }
    let former = task.calls.view.lock().replace(Arc::new(new));
    drop(former);
    task.info.work.set_syscall_work(SyscallWork::VIEW);
}

/// The running thread, which has the bit, makes the call in `frame`: which one it is. `false`: that cannot
/// be read, and user mode makes the call again. May sleep.
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
    if syscalls::is_compat(frame) {
        arch_of::<true>(task, frame)
    } else {
        arch_of::<false>(task, frame)
    }
}

/// The same by who knows whether the call is one of the ABI of 32-bit programs (`COMPAT`).
pub fn arch_of<const COMPAT: bool>(task: &Task, frame: &Frame) -> u32 {
    match (COMPAT_ABI, OLD_ABI) {
        (Some(compat), _) if COMPAT => compat.audit_arch,
        (_, Some(old)) if is_old(task, frame) => old.audit_arch,
        _ => AUDIT_ARCH,
    }
}

/// Argument `n` (from 0) of the call, as [`arch_of`].
#[inline(always)]
pub fn arg<const COMPAT: bool>(frame: &Frame, n: usize) -> usize {
    if COMPAT {
        syscalls::call_arg(frame, n)
    } else {
        frame.arg(n)
    }
}

/// The place in its ABI's table of the call `number` of the ABI `arch`.
pub fn number_in(arch: u32, number: usize) -> usize {
    match OLD_ABI {
        Some(old) if arch == old.audit_arch => number.wrapping_sub(old.first),
        _ => number,
    }
}

/// Whether `arch` is the ABI of 32-bit programs whose calls 64-bit ones can make. All others have the native
/// ABI's names at the same places of their tables.
pub fn is_compat_arch(arch: u32) -> bool {
    COMPAT_ABI.is_some_and(|compat| compat.audit_arch == arch)
}

/// The names of that ABI, if there is one.
pub fn compat_names() -> Option<fn(usize) -> Option<&'static str>> {
    COMPAT_ABI.map(|compat| compat.numbers.name_of)
}

/// The place in its ABI's table of the call in `frame`, `task`'s, which is none of 32-bit programs. All other
/// ABIs have the same names there. `None`: it has a negative number.
pub fn in_table(task: &Task, frame: &Frame) -> Option<usize> {
    let number = usize::try_from(frame.syscall_number()).ok()?;
    Some(number_in(arch_of::<false>(task, frame), number))
}

/// The name of the call in `frame`, `task`'s, as [`arch_of`].
pub fn name<const COMPAT: bool>(task: &Task, frame: &Frame) -> Option<&'static str> {
    match compat_names() {
        Some(name_of) if COMPAT => name_of(usize::try_from(frame.syscall_number()).ok()?),
        _ => in_table(task, frame).and_then(NATIVE_ABI.name_of),
    }
}
