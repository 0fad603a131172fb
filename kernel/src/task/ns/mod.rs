//! Namespaces: which part of the system a task sees ([docs/namespaces.md]). A task that is in the initial one
//! of every kind has no [`Set`], and pays a load and a test. What a kind is for is in the room that has it,
//! which tells this one how namespaces of that kind are made ([`Room`]).
//!
//! [docs/namespaces.md]: ../../../../docs/namespaces.md

mod cgroup;
pub mod change;
mod inode;
pub mod net;
mod next;
pub mod pid;
pub mod time;
pub mod user;

pub use next::Next;
pub use user::UserRef;

use super::Task;
use super::fork::CloneFlags;
use crate::fs::inode::Inode;
use crate::rcu::Weak;
use crate::sync::{Once, SpinLock};
use alloc::sync::Arc;
use core::any::Any;
use limen_linux_abi::Errno;

/// A kind of namespace. Numbers index [`Set`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Mounts.
    Mnt,
    /// The names of the host and its domain.
    Uts,
    /// System V IPC and POSIX message queues.
    Ipc,
    /// Networks.
    Net,
    /// Control groups.
    Cgroup,
    /// Offsets of `CLOCK_MONOTONIC` and `CLOCK_BOOTTIME`.
    Time,
    /// Numbers of processes.
    Pid,
    /// Ids and capabilities.
    User,
}

/// How many kinds there are.
const KINDS: usize = 8;

impl Kind {
    /// All kinds, in the order in which `unshare` and `setns` go through them.
    pub const ALL: [Self; KINDS] = [
        Self::User,
        Self::Mnt,
        Self::Uts,
        Self::Ipc,
        Self::Pid,
        Self::Cgroup,
        Self::Net,
        Self::Time,
    ];

    /// The flag that names it for `clone`, `unshare` and `setns`.
    pub const fn flag(self) -> CloneFlags {
        match self {
            Self::Mnt => CloneFlags::NEWNS,
            Self::Uts => CloneFlags::NEWUTS,
            Self::Ipc => CloneFlags::NEWIPC,
            Self::Net => CloneFlags::NEWNET,
            Self::Cgroup => CloneFlags::NEWCGROUP,
            Self::Time => CloneFlags::NEWTIME,
            Self::Pid => CloneFlags::NEWPID,
            Self::User => CloneFlags::NEWUSER,
        }
    }
    /// As nsfs shows it: `uts:[4026531838]`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mnt => "mnt",
            Self::Uts => "uts",
            Self::Ipc => "ipc",
            Self::Net => "net",
            Self::Cgroup => "cgroup",
            Self::Time => "time",
            Self::Pid => "pid",
            Self::User => "user",
        }
    }
    /// The number in nsfs of the initial one (`PROC_*_INIT_INO`). On Linux those of mounts and networks are
    /// what was free when they were made; here they are the first two of the others.
    pub const fn initial_inode(self) -> u32 {
        match self {
            Self::Ipc => 0xefff_ffff,
            Self::Uts => 0xefff_fffe,
            Self::User => 0xefff_fffd,
            Self::Pid => 0xefff_fffc,
            Self::Cgroup => 0xefff_fffb,
            Self::Time => 0xefff_fffa,
            Self::Net => inode::FIRST,
            Self::Mnt => inode::FIRST + 1,
        }
    }
}

/// Where a namespace's file in nsfs is found while anybody has it: the file keeps the namespace, not the
/// other way round.
type FilePlace = SpinLock<Option<Weak<Inode>>>;

/// Those of initial namespaces.
static INITIAL_FILES: [FilePlace; KINDS] = [const { SpinLock::new(None) }; KINDS];

/// What every namespace that was made has.
pub struct Head {
    /// Its number in nsfs.
    pub inode: u32,
    /// The user namespace that owns it.
    pub owner: UserRef,
    /// Its file in nsfs, if anybody has it.
    file: FilePlace,
    /// It counts as one of its maker's.
    counted: user::Counted,
}

impl Head {
    /// Of a new namespace of `kind` that the running thread makes, with a number that no other has. `ENOMEM`;
    /// `ENOSPC`: its user has made as many as allowed.
    pub fn new(kind: Kind, owner: UserRef) -> Result<Self, Errno> {
        let counted = user::Counted::new(&owner, kind)?;
        Ok(Self {
            inode: inode::take()?,
            owner,
            file: SpinLock::new(None),
            counted,
        })
    }
}

