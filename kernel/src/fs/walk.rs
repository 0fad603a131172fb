//! Path resolution: `.`, `..`, mounts, symbolic links, trailing slashes, and the rules of `openat2`.
//!
//! [`Plain`] resolves most paths, and the first part of the others; this continues where it stopped. Each
//! step takes one short lock, the directory's, and counts one reference. Memory is allocated only for
//! symbolic links.

use crate::fs::dentry::Dentry;
use crate::fs::inode::{FileType, Link};
use crate::fs::mount::MS_NOSYMFOLLOW;
use crate::fs::moves::Seen;
use crate::fs::path::Path;
use crate::fs::perm;
use crate::fs::plain::{self, End, Plain};
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

/// The flags that a plain walk ([`Plain`]) obeys or that do not concern it.
const PLAIN: Walk = Walk::FOLLOW.union(Walk::DIRECTORY).union(Walk::EMPTY);

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
    flags: Walk,
    /// For a scoped walk: the number of moves when it began.
    seen: Seen,
    links: u32,
    /// How many bytes of the path a plain walk has walked.
    walked: usize,
    /// The entry with the next name, if the plain walk found it.
    met: Option<Arc<Dentry>>,
}

impl Walker {
    /// Starts at `start`, as the running task.
    fn new(start: Path, flags: Walk) -> Self {
        let scoped = flags.intersects(SCOPED);
        Self {
            root: scoped.then(|| start.clone()),
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

    /// Continues after a plain walk of `walked` bytes. `met`: the entry with the next name, if known.
    fn after(plain: Plain, (walked, met): (usize, Option<Arc<Dentry>>), flags: Walk) -> Self {
        Self {
            walked,
            met,
            ..Self::new(plain.place(), flags)
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
        self.root.get_or_insert_with(|| crate::task::current().root())
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
        if self.flags.contains(Walk::NO_XDEV) && !Arc::ptr_eq(&to.mnt, &self.cur.mnt) {
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
    pub fn child(&mut self, name: &[u8]) -> Result<Arc<Dentry>, Errno> {
        match self.met.take() {
            Some(child) => Ok(child),
            None => self.cur.dentry.lookup(name),
        }
    }

    /// Goes to `child` of the current directory or, if that is a link, to where it leads. `Some(target)`: the
    /// text of a link, to be walked from here.
    #[inline]
    pub fn enter(&mut self, child: Arc<Dentry>, follow: bool) -> Result<Option<Vec<u8>>, Errno> {
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
    pub fn enter_last(&mut self, child: Arc<Dentry>, follow: bool) -> Result<Option<Vec<u8>>, Errno> {
        if child.inode.kind == FileType::Symlink && follow {
            perm::may_follow(&self.cur.dentry.inode, &child.inode)?;
        }
        self.enter(child, follow)
    }

    /// Goes to `child`, or to what is mounted on it, which may be a link, too.
    #[inline(never)]
    fn cross(&mut self, child: Arc<Dentry>, follow: bool) -> Result<Option<Vec<u8>>, Errno> {
        let mut to = Path {
            mnt: self.cur.mnt.clone(),
            dentry: child,
        };
        to.cross_mounts();
        if self.flags.contains(Walk::NO_XDEV) && !Arc::ptr_eq(&to.mnt, &self.cur.mnt) {
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
    fn follow(&mut self, link: &Arc<Dentry>, mount_flags: u32) -> Result<Option<Vec<u8>>, Errno> {
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
    fn finish(mut self, path: &[u8]) -> Result<Path, Errno> {
        if !path.is_empty() {
            self.all(path)?;
        } else if self.flags.contains(Walk::DIRECTORY) && self.cur.dentry.inode.kind != FileType::Directory {
            return Err(Errno::ENOTDIR);
        }
        Ok(self.cur)
    }
}

/// `AT_FDCWD`.
pub const AT_FDCWD: i32 = -100;

/// The result of `begin` for the place where `path` begins: the running task's root or working directory, or
/// the directory of descriptor `dirfd`. `ENOENT`: the path is empty and `flags` do not allow that.
#[inline(always)]
fn start<T>(dirfd: i32, path: &[u8], flags: Walk, begin: impl FnOnce(&Path) -> T + Copy) -> Result<T, Errno> {
    if path.is_empty() && !flags.contains(Walk::EMPTY) {
        return Err(Errno::ENOENT);
    }
    let absolute = path.first() == Some(&b'/') && !flags.contains(Walk::IN_ROOT);
    if absolute || dirfd == AT_FDCWD {
        let task = crate::task::current();
        return Ok(task.look_at_places(move |p| begin(if absolute { &p.root } else { &p.cwd })));
    }
    Ok(begin(&start_at(dirfd, path)?))
}

/// The place of descriptor `dirfd`.
#[inline(never)]
fn start_at(dirfd: i32, path: &[u8]) -> Result<Path, Errno> {
    let file = crate::task::current().file_any(dirfd)?;
    if !path.is_empty() && file.inode().kind != FileType::Directory {
        return Err(Errno::ENOTDIR);
    }
    Ok(file.path.clone())
}

/// A walker that has not walked yet, for paths that do not begin with a plain part.
#[inline(never)]
fn walker_for_all(dirfd: i32, path: &[u8], flags: Walk) -> Result<Walker, Errno> {
    let mut walker = Walker::new(start(dirfd, path, flags, Path::clone)?, flags);
    if path.first() == Some(&b'/') {
        walker.root.get_or_insert_with(|| walker.cur.clone());
    }
    Ok(walker)
}

/// A walker for `path`, relative to descriptor `dirfd`. The caller walks the last component. `ENOENT`: the
/// path is empty.
pub fn walker(dirfd: i32, path: &[u8], flags: Walk) -> Result<Walker, Errno> {
    if !PLAIN.contains(flags) {
        return walker_for_all(dirfd, path, flags);
    }
    let mut plain = start(dirfd, path, flags, Plain::at)?;
    match plain.walk(path, plain::Last::Left)? {
        End::Rest(walked, met) => Ok(Walker::after(plain, (walked, met), flags)),
        End::Whole => Err(Errno::ENOENT),
    }
}

/// Resolves `path`, relative to descriptor `dirfd`. May sleep.
pub fn lookup(dirfd: i32, path: &[u8], flags: Walk) -> Result<Path, Errno> {
    if !PLAIN.contains(flags) {
        return walker_for_all(dirfd, path, flags)?.finish(path);
    }
    let last = if flags.contains(Walk::FOLLOW) {
        plain::Last::Followed
    } else {
        plain::Last::Kept
    };
    let mut plain = start(dirfd, path, flags, Plain::at)?;
    if let End::Rest(walked, met) = plain.walk(path, last)? {
        return lookup_rest(plain, (walked, met), path, flags);
    }
    let found = plain.place();
    if flags.contains(Walk::DIRECTORY) && found.dentry.inode.kind != FileType::Directory {
        return Err(Errno::ENOTDIR);
    }
    Ok(found)
}

/// [`lookup`] of the rest, behind the plain part.
#[inline(never)]
fn lookup_rest(
    plain: Plain,
    walked: (usize, Option<Arc<Dentry>>),
    path: &[u8],
    flags: Walk,
) -> Result<Path, Errno> {
    Walker::after(plain, walked, flags).finish(path)
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
