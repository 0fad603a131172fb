//! Network namespaces. What is in them is the room `net`'s: names of local sockets, ports of netlink. Here is
//! what rooms ask of a namespace itself.

use super::{Head, Kind, Next, Ns, Room, UserRef, user};
use crate::task::current;
use alloc::sync::{Arc, Weak};
use core::sync::atomic::AtomicI32;
use limen_linux_abi::Errno;

/// `net.core.somaxconn` in the beginning.
const BACKLOG: i32 = 4096;

/// The settings of a namespace.
pub struct Settings {
    /// `net.core.somaxconn`: the most connections that may wait, in any family.
    pub max_backlog: AtomicI32,
}

impl Settings {
    const fn new() -> Self {
        Self {
            max_backlog: AtomicI32::new(BACKLOG),
        }
    }
}

static INITIAL: Settings = Settings::new();

/// A network namespace that was made.
pub struct NetNs {
    head: Head,
    settings: Settings,
}

/// The network namespace of a socket; no namespace is the initial one. A socket keeps it.
#[derive(Clone, Default)]
pub struct NetRef(Option<Arc<NetNs>>);

impl NetRef {
    /// The initial one.
    pub const INITIAL: Self = Self(None);

    /// The running thread's.
    #[inline]
    pub fn of_current() -> Self {
        let task = current();
        Self(task.namespaces().and_then(|set| set.counted(Kind::Net)))
    }
    /// The same, without keeping it.
    pub fn noted(&self) -> Noted {
        Noted(self.0.as_ref().map(Arc::downgrade))
    }
    /// A number that no other has as long as it is there; 0: the initial one.
    #[inline]
    pub fn number(&self) -> u32 {
        self.0.as_ref().map_or(0, |ns| ns.head.inode)
    }
    /// The user namespace that owns it.
    pub fn owner(&self) -> &UserRef {
        self.0.as_ref().map_or(&None, |ns| &ns.head.owner)
    }
    /// Its settings.
    #[inline]
    pub fn settings(&self) -> &Settings {
        self.0.as_ref().map_or(&INITIAL, |ns| &ns.settings)
    }
    /// User and group that own its settings.
    pub fn root(&self) -> (u32, u32) {
        match &self.0 {
            Some(ns) => user::root_of(&ns.head.owner),
            None => (0, 0),
        }
    }
}

/// A namespace that may end meanwhile; `None`: the initial one.
pub struct Noted(Option<Weak<NetNs>>);

impl Noted {
    /// The namespace, if it has not ended.
    pub fn get(&self) -> Option<NetRef> {
        match &self.0 {
            Some(ns) => Some(NetRef(Some(ns.upgrade()?))),
            None => Some(NetRef::INITIAL),
        }
    }
}

impl Ns for NetNs {
    fn kind(&self) -> Kind {
        Kind::Net
    }
    fn head(&self) -> &Head {
        &self.head
    }
    fn join(self: Arc<Self>, next: &mut Next) -> Result<(), Errno> {
        next.join(Kind::Net, Some(self))
    }
}

/// How they are made.
pub(super) struct Maker;

impl Room for Maker {
    fn make(&self, next: &mut Next) -> Result<(), Errno> {
        let new = NetNs {
            head: Head::new(Kind::Net, next.user())?,
            settings: Settings::new(),
        };
        next.set.put(Kind::Net, Some(Arc::new(new)));
        Ok(())
    }
    fn join_initial(&self, next: &mut Next) -> Result<(), Errno> {
        next.join(Kind::Net, None)
    }
}
