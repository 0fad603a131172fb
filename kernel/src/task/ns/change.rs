//! `unshare`, `setns`, and what `clone` makes for a new thread.

use super::{Kind, Next, NsRef, Set, room};
use crate::fs::{FsContext, nsfs};
use crate::task::access::{self, By};
use crate::task::creds::cap;
use crate::task::fork::CloneFlags;
use crate::task::{CurrentTask, Process, adjustments, current, exit, pidfd};
use alloc::boxed::Box;
use alloc::sync::Arc;
use limen_linux_abi::{Errno, SysResult};

/// The flags of all kinds.
pub const ALL: CloneFlags = CloneFlags::NAMESPACES.union(CloneFlags::NEWTIME);

impl Next {
    /// `clone` and `unshare`: makes what the flags ask for, the user namespace first, which owns the others.
    /// `EPERM`; `EINVAL`: there is only the initial one of such a kind; the errors of the rooms. May sleep.
    pub fn make(&mut self) -> Result<(), Errno> {
        let flags = self.flags;
        for kind in Kind::ALL.into_iter().filter(|kind| flags.contains(kind.flag())) {
            if kind != Kind::User {
                self.check_admin()?;
            }
            room(kind).ok_or(Errno::EINVAL)?.make(self)?;
        }
        Ok(())
    }

    /// `EPERM` unless the running thread has `CAP_SYS_ADMIN` where the task will be.
    fn check_admin(&self) -> Result<(), Errno> {
        let may = current().creds().capable_in(&self.creds.user, cap::SYS_ADMIN);
        may.then_some(()).ok_or(Errno::EPERM)
    }

    /// `clone`: makes all but the user namespace, and gives what the new thread will be in, whose directories
    /// are `fs`. Errors as clone(2). May sleep.
    pub fn for_child(
        &mut self,
        fs: &Option<Arc<FsContext>>,
        flags: CloneFlags,
    ) -> Result<Option<Arc<Set>>, Errno> {
        const BOTH: CloneFlags = CloneFlags::NEWIPC.union(CloneFlags::SYSVSEM);
        if !self.flags.is_empty() {
            self.check_admin()?;
            if flags.contains(BOTH) {
                return Err(Errno::EINVAL);
            }
        }
        self.fs.clone_from(fs);
        self.make()?;
        Ok(self.set.clone().shared())
    }

    /// The running thread is in them from now on.
    fn commit(self, task: &CurrentTask) {
        if self.flags.contains(CloneFlags::NEWIPC) {
            adjustments::let_go(task);
        }
        if !Arc::ptr_eq(&self.creds, &task.creds()) {
            super::user::commit(self.creds);
        }
        if let Some(fs) = self.fs {
            drop(task.replace_fs(Some(fs)));
        }
        let time = self.set.reference(Kind::Time);
        let enters = self.flags.contains(CloneFlags::NEWTIME) && !is_in(task, &time);
        task.set_namespaces(self.set.shared());
        if enters {
            super::time::enter(&time, task.mm().as_deref());
        }
    }
}

/// Whether the running thread is in `ns`, which is of a kind that stands in a set.
fn is_in(task: &CurrentTask, ns: &NsRef) -> bool {
    let own = task
        .namespaces()
        .map_or(NsRef::Initial(ns.kind()), |set| set.reference(ns.kind()));
    own.is(ns)
}

/// `clone` with flags of namespaces by the running thread: the new thread's user namespace, if there is to be
/// one. The others are made by [`Next::for_child`] when the new thread has its directories. Errors as
/// clone(2).
pub fn for_clone(task: &CurrentTask, flags: CloneFlags) -> Result<Box<Next>, Errno> {
    let mut next = Box::new(Next::of(task, task.creds(), flags & ALL));
    next.make_user()?;
    Ok(next)
}

impl Next {
    fn make_user(&mut self) -> Result<(), Errno> {
        if self.flags.contains(CloneFlags::NEWUSER) {
            room(Kind::User).ok_or(Errno::EINVAL)?.make(self)?;
            self.flags.remove(CloneFlags::NEWUSER);
        }
        Ok(())
    }
}

