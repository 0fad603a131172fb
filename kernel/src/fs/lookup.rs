//! From a path to the place where it leads. [`Plain`] walks most paths, and the first part of the others, as
//! a reader who writes nothing that other processors read; a [`Walker`] continues where it stopped.

use crate::fs::context::Places;
use crate::fs::dentry::Dentry;
use crate::fs::file::File;
use crate::fs::inode::FileType;
use crate::fs::mount::Mount;
use crate::fs::moves::Seen;
use crate::fs::path::Path;
use crate::fs::plain::{self, End, Plain};
use crate::fs::walk::{Last, LastKind, Rest, Text, Walk, Walker};
use crate::rcu::{Found, Reader, Shared, read};
use crate::task::audit::names;
use alloc::sync::Arc;
use core::convert::Infallible;
use limen_linux_abi::Errno;
use limen_name_table::Wanted;

/// The flags that a plain walk ([`Plain`]) obeys or that do not concern it.
const PLAIN: Walk = Walk::FOLLOW.union(Walk::DIRECTORY).union(Walk::EMPTY);

/// `AT_FDCWD`.
pub const AT_FDCWD: i32 = -100;

/// The place where `path` begins, counted: the running task's root or working directory, or the directory of
/// descriptor `dirfd`.
fn start(dirfd: i32, path: &[u8], flags: Walk) -> Result<Path, Errno> {
    let absolute = path.first() == Some(&b'/') && !flags.contains(Walk::IN_ROOT);
    let task = crate::task::current();
    if absolute {
        return Ok(task.root());
    }
    if dirfd == AT_FDCWD {
        return Ok(task.cwd());
    }
    let file = task.file_any(dirfd)?;
    if !path.is_empty() && file.inode().kind != FileType::Directory {
        return Err(Errno::ENOTDIR);
    }
    Ok(file.path.clone())
}

/// A walker that has not walked yet, for paths that do not begin with a plain part.
#[inline(never)]
fn walker_for_all(dirfd: i32, path: &[u8], flags: Walk) -> Result<Walker, Errno> {
    if path.is_empty() && !flags.contains(Walk::EMPTY) {
        return Err(Errno::ENOENT);
    }
    let mut walker = Walker::new(start(dirfd, path, flags)?, flags);
    if path.first() == Some(&b'/') {
        walker.keep_root();
    }
    Ok(walker)
}

/// What came of the plain part of a path.
enum Begun<R> {
    /// The whole path was plain, and was looked at.
    Seen(R),
    /// It ended here, which is counted, and this is left to be walked.
    At(Path, Option<Rest>),
    /// Something moved, or was freed: the walk must begin again, and count what it finds.
    Again,
}

/// What a reader found: what `look` made of it, or what is to be used without the reader, if it could be
/// counted.
enum Met<R> {
    Seen(R),
    Missing,
    Counted(Option<Shared<Mount>>, Option<Shared<Dentry>>, Option<Rest>),
}

/// Walks the plain part of `path` from a place. If that is all, `look` is called with the end of the path; it
/// must not sleep. If it returns `None`, and else, what the walk has found is counted.
#[inline(always)]
fn read_from<'r, R>(
    seen: Seen,
    reader: &'r Reader,
    (mnt, dentry, root): (Found<'r, Mount>, Found<'r, Dentry>, Option<Found<'r, Places>>),
    path: &[u8],
    last: plain::Last,
    look: impl FnOnce(&'r Mount, &'r Dentry) -> Option<R>,
) -> Met<R> {
    let mut plain = Plain::at(mnt, dentry, reader);
    let rest = match plain.walk(path, last) {
        End::Whole => {
            if seen.still()
                && let Some(result) = look(plain.mnt.value(), plain.dentry.value())
            {
                return Met::Seen(result);
            }
            None
        }
        End::Missing if seen.still() => return Met::Missing,
        End::Missing => return Met::Counted(None, None, None),
        End::Rest(walked, met) => {
            let began = root.and_then(Found::get);
            if root.is_some() && began.is_none() {
                // Another thread has just changed the root, which the rest must not leave.
                return Met::Counted(None, None, None);
            }
            Some((walked, met.and_then(Found::get), began))
        }
    };
    Met::Counted(plain.mnt.get(), plain.dentry.get(), rest)
}

