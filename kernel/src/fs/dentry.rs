//! Names: the tree through which path names lead. In file systems in memory the entries of a directory's
//! dentry *are* the directory. In file systems that make their entries up at each lookup (`procfs`), a dentry
//! has only entries on which something is mounted.
//!
//! Readers find entries by name without a lock (`children.rs`). Locks, for all others: `Dentry.dir` (the
//! entries): a parent's before its child's. Two unrelated directories are locked together only by rename,
//! under the superblock's `rename_lock`, the one with the lower address first. `Dentry.link` (name and
//! parent) comes last. See `docs/fs.md`.

use crate::fs::children::Children;
use crate::fs::inode::{FileType, Inode};
use crate::fs::mountpoint::Mountpoint;
use crate::fs::procfs::Subject;
use crate::rcu::{Held, Retire, Retiring, Shared};
use crate::sync::{SpinGuard, SpinLock};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use limen_linux_abi::Errno;

/// The longest name in bytes (`NAME_MAX`).
pub const NAME_MAX: usize = 255;

/// A name, allocated once and shared.
pub type Name = Arc<[u8]>;

/// Entries by cookie, together with their names: the name in a dentry is behind a lock.
type Entries = BTreeMap<u64, (Name, Shared<Dentry>)>;

/// The entries of a directory in the order of listings.
#[derive(Default)]
struct Listing {
    by_cookie: Entries,
    next_cookie: u64,
    /// The directory has been removed: nothing may be added.
    dead: bool,
}

/// What a directory has besides a name.
struct Inner {
    children: Children,
    listing: SpinLock<Listing>,
}

/// The entries of a directory, locked.
pub struct Directory<'a> {
    children: &'a Children,
    listing: SpinGuard<'a, Listing>,
}

impl Directory<'_> {
    /// The entry called `name`.
    #[inline]
    pub fn get(&self, name: &[u8]) -> Option<Shared<Dentry>> {
        self.children.get(name)
    }
    /// Whether there is an entry called `name`.
    pub fn has(&self, name: &[u8]) -> bool {
        self.children.has(name)
    }
    /// Whether `dentry` is the entry called `name`.
    pub fn is(&self, name: &[u8], dentry: &Shared<Dentry>) -> bool {
        self.children.is(name, dentry)
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.children.len() == 0
    }
    /// Whether the directory has been removed.
    pub fn is_dead(&self) -> bool {
        self.listing.dead
    }
    /// Marks it removed.
    pub fn kill(&mut self) {
        self.listing.dead = true;
    }
    /// Adds an entry. The caller has checked that the name is free and the directory not removed. `ENOMEM`.
    pub fn insert(&mut self, name: Name, dentry: Shared<Dentry>) -> Result<(), Errno> {
        self.children.reserve()?;
        let cookie = self.listing.next_cookie.max(FIRST_COOKIE);
        self.listing.next_cookie = cookie + 1;
        let listed = (name.clone(), dentry.clone());
        self.listing.by_cookie.insert(cookie, listed);
        self.children.insert(name, dentry, cookie);
        Ok(())
    }
    /// Removes an entry.
    pub fn remove(&mut self, name: &[u8]) -> Option<Shared<Dentry>> {
        let (dentry, cookie) = self.children.remove(name)?;
        self.listing.by_cookie.remove(&cookie);
        Some(dentry)
    }
    /// Changes the name of an entry to a free one. The entry keeps its place in listings. `ENOMEM`.
    pub fn rename(&mut self, old: &[u8], new: Name) -> Result<(), Errno> {
        self.children.reserve()?;
        if let Some((dentry, cookie)) = self.children.remove(old) {
            if let Some((name, _)) = self.listing.by_cookie.get_mut(&cookie) {
                *name = new.clone();
            }
            self.children.insert(new, dentry, cookie);
        }
        Ok(())
    }
    /// Replaces the dentry of an existing entry (rename over it, exchange).
    pub fn replace(&mut self, name: &[u8], dentry: Shared<Dentry>) -> Option<Shared<Dentry>> {
        let (old, cookie) = self.children.replace(name, dentry.clone())?;
        if let Some((_, listed)) = self.listing.by_cookie.get_mut(&cookie) {
            *listed = dentry;
        }
        Some(old)
    }
    /// The end of a listing that begins now. Entries that are added later have cookies from here on.
    #[inline(always)]
    pub fn end(&self) -> u64 {
        self.listing.next_cookie
    }
    /// Whether no entry has cookie `from` or a higher one.
    #[inline(always)]
    pub fn ends_before(&self, from: u64) -> bool {
        from >= self.listing.next_cookie
    }
    /// The entries with cookie `from` or a higher one.
    #[inline(always)]
    pub fn from(&self, from: u64) -> impl Iterator<Item = (u64, &[u8], &Shared<Dentry>)> {
        self.listing
            .by_cookie
            .range(from..)
            .map(|(cookie, (name, dentry))| (*cookie, &**name, dentry))
    }
    /// Takes the first entry out of the listing (the tree is being thrown away).
    fn take_first(&mut self) -> Option<Shared<Dentry>> {
        self.listing.by_cookie.pop_first().map(|(_, (_, dentry))| dentry)
    }
}

