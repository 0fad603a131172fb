//! IPC namespaces: tables of objects, and limits, of their own. The initial one's are statics; those of one
//! that was made end with it, and what is in them does.
//!
//! Whoever works on objects holds their table, which need not hold the namespace: a segment that is attached
//! stays in its table when the namespace ends.

use super::mqueue::limits as mqueue;
use super::{msg, sem, shm};
use crate::sync::Once;
use crate::task::current;
use crate::task::ns::{Head, Kind, Next, Ns, Room, UserRef, provide, user};
use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use core::any::Any;
use core::ops::Deref;
use limen_linux_abi::Errno;

/// An IPC namespace that was made.
pub struct IpcNs {
    head: Head,
    shm: Arc<shm::Table>,
    sem: Arc<sem::Table>,
    msg: Arc<msg::Table>,
    queues: Arc<mqueue::Table>,
    /// User and group of who made it.
    pub maker: (u32, u32),
    /// The files of its message queues, which `fs::mqueue` makes when one is used.
    pub files: Once<Box<dyn Any + Send + Sync>>,
}

/// A part of a namespace: the initial one's is not counted.
pub enum Place<T: 'static> {
    /// Of the initial one.
    Initial(&'static T),
    /// Of another one.
    Made(Arc<T>),
}

impl<T> Deref for Place<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        match self {
            Self::Initial(part) => part,
            Self::Made(part) => part,
        }
    }
}

impl<T> Clone for Place<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Initial(part) => Self::Initial(part),
            Self::Made(part) => Self::Made(part.clone()),
        }
    }
}

/// A part of the running thread's namespace.
#[inline]
fn own<T>(initial: &'static T, made: fn(&IpcNs) -> &Arc<T>) -> Place<T> {
    let task = current();
    match task.namespaces().and_then(|set| set.get::<IpcNs>(Kind::Ipc)) {
        Some(ns) => Place::Made(made(ns).clone()),
        None => Place::Initial(initial),
    }
}

/// The segments of the running thread's namespace.
#[inline]
pub(super) fn own_shm() -> Place<shm::Table> {
    own(&shm::INITIAL, |ns| &ns.shm)
}
/// The semaphores.
#[inline]
pub(super) fn own_sem() -> Place<sem::Table> {
    own(&sem::INITIAL, |ns| &ns.sem)
}
/// The System V message queues.
#[inline]
pub(super) fn own_msg() -> Place<msg::Table> {
    own(&msg::INITIAL, |ns| &ns.msg)
}

/// A namespace; `None`: the initial one. For settings and texts, which are those of whoever opens them.
#[derive(Clone)]
pub struct Own(Option<Arc<IpcNs>>);

impl Own {
    /// The initial one.
    pub const INITIAL: Self = Self(None);

    /// The running thread's.
    pub fn of_current() -> Self {
        let task = current();
        Self(task.namespaces().and_then(|set| set.counted(Kind::Ipc)))
    }
    /// The same, without keeping it.
    pub fn noted(&self) -> Noted {
        Noted(self.0.as_ref().map(Arc::downgrade))
    }
    /// The one that was made, if it was.
    pub fn made(&self) -> Option<&Arc<IpcNs>> {
        self.0.as_ref()
    }
    /// Its segments.
    pub fn shm(&self) -> &shm::Table {
        self.0.as_ref().map_or(&shm::INITIAL, |ns| &ns.shm)
    }
    /// Its semaphores.
    pub fn sem(&self) -> &sem::Table {
        self.0.as_ref().map_or(&sem::INITIAL, |ns| &ns.sem)
    }
    /// Its System V message queues.
    pub fn msg(&self) -> &msg::Table {
        self.0.as_ref().map_or(&msg::INITIAL, |ns| &ns.msg)
    }
    /// Its POSIX message queues: limits.
    pub fn queues(&self) -> Place<mqueue::Table> {
        match &self.0 {
            Some(ns) => Place::Made(ns.queues.clone()),
            None => Place::Initial(&mqueue::INITIAL),
        }
    }
    /// The same, as long as the caller has `self`.
    pub fn limits(&self) -> &mqueue::Table {
        self.0.as_ref().map_or(&mqueue::INITIAL, |ns| &ns.queues)
    }
    /// The user namespace that owns it.
    pub fn owner(&self) -> UserRef {
        self.0.as_ref().and_then(|ns| ns.head.owner.clone())
    }
    /// User and group that own its settings: root of the user namespace that owns it.
    pub fn root(&self) -> (u32, u32) {
        match &self.0 {
            Some(ns) => user::root_of(&ns.head.owner),
            None => (0, 0),
        }
    }
}

/// A namespace that may end meanwhile; `None`: the initial one.
pub struct Noted(Option<Weak<IpcNs>>);

impl Noted {
    /// The namespace, if it has not ended. May be dropped only where sleeping is allowed.
    pub fn get(&self) -> Option<Own> {
        match &self.0 {
            Some(ns) => Some(Own(Some(ns.upgrade()?))),
            None => Some(Own::INITIAL),
        }
    }
}

impl Ns for IpcNs {
    fn kind(&self) -> Kind {
        Kind::Ipc
    }
    fn head(&self) -> &Head {
        &self.head
    }
    fn join(self: Arc<Self>, next: &mut Next) -> Result<(), Errno> {
        next.join(Kind::Ipc, Some(self))
    }
}

impl Drop for IpcNs {
    fn drop(&mut self) {
        self.queues.end();
        self.msg.end();
        self.sem.end();
        self.shm.end();
    }
}

struct Maker;

impl Room for Maker {
    fn make(&self, next: &mut Next) -> Result<(), Errno> {
        let owner: UserRef = next.user();
        let new = IpcNs {
            shm: Arc::new(shm::Table::new(owner.clone())),
            sem: Arc::new(sem::Table::new(owner.clone())),
            msg: Arc::new(msg::Table::new(owner.clone())),
            queues: Arc::new(mqueue::Table::new()),
            maker: (next.creds.fsuid, next.creds.fsgid),
            files: Once::new(),
            head: Head::new(Kind::Ipc, owner)?,
        };
        next.set.put(Kind::Ipc, Some(Arc::new(new)));
        Ok(())
    }
    fn join_initial(&self, next: &mut Next) -> Result<(), Errno> {
        next.join(Kind::Ipc, None)
    }
}

/// IPC namespaces can be made. Boot.
pub(super) fn init() {
    provide(Kind::Ipc, &Maker);
}
