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

/// Whether both are the same user namespace.
pub fn is_same(a: &UserRef, b: &UserRef) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        _ => false,
    }
}
