//! The walk along a path that counts what it finds: `.`, `..`, mounts, symbolic links, trailing slashes, and
//! the rules of `openat2`. It continues where a plain walk stopped ([`super::lookup`]). Each step takes one
//! short lock, the directory's, and counts one reference. Memory is allocated only for symbolic links.

use crate::fs::context::Places;
use crate::fs::dentry::Dentry;
use crate::fs::inode::{FileType, Link};
use crate::fs::mount::MS_NOSYMFOLLOW;
use crate::fs::moves::Seen;
use crate::fs::path::Path;
use crate::fs::perm;
use crate::rcu::Shared;
use crate::task::Creds;
use alloc::borrow::Cow;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bitflags::bitflags;
use core::ops::Range;
use limen_linux_abi::Errno;

bitflags! {
    /// How to resolve a path.
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

/// A scoped walk must not leave the tree in which it begins.
const SCOPED: Walk = Walk::BENEATH.union(Walk::IN_ROOT);

/// How many symbolic links one resolution may follow.
const MAX_LINKS: u32 = 40;

/// The text of a path. What is left of it begins at `pos`.
pub struct Text<'a> {
    buf: Cow<'a, [u8]>,
    pos: usize,
}

impl<'a> Text<'a> {
    /// The bytes of a component.
    #[inline]
    pub fn get(&self, range: &Range<usize>) -> &[u8] {
        &self.buf[range.clone()]
    }
    /// Puts a link's target in front of the rest, which begins at `at`.
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
    /// Of which kind it is.
    pub kind: LastKind,
    /// Whether slashes follow it.
    pub slash: bool,
}

/// The kinds of a last component.
pub enum LastKind {
    /// None (the path was only slashes), or ".".
    Here,
    /// "..".
    Up,
    /// A name: its place in the text.
    Name(Range<usize>),
}

/// A path resolution that is going on.
pub struct Walker {
    /// Where it is now.
    pub cur: Path,
    /// The root that it must not go above, if that is not the task's, or if the task's has been looked up.
    root: Option<Path>,
    /// Where it began, if that was the task's root, which another thread may change meanwhile.
    began: Option<Shared<Places>>,
    flags: Walk,
    /// For a scoped walk: the number of moves when it began.
    seen: Seen,
    links: u32,
    /// How many bytes of the path a plain walk has walked.
    walked: usize,
    /// The entry with the next name, if the plain walk found it.
    met: Option<Shared<Dentry>>,
}

/// The rest of a path behind its plain part: how many bytes were walked, the entry with the next name, if
/// known, and the root if the path began there.
pub(super) type Rest = (usize, Option<Shared<Dentry>>, Option<Shared<Places>>);

impl Walker {
    /// Where it is. What it began with is given up.
    pub fn into_place(self) -> Path {
        self.cur
    }

    /// Starts at `start`, as the running task.
    pub(super) fn new(start: Path, flags: Walk) -> Self {
        let scoped = flags.intersects(SCOPED);
        Self {
            root: scoped.then(|| start.clone()),
            began: None,
            cur: start,
            flags,
            seen: if scoped { Seen::now() } else { Seen::NEVER },
            links: 0,
            walked: 0,
            met: None,
        }
    }

    /// Starts at `start` and does not go above `root`.
    pub fn below(root: Path, start: Path, flags: Walk) -> Self {
        Self {
            root: Some(root),
            ..Self::new(start, flags)
        }
    }

    /// It began at the root, above which it must not go even if the task's changes meanwhile.
    pub(super) fn keep_root(&mut self) {
        self.root.get_or_insert_with(|| self.cur.clone());
    }

    /// Continues after a plain walk of `walked` bytes. `met`: the entry with the next name, if known.
    pub(super) fn after(place: Path, (walked, met, began): Rest, flags: Walk) -> Self {
        Self {
            walked,
            met,
            began,
            ..Self::new(place, flags)
        }
    }