impl<R> Met<R> {
    /// Called when the reader has ended: a reference that is not needed is dropped here.
    #[inline(always)]
    fn check(self, seen: Seen) -> Result<Begun<R>, Errno> {
        match self {
            Self::Seen(result) => Ok(Begun::Seen(result)),
            Self::Missing => Err(Errno::ENOENT),
            Self::Counted(Some(mnt), Some(dentry), rest) if seen.is_still_counted() => {
                Ok(Begun::At(Path { mnt, dentry }, rest))
            }
            Self::Counted(..) => Ok(Begun::Again),
        }
    }
}

/// Walks the plain part of `path`, relative to descriptor `dirfd`, as [`read_from`]. `ENOENT`: the path is
/// empty and `flags`, which a plain walk obeys, do not allow that.
#[inline(always)]
fn begin<R>(
    dirfd: i32,
    path: &[u8],
    flags: Walk,
    last: plain::Last,
    look: impl FnOnce(&Mount, &Dentry) -> Option<R>,
) -> Result<Begun<R>, Errno> {
    if path.is_empty() && !flags.contains(Walk::EMPTY) {
        return Err(Errno::ENOENT);
    }
    let absolute = path.first() == Some(&b'/');
    let file = if absolute || dirfd == AT_FDCWD {
        None
    } else {
        Some(directory(dirfd, path)?)
    };
    let task = crate::task::current();
    let seen = Seen::at_once();
    let met = {
        let reader = read();
        let from = match &file {
            Some(file) => {
                let place = &file.path;
                let (mnt, dentry) = (&place.mnt, &place.dentry);
                (Shared::found(mnt, &reader), Shared::found(dentry, &reader), None)
            }
            None => {
                let Some(places) = task.places().and_then(|fs| fs.places(&reader)) else {
                    return Ok(Begun::Again);
                };
                let at = places.value();
                let at = if absolute { &at.root } else { &at.cwd };
                let root = absolute.then_some(places);
                (at.mnt.found(&reader), at.dentry.found(&reader), root)
            }
        };
        read_from(seen, &reader, from, path, last, look)
    };
    met.check(seen)
}

/// The file of descriptor `dirfd`, where `path` begins.
#[inline(never)]
fn directory(dirfd: i32, path: &[u8]) -> Result<Arc<File>, Errno> {
    let file = crate::task::current().file_any(dirfd)?;
    if !path.is_empty() && file.inode().kind != FileType::Directory {
        return Err(Errno::ENOTDIR);
    }
    Ok(file)
}

/// A walker for `path`, relative to descriptor `dirfd`. The caller walks the last component. `ENOENT`: the
/// path is empty.
pub fn walker(dirfd: i32, path: &[u8], flags: Walk) -> Result<Walker, Errno> {
    if !PLAIN.contains(flags) {
        return walker_slowly(dirfd, path, flags);
    }
    match begin(dirfd, path, flags, plain::Last::Left, |_, _| None::<Infallible>)? {
        Begun::At(place, Some(rest)) => Ok(Walker::after(place, rest, flags)),
        Begun::At(_, None) | Begun::Seen(_) => Err(Errno::ENOENT),
        Begun::Again => walker_slowly(dirfd, path, flags),
    }
}

/// [`walker`] of what does not begin with a plain part. If audit notes it, it is at the directory of the last
/// name already.
#[inline(never)]
fn walker_slowly(dirfd: i32, path: &[u8], flags: Walk) -> Result<Walker, Errno> {
    let noted = names::is_noted();
    if noted && !path.is_empty() {
        names::begins(path);
    }
    let mut walker = walker_for_all(dirfd, path, flags)?;
    if noted {
        walker.walk_to_parent(path)?;
        names::found_parent(&walker.cur.dentry);
    }
    Ok(walker)
}

/// How a plain walk treats the last name.
#[inline(always)]
fn last_of(flags: Walk) -> plain::Last {
    if flags.contains(Walk::FOLLOW) {
        plain::Last::Followed
    } else {
        plain::Last::Kept
    }
}

