//! [`Next`]: what a task will be in, while `clone`, `unshare` and `setns` find out whether it may.

use super::{Kind, Ns, Set, UserRef};
use crate::fs::FsContext;
use crate::task::creds::cap;
use crate::task::fork::CloneFlags;
use crate::task::{Creds, Task, current};
use alloc::sync::Arc;
use limen_linux_abi::Errno;

/// What a task will have. Dropping it changes nothing.
pub struct Next {
    /// What it will be in.
    pub set: Set,
    /// The kinds that are to change.
    pub flags: CloneFlags,
    /// Its credentials. A new user namespace makes new ones.
    pub creds: Arc<Creds>,
    /// Its directories: a copy of its own if mounts are to change, which may be changed.
    pub fs: Option<Arc<FsContext>>,
}

impl Next {
    /// What `task`, the running thread, has.
    pub fn of(task: &Task, creds: Arc<Creds>, flags: CloneFlags) -> Self {
        Self {
            set: task.namespaces().as_deref().cloned().unwrap_or_default(),
            flags,
            creds,
            fs: None,
        }
    }
    /// The user namespace that it will be in. It owns what is made.
    pub fn user(&self) -> UserRef {
        self.creds.user.clone()
    }
    /// A namespace of most kinds may be joined by who has `CAP_SYS_ADMIN` both in its owner and in the user
    /// namespace in which it will be. `EPERM`.
    pub fn may_join(&self, owner: &UserRef) -> Result<(), Errno> {
        let own = current().creds();
        let may = own.capable_in(owner, cap::SYS_ADMIN) && own.capable_in(&self.creds.user, cap::SYS_ADMIN);
        if may { Ok(()) } else { Err(Errno::EPERM) }
    }
    /// [`Self::may_join`], and then it will be in that namespace; `None`: the initial one. For kinds for
    /// which that is all.
    pub fn join(&mut self, kind: Kind, ns: Option<Arc<dyn Ns>>) -> Result<(), Errno> {
        let owner = ns.as_ref().and_then(|ns| ns.head().owner.clone());
        self.may_join(&owner)?;
        self.set.put(kind, ns);
        Ok(())
    }
}
