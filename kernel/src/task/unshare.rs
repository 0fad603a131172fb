//! What a thread no longer shares with others: `unshare`, and the descriptors before exec and `close_range`.

use super::fork::CloneFlags;
use super::ns;
use super::{Process, Task, current, everyone, pid};
use crate::fs::FsContext;
use alloc::sync::Arc;
use limen_linux_abi::{Errno, SysResult};

/// Gives the running thread a descriptor table of its own: a copy, if another thread shares the table. If
/// none does, the table stays: dropping a table releases its record locks.
pub fn unshare_files() -> Result<(), Errno> {
    let task = current();
    let Some(files) = task.try_files() else {
        return Ok(());
    };
    // Other references may be temporary ones (`/proc`).
    let has = |other: Arc<Task>| !Arc::ptr_eq(&other, &task) && other.files_slot().holds(&files);
    if Arc::strong_count(&files) > 2 && pid::all_processes().any(|p| p.threads().any(has)) {
        drop(task.replace_files(Some(files.copy()?)));
    }
    Ok(())
}

/// Whether a thread of another process uses the directories and umask of `task`, which is the only thread of
/// its process.
pub fn shares_fs(task: &Task) -> bool {
    let Some(fs) = task.try_fs() else {
        return false;
    };
    let has = |other: Arc<Task>| !core::ptr::eq(&*other, task) && other.fs_slot().holds(&fs);
    Arc::strong_count(&fs) > 2 && everyone::sending().any(|p| p.threads().any(has))
}

/// Whether another process has the same `part` as that of the running thread.
fn shares<T>(task: &Task, part: fn(&Process) -> Option<Arc<T>>) -> bool {
    let Some(own) = part(&task.process) else {
        return false;
    };
    let has = |other: &Process| part(other).is_some_and(|theirs| Arc::ptr_eq(&theirs, &own));
    everyone::sending().any(|other| !Arc::ptr_eq(&other, &task.process) && has(&other))
}

/// Whether another thread has the memory of the running one.
pub fn shares_memory(task: &Task) -> bool {
    task.process.thread_count() > 1 || shares(task, Process::mm)
}

/// `unshare`: the caller gets its own copies of what it shared.
pub fn unshare(mut flags: CloneFlags) -> SysResult {
    use CloneFlags as F;
    let allowed = F::THREAD | F::FS | F::FILES | F::SIGHAND | F::VM | F::SYSVSEM | F::NAMESPACES | F::NEWTIME;
    if !(flags & !allowed).is_empty() {
        return Err(Errno::EINVAL);
    }
    if flags.contains(F::NEWUSER) {
        flags |= F::THREAD | F::FS;
    }
    if flags.contains(F::NEWNS) {
        flags |= F::FS;
    }
    let task = current();
    // A thread of several cannot do this without the others.
    if flags.intersects(F::THREAD | F::SIGHAND | F::VM) && task.process.thread_count() > 1
        || flags.intersects(F::SIGHAND | F::VM) && shares(&task, Process::actions)
        || flags.contains(F::VM) && shares(&task, Process::mm)
    {
        return Err(Errno::EINVAL);
    }
    let fs = match flags.contains(F::FS) {
        true => task.try_fs().map(|fs| FsContext::copy(&fs)),
        false => None,
    };
    let namespaces = match flags.intersects(ns::change::ALL) {
        true => Some(ns::change::for_unshare(&task, flags, fs.clone())?),
        false => None,
    };
    if flags.contains(F::FILES) {
        unshare_files()?;
    }
    // From here on nothing fails.
    if flags.contains(F::SYSVSEM) {
        super::adjustments::let_go(&task);
    }
    match namespaces {
        Some(namespaces) => namespaces.commit(&task),
        None if fs.is_some() => drop(task.replace_fs(fs)),
        None => {}
    }
    Ok(0)
}