/// The cookies of "." and ".." are 0 and 1.
pub const FIRST_COOKIE: u64 = 2;

/// Name and parent of a dentry.
struct LinkState {
    parent: Option<Shared<Dentry>>,
    name: Name,
    unlinked: bool,
}

/// A name in the tree.
pub struct Dentry {
    /// The file it names.
    pub inode: Held<Inode>,
    link: SpinLock<LinkState>,
    dir: Option<Box<Inner>>,
    /// What is mounted on this name.
    pub mounted: Mountpoint,
}

impl Dentry {
    fn build(inode: Shared<Inode>, parent: Option<Shared<Dentry>>, name: Name) -> Shared<Self> {
        let inner = || Inner {
            children: Children::new(),
            listing: SpinLock::new(Listing::default()),
        };
        let dir = (inode.kind == FileType::Directory).then(|| Box::new(inner()));
        Shared::new(Self {
            inode: Held::new(inode),
            link: SpinLock::new(LinkState {
                parent,
                name,
                unlinked: false,
            }),
            dir,
            mounted: Mountpoint::new(),
        })
    }

    /// The root of a tree.
    pub fn new_root(inode: Shared<Inode>) -> Shared<Self> {
        Self::build(inode, None, Arc::from(&b"/"[..]))
    }
    /// A file outside any tree. `label`: what `/proc/<pid>/fd` shows for it.
    pub fn new_detached(inode: Shared<Inode>, label: &[u8]) -> Shared<Self> {
        Self::build(inode, None, Arc::from(label))
    }
    /// An entry of `parent`, which the caller may add to its entries.
    pub fn new(parent: &Shared<Dentry>, name: &[u8], inode: Shared<Inode>) -> Shared<Self> {
        Self::build(inode, Some(parent.clone()), Arc::from(name))
    }

