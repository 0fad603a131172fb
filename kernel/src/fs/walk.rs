//! Path resolution: `.`, `..`, mounts, symbolic links, trailing slashes, and the rules of `openat2`.
//!
//! Each step takes one short lock (the directory's) and one reference; nothing is allocated unless a symbolic link is met.

use crate::fs::dentry::Dentry;
use crate::fs::inode::{FileType, Link};
use crate::fs::mount::MS_NOSYMFOLLOW;
use crate::fs::path::Path;
use crate::fs::perm;
use crate::task::Creds;
use alloc::borrow::Cow;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bitflags::bitflags;
use core::ops::Range;
use limen_linux_abi::Errno;

bitflags! {
    /// How to resolve.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Walk: u32 {
        /// Follow a symbolic link at the end.
        const FOLLOW = 1;
        /// The result must be a directory.
        const DIRECTORY = 2;
        /// The empty path means the starting point (`AT_EMPTY_PATH`).
        const EMPTY = 4;
        /// `RESOLVE_NO_XDEV`.
        const NO_XDEV = 8;
        /// `RESOLVE_NO_MAGICLINKS`.
        const NO_MAGICLINKS = 16;
        /// `RESOLVE_NO_SYMLINKS`.
        const NO_SYMLINKS = 32;
        /// `RESOLVE_BENEATH`.
        const BENEATH = 64;
        /// `RESOLVE_IN_ROOT`.
        const IN_ROOT = 128;
    }
}

/// Most symbolic links of one resolution.
const MAX_LINKS: u32 = 40;

/// The path text: what is left of it begins at `pos`.
pub struct Text<'a> {
    buf: Cow<'a, [u8]>,
    pos: usize,
}

impl<'a> Text<'a> {
    /// From what user space passed.
    pub fn new(path: &'a [u8]) -> Self {
        Self {
            buf: Cow::Borrowed(path),
            pos: 0,
        }
    }
    /// The bytes of a component.
    #[inline]
    pub fn get(&self, range: &Range<usize>) -> &[u8] {
        &self.buf[range.clone()]
    }
    /// A link's target comes first, then the rest from `at` on.
    fn splice(&mut self, target: Vec<u8>, at: usize) -> Result<(), Errno> {
        let mut new = target;
        let rest = &self.buf[at..];
        if !rest.is_empty() || at > 0 && self.buf[at - 1] == b'/' {
            new.push(b'/');
        }
        new.extend_from_slice(rest);
        if new.len() >= crate::mm::copy::PATH_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        self.buf = Cow::Owned(new);
        self.pos = 0;
        Ok(())
    }
}

/// The last component.
pub struct Last {
    /// What it is.
    pub kind: LastKind,
    /// Whether slashes follow.
    pub slash: bool,
}

/// What a last component can be.
pub enum LastKind {
    /// Nothing (the path was all slashes) or ".".
    Here,
    /// "..".
    Up,
    /// A name, at this place of the text.
    Name(Range<usize>),
}

/// A resolution under way.
pub struct Walker {
    /// Where it is now.
    pub cur: Path,
    /// What is above everything, if that is not (or not yet known to be) the task's root.
    root: Option<Path>,
    /// Nothing was walked yet from the root, so a first slash leads nowhere else.
    at_root: bool,
    flags: Walk,
    links: u32,
}

impl Walker {
    /// Starts at `start`, which is the root for absolute paths, as the running task.
    #[inline]
    fn new(start: Path, at_root: bool, flags: Walk) -> Self {
        Self {
            root: flags
                .intersects(Walk::BENEATH | Walk::IN_ROOT)
                .then(|| start.clone()),
            cur: start,
            at_root,
            flags,
            links: 0,
        }
    }

    /// Starts at `start`, below `root`.
    pub fn below(root: Path, start: Path, flags: Walk) -> Self {
        Self {
            root: Some(root),
            ..Self::new(start, false, flags)
        }
    }

    /// On whose behalf.
    pub fn creds(&self) -> Arc<Creds> {
        crate::task::current().creds()
    }

    /// The root, from the first use on the same.
    fn root(&mut self) -> &Path {
        self.root.get_or_insert_with(|| crate::task::current().root())
    }

