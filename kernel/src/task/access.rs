//! Which thread may inspect which process (Linux: `ptrace_may_access`), which may signal which, and `kcmp`.

use super::creds::{Creds, cap};
use super::ns::user::{self, UserNs, UserRef};
use super::{Process, Task, current, pid};
use crate::fs::{File, epoll};
use crate::mm::AddressSpace;
use crate::mm::user::UserPtr;
use crate::signal::SIGCONT;
use alloc::sync::Arc;
use limen_linux_abi::{Errno, SysResult};

/// With which ids of the running thread its right is checked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// Those for access to files (`PTRACE_MODE_FSCREDS`).
    Files,
    /// The real ones (`PTRACE_MODE_REALCREDS`).
    Real,
}

/// Whether the running thread may inspect `process`, which has the credentials `theirs` and the memory `mm`.
/// It may if all ids are the same, `theirs` has no capability that the caller lacks, and `mm` is dumpable; or
/// with `CAP_SYS_PTRACE` in their user namespace and, if `mm` is not dumpable, in the one that `mm` was made
/// in. Else `EPERM`.
///
/// The caller must read `mm` before `theirs`; whether `mm` is dumpable is read here, last. That order is safe
/// because exec marks the new memory before anyone can find it, and a program that gives up ids makes its
/// memory undumpable before the new ids can be seen.
pub fn may_look(
    process: &Arc<Process>,
    theirs: &Creds,
    mm: Option<&Arc<AddressSpace>>,
    by: By,
) -> Result<(), Errno> {
    let me = current();
    let mine = me.creds();
    if Arc::ptr_eq(&me.process, process) {
        return Ok(());
    }
    let (uid, gid, caps) = match by {
        By::Files => (mine.fsuid, mine.fsgid, mine.effective),
        By::Real => (mine.uid, mine.gid, mine.permitted),
    };
    let same = [theirs.uid, theirs.euid, theirs.suid] == [uid; 3]
        && [theirs.gid, theirs.egid, theirs.sgid] == [gid; 3]
        && user::is_same(&theirs.user, &mine.user)
        && theirs.permitted & !caps == 0;
    let may = same || mine.capable_in(&theirs.user, cap::SYS_PTRACE);
    if may && mm.is_none_or(|mm| mm.dumpable() || mine.capable_in(&owner(mm), cap::SYS_PTRACE)) {
        Ok(())
    } else {
        Err(Errno::EPERM)
    }
}

/// The user namespace in which a program was executed that has the memory `mm`.
pub fn owner(mm: &AddressSpace) -> UserRef {
    mm.owner().and_then(|ns| ns.clone().downcast::<UserNs>().ok())
}

/// Whether the running thread may send `sig` (`None`: 0) to `process`, or to its thread that acts as
/// `theirs`. `EPERM` if not.
pub fn may_signal(process: &Process, theirs: &Creds, sig: Option<u32>) -> Result<(), Errno> {
    super::audit::aims(process);
    let me = current();
    if core::ptr::eq(&*me.process, process)
        || me.with_creds(|mine| may_send(mine, theirs))
        || sig == Some(SIGCONT) && me.process.sid() == process.sid()
    {
        super::audit::signals(process, sig);
        Ok(())
    } else {
        Err(Errno::EPERM)
    }
}

/// Whether a thread with the credentials `mine` may send any signal to one with `theirs`.
fn may_send(mine: &Creds, theirs: &Creds) -> bool {
    let same = |id| id == theirs.suid || id == theirs.uid;
    same(mine.euid) || same(mine.uid) || mine.capable_in(&theirs.user, cap::KILL)
}

/// Whether the running thread may signal the process with the id `pid` (`kill` with signal 0). `None`: there
/// is none, or its leader has ended; or audit is to be told, which may sleep, or the caller is in
/// a PID namespace below the initial one.
pub fn may_signal_leader(pid: i32) -> Option<Result<(), Errno>> {
    if super::audit::wants_details() || current().pid_ns().is_some() {
        return None;
    }
    pid::with_task(pid, |task, glance| {
        let theirs = task.creds_shown().look(glance)?;
        (task.tgid() == pid).then(|| may_signal(&task.process, theirs, None))
    })?
}

