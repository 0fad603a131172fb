//! The plain part of a path: names of entries in directories that everybody may search. Most paths are nothing else; what is not plain is left to
//! [`super::walk`], from where this part ends.

use crate::fs::dentry::Dentry;
use crate::fs::inode::FileType;
use crate::fs::mount::Mount;
use crate::fs::path::Path;
use alloc::sync::Arc;
use limen_linux_abi::Errno;
use limen_name_table::Wanted;

/// A plain walk under way.
pub struct Plain {
    mnt: Arc<Mount>,
    /// Where it is in the mount; `None`: at its root, which the mount keeps.
    below: Option<Arc<Dentry>>,
}

/// Where a plain walk ended.
pub enum End {
    /// At the end of the path.
    Whole,
    /// Before what is not plain: how much was walked, and what is at the next name, if that was found out.
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

    /// The place it came to.
    #[inline(always)]
    pub fn place(self) -> Path {
        Path {
            dentry: self.below.unwrap_or_else(|| self.mnt.root.clone()),
            mnt: self.mnt,
        }
    }

    /// Walks `path` as far as it is plain: to before its last name, or with that, which may be a symbolic link if it is not to be followed.
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

    /// Goes to the wanted entry, or what is mounted there, unless that is not plain; a symbolic link may be, if so said.
    #[inline(always)]
    fn step(&mut self, wanted: &Wanted<'_>, link: bool) -> Result<Option<Met>, Errno> {
        let here = self.below.as_ref().unwrap_or(&self.mnt.root);
        if here.inode.mode() & 0o111 != 0o111 {
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
                (self.mnt, self.below) = (if covered { topmost(mnt) } else { mnt }, None);
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

    /// To `child`, or what is mounted on it here. The directory is locked, so nothing is dropped.
    #[inline(never)]
    fn cross(&self, child: &Arc<Dentry>) -> Next {
        match child.mounted.find(&self.mnt) {
            Some(mnt) => Next::Mount(mnt),
            None => Next::Name(child.clone()),
        }
    }
}

/// What is mounted on the root of `mnt`, and on the root of that, to the last.
#[cold]
fn topmost(mut mnt: Arc<Mount>) -> Arc<Mount> {
    while let Some(over) = mnt.root.mounted.find(&mnt) {
        mnt = over;
    }
    mnt
}

/// What ended a plain walk: what is at the name, if that was found out.
struct Met {
    dentry: Option<Arc<Dentry>>,
}

/// What becomes of the last name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Last {
    /// It is left to the caller.
    Left,
    /// It is walked, and symbolic links are followed.
    Followed,
    /// It is walked, but a symbolic link there not followed.
    Kept,
}

/// Where the slashes at `at` end.
#[inline(always)]
fn after_slashes(path: &[u8], mut at: usize) -> usize {
    while path.get(at) == Some(&b'/') {
        at += 1;
    }
    at
}