    #[cold]
    fn to_root(&mut self) -> Result<(), Errno> {
        let to = self.root().clone();
        self.move_to(to)
    }

    fn move_to(&mut self, to: Path) -> Result<(), Errno> {
        if self.flags.contains(Walk::NO_XDEV) && !Arc::ptr_eq(&to.mnt, &self.cur.mnt) {
            return Err(Errno::EXDEV);
        }
        self.cur = to;
        Ok(())
    }

    fn up(&mut self) -> Result<(), Errno> {
        self.root();
        if self.root.as_ref() == Some(&self.cur) {
            return if self.flags.contains(Walk::BENEATH) {
                Err(Errno::EXDEV)
            } else {
                Ok(())
            };
        }
        if let Some(mut to) = self.cur.up() {
            to.cross_mounts();
            self.move_to(to)?;
        }
        Ok(())
    }

    /// The current place must be a directory that may be searched.
    #[inline]
    pub fn may_search(&self) -> Result<(), Errno> {
        let inode = &self.cur.dentry.inode;
        if inode.kind != FileType::Directory {
            return Err(Errno::ENOTDIR);
        }
        perm::may_search(inode)
    }

    /// Goes to `child` of the current directory, or to where it leads; `Some(target)` if that is text to be walked from here.
    #[inline]
    pub fn enter(&mut self, child: Arc<Dentry>, follow: bool) -> Result<Option<Vec<u8>>, Errno> {
        if child.inode.kind == FileType::Symlink && follow {
            return self.follow(&child);
        }
        if child.mounted.is_used() {
            return self.cross(child).map(|()| None);
        }
        self.cur.dentry = child;
        Ok(None)
    }

    /// To `child`, or what is mounted there.
    #[inline(never)]
    fn cross(&mut self, child: Arc<Dentry>) -> Result<(), Errno> {
        let Some(mnt) = child.mounted.find(&self.cur.mnt) else {
            self.cur.dentry = child;
            return Ok(());
        };
        let mut to = Path {
            dentry: mnt.root.clone(),
            mnt,
        };
        to.cross_mounts();
        self.move_to(to)
    }

    #[cold]
    fn follow(&mut self, link: &Arc<Dentry>) -> Result<Option<Vec<u8>>, Errno> {
        self.links += 1;
        if self.links > MAX_LINKS
            || self.flags.contains(Walk::NO_SYMLINKS)
            || self.cur.mnt.flags() & MS_NOSYMFOLLOW != 0
        {
            return Err(Errno::ELOOP);
        }
        match link.inode.ops.follow(&link.inode)? {
            Link::Text(text) if text.is_empty() => Err(Errno::ENOENT),
            Link::Text(text) => {
                link.inode.touch_accessed();
                Ok(Some(text))
            }
            Link::Jump(to) => {
                if self.flags.contains(Walk::NO_MAGICLINKS) {
                    return Err(Errno::ELOOP);
                }
                if self.flags.intersects(Walk::BENEATH | Walk::IN_ROOT) {
                    return Err(Errno::EXDEV);
                }
                self.move_to(to)?;
                Ok(None)
            }
        }
    }

    /// Walks everything but the last component.
    pub fn parent(&mut self, text: &mut Text<'_>) -> Result<Last, Errno> {
        loop {
            if text.pos == 0 && text.buf.first() == Some(&b'/') {
                if self.flags.contains(Walk::BENEATH) {
                    return Err(Errno::EXDEV);
                }
                if !core::mem::take(&mut self.at_root) {
                    self.to_root()?;
                }
            }
            let buf = &text.buf[..];
            let mut start = text.pos;
            while buf.get(start) == Some(&b'/') {
                start += 1;
            }
            if start == buf.len() {
                return Ok(Last {
                    kind: LastKind::Here,
                    slash: true,
                });
            }
            let mut end = start + 1;
            while end < buf.len() && buf[end] != b'/' {
                end += 1;
            }
            let mut next = end;
            while buf.get(next) == Some(&b'/') {
                next += 1;
            }
            let name = &buf[start..end];
            self.may_search()?;
            if next == buf.len() {
                let kind = match name {
                    b"." => LastKind::Here,
                    b".." => LastKind::Up,
                    _ => LastKind::Name(start..end),
                };
                return Ok(Last {
                    kind,
                    slash: end < buf.len(),
                });
            }
            match name {
                b"." => {}
                b".." => self.up()?,
                _ => {
                    let child = self.cur.dentry.lookup(name)?;
                    if let Some(target) = self.enter(child, true)? {
                        text.splice(target, next)?;
                        continue;
                    }
                }
            }
            text.pos = next;
        }
    }