/// Returns what `take` reads out of `target`, whose memory it is given, if the running thread may inspect
/// that memory; else `EPERM`.
///
/// `take` is called first and the right checked afterwards. If `target` has executed another program
/// meanwhile, both are repeated: what is returned belongs to the program for which the right was checked.
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

/// A thread that `kcmp` compares, or a process that has ended and whose parent has not waited yet.
struct Compared {
    process: Arc<Process>,
    task: Option<Arc<Task>>,
}

impl Compared {
    /// `ESRCH`.
    fn find(number: i32) -> Result<Self, Errno> {
        let task = pid::find_task_here(number);
        let process = match &task {
            Some(task) => task.process.clone(),
            None => pid::find_process_here(number).ok_or(Errno::ESRCH)?,
        };
        Ok(Self { process, task })
    }

    /// `EPERM` if the running thread may not look into it.
    fn look(&self) -> Result<(), Errno> {
        match &self.task {
            Some(task) => look(task, By::Real, |_| ()),
            None => may_look(&self.process, &self.process.leaders_creds(), None, By::Real),
        }
    }

    /// Where what `get` finds is; 0 if there is none.
    fn address<T>(&self, get: impl FnOnce(&Task) -> Option<Arc<T>>) -> usize {
        self.task.as_deref().and_then(get).map_or(0, address)
    }

    fn adjustments(&self) -> usize {
        self.task
            .as_ref()
            .map_or(0, |task| super::adjustments::address(task))
    }

    fn file(&self, fd: usize) -> Result<Arc<File>, Errno> {
        let files = self.task.as_ref().and_then(|task| task.try_files());
        // As on Linux only the low 32 bits of the number count.
        files.ok_or(Errno::EBADF)?.get_any(fd as i32)
    }
}

fn address<T>(object: Arc<T>) -> usize {
    Arc::as_ptr(&object).addr()
}

/// `kcmp`: whether two threads share a resource. The order of different ones is that of their addresses.
pub fn compare(pid1: i32, pid2: i32, kind: u32, a: usize, b: usize) -> SysResult {
    let one = Compared::find(pid1)?;
    let two = Compared::find(pid2)?;
    one.look()?;
    two.look()?;
    let (x, y) = match kind {
        // KCMP_FILE
        0 => (address(one.file(a)?), address(two.file(b)?)),
        // KCMP_VM
        1 => (one.address(Task::mm), two.address(Task::mm)),
        // KCMP_FILES
        2 => (one.address(Task::try_files), two.address(Task::try_files)),
        // KCMP_FS
        3 => (one.address(Task::try_fs), two.address(Task::try_fs)),
        // KCMP_SIGHAND
        4 => {
            let actions = |of: &Compared| of.process.signals.lock().actions.clone();
            (address(actions(&one)), address(actions(&two)))
        }
        // KCMP_IO
        5 => (one.address(Task::io), two.address(Task::io)),
        // KCMP_SYSVSEM
        6 => (one.adjustments(), two.adjustments()),
        // KCMP_EPOLL_TFD: `b` points to an epoll descriptor, the number of a descriptor that it watches, and
        // how many watched files with the same number to skip.
        7 => {
            let [epoll, fd, skip] = UserPtr::<[u32; 3]>::new(b).read()?;
            let first = one.file(a)?;
            let epoll = two.file(epoll as usize)?;
            let watched = epoll::watched(&epoll, fd as i32, skip as usize)?;
            (address(first), watched)
        }
        _ => return Err(Errno::EINVAL),
    };
    Ok(match x.cmp(&y) {
        core::cmp::Ordering::Equal => 0,
        core::cmp::Ordering::Less => 1,
        core::cmp::Ordering::Greater => 2,
    })
}
