//! A tracee's seccomp filters.

use crate::mm::user::UserPtr;
use crate::task::creds::cap;
use crate::task::ptrace::Options;
use crate::task::seccomp::{Filter, Mode};
use crate::task::{Task, current};
use alloc::sync::Arc;
use limen_bpf::Insn;
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

/// Whether the running thread may look at the filters of others. `EACCES`.
fn may_look() -> Result<(), Errno> {
    let me = current();
    if !me.creds().capable(cap::SYS_ADMIN) || me.seccomp.mode() != Mode::Disabled {
        return Err(Errno::EACCES);
    }
    Ok(())
}

/// Calls `look` with a filter, by its place from the oldest. `EINVAL`: the tracee has no filters; `ENOENT`:
/// it has fewer.
fn with_filter<R>(task: &Arc<Task>, place: u64, look: impl FnOnce(&Filter) -> R) -> Result<R, Errno> {
    let newest = task.seccomp.filter().ok_or(Errno::EINVAL)?;
    let place = usize::try_from(place).map_err(|_| Errno::ENOENT)?;
    newest.at(place).map(look).ok_or(Errno::ENOENT)
}

/// `PTRACE_SECCOMP_GET_FILTER`: writes the instructions of a filter (`struct sock_filter`) to `to`, unless
/// that is 0; returns how many there are. `EACCES`; as [`with_filter`].
pub fn program(task: &Arc<Task>, place: usize, to: usize) -> SysResult {
    may_look()?;
    with_filter(task, place as u64, |filter| {
        let insns = filter.program().insns();
        if to != 0 {
            let at = UserPtr::<[u8; Insn::SIZE]>::new(to);
            for (n, insn) in insns.iter().enumerate() {
                at.add(n).write(insn.to_bytes())?;
            }
        }
        Ok(insns.len())
    })?
}

/// `PTRACE_SECCOMP_GET_METADATA`: the flags of a filter, by its place from the oldest. `EACCES`; as
/// [`with_filter`].
pub fn metadata(task: &Arc<Task>, size: usize, at: usize) -> SysResult {
    may_look()?;
    if size < size_of::<u64>() {
        return Err(Errno::EINVAL);
    }
    let place: u64 = UserPtr::new(at).read()?;
    let flags = with_filter(task, place, |filter| if filter.logs() { LOG } else { 0 })?;
    let both = UserPtr::<u64>::new(at);
    if size < 2 * size_of::<u64>() {
        both.write(place)?;
        return Ok(size_of::<u64>());
    }
    both.add(1).write(flags)?;
    Ok(2 * size_of::<u64>())
}