    /// Goes on from a link found at the end: its target, with the slashes that followed it.
    pub fn continue_with(&mut self, text: &mut Text<'_>, target: Vec<u8>) -> Result<(), Errno> {
        let end = text.buf.len();
        text.splice(target, end)
    }

    /// Goes to a last component that is not a name.
    pub fn finish_dots(&mut self, last: &Last) -> Result<(), Errno> {
        match last.kind {
            LastKind::Up => self.up(),
            _ => Ok(()),
        }
    }

    /// Walks everything.
    pub fn all(&mut self, path: &[u8]) -> Result<(), Errno> {
        let mut text = Text::new(path);
        let mut must_be_dir = self.flags.contains(Walk::DIRECTORY);
        loop {
            let last = self.parent(&mut text)?;
            match &last.kind {
                LastKind::Name(range) => {
                    must_be_dir |= last.slash;
                    let child = self.cur.dentry.lookup(text.get(range))?;
                    let follow = self.flags.contains(Walk::FOLLOW) || last.slash;
                    if child.inode.kind == FileType::Symlink && !follow {
                        if self.flags.contains(Walk::DIRECTORY) {
                            return Err(Errno::ENOTDIR);
                        }
                        if self.flags.contains(Walk::NO_SYMLINKS) {
                            return Err(Errno::ELOOP);
                        }
                    }
                    if let Some(target) = self.enter(child, follow)? {
                        self.continue_with(&mut text, target)?;
                        continue;
                    }
                }
                _ => self.finish_dots(&last)?,
            }
            break;
        }
        if must_be_dir && self.cur.dentry.inode.kind != FileType::Directory {
            return Err(Errno::ENOTDIR);
        }
        Ok(())
    }
}

/// `AT_FDCWD`.
pub const AT_FDCWD: i32 = -100;

/// A walker for `path` as the running task sees it from directory descriptor `dirfd`. `ENOENT` for the empty path (unless allowed).
pub fn walker(dirfd: i32, path: &[u8], flags: Walk) -> Result<Walker, Errno> {
    let task = crate::task::current();
    if path.is_empty() && !flags.contains(Walk::EMPTY) {
        return Err(Errno::ENOENT);
    }
    let absolute = path.first() == Some(&b'/') && !flags.intersects(Walk::IN_ROOT | Walk::NO_XDEV);
    if absolute {
        return Ok(Walker::new(task.root(), true, flags));
    }
    let start = if dirfd == AT_FDCWD {
        task.cwd()
    } else {
        let file = task.files().get_any(dirfd)?;
        if !path.is_empty() && file.inode().kind != FileType::Directory {
            return Err(Errno::ENOTDIR);
        }
        file.path.clone()
    };
    Ok(Walker::new(start, false, flags))
}

/// Resolves `path`.
pub fn lookup(dirfd: i32, path: &[u8], flags: Walk) -> Result<Path, Errno> {
    let mut w = walker(dirfd, path, flags)?;
    if !path.is_empty() {
        w.all(path)?;
    } else if flags.contains(Walk::DIRECTORY) && w.cur.dentry.inode.kind != FileType::Directory {
        return Err(Errno::ENOTDIR);
    }
    Ok(w.cur)
}

/// Resolves all but the last component and hands the directory, the name and whether slashes follow to `f`.
/// `not_a_name` is the error for `.`, `..` and `/`.
pub fn with_parent<R>(
    dirfd: i32,
    path: &[u8],
    not_a_name: Errno,
    f: impl FnOnce(&Walker, &[u8], bool) -> Result<R, Errno>,
) -> Result<R, Errno> {
    let mut w = walker(dirfd, path, Walk::empty())?;
    let mut text = Text::new(path);
    let last = w.parent(&mut text)?;
    match &last.kind {
        LastKind::Name(range) => f(&w, text.get(range), last.slash),
        _ => Err(not_a_name),
    }
}