    fn inner(&self) -> Result<&Inner, Errno> {
        self.dir.as_deref().ok_or(Errno::ENOTDIR)
    }
    /// The entries by name, for readers. `None`: it is no directory.
    #[inline(always)]
    pub fn children(&self) -> Option<&Children> {
        Some(&self.dir.as_deref()?.children)
    }
    /// Locks the entries.
    #[cfg_attr(feature = "lockdep", track_caller)]
    pub fn lock_dir(&self) -> Result<Directory<'_>, Errno> {
        let inner = self.inner()?;
        Ok(Directory {
            children: &inner.children,
            listing: inner.listing.lock(),
        })
    }
    /// Locks the entries after making room for one more. `ENOMEM`.
    #[inline]
    pub fn lock_dir_to_add(&self) -> Result<Directory<'_>, Errno> {
        let directory = self.lock_dir()?;
        if !directory.children.must_grow() {
            return Ok(directory);
        }
        drop(directory);
        self.grow()
    }
    /// Makes room. Memory for a large directory is allocated without its lock.
    #[cold]
    #[inline(never)]
    fn grow(&self) -> Result<Directory<'_>, Errno> {
        loop {
            let count = self.lock_dir()?.children.len();
            let new = Children::room_for(2 * count)?;
            let directory = self.lock_dir()?;
            let old = if directory.children.must_grow() && directory.children.len() <= 2 * count {
                directory.children.move_to(new)
            } else {
                Some(new)
            };
            drop(directory);
            // The old memory is freed without the lock.
            drop(old);
            let directory = self.lock_dir()?;
            if !directory.children.must_grow() {
                return Ok(directory);
            }
        }
    }
    /// Locks the entries while those of `rank` other directories are locked: 1 for the second directory of a
    /// rename, 2 for the directory that is removed or replaced.
    pub fn lock_dir_nested(&self, rank: usize) -> Result<Directory<'_>, Errno> {
        let inner = self.inner()?;
        Ok(Directory {
            children: &inner.children,
            listing: inner.listing.lock_nested(rank),
        })
    }
    /// Whether it is the root of a tree.
    pub fn is_root(&self) -> bool {
        self.link.lock().parent.is_none()
    }
    /// The parent; `None` for a root.
    pub fn parent(&self) -> Option<Shared<Dentry>> {
        self.link.lock().parent.clone()
    }
    /// The parent's inode number; `None` for a root.
    pub fn parent_ino(&self) -> Option<u64> {
        self.link.lock().parent.as_ref().map(|parent| parent.inode.ino)
    }
    /// The name.
    pub fn name(&self) -> Name {
        self.link.lock().name.clone()
    }
    /// Name and parent as they are at one moment.
    pub fn position(&self) -> (Option<Shared<Dentry>>, Name) {
        let link = self.link.lock();
        (link.parent.clone(), link.name.clone())
    }
    /// Whether the name has been removed.
    pub fn is_unlinked(&self) -> bool {
        self.link.lock().unlinked
    }
    /// Notes that the name has been removed. The caller has locked the parent's entries.
    pub fn set_unlinked(&self) {
        self.link.lock().unlinked = true;
    }
    /// Notes a new name or parent. The caller has locked the entries of both parents.
    pub fn set_position(&self, parent: &Shared<Dentry>, name: Name) {
        let old = {
            let mut link = self.link.lock();
            link.name = name;
            link.parent.replace(parent.clone())
        };
        drop(old);
    }
    /// Calls `f` while the name can be neither removed nor moved. `ENOENT`: it has been removed.
    pub fn while_named(&self, f: impl FnOnce()) -> Result<(), Errno> {
        loop {
            let Some(parent) = self.parent() else {
                f();
                return Ok(());
            };
            let _entries = parent.lock_dir()?;
            if self.is_unlinked() {
                return Err(Errno::ENOENT);
            }
            if self.parent().is_some_and(|now| Shared::ptr_eq(&now, &parent)) {
                f();
                return Ok(());
            }
        }
    }
}

impl Shared<Dentry> {
    /// Finds an entry: in the dentry, else by asking the file system.
    #[inline]
    pub fn lookup(&self, name: &[u8]) -> Result<Shared<Dentry>, Errno> {
        if let Some(d) = self.lock_dir()?.get(name) {
            return Ok(d);
        }
        self.make_up(name)
    }
    /// `lookup` of an entry that is not in the dentry.
    #[inline(never)]
    pub fn make_up(&self, name: &[u8]) -> Result<Shared<Dentry>, Errno> {
        if name.len() > NAME_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        let inode = self.inode.ops.lookup(&self.inode, name)?;
        Ok(Dentry::new(self, name, inode))
    }

