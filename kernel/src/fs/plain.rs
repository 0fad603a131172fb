//! The plain part of a path: names of entries of directories that everyone may search. Most paths have no
//! other part. It is walked by a reader ([`crate::rcu`]), who counts nothing, and takes a directory's lock
//! only for a name that is not there. Where the plain part ends (`.`, `..`, a symbolic link, a directory with
//! other permissions, a name that is made up), [`super::walk`] continues.

use crate::fs::dentry::{Dentry, NAME_MAX};
use crate::fs::inode::FileType;
use crate::fs::mount::Mount;
use crate::rcu::{Found, Reader};
use limen_name_table::Wanted;

/// A plain walk, and where it is. What it finds is true if nothing has moved since it began
/// ([`super::moves::Seen`]).
pub struct Plain<'r> {
    /// The mount.
    pub mnt: Found<'r, Mount>,
    /// The name.
    pub dentry: Found<'r, Dentry>,
    reader: &'r Reader,
}

/// Where a plain walk ended.
pub enum End<D> {
    /// At the end of the path.
    Whole,
    /// Before something that is not plain. How many bytes were walked, and the entry with the next name, if
    /// that is known.
    Rest(usize, Option<D>),
    /// Before a name that is not there, as its directory's lock has told.
    Missing,
}

impl<'r> Plain<'r> {
    /// Starts at a place.
    #[inline(always)]
    pub fn at(mnt: Found<'r, Mount>, dentry: Found<'r, Dentry>, reader: &'r Reader) -> Self {
        Self { mnt, dentry, reader }
    }

    /// Walks `path` as far as it is plain. Stops before the last name, or walks that, too, as `last` says.
    #[inline(always)]
    pub fn walk(&mut self, path: &[u8], last: Last) -> End<Found<'r, Dentry>> {
        let mut pos = after_slashes(path, 0);
        loop {
            let wanted = Wanted::first_of(&path[pos..]);
            let end = pos + wanted.name.len();
            let next = after_slashes(path, end);
            let ends = next == path.len();
            if ends && (last == Last::Left || end != next) || wanted.is_special() {
                return End::Rest(pos, None);
            }
            match self.step(&wanted, ends && last == Last::Kept) {
                Ok(()) => {}
                Err(Met::Known(next)) => return End::Rest(pos, next),
                Err(Met::Nothing) => return End::Missing,
            }
            pos = next;
            if ends {
                return End::Whole;
            }
        }
    }

    /// Goes to the wanted entry, or to what is mounted on it. An error if that is not plain. `link`: a
    /// symbolic link is plain, since it is not to be followed.
    #[inline(always)]
    fn step(&mut self, wanted: &Wanted<'_>, link: bool) -> Result<(), Met<'r>> {
        let here = self.dentry.value();
        if !here.inode.for_everybody() {
            return Err(Met::Known(None));
        }
        let found = here.children().and_then(|all| all.find(wanted, self.reader));
        let Some(child) = found else {
            return Err(Self::not_found(here, wanted.name));
        };
        let named = child.value();
        if named.mounted.is_used() {
            return self.cross(child, link);
        }
        if named.inode.kind == FileType::Symlink && !link {
            return Err(Met::Known(Some(child)));
        }
        self.dentry = child;
        Ok(())
    }

    /// A reader did not find `name` in `here`, which proves nothing: entries may move among the chains. If
    /// all entries are in the directory, its lock tells.
    #[inline(never)]
    fn not_found(here: &Dentry, name: &[u8]) -> Met<'r> {
        if name.len() <= NAME_MAX
            && here.inode.ops.writable_directory()
            && here.lock_dir().is_ok_and(|dir| !dir.has(name))
        {
            Met::Nothing
        } else {
            Met::Known(None)
        }
    }

    /// [`Self::step`] to `child`, where something is mounted, perhaps in another mount of this tree.
    #[inline(never)]
    fn cross(&mut self, child: Found<'r, Dentry>, link: bool) -> Result<(), Met<'r>> {
        let (mut mnt, mut dentry) = (self.mnt, child);
        // On a mount's root another one may be mounted, and so on.
        while dentry.value().mounted.is_used() {
            let address = core::ptr::from_ref(mnt.value()).addr();
            let Some(over) = dentry.value().mounted.found(address, self.reader) else {
                break;
            };
            (mnt, dentry) = (over, over.value().root.found(self.reader));
        }
        if dentry.value().inode.kind == FileType::Symlink && !link {
            return Err(Met::Known(None));
        }
        (self.mnt, self.dentry) = (mnt, dentry);
        Ok(())
    }
}

/// What ended a plain walk.
enum Met<'r> {
    /// Something that is not plain. The entry with the next name, if it is known.
    Known(Option<Found<'r, Dentry>>),
    /// There is no such name.
    Nothing,
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
