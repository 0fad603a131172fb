//! User namespaces: whose ids and capabilities a thread has.

use super::{Head, Kind, Next, Ns, NsRef};
use alloc::sync::Arc;
use limen_linux_abi::Errno;

/// A user namespace that was made.
pub struct UserNs {
    head: Head,
}

/// The user namespace of credentials; `None` is the initial one.
pub type UserRef = Option<Arc<UserNs>>;

impl core::fmt::Debug for UserNs {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "user:[{}]", self.head.inode)
    }
}

impl Ns for UserNs {
    fn kind(&self) -> Kind {
        Kind::User
    }
    fn head(&self) -> &Head {
        &self.head
    }
    fn parent(&self) -> Option<NsRef> {
        Some(reference(&self.head.owner))
    }
    fn join(self: Arc<Self>, _: &mut Next) -> Result<(), Errno> {
        Err(Errno::EINVAL)
    }
}

/// A user namespace as one of all kinds.
pub fn reference(user: &UserRef) -> NsRef {
    match user {
        Some(user) => NsRef::Made(user.clone()),
        None => NsRef::Initial(Kind::User),
    }
}

/// The user, as the running thread sees it, that made the user namespace `ns` (`NS_GET_OWNER_UID`).
pub fn owner_uid(ns: &NsRef) -> u32 {
    let _made = ns.made::<UserNs>();
    0
}

/// The user and group that are root's (0) in a user namespace: who owns the settings of what it owns.
pub fn root_of(user: &UserRef) -> (u32, u32) {
    let _ = user;
    (0, 0)
}

/// Whether both are the same user namespace.
pub fn is_same(a: &UserRef, b: &UserRef) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        _ => false,
    }
}
