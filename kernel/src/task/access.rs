//! Who may look into whom (`ptrace_may_access`), and `kcmp`.

use super::{Task, creds::cap, current, find_task};
use crate::syscall::SysResult;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use limen_linux_abi::Errno;

/// Whether the running thread may look into `target` (memory, descriptors): the same ids all over and dumpable, or `CAP_SYS_PTRACE`.
/// `EPERM` if not.
pub fn may_trace(target: &Arc<Task>) -> Result<(), Errno> {
    let me = current();
    if Arc::ptr_eq(&me.process, &target.process) {
        return Ok(());
    }
    let (mine, theirs) = (me.creds(), target.creds());
    if mine.capable(cap::SYS_PTRACE) {
        return Ok(());
    }
    let same = [theirs.euid, theirs.suid, theirs.uid]
        .iter()
        .all(|&id| id == mine.uid)
        && [theirs.egid, theirs.sgid, theirs.gid]
            .iter()
            .all(|&id| id == mine.gid)
        && theirs.permitted & !mine.permitted == 0;
    if same && target.process.dumpable.load(Ordering::Relaxed) == 1 {
        Ok(())
    } else {
        Err(Errno::EPERM)
    }
}

/// `kcmp`: whether two threads share a resource. The order is that of addresses, as good as any.
pub fn compare(pid1: i32, pid2: i32, kind: u32, a: usize, b: usize) -> SysResult {
    let one = find_task(pid1).ok_or(Errno::ESRCH)?;
    let two = find_task(pid2).ok_or(Errno::ESRCH)?;
    may_trace(&one)?;
    may_trace(&two)?;
    fn address<T>(object: Option<Arc<T>>) -> usize {
        object.map_or(0, |object| Arc::as_ptr(&object).addr())
    }
    let (x, y) = match kind {
        // KCMP_FILE
        0 => {
            let file = |task: &Task, fd: usize| {
                task.try_files()
                    .ok_or(Errno::EBADF)?
                    .get_any(i32::try_from(fd).map_err(|_| Errno::EBADF)?)
            };
            (address(Some(file(&one, a)?)), address(Some(file(&two, b)?)))
        }
        // KCMP_VM
        1 => (address(one.mm()), address(two.mm())),
        // KCMP_FILES
        2 => (address(one.try_files()), address(two.try_files())),
        // KCMP_FS
        3 => (address(one.try_fs()), address(two.try_fs())),
        // KCMP_SIGHAND
        4 => {
            let actions = |task: &Task| task.process.signals.lock().actions.clone();
            (address(Some(actions(&one))), address(Some(actions(&two))))
        }
        // KCMP_IO: it does not exist apart from the process.
        5 => (
            address(Some(one.process.clone())),
            address(Some(two.process.clone())),
        ),
        // KCMP_SYSVSEM: nobody has any, which is the same for all.
        6 => (0, 0),
        _ => return Err(Errno::EINVAL),
    };
    Ok(match x.cmp(&y) {
        core::cmp::Ordering::Equal => 0,
        core::cmp::Ordering::Less => 1,
        core::cmp::Ordering::Greater => 2,
    })
}
