//! A place in the tree, which is a mount and a name in it, and writing it out as a path name.

use crate::fs::dentry::Dentry;
use crate::fs::mount::Mount;
use crate::fs::moves::steadily;
use crate::rcu::Shared;
use alloc::vec::Vec;
use limen_linux_abi::Errno;

/// A place in the tree.
#[derive(Clone)]
pub struct Path {
    /// The mount.
    pub mnt: Shared<Mount>,
    /// The name.
    pub dentry: Shared<Dentry>,
}

impl PartialEq for Path {
    fn eq(&self, other: &Self) -> bool {
        Shared::ptr_eq(&self.dentry, &other.dentry) && Shared::ptr_eq(&self.mnt, &other.mnt)
    }
}

impl Path {
    /// Whether both places are in the same mount.
    pub fn is_in_mount_of(&self, other: &Path) -> bool {
        Shared::ptr_eq(&self.mnt, &other.mnt)
    }

    /// The place above, across mount points. `None` at the very top, at `root`, and at the root of a mount on
    /// `root`. `ENOENT`: a directory above was moved out of the part of the tree that the mount shows. May
    /// sleep, with no directory locked.
    pub fn up(&self, root: Option<&Path>) -> Result<Option<Path>, Errno> {
        match self.above(root) {
            Some(place) if !place.mnt.shows_all() && !place.is_connected() => Err(Errno::ENOENT),
            above => Ok(above),
        }
    }

    /// [`Path::up`], even if the mount does not show it. Does not sleep.
    fn above(&self, root: Option<&Path>) -> Option<Path> {
        let mut place = self.clone();
        loop {
            if root == Some(&place) {
                return None;
            }
            if !Shared::ptr_eq(&place.dentry, &place.mnt.root) {
                break;
            }
            place = place.mnt.mountpoint()?;
        }
        place.dentry = place.dentry.parent()?;
        Some(place)
    }

    /// Whether the mount shows the place, which is a directory. May sleep, with no directory locked.
    #[cold]
    fn is_connected(&self) -> bool {
        let is_below = || self.dentry.is_below(&self.mnt.root);
        let (below, still) = steadily(is_below);
        if still {
            return below;
        }
        // Names or mounts move all the time. Only who has this lock gives a directory another parent.
        let _still = self.dentry.inode.sb.rename_lock.lock();
        is_below()
    }

    /// Whether the place is `root` or below it, across mount points. `EAGAIN`: moves go on all the time, so
    /// that it cannot be told.
    pub fn is_under(&self, root: &Path) -> Result<bool, Errno> {
        let (under, still) = steadily(|| {
            let mut place = self.clone();
            while !Shared::ptr_eq(&place.mnt, &root.mnt) {
                match place.mnt.mountpoint() {
                    Some(at) => place = at,
                    None => return false,
                }
            }
            place.dentry.is_below(&root.dentry)
        });
        if still { Ok(under) } else { Err(Errno::EAGAIN) }
    }

    /// The inode number of the place above; at the root its own.
    pub fn parent_ino(&self) -> u64 {
        let own = self.dentry.inode.ino;
        if Shared::ptr_eq(&self.dentry, &self.mnt.root) {
            return self.above(None).map_or(own, |above| above.dentry.inode.ino);
        }
        self.dentry.parent_ino().unwrap_or(own)
    }

    /// If something is mounted here, goes to the root of the topmost mount.
    #[inline]
    pub fn cross_mounts(&mut self) {
        while self.dentry.mounted.is_used() {
            let Some(mnt) = self.dentry.mounted.find(&self.mnt) else {
                return;
            };
            *self = Path {
                dentry: mnt.root.clone(),
                mnt,
            };
        }
    }

    /// The absolute path name as seen from `root`, as it is at one moment, and whether `root` really is
    /// above.
    pub fn absolute(&self, root: &Path) -> Result<(Vec<u8>, bool), Errno> {
        // What is in no tree has a text instead. POSIX message queues are in one.
        if self.mnt.is_internal() && self.dentry.is_root() {
            return Ok((self.dentry.name().to_vec(), true));
        }
        steadily(|| self.absolute_now(root)).0
    }

    /// [`Path::absolute`], but directories may move meanwhile.
    fn absolute_now(&self, root: &Path) -> Result<(Vec<u8>, bool), Errno> {
        // Written from its end, since the last name is known first. Its length is not limited.
        let mut out = Vec::new();
        let mut place = self.clone();
        let reached = loop {
            if place == *root {
                break true;
            }
            if Shared::ptr_eq(&place.dentry, &place.mnt.root) {
                match place.mnt.mountpoint() {
                    Some(p) => place = p,
                    None => break false,
                }
                continue;
            }
            let (parent, name) = place.dentry.position();
            let Some(parent) = parent else { break false };
            crate::mm::reserve::room(&mut out, name.len() + 1)?;
            out.extend(name.iter().rev());
            out.push(b'/');
            place.dentry = parent;
        };
        if out.is_empty() {
            out.push(b'/');
        }
        out.reverse();
        Ok((out, reached))
    }

    /// The path name as `/proc` shows it to the running task: from that task's root, with " (deleted)" behind
    /// a removed name.
    pub fn display(&self) -> Result<Vec<u8>, Errno> {
        let root = crate::fs::context::current_root();
        // Asked first: it may be moved, then removed, and what is removed stays so.
        let removed = self.dentry.is_unlinked();
        let (mut name, _) = self.absolute(&root)?;
        if removed {
            const MARK: &[u8] = b" (deleted)";
            crate::mm::reserve::room(&mut name, MARK.len())?;
            name.extend_from_slice(MARK);
        }
        Ok(name)
    }
}