/// Resolves `path`, relative to descriptor `dirfd`. May sleep.
pub fn lookup(dirfd: i32, path: &[u8], flags: Walk) -> Result<Path, Errno> {
    if !PLAIN.contains(flags) {
        return lookup_all(dirfd, path, flags);
    }
    let found = match begin(dirfd, path, flags, last_of(flags), |_, _| None::<Infallible>)? {
        Begun::At(found, None) => found,
        Begun::At(place, Some(rest)) => return lookup_rest(place, rest, path, flags),
        _ => return lookup_all(dirfd, path, flags),
    };
    if flags.contains(Walk::DIRECTORY) && found.dentry.inode.kind != FileType::Directory {
        return Err(Errno::ENOTDIR);
    }
    Ok(found)
}

/// Calls `look` with the mount and the name to which `path` leads, relative to descriptor `dirfd`. `look`
/// must not sleep, since nothing is counted. `Some`: the path is not plain, `look` was not called, and this
/// is where the path leads. `flags` are those that a plain walk obeys, without [`Walk::DIRECTORY`]. May
/// sleep.
#[inline(always)]
pub fn look(
    dirfd: i32,
    path: &[u8],
    flags: Walk,
    look: impl FnOnce(&Mount, &Dentry),
) -> Result<Option<Path>, Errno> {
    let looked = |mnt: &Mount, dentry: &Dentry| {
        look(mnt, dentry);
        // If the last name has been removed meanwhile, what was seen may be half gone.
        (dentry.inode.nlink() != 0).then_some(())
    };
    match begin(dirfd, path, flags, last_of(flags), looked)? {
        Begun::Seen(()) => Ok(None),
        Begun::At(place, Some(rest)) => lookup_rest(place, rest, path, flags).map(Some),
        Begun::At(_, None) | Begun::Again => lookup_all(dirfd, path, flags).map(Some),
    }
}

/// [`lookup`] of what does not begin with a plain part.
#[inline(never)]
fn lookup_all(dirfd: i32, path: &[u8], flags: Walk) -> Result<Path, Errno> {
    let found = walker_for_all(dirfd, path, flags).and_then(|walker| walker.finish(path));
    if names::is_noted() && (!path.is_empty() || flags.contains(Walk::EMPTY)) {
        names::looked_up(path, &found);
    }
    found
}

/// [`lookup`] of the rest, behind the plain part.
#[inline(never)]
fn lookup_rest(place: Path, mut rest: Rest, path: &[u8], flags: Walk) -> Result<Path, Errno> {
    if rest.1.is_none() && place.dentry.inode.for_everybody() {
        // Most often a name that its file system makes up.
        let wanted = Wanted::first_of(&path[rest.0..]);
        if !wanted.is_special() {
            rest.1 = Some(place.dentry.lookup(wanted.name)?);
        }
    }
    Walker::after(place, rest, flags).finish(path)
}

/// A path of which all but the last component has been resolved.
pub struct Parent<'a> {
    /// At the directory.
    pub walker: Walker,
    text: Text<'a>,
    last: Last,
}

impl<'a> Parent<'a> {
    /// Resolves all but the last component of `path`.
    #[inline(always)]
    pub fn of(dirfd: i32, path: &'a [u8]) -> Result<Self, Errno> {
        let mut walker = walker(dirfd, path, Walk::empty())?;
        let mut text = walker.text(path);
        let last = walker.parent(&mut text)?;
        Ok(Self { walker, text, last })
    }

    /// The last component, and whether slashes follow it. `not_a_name`: the error for `.`, `..` and `/`.
    #[inline(always)]
    pub fn name(&self, not_a_name: Errno) -> Result<(&[u8], bool), Errno> {
        match &self.last.kind {
            LastKind::Name(range) => Ok((self.text.get(range), self.last.slash)),
            _ => Err(not_a_name),
        }
    }
}

/// Resolves all but the last component, and calls `f` with the directory, the name, and whether slashes
/// follow. `not_a_name`: the error for `.`, `..` and `/`.
pub fn with_parent<R>(
    dirfd: i32,
    path: &[u8],
    not_a_name: Errno,
    f: impl FnOnce(&Walker, &[u8], bool) -> Result<R, Errno>,
) -> Result<R, Errno> {
    let parent = Parent::of(dirfd, path)?;
    let (name, slash) = parent.name(not_a_name)?;
    f(&parent.walker, name, slash)
}
