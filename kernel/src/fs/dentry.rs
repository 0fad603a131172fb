//! Names: the tree that paths walk. For file systems in memory the children map of a directory's dentry *is* the directory; for file
//! systems that make up their entries (`procfs`) it only holds entries that something is mounted on.
//!
//! Locks: `Dentry.dir` (entries) is taken parent before child; two unrelated directories are locked together only by rename, under the
//! superblock's `rename_lock`, the lower address first. `Dentry.link` (own name and parent) is innermost. See `docs/fs.md`.

use crate::fs::inode::{FileType, Inode};
use crate::fs::mountpoint::Mountpoint;
use crate::sync::{SpinGuard, SpinLock};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use limen_linux_abi::Errno;
use limen_name_table::{NameTable, Wanted};

/// Longest name (`NAME_MAX`).
pub const NAME_MAX: usize = 255;

/// A name, allocated once and shared.
pub type Name = Arc<[u8]>;

/// Entries by cookie, with their names: a dentry's own is behind a lock.
type Entries = BTreeMap<u64, (Name, Arc<Dentry>)>;

/// One entry of a directory.
struct Child {
    dentry: Arc<Dentry>,
    /// Its place in listings: never changes while it exists.
    cookie: u64,
}

/// The entries of a directory.
#[derive(Default)]
pub struct Directory {
    by_name: NameTable<Child>,
    by_cookie: Entries,
    next_cookie: u64,
    /// Removed: nothing may be added any more.
    dead: bool,
}

impl Directory {
    /// The entry called `name`.
    #[inline]
    pub fn get(&self, name: &[u8]) -> Option<&Arc<Dentry>> {
        self.find(&Wanted::new(name))
    }
    /// The entry with the name that is wanted.
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
    /// Adds an entry; the caller has made sure that the name is free and the directory alive. `ENOMEM` if there is no memory.
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
    /// Gives an entry another name, which is free. It keeps its place in listings. `ENOMEM` if there is no memory.
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
    /// Puts another dentry in the place of an existing entry (rename over, exchange).
    pub fn replace(&mut self, name: &[u8], dentry: Arc<Dentry>) -> Option<Arc<Dentry>> {
        let child = self.by_name.find_mut(&Wanted::new(name))?;
        if let Some((_, listed)) = self.by_cookie.get_mut(&child.cookie) {
            *listed = dentry.clone();
        }
        Some(core::mem::replace(&mut child.dentry, dentry))
    }
    /// Where a listing that begins now ends: what is added from here on has no cookie below it.
    #[inline(always)]
    pub fn end(&self) -> u64 {
        self.next_cookie
    }
    /// Whether no entry has a cookie of `from` or more.
    #[inline(always)]
    pub fn ends_before(&self, from: u64) -> bool {
        from >= self.next_cookie
    }
    /// The entries with a cookie of at least `from`.
    pub fn from(&self, from: u64) -> impl Iterator<Item = (u64, &[u8], &Arc<Dentry>)> {
        self.by_cookie
            .range(from..)
            .map(|(cookie, (name, dentry))| (*cookie, &**name, dentry))
    }
    /// Takes everything out (the tree is being thrown away).
    fn take_all(&mut self) -> Entries {
        self.by_name = NameTable::default();
        core::mem::take(&mut self.by_cookie)
    }
}

/// The cookies of "." and ".." are 0 and 1.
pub const FIRST_COOKIE: u64 = 2;

/// Own name and parent.
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
    /// What is mounted on it.
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
    /// A file outside any tree, with what `/proc/<pid>/fd` shows for it.
    pub fn new_detached(inode: Arc<Inode>, label: &[u8]) -> Arc<Self> {
        Self::build(inode, None, Arc::from(label))
    }
    /// An entry of `parent`, not yet (or never) in its children.
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
    /// Locks the entries while those of `rank` other directories are locked: the second of a rename (1), a victim (2).
    pub fn lock_dir_nested(&self, rank: usize) -> Result<SpinGuard<'_, Directory>, Errno> {
        Ok(self.directory()?.lock_nested(rank))
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
    /// Name and parent at one moment.
    pub fn position(&self) -> (Option<Arc<Dentry>>, Name) {
        let link = self.link.lock();
        (link.parent.clone(), link.name.clone())
    }
    /// Whether the name has been removed.
    pub fn is_unlinked(&self) -> bool {
        self.link.lock().unlinked
    }
    /// The name has been removed. The caller holds the parent's entries.
    pub fn set_unlinked(&self) {
        self.link.lock().unlinked = true;
    }
    /// Renamed. The caller holds both parents' entries.
    pub fn set_position(&self, parent: &Arc<Dentry>, name: Name) {
        let old = {
            let mut link = self.link.lock();
            link.name = name;
            link.parent.replace(parent.clone())
        };
        drop(old);
    }
    /// Looks an entry up: in the children, then among those the file system makes up.
    #[inline]
    pub fn lookup(self: &Arc<Self>, name: &[u8]) -> Result<Arc<Dentry>, Errno> {
        if let Some(d) = self.lock_dir()?.get(name) {
            return Ok(d.clone());
        }
        self.make_up(name)
    }
    /// The same for an entry that is not among the children.
    #[inline(never)]
    pub fn make_up(self: &Arc<Self>, name: &[u8]) -> Result<Arc<Dentry>, Errno> {
        if name.len() > NAME_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        let inode = self.inode.ops.lookup(&self.inode, name)?;
        Ok(Dentry::new(self, name, inode))
    }

    /// Makes sure that a made-up entry is found again as this very dentry: needed while something is mounted on it.
    pub fn pin(self: &Arc<Self>) -> Result<(), Errno> {
        let mut dentry = self.clone();
        while let (Some(parent), name) = dentry.position() {
            let mut dir = parent.lock_dir()?;
            if dir.get(&name).is_none() {
                dir.insert(name, dentry.clone())?;
            }
            drop(dir);
            dentry = parent;
        }
        Ok(())
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

    /// Takes a tree in memory apart (parents and children hold each other). Called when its last mount is gone.
    pub fn dismantle(self: &Arc<Self>) {
        let mut todo = alloc::vec![self.clone()];
        while let Some(d) = todo.pop() {
            if let Ok(dir) = d.directory() {
                let children = {
                    let mut dir = dir.lock();
                    dir.kill();
                    dir.take_all()
                };
                todo.extend(children.into_values().map(|(_, child)| child));
            }
        }
    }
}

impl Drop for Dentry {
    /// A chain of removed directories is held together by its parent links only; a recursive drop could be as deep as a program
    /// cares to make it.
    fn drop(&mut self) {
        let mut parent = self.link.get_mut().parent.take();
        while let Some(p) = parent {
            parent = Arc::into_inner(p).and_then(|mut d| d.link.get_mut().parent.take());
        }
    }
}
