//! The plain part of a path: names of entries of directories that everyone may search. Most paths have no
//! other part. Where the plain part ends (`.`, `..`, a symbolic link, a directory with other permissions),
//! [`super::walk`] continues.

use crate::fs::dentry::Dentry;
use crate::fs::inode::FileType;
use crate::fs::mount::Mount;
use crate::fs::path::Path;
use alloc::sync::Arc;
use limen_linux_abi::Errno;
use limen_name_table::Wanted;

/// A plain walk.
pub struct Plain {
    mnt: Arc<Mount>,
    /// Where it is in the mount. `None`: at the mount's root, to which the mount has a reference.
    below: Option<Arc<Dentry>>,
}

/// Where a plain walk ended.
pub enum End {
    /// At the end of the path.
    Whole,
    /// Before something that is not plain. How many bytes were walked, and the entry with the next name, if
    /// that is known.
    Rest(usize, Option<Arc<Dentry>>),
}

/// What an entry leads to.
enum Next {
    Nothing,
    Name(Arc<Dentry>),
    Mount(Arc<Mount>),
}

impl Plain {
    /// Starts at `place`.
    #[inline(always)]
    pub fn at(place: &Path) -> Self {
        let at_root = Arc::ptr_eq(&place.dentry, &place.mnt.root);
        Self {
            mnt: place.mnt.clone(),
            below: (!at_root).then(|| place.dentry.clone()),
        }
    }

    /// The place that was reached.
    #[inline(always)]
    pub fn place(self) -> Path {
        Path {
            dentry: self.below.unwrap_or_else(|| self.mnt.root.clone()),
            mnt: self.mnt,
        }
    }

    /// Walks `path` as far as it is plain. Stops before the last name, or walks that, too, as `last` says.
    #[inline(always)]
    pub fn walk(&mut self, path: &[u8], last: Last) -> Result<End, Errno> {
        let mut pos = after_slashes(path, 0);
        loop {
            let wanted = Wanted::first_of(&path[pos..]);
            let end = pos + wanted.name.len();
            let next = after_slashes(path, end);
            let ends = next == path.len();
            if ends && (last == Last::Left || end != next) || wanted.is_special() {
                return Ok(End::Rest(pos, None));
            }
            if let Some(met) = self.step(&wanted, ends && last == Last::Kept)? {
                return Ok(End::Rest(pos, met.dentry));
            }
            pos = next;
            if ends {
                return Ok(End::Whole);
            }
        }
    }

    /// Goes to the wanted entry, or to what is mounted on it. `Some`: that is not plain. `link`: a symbolic
    /// link is plain, since it is not to be followed.
    #[inline(always)]
    fn step(&mut self, wanted: &Wanted<'_>, link: bool) -> Result<Option<Met>, Errno> {
        let here = self.below.as_ref().unwrap_or(&self.mnt.root);
        if !here.inode.for_everybody() {
            return Ok(Some(Met { dentry: None }));
        }
        let next = match here.lock_dir()?.find(wanted) {
            Some(child) if child.mounted.is_used() => self.cross(child),
            Some(child) => Next::Name(child.clone()),
            None => Next::Nothing,
        };
        let child = match next {
            Next::Mount(mnt) => {
                let covered = mnt.root.mounted.is_used();
                let mnt = if covered { topmost(mnt) } else { mnt };
                if mnt.root.inode.kind == FileType::Symlink && !link {
                    return Ok(Some(Met { dentry: None }));
                }
                (self.mnt, self.below) = (mnt, None);
                return Ok(None);
            }
            Next::Name(child) => child,
            Next::Nothing => here.make_up(wanted.name)?,
        };
        if child.inode.kind == FileType::Symlink && !link || child.mounted.is_used() {
            return Ok(Some(Met { dentry: Some(child) }));
        }
        self.below = Some(child);
        Ok(None)
    }

    /// The entry `child`, or what is mounted on it. The directory is locked, so no reference may be dropped
    /// here.
    #[inline(never)]
    fn cross(&self, child: &Arc<Dentry>) -> Next {
        match child.mounted.find(&self.mnt) {
            Some(mnt) => Next::Mount(mnt),
            None => Next::Name(child.clone()),
        }
    }
}

/// The topmost mount at the root of `mnt`: on a mount's root another one may be mounted, and so on.
#[cold]
fn topmost(mut mnt: Arc<Mount>) -> Arc<Mount> {
    while let Some(over) = mnt.root.mounted.find(&mnt) {
        mnt = over;
    }
    mnt
}

/// What ended a plain walk: the entry with the next name, if it is known.
struct Met {
    dentry: Option<Arc<Dentry>>,
}

/// How the last name of a path is treated.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Last {
    /// It is not walked.
    Left,
    /// It is walked, and a symbolic link is followed.
    Followed,
    /// It is walked, and a symbolic link is not followed.
    Kept,
}

/// The position behind the slashes at `at`.
#[inline(always)]
fn after_slashes(path: &[u8], mut at: usize) -> usize {
    while path.get(at) == Some(&b'/') {
        at += 1;
    }
    at
}
