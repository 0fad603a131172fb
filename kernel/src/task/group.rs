//! Changing process groups and sessions.

use super::process::TREE;
use super::session::{ProcessGroup, Session, member_node};
use super::{ExitState, Process, current, pid};
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use limen_linux_abi::{Errno, SysResult};

/// The process with number `pid` in the caller's namespace; 0 means the caller's. A thread's id stands for
/// its process.
pub fn process_or_self(pid: i32) -> Result<Arc<Process>, Errno> {
    match pid {
        0 => Ok(current().process.clone()),
        _ => pid::find_process_here(pid)
            .or_else(|| pid::find_task_here(pid).map(|task| task.process.clone()))
            .ok_or(Errno::ESRCH),
    }
}

/// `setsid`: the caller leads a new session and a new group in it.
pub fn setsid() -> SysResult {
    let process = current().process.clone();
    let node = member_node(&process);
    let _tree = TREE.lock();
    if process.pgrp() == process.tgid || pid::find_group(process.tgid).is_some() {
        return Err(Errno::EPERM);
    }
    let session = Session::new(process.id());
    let group = ProcessGroup::new(process.id(), session);
    process.set_group(group, node);
    Ok(process.own_tgid as usize)
}

/// `setpgid`: moves the caller, or a child that has not called exec yet, into a group of the same session.
pub fn setpgid(pid: i32, pgid: i32) -> SysResult {
    if pgid < 0 || pgid == 0 && pid < 0 {
        return Err(Errno::EINVAL);
    }
    let me = current().process.clone();
    let target = match pid {
        0 => me.clone(),
        _ => pid::find_process_here(pid).ok_or(Errno::ESRCH)?,
    };
    let node = member_node(&target);
    let _tree = TREE.lock();
    let pgid = match pgid {
        0 => target.tgid,
        _ => pid::in_ns(&me.pid_ns, pgid),
    };
    if target.exit_state() == ExitState::Dead {
        return Err(Errno::ESRCH);
    }
    let mine = me.group();
    let theirs = target.group();
    if target.parent().is_some_and(|parent| Arc::ptr_eq(&parent, &me)) {
        if theirs.session.id != mine.session.id {
            return Err(Errno::EPERM);
        }
        if target.did_exec.load(Ordering::Relaxed) {
            return Err(Errno::EACCES);
        }
    } else if !Arc::ptr_eq(&target, &me) {
        return Err(Errno::ESRCH);
    }
    if theirs.session.id == target.tgid {
        return Err(Errno::EPERM);
    }
    let group = if pgid == target.tgid {
        match pid::find_group(pgid) {
            Some(group) => group,
            None => ProcessGroup::new(target.id(), theirs.session.clone()),
        }
    } else {
        pid::find_group(pgid)
            .filter(|group| group.members().next().is_some())
            .ok_or(Errno::EPERM)?
    };
    if group.session.id != mine.session.id {
        return Err(Errno::EPERM);
    }
    target.set_group(group, node);
    Ok(0)
}