    /// The rest of the path that the program passed.
    pub fn text<'a>(&self, path: &'a [u8]) -> Text<'a> {
        Text {
            buf: Cow::Borrowed(path),
            pos: self.walked,
        }
    }

    /// The credentials with which it walks.
    pub fn creds(&self) -> Arc<Creds> {
        crate::task::current().creds()
    }

    /// The root. Looked up at first use, and the same from then on.
    fn root(&mut self) -> &Path {
        self.root.get_or_insert_with(|| match &self.began {
            Some(places) => places.root.path(),
            None => crate::task::current().root(),
        })
    }

    #[cold]
    fn to_root(&mut self) -> Result<(), Errno> {
        // With `RESOLVE_NO_XDEV`, a link to the root counts as leaving the mount unless the walk has already
        // used the root, as on Linux.
        if self.flags.contains(Walk::NO_XDEV) && self.root.is_none() {
            return Err(Errno::EXDEV);
        }
        let to = self.root().clone();
        self.move_to(to)
    }

    fn move_to(&mut self, to: Path) -> Result<(), Errno> {
        if self.flags.contains(Walk::NO_XDEV) && !Shared::ptr_eq(&to.mnt, &self.cur.mnt) {
            return Err(Errno::EXDEV);
        }
        self.cur = to;
        Ok(())
    }

    /// Goes to the directory above, but not above the root, and to what is mounted there. `EAGAIN`: this is a
    /// scoped walk and something moved since it began, which may have put the directory above outside of the
    /// tree.
    fn up(&mut self) -> Result<(), Errno> {
        self.root();
        match self.cur.up(self.root.as_ref())? {
            Some(to) => self.move_to(to)?,
            None if self.flags.contains(Walk::BENEATH) => return Err(Errno::EXDEV),
            None => {}
        }
        if self.cur.dentry.mounted.is_used() {
            let mut to = self.cur.clone();
            to.cross_mounts();
            self.move_to(to)?;
        }
        if self.flags.intersects(SCOPED) && !self.seen.still() {
            return Err(Errno::EAGAIN);
        }
        Ok(())
    }

    /// The end of a walk. `EXDEV`: a scoped walk has left its tree, even if because directories moved.
    #[inline]
    pub fn check_scope(&self) -> Result<(), Errno> {
        if self.flags.intersects(SCOPED) {
            return self.check_inside();
        }
        Ok(())
    }

    #[cold]
    fn check_inside(&self) -> Result<(), Errno> {
        match &self.root {
            Some(root) if !self.cur.is_under(root)? => Err(Errno::EXDEV),
            _ => Ok(()),
        }
    }

    /// Whether the current place is a directory that may be searched. `ENOTDIR`, `EACCES`.
    #[inline]
    pub fn may_search(&self) -> Result<(), Errno> {
        let inode = &self.cur.dentry.inode;
        if inode.kind != FileType::Directory {
            return Err(Errno::ENOTDIR);
        }
        perm::may_search(inode)
    }

    /// The entry `name`, the next one, of the current directory.
    #[inline]
    pub fn child(&mut self, name: &[u8]) -> Result<Shared<Dentry>, Errno> {
        match self.met.take() {
            Some(child) => Ok(child),
            None => self.cur.dentry.lookup(name),
        }
    }

    /// Goes to `child` of the current directory or, if that is a link, to where it leads. `Some(target)`: the
    /// text of a link, to be walked from here.
    #[inline]
    pub fn enter(&mut self, child: Shared<Dentry>, follow: bool) -> Result<Option<Vec<u8>>, Errno> {
        if child.mounted.is_used() {
            return self.cross(child, follow);
        }
        if child.inode.kind == FileType::Symlink && follow {
            return self.follow(&child, self.cur.mnt.flags());
        }
        self.cur.dentry = child;
        Ok(None)
    }

    /// [`Walker::enter`] for the last component.
    #[inline]
    pub fn enter_last(&mut self, child: Shared<Dentry>, follow: bool) -> Result<Option<Vec<u8>>, Errno> {
        if child.inode.kind == FileType::Symlink && follow {
            perm::may_follow(&self.cur.dentry.inode, &child.inode)?;
        }
        self.enter(child, follow)
    }

    /// Goes to `child`, or to what is mounted on it, which may be a link, too.
    #[inline(never)]
    fn cross(&mut self, child: Shared<Dentry>, follow: bool) -> Result<Option<Vec<u8>>, Errno> {
        let mut to = Path {
            mnt: self.cur.mnt.clone(),
            dentry: child,
        };
        to.cross_mounts();
        if self.flags.contains(Walk::NO_XDEV) && !Shared::ptr_eq(&to.mnt, &self.cur.mnt) {
            return Err(Errno::EXDEV);
        }
        if to.dentry.inode.kind == FileType::Symlink && follow {
            return self.follow(&to.dentry, to.mnt.flags());
        }
        self.cur = to;
        Ok(None)
    }

    /// Goes to where `link` leads. `mount_flags`: those of its mount.
    #[cold]
    fn follow(&mut self, link: &Shared<Dentry>, mount_flags: u32) -> Result<Option<Vec<u8>>, Errno> {
        self.links += 1;
        if self.links > MAX_LINKS
            || self.flags.contains(Walk::NO_SYMLINKS)
            || mount_flags & MS_NOSYMFOLLOW != 0
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
                if self.flags.intersects(SCOPED) {
                    return Err(Errno::EXDEV);
                }
                self.move_to(to)?;
                Ok(None)
            }
        }
    }

    /// Walks all but the last component.
    pub fn parent(&mut self, text: &mut Text<'_>) -> Result<Last, Errno> {
        loop {
            if text.pos == 0 && text.buf.first() == Some(&b'/') {
                if self.flags.contains(Walk::BENEATH) {
                    return Err(Errno::EXDEV);
                }
                self.to_root()?;
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
                    let child = self.child(name)?;
                    if let Some(target) = self.enter(child, true)? {
                        text.splice(target, next)?;
                        continue;
                    }
                }
            }
            text.pos = next;
        }
    }

    /// Walks all but the last component, which [`Self::text`] begins with then.
    pub(super) fn walk_to_parent(&mut self, path: &[u8]) -> Result<(), Errno> {
        let mut text = self.text(path);
        self.parent(&mut text)?;
        // Whatever links led here, the last component is the path's.
        let left = text.buf.len() - text.pos;
        self.walked = path.len().saturating_sub(left);
        Ok(())
    }

    /// Continues with the target of a link that was found at the end, and the slashes that followed the link.
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

    /// Walks the whole path.
    pub fn all(&mut self, path: &[u8]) -> Result<(), Errno> {
        let mut text = self.text(path);
        let mut must_be_dir = self.flags.contains(Walk::DIRECTORY);
        loop {
            let last = self.parent(&mut text)?;
            match &last.kind {
                LastKind::Name(range) => {
                    must_be_dir |= last.slash;
                    let child = self.child(text.get(range))?;
                    let follow = self.flags.contains(Walk::FOLLOW) || last.slash;
                    if let Some(target) = self.enter_last(child, follow)? {
                        self.continue_with(&mut text, target)?;
                        continue;
                    }
                }
                _ => self.finish_dots(&last)?,
            }
            break;
        }
        self.check_scope()?;
        if must_be_dir && self.cur.dentry.inode.kind != FileType::Directory {
            return Err(Errno::ENOTDIR);
        }
        Ok(())
    }

    /// Walks the rest, if there is one, and returns where it leads.
    pub(super) fn finish(mut self, path: &[u8]) -> Result<Path, Errno> {
        if !path.is_empty() {
            self.all(path)?;
        } else if self.flags.contains(Walk::DIRECTORY) && self.cur.dentry.inode.kind != FileType::Directory {
            return Err(Errno::ENOTDIR);
        }
        Ok(self.cur)
    }
}