    /// Something is to be mounted on this name: the dentry by which lookups find it from now on. An entry
    /// that its file system makes up is kept in its directory, `self` unless one is kept already; others are
    /// in it anyway.
    pub fn pinned(&self) -> Result<Shared<Dentry>, Errno> {
        let mut made_up = Vec::new();
        let mut dentry = self.clone();
        while let Some(parent) = dentry.made_up_in() {
            made_up.push(core::mem::replace(&mut dentry, parent));
        }
        for mut child in made_up.into_iter().rev() {
            let (parent, name) = child.position();
            if !parent.is_some_and(|p| Shared::ptr_eq(&p, &dentry)) {
                child = Dentry::new(&dentry, &name, child.inode.clone());
            }
            let mut dir = dentry.lock_dir()?;
            let there = dir.get(&name);
            let added = match there {
                Some(_) => Ok(()),
                None => dir.insert(name, child.clone()),
            };
            drop(dir);
            if let Err(e) = added {
                // What was pinned above it is not needed.
                dentry.unpin();
                return Err(e);
            }
            dentry = there.unwrap_or(child);
        }
        Ok(dentry)
    }

    /// Undoes `pinned` if nothing is mounted on the name or below it any more.
    pub fn unpin(&self) {
        let mut dentry = self.clone();
        while let Some(parent) = dentry.made_up_in() {
            {
                let Ok(mut dir) = parent.lock_dir() else { return };
                let holds_others = dentry.lock_dir_nested(2).is_ok_and(|entries| !entries.is_empty());
                let name = dentry.name();
                if holds_others || dentry.mounted.is_used() || !dir.is(&name, &dentry) {
                    return;
                }
                dir.remove(&name);
            }
            dentry = parent;
        }
    }

    /// The directory that made this entry up, if one did.
    fn made_up_in(&self) -> Option<Shared<Dentry>> {
        self.parent().filter(|dir| !dir.inode.ops.writable_directory())
    }

    /// Whose directory in procfs it is, or below whose directory it is. What is mounted there goes with that
    /// process or thread. It is the innermost one, unless the directory in the root is that of a thread,
    /// which must not keep its name there for longer than the thread has the number.
    pub fn subject(&self) -> Option<Subject> {
        let mut dentry = self.clone();
        let mut found: Option<Subject> = None;
        loop {
            if let Some(subject) = dentry.inode.ops.subject()
                && (found.is_none() || subject.is_member())
            {
                found = Some(subject.clone());
            }
            let Some(dir) = dentry.made_up_in() else {
                return found;
            };
            dentry = dir;
        }
    }

    /// Whether `self` is `other` or below it, in the same tree.
    pub fn is_below(&self, other: &Shared<Dentry>) -> bool {
        let mut d = self.clone();
        loop {
            if Shared::ptr_eq(&d, other) {
                return true;
            }
            match d.parent() {
                Some(p) => d = p,
                None => return false,
            }
        }
    }

    /// Frees a tree in memory, whose parents and children refer to each other. Called when its last mount is
    /// gone.
    pub fn dismantle(&self) {
        /// What is found is seen before what is below it.
        fn enter(dentry: &Dentry) {
            crate::fs::inotify::unmounted(&dentry.inode);
            if let Ok(mut dir) = dentry.lock_dir() {
                dir.kill();
                let names = dir.children.take();
                drop(dir);
                if let Some(names) = names {
                    names.clear();
                }
            }
        }
        // The way back is by the parents, which needs no memory: there may be very many.
        enter(self);
        let mut at = self.clone();
        loop {
            let child = at.lock_dir().ok().and_then(|mut dir| dir.take_first());
            if let Some(child) = child {
                enter(&child);
                at = child;
                continue;
            }
            if Shared::ptr_eq(&at, self) {
                break;
            }
            let Some(above) = at.parent() else { break };
            at = above;
        }
    }
}

impl Retire for Dentry {
    /// Frees a chain of removed directories, which refer to their parents, in a loop: recursion would be as
    /// deep as a program makes the chain.
    fn retire(&self, retiring: &Retiring) {
        self.inode.give_up(retiring);
        let mut parent = self.link.lock().parent.take();
        while let Some(last) = parent.and_then(Shared::release) {
            parent = last.link.lock().parent.take();
        }
    }
    fn seen(&self) {
        self.inode.seen();
    }
}
