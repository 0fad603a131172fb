//! What a user namespace may mount: file systems that tell of the whole system (proc, sysfs) only if it sees
//! all of one already, so that a mount reveals nothing that was covered.

use super::tree::{behind, children};
use super::{ACCESS_KINDS, LOCK_ATIME, LOCK_READONLY, LOCKED, MS_RDONLY, Mount, table};
use crate::fs::dentry::Dentry;
use crate::fs::superblock::FsType;
use crate::rcu::Shared;
use core::sync::atomic::Ordering;
use limen_linux_abi::Errno;

/// The locks that a new mount of `fs` with `MS_*` flags must have. `EPERM`: it would show more than what can
/// be seen in the running task's namespace. The caller has locked all mounts.
pub(super) fn check(fs: &FsType, flags: u32) -> Result<u32, Errno> {
    let table = table::current_table();
    if table.owner.is_none() {
        return Ok(0);
    }
    let mut last = (0, 0);
    while let Some((place, mnt)) = behind(&table.list, last) {
        last = place;
        if mnt.root.inode.sb.fs_type != fs.name || !mnt.shows_all() {
            continue;
        }
        let mut locks = mnt.state() & (LOCK_READONLY | LOCK_ATIME);
        if mnt.root.inode.sb.flags.load(Ordering::Relaxed) & MS_RDONLY != 0 {
            locks |= LOCK_READONLY;
        }
        let stricter = locks & LOCK_READONLY != 0 && flags & MS_RDONLY == 0
            || locks & LOCK_ATIME != 0 && (flags ^ mnt.flags()) & ACCESS_KINDS != 0;
        if !stricter && !hides(&mnt) {
            return Ok(locks);
        }
    }
    Err(Errno::EPERM)
}

/// Whether a mount that is locked covers something in `mnt`.
fn hides(mnt: &Shared<Mount>) -> bool {
    children(mnt)
        .any(|child| child.is(LOCKED) && child.mountpoint().is_some_and(|at| !is_always_empty(&at.dentry)))
}

/// Whether it is a directory made only to mount something on it.
fn is_always_empty(name: &Dentry) -> bool {
    name.inode.ops.is_mount_point()
}
