//! Mount namespaces: a copy of the tree of mounts for each. It ends when no task is in it and no file names
//! it; its mounts go then.

use super::spread::{Limb, copy_namespace};
use super::tree::change;
use super::{Mount, Table, table};
use crate::fs::FsContext;
use crate::fs::dentry::Dentry;
use crate::fs::path::Path;
use crate::rcu::Shared;
use crate::task::creds::cap;
use crate::task::ns::{Head, Kind, Next, Ns, NsRef, Room, Set, UserRef};
use crate::task::{current, unshare};
use alloc::sync::Arc;
use limen_linux_abi::Errno;

/// A mount namespace that was made.
pub struct MountNs {
    head: Head,
    pub(super) table: Arc<Table>,
}

/// A mount namespace, which lives as long as this, and its table.
#[derive(Clone)]
pub struct Mounts {
    ns: Option<Arc<MountNs>>,
}

impl Mounts {
    /// Of a task with these namespaces.
    pub fn of(set: Option<&Set>) -> Self {
        Self {
            ns: set.and_then(|set| set.counted(Kind::Mnt)),
        }
    }
    /// Its table.
    pub fn table(&self) -> &Arc<Table> {
        table::of(self.ns.as_deref())
    }
}

impl MountNs {
    /// A copy of namespace `of` (`None`: the initial one) that belongs to `owner`. Places of `fs` in mounts
    /// that are copied become the same places in the copies. `ENOMEM`, `ENOSPC`. May sleep.
    pub fn copy(of: Option<&Self>, owner: UserRef, fs: &FsContext) -> Result<Arc<Self>, Errno> {
        let from = table::of(of);
        let head = Head::new(Kind::Mnt, owner.clone())?;
        let ns = Arc::new(Self {
            head,
            table: Table::new(owner),
        });
        let tree = {
            let mut peers = change();
            let root = from.root.lock().clone().ok_or(Errno::EINVAL)?;
            let slaves = !ns.table.has_owner_of(from);
            let tree = copy_namespace(&mut peers, &root, &ns.table, slaves)?;
            fs.move_to(|place| moved(&tree.0, place));
            tree
        };
        drop(tree);
        Ok(ns)
    }
    /// The place at its top, with what is mounted there.
    fn top(mounts: &Mounts) -> Result<Path, Errno> {
        let mnt = mounts.table().root.lock().clone().ok_or(Errno::EINVAL)?;
        let mut top = Path {
            dentry: mnt.root.clone(),
            mnt,
        };
        top.cross_mounts();
        Ok(top)
    }
}

/// Where a place is in the copies.
fn moved(copies: &[Limb], place: Path) -> Path {
    let is_original = |limb: &&Limb| {
        limb.like
            .as_ref()
            .is_some_and(|like| Shared::ptr_eq(like, &place.mnt))
    };
    let mnt = copies.iter().find(is_original).map(|limb| limb.mnt.clone());
    Path {
        mnt: mnt.unwrap_or(place.mnt),
        dentry: place.dentry,
    }
}

impl Drop for MountNs {
    fn drop(&mut self) {
        table::end(&self.table);
    }
}

/// `setns`: the thread will be in `mounts`, at its top. `EPERM`: it needs `CAP_SYS_ADMIN` in the namespace's
/// owner and `CAP_SYS_ADMIN` and `CAP_SYS_CHROOT` in its own user namespace. `EINVAL`: it shares its
/// directories and asks for nothing else; with other namespaces all who share them move (as on Linux).
fn join(mounts: &Mounts, next: &mut Next) -> Result<(), Errno> {
    let owner = &mounts.table().owner;
    next.may_join(owner)?;
    if !next.creds.capable_in(&next.creds.user, cap::SYS_CHROOT) {
        return Err(Errno::EPERM);
    }
    if next.flags == Kind::Mnt.flag() && unshare::shares_fs(&current()) {
        return Err(Errno::EINVAL);
    }
    let fs = next.fs.as_ref().ok_or(Errno::EINVAL)?;
    let top = MountNs::top(mounts)?;
    fs.move_to(|_| top.clone());
    next.set
        .put(Kind::Mnt, mounts.ns.clone().map(|ns| ns as Arc<dyn Ns>));
    Ok(())
}

impl Ns for MountNs {
    fn kind(&self) -> Kind {
        Kind::Mnt
    }
    fn head(&self) -> &Head {
        &self.head
    }
    fn join(self: Arc<Self>, next: &mut Next) -> Result<(), Errno> {
        join(&Mounts { ns: Some(self) }, next)
    }
}

/// Makes mount namespaces.
pub(super) struct Maker;

impl Room for Maker {
    fn make(&self, next: &mut Next) -> Result<(), Errno> {
        let fs = next.fs.clone().ok_or(Errno::EINVAL)?;
        let ns = MountNs::copy(next.set.get(Kind::Mnt), next.user(), &fs)?;
        next.set.put(Kind::Mnt, Some(ns));
        Ok(())
    }
    fn join_initial(&self, next: &mut Next) -> Result<(), Errno> {
        join(&Mounts { ns: None }, next)
    }
}

/// Whether the running thread sees another root than its mount namespace has: then a new user namespace must
/// not let it out.
pub fn is_chrooted() -> bool {
    let top = MountNs::top(&Mounts::of(current().namespaces()));
    top.is_ok_and(|top| current().root() != top)
}

/// The namespace that a name stands for, if it is one of nsfs.
pub(super) fn of_file(name: &Dentry) -> Option<NsRef> {
    name.inode.ops.namespace().cloned()
}

/// The mounts of the mount namespace that a name of nsfs stands for.
pub(super) fn mounts_of_file(name: &Dentry) -> Option<Arc<Table>> {
    let ns = of_file(name).filter(|ns| ns.kind() == Kind::Mnt)?;
    Some(table::of(ns.made::<MountNs>().as_deref()).clone())
}

impl Mount {
    /// What a mount with these flags and locks may not lose: see [`super::remount`].
    pub(super) fn keeps_locked(&self, flags: u32) -> bool {
        let state = self.state();
        super::LOCKS
            .iter()
            .all(|(flag, lock)| state & lock == 0 || flags & flag != 0)
            && (state & super::LOCK_ATIME == 0 || (flags ^ self.flags()) & super::ACCESS_KINDS == 0)
    }
}