impl Drop for Head {
    fn drop(&mut self) {
        inode::give_back(self.inode);
    }
}

/// A namespace that was made: not an initial one.
pub trait Ns: Any + Send + Sync {
    /// Its kind.
    fn kind(&self) -> Kind;
    /// Its number and owner.
    fn head(&self) -> &Head;
    /// The one above it. Only user and PID namespaces have one.
    fn parent(&self) -> Option<NsRef> {
        None
    }
    /// `setns`: puts it into `next` if the running thread may join. Errors as setns(2).
    fn join(self: Arc<Self>, next: &mut Next) -> Result<(), Errno>;
}

/// How namespaces of a kind are made.
pub trait Room: Sync {
    /// `clone` and `unshare`: puts a new one into `next`, which has the user namespace that owns it and what
    /// the others are like so far. The running thread may do it. Errors as clone(2). May sleep.
    fn make(&self, next: &mut Next) -> Result<(), Errno>;
    /// `setns`: puts the initial one into `next` if the running thread may join. Errors as setns(2).
    fn join_initial(&self, next: &mut Next) -> Result<(), Errno>;
}

static ROOMS: [Once<&'static dyn Room>; KINDS] = [const { Once::new() }; KINDS];

/// `room` makes the namespaces of this kind. Boot.
pub fn provide(kind: Kind, room: &'static dyn Room) {
    let _ = ROOMS[kind as usize].set(room);
}

/// Who makes namespaces of this kind. `None`: there is only the initial one.
pub fn room(kind: Kind) -> Option<&'static dyn Room> {
    ROOMS[kind as usize].get().copied()
}

/// A namespace: the initial one of its kind has no object and is never counted.
#[derive(Clone)]
pub enum NsRef {
    /// The initial one of this kind.
    Initial(Kind),
    /// Another one.
    Made(Arc<dyn Ns>),
}

impl NsRef {
    /// What stands in a set.
    fn of(kind: Kind, made: Option<&Arc<dyn Ns>>) -> Self {
        made.map_or(Self::Initial(kind), |ns| Self::Made(ns.clone()))
    }
    /// Its kind.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Initial(kind) => *kind,
            Self::Made(ns) => ns.kind(),
        }
    }
    /// Its number in nsfs.
    pub fn inode(&self) -> u32 {
        match self {
            Self::Initial(kind) => kind.initial_inode(),
            Self::Made(ns) => ns.head().inode,
        }
    }
    /// The place of its file, for nsfs.
    pub fn file(&self) -> &SpinLock<Option<Weak<Inode>>> {
        match self {
            Self::Initial(kind) => &INITIAL_FILES[*kind as usize],
            Self::Made(ns) => &ns.head().file,
        }
    }
    /// The user namespace that owns it.
    pub fn owner(&self) -> UserRef {
        match self {
            Self::Initial(_) => None,
            Self::Made(ns) => ns.head().owner.clone(),
        }
    }
    /// The one above it. `None`: it has none.
    pub fn parent(&self) -> Option<Self> {
        match self {
            Self::Initial(_) => None,
            Self::Made(ns) => ns.parent(),
        }
    }
    /// `setns`: puts it into `next` if the running thread may join. Errors as setns(2); `EINVAL`: nobody can
    /// join any of its kind.
    pub fn join(self, next: &mut Next) -> Result<(), Errno> {
        match self {
            Self::Initial(kind) => room(kind).ok_or(Errno::EINVAL)?.join_initial(next),
            Self::Made(ns) => ns.join(next),
        }
    }
    /// Whether both are the same namespace.
    pub fn is(&self, other: &Self) -> bool {
        self.kind() == other.kind() && self.inode() == other.inode()
    }
    /// The namespace as what it is, if it is a `T`. `None` also for the initial one.
    pub fn made<T: Ns>(&self) -> Option<Arc<T>> {
        match self {
            Self::Initial(_) => None,
            Self::Made(ns) => typed(ns),
        }
    }
}

