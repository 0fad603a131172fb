//! Who may look into whom (`ptrace_may_access`), and `kcmp`.

use super::creds::{Creds, cap};
use super::{Process, Task, current, find_task};
use crate::mm::AddressSpace;
use crate::syscall::SysResult;
use alloc::sync::Arc;
use limen_linux_abi::Errno;

/// As whom the running thread asks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// As it reaches files (`PTRACE_MODE_FSCREDS`).
    Files,
    /// By its real ids (`PTRACE_MODE_REALCREDS`).
    Real,
}

/// Whether the running thread may look into `process` that acts as `theirs` and has the memory `mm`: the same ids all over, no capability
/// that the caller has not, and dumpable; or `CAP_SYS_PTRACE`. `EPERM` if not. `theirs` are asked for after `mm`, and `mm` is asked after that: exec says first who may look into the new
/// memory and lets it be found then, a program that gives ids up closes its memory before that shows.
pub fn may_look(
    process: &Arc<Process>,
    theirs: &Creds,
    mm: Option<&Arc<AddressSpace>>,
    by: By,
) -> Result<(), Errno> {
    let me = current();
    let mine = me.creds();
    if Arc::ptr_eq(&me.process, process) || mine.capable(cap::SYS_PTRACE) {
        return Ok(());
    }
    let (uid, gid, caps) = match by {
        By::Files => (mine.fsuid, mine.fsgid, mine.effective),
        By::Real => (mine.uid, mine.gid, mine.permitted),
    };
    let same = [theirs.uid, theirs.euid, theirs.suid] == [uid; 3]
        && [theirs.gid, theirs.egid, theirs.sgid] == [gid; 3]
        && theirs.permitted & !caps == 0;
    if same && mm.is_none_or(|mm| mm.dumpable()) {
        Ok(())
    } else {
        Err(Errno::EPERM)
    }
}

/// What `take` gets out of `target`, given its memory: if the running thread may look into it, else `EPERM`.
///
/// It is taken first and asked for afterwards, and all of it again if `target` executed another program meanwhile: what comes out belonged to the
/// program that was asked about.
pub fn look<T>(
    target: &Arc<Task>,
    by: By,
    mut take: impl FnMut(Option<&Arc<AddressSpace>>) -> T,
) -> Result<T, Errno> {
    let place = |mm: &Option<Arc<AddressSpace>>| mm.as_ref().map(Arc::as_ptr);
    loop {
        let mm = target.mm();
        let taken = take(mm.as_ref());
        may_look(&target.process, &target.creds(), mm.as_ref(), by)?;
        if place(&target.mm()) == place(&mm) {
            return Ok(taken);
        }
    }
}

/// `kcmp`: whether two threads share a resource. The order is that of addresses, as good as any.
pub fn compare(pid1: i32, pid2: i32, kind: u32, a: usize, b: usize) -> SysResult {
    let one = find_task(pid1).ok_or(Errno::ESRCH)?;
    let two = find_task(pid2).ok_or(Errno::ESRCH)?;
    look(&one, By::Real, |_| ())?;
    look(&two, By::Real, |_| ())?;
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
