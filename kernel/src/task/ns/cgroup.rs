//! Cgroup namespaces. There are no control groups: all tasks are in the only one, which is the root of every
//! such namespace.

use super::{Head, Kind, Next, Ns, Room};
use alloc::sync::Arc;
use limen_linux_abi::Errno;

/// A cgroup namespace that was made.
struct CgroupNs(Head);

impl Ns for CgroupNs {
    fn kind(&self) -> Kind {
        Kind::Cgroup
    }
    fn head(&self) -> &Head {
        &self.0
    }
    fn join(self: Arc<Self>, next: &mut Next) -> Result<(), Errno> {
        next.join(Kind::Cgroup, Some(self))
    }
}

/// How they are made.
pub(super) struct Maker;

impl Room for Maker {
    fn make(&self, next: &mut Next) -> Result<(), Errno> {
        let new = CgroupNs(Head::new(Kind::Cgroup, next.user())?);
        next.set.put(Kind::Cgroup, Some(Arc::new(new)));
        Ok(())
    }
    fn join_initial(&self, next: &mut Next) -> Result<(), Errno> {
        next.join(Kind::Cgroup, None)
    }
}