/// A counted reference to a namespace as what it is.
pub fn typed<T: Ns>(ns: &Arc<dyn Ns>) -> Option<Arc<T>> {
    let any: Arc<dyn Any + Send + Sync> = ns.clone();
    any.downcast().ok()
}

/// What a task is in (Linux's `nsproxy`). A task that is in the initial namespace of every kind has none.
/// Nothing of it changes once it is shared: a change makes a new one. At [`Kind::Pid`] is the PID namespace
/// of the task's children; its own follows from its numbers. At [`Kind::User`] is nothing: that is in
/// `Creds::user`. The time namespace of the children stands behind them all.
#[derive(Clone, Default)]
pub struct Set {
    made: [Option<Arc<dyn Ns>>; KINDS + 1],
}

/// Where a set has the time namespace of the task's children.
const TIME_FOR_CHILDREN: usize = KINDS;

impl Set {
    /// Whether all are initial ones.
    pub fn is_initial(&self) -> bool {
        self.made.iter().all(Option::is_none)
    }
    /// The namespace of this kind. `None`: the initial one.
    #[inline]
    pub fn made(&self, kind: Kind) -> Option<&Arc<dyn Ns>> {
        self.made[kind as usize].as_ref()
    }
    /// The same as what it is.
    #[inline]
    pub fn get<T: Ns>(&self, kind: Kind) -> Option<&T> {
        let any: &dyn Any = &**self.made(kind)?;
        any.downcast_ref()
    }
    /// The same, counted.
    pub fn counted<T: Ns>(&self, kind: Kind) -> Option<Arc<T>> {
        typed(self.made(kind)?)
    }
    /// The namespace of this kind; for [`Kind::Pid`] that of the children.
    pub fn reference(&self, kind: Kind) -> NsRef {
        NsRef::of(kind, self.made(kind))
    }
    /// Puts another namespace there; `None`: the initial one.
    pub fn put(&mut self, kind: Kind, ns: Option<Arc<dyn Ns>>) {
        self.made[kind as usize] = ns;
    }
    /// The time namespace in which children begin.
    pub fn time_for_children(&self) -> NsRef {
        NsRef::of(Kind::Time, self.made[TIME_FOR_CHILDREN].as_ref())
    }
    /// Puts another one there; `None`: the initial one.
    fn put_time_for_children(&mut self, ns: Option<Arc<dyn Ns>>) {
        self.made[TIME_FOR_CHILDREN] = ns;
    }
    /// Puts the task into the time namespace that was for its children, which is returned.
    fn enter_time_for_children(&mut self) -> NsRef {
        self.made[Kind::Time as usize] = self.made[TIME_FOR_CHILDREN].clone();
        self.time_for_children()
    }
    /// In a task's slot.
    fn shared(self) -> Option<Arc<Self>> {
        if self.is_initial() {
            None
        } else {
            Some(Arc::new(self))
        }
    }
}

/// What a task is in, if it has not ended; `Some(None)`: all initial ones.
pub fn set_of(task: &Task) -> Option<Option<Arc<Set>>> {
    let set = task.namespaces();
    // It gives up its namespaces after its directories.
    (task.is_kernel_thread() || task.try_fs().is_some()).then_some(set)
}

/// The namespace of this kind in which a task is. `None`: it has ended, and is in none any more.
pub fn of_task(task: &Task, kind: Kind) -> Option<NsRef> {
    match kind {
        Kind::User => Some(user::reference(&task.creds().user)),
        Kind::Pid => Some(pid::of_task(task)),
        _ => Some(set_of(task)?.map_or(NsRef::Initial(kind), |set| set.reference(kind))),
    }
}

/// The namespace in which children of a task begin; of kinds that have such a one.
pub fn for_children(task: &Task, kind: Kind) -> Option<NsRef> {
    let set = set_of(task)?;
    match kind {
        Kind::Pid => pid::for_children(set.as_deref()),
        Kind::Time => Some(set.map_or(NsRef::Initial(kind), |set| set.time_for_children())),
        _ => Some(set.map_or(NsRef::Initial(kind), |set| set.reference(kind))),
    }
}

/// The kinds that need no other room. Boot.
pub(super) fn init() {
    super::uts::init();
    pid::init();
    provide(Kind::Net, &net::Maker);
    provide(Kind::Cgroup, &cgroup::Maker);
    provide(Kind::Time, &time::Maker);
}
