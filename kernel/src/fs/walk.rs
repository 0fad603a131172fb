//! Path resolution: `.`, `..`, mounts, symbolic links, trailing slashes, and the rules of `openat2`.
//!
//! Most of it is plain, and done by [`Plain`]; this goes on from there. Each step takes one short lock (the directory's) and one reference; nothing is
//! allocated unless a symbolic link is met.

use crate::fs::dentry::Dentry;
use crate::fs::inode::{FileType, Link};
use crate::fs::mount::MS_NOSYMFOLLOW;
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

/// What a plain walk ([`Plain`]) heeds, or has no need to.
const PLAIN: Walk = Walk::FOLLOW.union(Walk::DIRECTORY).union(Walk::EMPTY);

/// Most symbolic links of one resolution.
const MAX_LINKS: u32 = 40;

/// The path text: what is left of it begins at `pos`.
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
    flags: Walk,
    links: u32,
    /// How much of the path was walked before.
    walked: usize,
    /// What is at the next name, if that is known from there.
    met: Option<Arc<Dentry>>,
}

impl Walker {
    /// Starts at `start`, as the running task.
    fn new(start: Path, flags: Walk) -> Self {
        Self {
            root: flags
                .intersects(Walk::BENEATH | Walk::IN_ROOT)
                .then(|| start.clone()),
            cur: start,
            flags,
            links: 0,
            walked: 0,
            met: None,
        }
    }

    /// Starts at `start`, below `root`.
    pub fn below(root: Path, start: Path, flags: Walk) -> Self {
        Self {
            root: Some(root),
            ..Self::new(start, flags)
        }
    }

    /// Goes on after a plain walk of `walked` bytes, which knows what is `met` next.
    fn after(plain: Plain, (walked, met): (usize, Option<Arc<Dentry>>), flags: Walk) -> Self {
        Self {
            walked,
            met,
            ..Self::new(plain.place(), flags)
        }
    }

    /// What user space passed, without what was walked.
    pub fn text<'a>(&self, path: &'a [u8]) -> Text<'a> {
        Text {
            buf: Cow::Borrowed(path),
            pos: self.walked,
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

    /// The entry `name` of the current directory, which comes next.
    #[inline]
    pub fn child(&mut self, name: &[u8]) -> Result<Arc<Dentry>, Errno> {
        match self.met.take() {
            Some(child) => Ok(child),
            None => self.cur.dentry.lookup(name),
        }
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

    /// As [`Walker::enter`], for the last component.
    #[inline]
    pub fn enter_last(&mut self, child: Arc<Dentry>, follow: bool) -> Result<Option<Vec<u8>>, Errno> {
        if child.inode.kind == FileType::Symlink && follow {
            perm::may_follow(&self.cur.dentry.inode, &child.inode)?;
        }
        self.enter(child, follow)
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
        let mut text = self.text(path);
        let mut must_be_dir = self.flags.contains(Walk::DIRECTORY);
        loop {
            let last = self.parent(&mut text)?;
            match &last.kind {
                LastKind::Name(range) => {
                    must_be_dir |= last.slash;
                    let child = self.child(text.get(range))?;
                    let follow = self.flags.contains(Walk::FOLLOW) || last.slash;
                    if child.inode.kind == FileType::Symlink && !follow {
                        if self.flags.contains(Walk::DIRECTORY) {
                            return Err(Errno::ENOTDIR);
                        }
                        if self.flags.contains(Walk::NO_SYMLINKS) {
                            return Err(Errno::ELOOP);
                        }
                    }
                    if let Some(target) = self.enter_last(child, follow)? {
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

    /// Walks everything that is left, if anything is, and gives where that leads.
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

/// What `begin` makes of the place where `path` begins, as the running task sees it from directory descriptor `dirfd`. `ENOENT` for the empty path
/// (unless allowed).
#[inline(always)]
fn start<T>(dirfd: i32, path: &[u8], flags: Walk, begin: impl FnOnce(&Path) -> T + Copy) -> Result<T, Errno> {
    if path.is_empty() && !flags.contains(Walk::EMPTY) {
        return Err(Errno::ENOENT);
    }
    let absolute = path.first() == Some(&b'/') && !flags.intersects(Walk::IN_ROOT | Walk::NO_XDEV);
    if absolute || dirfd == AT_FDCWD {
        let task = crate::task::current();
        return Ok(task.look_at_places(move |p| begin(if absolute { &p.root } else { &p.cwd })));
    }
    Ok(begin(&start_at(dirfd, path)?))
}

/// The place of a descriptor.
#[inline(never)]
fn start_at(dirfd: i32, path: &[u8]) -> Result<Path, Errno> {
    let file = crate::task::current().files().get_any(dirfd)?;
    if !path.is_empty() && file.inode().kind != FileType::Directory {
        return Err(Errno::ENOTDIR);
    }
    Ok(file.path.clone())
}

/// A walker that has walked nothing, for what is not plain.
#[inline(never)]
fn walker_for_all(dirfd: i32, path: &[u8], flags: Walk) -> Result<Walker, Errno> {
    Ok(Walker::new(start(dirfd, path, flags, Path::clone)?, flags))
}

/// A walker for `path` as the running task sees it from directory descriptor `dirfd`, which leaves the last component to the caller.
/// `ENOENT` for the empty path.
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

/// Resolves `path`.
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

/// [`lookup`] after its plain part.
#[inline(never)]
fn lookup_rest(
    plain: Plain,
    walked: (usize, Option<Arc<Dentry>>),
    path: &[u8],
    flags: Walk,
) -> Result<Path, Errno> {
    Walker::after(plain, walked, flags).finish(path)
}

/// All of a path but its last component, resolved.
pub struct Parent<'a> {
    /// In the directory.
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

    /// The last component and whether slashes follow. `not_a_name` is the error for `.`, `..` and `/`.
    #[inline(always)]
    pub fn name(&self, not_a_name: Errno) -> Result<(&[u8], bool), Errno> {
        match &self.last.kind {
            LastKind::Name(range) => Ok((self.text.get(range), self.last.slash)),
            _ => Err(not_a_name),
        }
    }
}

/// Resolves all but the last component and hands the directory, the name and whether slashes follow to `f`.
/// `not_a_name` is the error for `.`, `..` and `/`.
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
