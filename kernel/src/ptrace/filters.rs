//! A tracee's seccomp filters.

use crate::mm::user::UserPtr;
use crate::task::creds::cap;
use crate::task::ptrace::Options;
use crate::task::seccomp::{Filter, Mode};
use crate::task::{Task, current};
use alloc::sync::Arc;
use limen_linux_abi::{Errno, SysResult};

/// `SECCOMP_FILTER_FLAG_LOG`.
const LOG: u64 = 2;

/// `PTRACE_O_SUSPEND_SECCOMP`: whether the running thread may turn the filters of others off. `EPERM`.
pub fn may_suspend() -> Result<(), Errno> {
    let me = current();
    let watched =
        me.seccomp.mode() != Mode::Disabled || me.trace.options().contains(Options::SUSPEND_SECCOMP);
    if watched || !me.creds().capable(cap::SYS_ADMIN) {
        return Err(Errno::EPERM);
    }
    Ok(())
}

/// `PTRACE_SECCOMP_GET_METADATA`: the flags of a filter, by its place from the oldest. `EACCES`; `EINVAL`:
/// the tracee has no filters; `ENOENT`: it has fewer.
pub fn metadata(task: &Arc<Task>, size: usize, at: usize) -> SysResult {
    let me = current();
    if !me.creds().capable(cap::SYS_ADMIN) || me.seccomp.mode() != Mode::Disabled {
        return Err(Errno::EACCES);
    }
    if size < size_of::<u64>() {
        return Err(Errno::EINVAL);
    }
    let place: u64 = UserPtr::new(at).read()?;
    let newest = task.seccomp.filter().ok_or(Errno::EINVAL)?;
    let place = usize::try_from(place).map_err(|_| Errno::ENOENT)?;
    let filter = newest.at(place).ok_or(Errno::ENOENT)?;
    let flags = if Filter::logs(filter) { LOG } else { 0 };
    let both = UserPtr::<u64>::new(at);
    if size < 2 * size_of::<u64>() {
        both.write(place as u64)?;
        return Ok(size_of::<u64>());
    }
    both.add(1).write(flags)?;
    Ok(2 * size_of::<u64>())
}
