//! Names: the tree through which path names lead. In file systems in memory the entries of a directory's
//! dentry *are* the directory. In file systems that make their entries up at each lookup (`procfs`), a dentry
//! has only entries on which something is mounted.
//!
//! Locks. `Dentry.dir` (the entries): a parent's before its child's. Two unrelated directories are locked
//! together only by rename, under the superblock's `rename_lock`, the one with the lower address first.
//! `Dentry.link` (name and parent) comes last. See `docs/fs.md`.

use crate::fs::inode::{FileType, Inode};
use crate::fs::mountpoint::Mountpoint;
use crate::sync::lockdep::fallible;
use crate::sync::{SpinGuard, SpinLock};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};
use limen_linux_abi::Errno;
use limen_name_table::{NameTable, Wanted};

/// The longest name in bytes (`NAME_MAX`).
pub const NAME_MAX: usize = 255;

/// A name, allocated once and shared.
pub type Name = Arc<[u8]>;

/// Entries by cookie, together with their names: the name in a dentry is behind a lock.
type Entries = BTreeMap<u64, (Name, Arc<Dentry>)>;

/// An entry of a directory.
struct Child {
    dentry: Arc<Dentry>,
    /// Its place in listings. Never changes while the entry exists.
    cookie: u64,
}

/// The entries of a directory.
#[derive(Default)]
pub struct Directory {
    by_name: NameTable<Child>,
    by_cookie: Entries,
    next_cookie: u64,
    /// The directory has been removed: nothing may be added.
    dead: bool,
}

impl Directory {
    /// The entry called `name`.
    #[inline]
    pub fn get(&self, name: &[u8]) -> Option<&Arc<Dentry>> {
        self.find(&Wanted::new(name))
    }
    /// The entry with the name `wanted`.
    #[inline(always)]
    pub fn find(&self, wanted: &Wanted<'_>) -> Option<&Arc<Dentry>> {
        Some(&self.by_name.find(wanted)?.dentry)
    }
    /// Entries.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }
    /// Whether the directory has been removed.
    pub fn is_dead(&self) -> bool {
        self.dead
    }
    /// Marks it removed.
    pub fn kill(&mut self) {
        self.dead = true;
    }
    /// Adds an entry. The caller has checked that the name is free and the directory not removed. `ENOMEM`.
    pub fn insert(&mut self, name: Name, dentry: Arc<Dentry>) -> Result<(), Errno> {
        self.by_name.reserve().map_err(|_| Errno::ENOMEM)?;
        let cookie = self.next_cookie.max(FIRST_COOKIE);
        self.next_cookie = cookie + 1;
        self.by_cookie.insert(cookie, (name.clone(), dentry.clone()));
        self.by_name.insert(name, Child { dentry, cookie });
        Ok(())
    }
    /// Removes an entry.
    pub fn remove(&mut self, name: &[u8]) -> Option<Arc<Dentry>> {
        let child = self.by_name.remove(&Wanted::new(name))?;
        self.by_cookie.remove(&child.cookie);
        Some(child.dentry)
    }
    /// Changes the name of an entry to a free one. The entry keeps its place in listings. `ENOMEM`.
    pub fn rename(&mut self, old: &[u8], new: Name) -> Result<(), Errno> {
        self.by_name.reserve().map_err(|_| Errno::ENOMEM)?;
        if let Some(child) = self.by_name.remove(&Wanted::new(old)) {
            if let Some((name, _)) = self.by_cookie.get_mut(&child.cookie) {
                *name = new.clone();
            }
            self.by_name.insert(new, child);
        }
        Ok(())
    }
    /// Replaces the dentry of an existing entry (rename over it, exchange).
    pub fn replace(&mut self, name: &[u8], dentry: Arc<Dentry>) -> Option<Arc<Dentry>> {
        let child = self.by_name.find_mut(&Wanted::new(name))?;
        if let Some((_, listed)) = self.by_cookie.get_mut(&child.cookie) {
            *listed = dentry.clone();
        }
        Some(core::mem::replace(&mut child.dentry, dentry))
    }
    /// The end of a listing that begins now. Entries that are added later have cookies from here on.
    #[inline(always)]
    pub fn end(&self) -> u64 {
        self.next_cookie
    }
    /// Whether no entry has cookie `from` or a higher one.
    #[inline(always)]
    pub fn ends_before(&self, from: u64) -> bool {
        from >= self.next_cookie
    }
    /// The entries with cookie `from` or a higher one.
    #[inline(always)]
    pub fn from(&self, from: u64) -> impl Iterator<Item = (u64, &[u8], &Arc<Dentry>)> {
        self.by_cookie
            .range(from..)
            .map(|(cookie, (name, dentry))| (*cookie, &**name, dentry))
    }
    /// Takes all names away (the tree is being thrown away); the entries are still listed.
    fn take_names(&mut self) -> NameTable<Child> {
        core::mem::take(&mut self.by_name)
    }
    /// After that: takes the first entry out.
    fn take_first(&mut self) -> Option<Arc<Dentry>> {
        self.by_cookie.pop_first().map(|(_, (_, dentry))| dentry)
    }
}

