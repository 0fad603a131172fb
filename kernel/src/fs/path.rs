//! A place in the tree: a mount and a name in it; and how it is written out.

use crate::fs::dentry::Dentry;
use crate::fs::mount::Mount;
use alloc::sync::Arc;
use alloc::vec::Vec;
use limen_linux_abi::Errno;

/// A place in the tree.
#[derive(Clone)]
pub struct Path {
    /// In which mount.
    pub mnt: Arc<Mount>,
    /// Which name.
    pub dentry: Arc<Dentry>,
}

impl PartialEq for Path {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.dentry, &other.dentry) && Arc::ptr_eq(&self.mnt, &other.mnt)
    }
}

impl Path {
    /// The place above (through mount points); `None` at the very top.
    pub fn up(&self) -> Option<Path> {
        let mut place = self.clone();
        while Arc::ptr_eq(&place.dentry, &place.mnt.root) {
            place = place.mnt.mountpoint()?;
        }
        let dentry = place.dentry.parent()?;
        Some(Path {
            mnt: place.mnt,
            dentry,
        })
    }

    /// The inode number of what is above, at the root its own.
    pub fn parent_ino(&self) -> u64 {
        let own = self.dentry.inode.ino;
        if Arc::ptr_eq(&self.dentry, &self.mnt.root) {
            return self.up().map_or(own, |above| above.dentry.inode.ino);
        }
        self.dentry.parent_ino().unwrap_or(own)
    }

    /// If something is mounted here, the root of the topmost mount.
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

    /// The absolute name as seen from `root`, and whether `root` was really above.
    pub fn absolute(&self, root: &Path) -> Result<(Vec<u8>, bool), Errno> {
        if self.mnt.is_internal() {
            return Ok((self.dentry.name().to_vec(), true));
        }
        // From its end, since that is where the way begins. It is as long as directories nest.
        let mut out = Vec::new();
        let mut place = self.clone();
        let reached = loop {
            if place == *root {
                break true;
            }
            if Arc::ptr_eq(&place.dentry, &place.mnt.root) {
                match place.mnt.mountpoint() {
                    Some(p) => place = p,
                    None => break false,
                }
                continue;
            }
            let (parent, name) = place.dentry.position();
            let Some(parent) = parent else { break false };
            out.try_reserve(name.len() + 1).map_err(|_| Errno::ENOMEM)?;
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

    /// The name as `/proc` shows it to the running task: from its root, with " (deleted)" for a removed name.
    pub fn display(&self) -> Result<Vec<u8>, Errno> {
        let root = crate::fs::context::current_root();
        let (mut name, _) = self.absolute(&root)?;
        if self.dentry.is_unlinked() {
            const MARK: &[u8] = b" (deleted)";
            name.try_reserve(MARK.len()).map_err(|_| Errno::ENOMEM)?;
            name.extend_from_slice(MARK);
        }
        Ok(name)
    }
}