/// What a thread is in that the running one makes with no flag of namespaces: the same.
#[inline]
pub fn inherited(task: &CurrentTask) -> Option<Arc<Set>> {
    task.counted_namespaces()
}

/// What `unshare` will do about namespaces, with the directories `fs` if they are to be own ones. Errors as
/// unshare(2). May sleep.
pub fn for_unshare(
    task: &CurrentTask,
    flags: CloneFlags,
    fs: Option<Arc<FsContext>>,
) -> Result<Unshared, Errno> {
    let mut next = Next::of(task, task.creds(), flags & ALL);
    next.fs = fs;
    next.make()?;
    Ok(Unshared(next))
}

/// See [`for_unshare`].
pub struct Unshared(Next);

impl Unshared {
    /// Nothing can fail any more.
    pub fn commit(self, task: &CurrentTask) {
        if self.0.flags.contains(CloneFlags::NEWIPC) {
            exit::leaves_segments(task);
        }
        self.0.commit(task);
    }
}

/// `setns`. `wanted`: flags of kinds. Errors as setns(2). May sleep.
pub fn setns(fd: i32, wanted: u64) -> SysResult {
    let task = current();
    let file = task.file(fd)?;
    let flags = CloneFlags::from_bits(wanted).ok_or(Errno::EINVAL);
    if let Some(ns) = nsfs::namespace(&file) {
        let kind = ns.kind().flag();
        if wanted != 0 && flags? != kind {
            return Err(Errno::EINVAL);
        }
        let mut next = for_setns(&task, kind);
        ns.join(&mut next)?;
        return next.commit_joined(&task);
    }
    let Ok((process, _)) = pidfd::process_and_mode(fd) else {
        return Err(Errno::EINVAL);
    };
    let flags = flags?;
    if flags.is_empty() || !ALL.contains(flags) {
        return Err(Errno::EINVAL);
    }
    let theirs = Theirs::of(&process)?;
    let mut next = for_setns(&task, flags);
    for kind in Kind::ALL.into_iter().filter(|kind| flags.contains(kind.flag())) {
        theirs.reference(kind).join(&mut next)?;
    }
    next.commit_joined(&task)
}

impl Next {
    /// `setns`: the running thread is in them from now on. Directories that others share move with it.
    /// `ENOMEM`.
    fn commit_joined(mut self, task: &CurrentTask) -> SysResult {
        if self.flags.contains(CloneFlags::NEWIPC) {
            exit::keeps_segments(task)?;
        }
        if let Some(fs) = self.fs.take() {
            task.fs().move_like(&fs);
        }
        self.commit(task);
        Ok(0)
    }
}

fn for_setns(task: &CurrentTask, flags: CloneFlags) -> Next {
    let mut next = Next::of(task, task.creds(), flags);
    if flags.contains(CloneFlags::NEWNS) {
        next.fs = task.try_fs().map(|fs| FsContext::copy(&fs));
    }
    next
}

/// The namespaces of another process, all as they were at one time.
struct Theirs {
    set: Option<Arc<Set>>,
    user: NsRef,
    pid: NsRef,
}

impl Theirs {
    /// `ESRCH`: it has ended; `EPERM`.
    fn of(process: &Arc<Process>) -> Result<Self, Errno> {
        let task = process.leader().ok_or(Errno::ESRCH)?;
        let found = access::look(&task, By::Real, |_| {
            Some(Self {
                set: super::set_of(&task)?,
                user: super::of_task(&task, Kind::User)?,
                pid: super::of_task(&task, Kind::Pid)?,
            })
        });
        found?.ok_or(Errno::ESRCH)
    }

    fn reference(&self, kind: Kind) -> NsRef {
        match (kind, &self.set) {
            (Kind::User, _) => self.user.clone(),
            (Kind::Pid, _) => self.pid.clone(),
            (_, Some(set)) => set.reference(kind),
            (_, None) => NsRef::Initial(kind),
        }
    }
}