/// The cookies of "." and ".." are 0 and 1.
pub const FIRST_COOKIE: u64 = 2;

/// How many entries in made-up directories are kept because something is mounted on them.
static PINNED: AtomicUsize = AtomicUsize::new(0);

/// Whether something is mounted on an entry of a made-up directory.
pub fn any_pinned() -> bool {
    PINNED.load(Ordering::Relaxed) != 0
}

/// Name and parent of a dentry.
struct LinkState {
    parent: Option<Arc<Dentry>>,
    name: Name,
    unlinked: bool,
}

/// A name in the tree.
pub struct Dentry {
    /// The file it names.
    pub inode: Arc<Inode>,
    link: SpinLock<LinkState>,
    dir: Option<Box<SpinLock<Directory>>>,
    /// What is mounted on this name.
    pub mounted: Mountpoint,
}

impl Dentry {
    fn build(inode: Arc<Inode>, parent: Option<Arc<Dentry>>, name: Name) -> Arc<Self> {
        let dir = (inode.kind == FileType::Directory).then(|| Box::new(SpinLock::new(Directory::default())));
        Arc::new(Self {
            inode,
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
    pub fn new_root(inode: Arc<Inode>) -> Arc<Self> {
        Self::build(inode, None, Arc::from(&b"/"[..]))
    }
    /// A file outside any tree. `label`: what `/proc/<pid>/fd` shows for it.
    pub fn new_detached(inode: Arc<Inode>, label: &[u8]) -> Arc<Self> {
        Self::build(inode, None, Arc::from(label))
    }
    /// An entry of `parent`, which the caller may add to its entries.
    pub fn new(parent: &Arc<Dentry>, name: &[u8], inode: Arc<Inode>) -> Arc<Self> {
        Self::build(inode, Some(parent.clone()), Arc::from(name))
    }

    /// The entries, if it is a directory.
    #[inline]
    pub fn directory(&self) -> Result<&SpinLock<Directory>, Errno> {
        self.dir.as_deref().ok_or(Errno::ENOTDIR)
    }
    /// Locks the entries.
    #[cfg_attr(feature = "lockdep", track_caller)]
    pub fn lock_dir(&self) -> Result<SpinGuard<'_, Directory>, Errno> {
        Ok(self.directory()?.lock())
    }
    /// Locks the entries after making room for one more. `ENOMEM`.
    #[inline]
    pub fn lock_dir_to_add(&self) -> Result<SpinGuard<'_, Directory>, Errno> {
        let directory = self.lock_dir()?;
        if !directory.by_name.must_grow() {
            return Ok(directory);
        }
        drop(directory);
        self.grow()
    }
    /// Makes room. Memory for a large directory is allocated without its lock.
    #[cold]
    #[inline(never)]
    fn grow(&self) -> Result<SpinGuard<'_, Directory>, Errno> {
        loop {
            let count = self.lock_dir()?.by_name.len();
            let new = fallible(|| NameTable::with_room(2 * count));
            let mut new = new.map_err(|_| Errno::ENOMEM)?;
            let mut directory = self.lock_dir()?;
            if directory.by_name.len() <= count {
                directory.by_name.move_to(&mut new);
            }
            drop(directory);
            // The old memory is freed without the lock.
            drop(new);
            let directory = self.lock_dir()?;
            if !directory.by_name.must_grow() {
                return Ok(directory);
            }
        }
    }
    /// Locks the entries while those of `rank` other directories are locked: 1 for the second directory of a
    /// rename, 2 for the directory that is removed or replaced.
    pub fn lock_dir_nested(&self, rank: usize) -> Result<SpinGuard<'_, Directory>, Errno> {
        Ok(self.directory()?.lock_nested(rank))
    }
    /// Whether it is the root of a tree.
    pub fn is_root(&self) -> bool {
        self.link.lock().parent.is_none()
    }
    /// The parent; `None` for a root.
    pub fn parent(&self) -> Option<Arc<Dentry>> {
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
    pub fn position(&self) -> (Option<Arc<Dentry>>, Name) {
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
    pub fn set_position(&self, parent: &Arc<Dentry>, name: Name) {
        let old = {
            let mut link = self.link.lock();
            link.name = name;
            link.parent.replace(parent.clone())
        };
        drop(old);
    }
    /// Finds an entry: in the dentry, else by asking the file system.
    #[inline]
    pub fn lookup(self: &Arc<Self>, name: &[u8]) -> Result<Arc<Dentry>, Errno> {
        if let Some(d) = self.lock_dir()?.get(name) {
            return Ok(d.clone());
        }
        self.make_up(name)
    }
    /// [`Dentry::lookup`] of an entry that is not in the dentry.
    #[inline(never)]
    pub fn make_up(self: &Arc<Self>, name: &[u8]) -> Result<Arc<Dentry>, Errno> {
        if name.len() > NAME_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        let inode = self.inode.ops.lookup(&self.inode, name)?;
        Ok(Dentry::new(self, name, inode))
    }

    /// Something is to be mounted on this name: the dentry by which lookups find it from now on. An entry
    /// that its file system makes up is kept in its directory, `self` unless one is kept already; others are
    /// in it anyway.
    pub fn pinned(self: &Arc<Self>) -> Result<Arc<Dentry>, Errno> {
        let mut made_up = Vec::new();
        let mut dentry = self.clone();
        while let Some(parent) = dentry.made_up_in() {
            made_up.push(core::mem::replace(&mut dentry, parent));
        }
        for mut child in made_up.into_iter().rev() {
            let (parent, name) = child.position();
            if !parent.is_some_and(|p| Arc::ptr_eq(&p, &dentry)) {
                child = Dentry::new(&dentry, &name, child.inode.clone());
            }
            let mut dir = dentry.lock_dir()?;
            let there = dir.get(&name).cloned();
            if there.is_none() {
                dir.insert(name, child.clone())?;
                PINNED.fetch_add(1, Ordering::Relaxed);
            }
            drop(dir);
            dentry = there.unwrap_or(child);
        }
        Ok(dentry)
    }

    /// Undoes [`Dentry::pinned`] if nothing is mounted on the name or below it any more.
    pub fn unpin(self: &Arc<Self>) {
        let mut dentry = self.clone();
        while let Some(parent) = dentry.made_up_in() {
            {
                let Ok(mut dir) = parent.lock_dir() else { return };
                let holds_others = dentry.lock_dir_nested(2).is_ok_and(|entries| !entries.is_empty());
                let name = dentry.name();
                if holds_others
                    || dentry.mounted.is_used()
                    || !dir.get(&name).is_some_and(|d| Arc::ptr_eq(d, &dentry))
                {
                    return;
                }
                dir.remove(&name);
                PINNED.fetch_sub(1, Ordering::Relaxed);
            }
            dentry = parent;
        }
    }

    /// The directory that made this entry up, if one did.
    fn made_up_in(&self) -> Option<Arc<Dentry>> {
        self.parent().filter(|dir| !dir.inode.ops.writable_directory())
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
            if self.parent().is_some_and(|now| Arc::ptr_eq(&now, &parent)) {
                f();
                return Ok(());
            }
        }
    }

    /// Whether `self` is `other` or below it, in the same tree.
    pub fn is_below(self: &Arc<Self>, other: &Arc<Dentry>) -> bool {
        let mut d = self.clone();
        loop {
            if Arc::ptr_eq(&d, other) {
                return true;
            }
            match d.parent() {
                Some(p) => d = p,
                None => return false,
            }
        }
    }

    /// Its name if it is in the root of its tree, else that of the directory there below which it is. `None`:
    /// it is the root.
    pub fn name_at_top(self: &Arc<Self>) -> Option<Name> {
        let mut d = self.clone();
        loop {
            let (parent, name) = d.position();
            let parent = parent?;
            if parent.is_root() {
                return Some(name);
            }
            d = parent;
        }
    }

    /// Frees a tree in memory, whose parents and children refer to each other. Called when its last mount is
    /// gone.
    pub fn dismantle(self: &Arc<Self>) {
        /// What is found is seen before what is below it.
        fn enter(dentry: &Dentry) {
            crate::fs::inotify::unmounted(&dentry.inode);
            if let Ok(dir) = dentry.directory() {
                let names = {
                    let mut dir = dir.lock();
                    dir.kill();
                    dir.take_names()
                };
                drop(names);
            }
        }
        // The way back is by the parents, which needs no memory: there may be very many.
        enter(self);
        let mut at = self.clone();
        loop {
            let child = at.directory().ok().and_then(|dir| dir.lock().take_first());
            if let Some(child) = child {
                enter(&child);
                at = child;
                continue;
            }
            if Arc::ptr_eq(&at, self) {
                break;
            }
            let Some(above) = at.parent() else { break };
            at = above;
        }
    }
}

impl Drop for Dentry {
    /// Frees a chain of removed directories, which refer to their parents, in a loop: recursion would be as
    /// deep as a program makes the chain.
    fn drop(&mut self) {
        let mut parent = self.link.get_mut().parent.take();
        while let Some(p) = parent {
            parent = Arc::into_inner(p).and_then(|mut d| d.link.get_mut().parent.take());
        }
    }
}
