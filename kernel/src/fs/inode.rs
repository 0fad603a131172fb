//! Inodes: the files themselves, apart from their names. The attributes every file system has live in [`Inode`]; what differs is
//! behind [`InodeOps`].

use crate::fs::dentry::Dentry;
use crate::fs::file::FileOps;
use crate::fs::locks::FileLocks;
use crate::fs::path::Path;
use crate::fs::pipe::Pipe;
use crate::fs::readdir::DirSink;
use crate::fs::superblock::SuperBlock;
use crate::mm::PageCache;
use crate::sync::SpinLock;
use crate::task::Process;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU8, AtomicU32, Ordering};
use limen_linux_abi::Errno;

/// What kind of file an inode is; the values are `S_IFMT`'s, shifted right by 12 (also `d_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FileType {
    /// None of the others (eventfds and the like).
    Anonymous = 0,
    /// A FIFO or pipe.
    Fifo = 1,
    /// A character device.
    CharDevice = 2,
    /// A directory.
    Directory = 4,
    /// A block device.
    BlockDevice = 6,
    /// A regular file.
    Regular = 8,
    /// A symbolic link.
    Symlink = 10,
    /// A socket.
    Socket = 12,
}

impl FileType {
    /// From `st_mode`'s type bits.
    pub fn from_mode(mode: u32) -> Option<Self> {
        Some(match mode >> 12 & 15 {
            1 => Self::Fifo,
            2 => Self::CharDevice,
            4 => Self::Directory,
            6 => Self::BlockDevice,
            8 => Self::Regular,
            10 => Self::Symlink,
            12 => Self::Socket,
            _ => return None,
        })
    }
    /// `st_mode`'s type bits.
    pub fn mode_bits(self) -> u32 {
        (self as u32) << 12
    }
}

/// A device number: 12 bits of major, 20 of minor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dev(u32);

impl Dev {
    /// From its two halves.
    pub const fn new(major: u32, minor: u32) -> Self {
        Self(major << 20 | (minor & 0xfffff))
    }
    /// The major number.
    pub const fn major(self) -> u32 {
        self.0 >> 20
    }
    /// The minor number.
    pub const fn minor(self) -> u32 {
        self.0 & 0xfffff
    }
    /// As `stat` and `mknod` show it to user space (`new_encode_dev`).
    pub const fn encode(self) -> u32 {
        (self.minor() & 0xff) | (self.major() << 8) | ((self.minor() & !0xff) << 12)
    }
    /// The inverse of [`Dev::encode`].
    pub const fn decode(raw: u32) -> Self {
        Self::new(raw >> 8 & 0xfff, (raw & 0xff) | (raw >> 12 & 0xfff00))
    }
}

/// A point in time on the wall clock: ns since 1970.
pub type Time = i64;

/// The timestamps of an inode.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    /// Last access.
    pub atime: Time,
    /// Last change of the contents.
    pub mtime: Time,
    /// Last change of the inode.
    pub ctime: Time,
    /// Birth.
    pub btime: Time,
}

/// The timestamps where they are kept: each for itself, since nothing is told by two that belong together.
struct OwnTimes {
    atime: AtomicI64,
    mtime: AtomicI64,
    ctime: AtomicI64,
    btime: Time,
}

/// Where a symbolic link leads.
pub enum Link {
    /// To this text.
    Text(Vec<u8>),
    /// Straight to this place (links of `/proc/<pid>`).
    Jump(Path),
}

/// What a new inode is to be.
pub struct NewInode<'a> {
    /// Kind.
    pub kind: FileType,
    /// Permission bits, umask applied.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of device nodes.
    pub rdev: Dev,
    /// Target of a symbolic link.
    pub target: &'a [u8],
}

/// What differs between file systems. The defaults describe a read-only, empty thing.
pub trait InodeOps: Send + Sync {
    /// A directory that makes up its entries: the inode called `name`. Directories whose entries are in their dentry have none beyond.
    fn lookup(&self, dir: &Arc<Inode>, name: &[u8]) -> Result<Arc<Inode>, Errno> {
        let _ = (dir, name);
        Err(Errno::ENOENT)
    }
    /// A directory that makes up its entries lists them, from cookie `pos` (>= 2) on, after those of its dentry.
    fn list(&self, dir: &Arc<Inode>, pos: u64, sink: &mut DirSink<'_>) -> Result<(), Errno> {
        let _ = (dir, pos, sink);
        Ok(())
    }
    /// Makes an inode for a new entry of this directory.
    fn create(&self, dir: &Arc<Inode>, new: &NewInode<'_>) -> Result<Arc<Inode>, Errno> {
        let _ = (dir, new);
        Err(Errno::EPERM)
    }
    /// Whether entries may be removed and renamed.
    fn writable_directory(&self) -> bool {
        false
    }
    /// Where a symbolic link leads.
    fn follow(&self, inode: &Arc<Inode>) -> Result<Link, Errno> {
        let _ = inode;
        Err(Errno::EINVAL)
    }
    /// The text of a symbolic link; by default what `follow` says.
    fn readlink(&self, inode: &Arc<Inode>) -> Result<Vec<u8>, Errno> {
        match self.follow(inode)? {
            Link::Text(text) => Ok(text),
            Link::Jump(path) => path.display(),
        }
    }
    /// The operations of a newly opened file; `None` for what the kind of file gives by itself.
    fn open(&self, inode: &Arc<Inode>, flags: u32) -> Result<Option<Arc<dyn FileOps>>, Errno> {
        let _ = (inode, flags);
        Ok(None)
    }
    /// A chance to bring the attributes up to date before they are shown or checked.
    fn refresh(&self, inode: &Inode) {
        let _ = inode;
    }
    /// Extra permission rule for directories like `/proc/<pid>/fd`; `None`: the ordinary rules.
    fn permission(&self, inode: &Inode, mask: u32) -> Option<Result<(), Errno>> {
        let _ = (inode, mask);
        None
    }
    /// The size shown by `stat` for what is neither regular nor a directory.
    fn size(&self, inode: &Inode) -> u64 {
        let _ = inode;
        0
    }
    /// The process whose directory it is, in procfs.
    fn process(&self) -> Option<Arc<Process>> {
        None
    }
    /// The last name and the last user are gone.
    fn evict(&self, inode: &mut Inode) {
        let _ = inode;
    }
}

/// Plain operations for inodes that need none (pipes, sockets, anonymous files).
pub struct NoOps;
impl InodeOps for NoOps {}

/// A file's extended attributes.
pub type Xattrs = BTreeMap<Box<[u8]>, Box<[u8]>>;

/// A file.
pub struct Inode {
    /// Kind.
    pub kind: FileType,
    /// Number, unique in its file system.
    pub ino: u64,
    /// Its file system.
    pub sb: Arc<SuperBlock>,
    /// Device number, for device nodes.
    pub rdev: Dev,
    /// What its file system does.
    pub ops: Box<dyn InodeOps>,
    /// Contents of a regular file.
    pub pages: Option<Arc<PageCache>>,
    mode: AtomicU32,
    uid: AtomicU32,
    gid: AtomicU32,
    nlink: AtomicU32,
    times: OwnTimes,
    /// Writers if positive, executions that forbid writing if negative.
    writers: AtomicI32,
    /// `F_SEAL_*`, as [`crate::fs::memfd`] keeps them; only memfds can have any.
    pub seals: AtomicU32,
    /// How long what is written will live (`F_SET_RW_HINT`): only kept.
    pub write_hint: AtomicU8,
    /// Extended attributes.
    pub xattrs: SpinLock<Option<Box<Xattrs>>>,
    /// Advisory locks.
    pub locks: SpinLock<Option<Arc<FileLocks>>>,
    /// The pipe behind a FIFO while somebody has it open.
    pub pipe: SpinLock<Weak<Pipe>>,
    /// The listener bound to a socket's name.
    pub socket: SpinLock<Option<Weak<dyn core::any::Any + Send + Sync>>>,
    /// Whether somebody watches (inotify): lets everybody else pass with one load.
    pub watched: AtomicBool,
    /// inotify watches.
    pub watches: SpinLock<Vec<Weak<crate::fs::inotify::Watch>>>,
}

impl Inode {
    /// A new inode with one link (two for directories) and the present time.
    pub fn new(sb: &Arc<SuperBlock>, ops: Box<dyn InodeOps>, new: &NewInode<'_>) -> Self {
        Self::with_ino(sb, sb.next_ino(), ops, new)
    }

    /// As [`Inode::new`], with a given number (file systems that make up their inodes).
    pub fn with_ino(sb: &Arc<SuperBlock>, ino: u64, ops: Box<dyn InodeOps>, new: &NewInode<'_>) -> Self {
        let now = now();
        Self {
            kind: new.kind,
            ino,
            sb: sb.clone(),
            rdev: new.rdev,
            ops,
            pages: None,
            mode: AtomicU32::new(new.mode & 0o7777),
            uid: AtomicU32::new(new.uid),
            gid: AtomicU32::new(new.gid),
            nlink: AtomicU32::new(if new.kind == FileType::Directory { 2 } else { 1 }),
            times: OwnTimes {
                atime: AtomicI64::new(now),
                mtime: AtomicI64::new(now),
                ctime: AtomicI64::new(now),
                btime: now,
            },
            writers: AtomicI32::new(0),
            seals: AtomicU32::new(0),
            write_hint: AtomicU8::new(0),
            xattrs: SpinLock::new(None),
            locks: SpinLock::new(None),
            pipe: SpinLock::new(Weak::new()),
            socket: SpinLock::new(None),
            watched: AtomicBool::new(false),
            watches: SpinLock::new(Vec::new()),
        }
    }

    /// Permission bits (`07777`).
    #[inline(always)]
    pub fn mode(&self) -> u32 {
        self.mode.load(Ordering::Relaxed)
    }
    /// Owner.
    #[inline(always)]
    pub fn uid(&self) -> u32 {
        self.uid.load(Ordering::Relaxed)
    }
    /// Group.
    #[inline(always)]
    pub fn gid(&self) -> u32 {
        self.gid.load(Ordering::Relaxed)
    }
    /// Names.
    #[inline(always)]
    pub fn nlink(&self) -> u32 {
        self.nlink.load(Ordering::Relaxed)
    }
    /// Sets the permission bits.
    pub fn set_mode(&self, mode: u32) {
        self.mode.store(mode & 0o7777, Ordering::Relaxed);
    }
    /// Sets owner and group.
    pub fn set_owner(&self, uid: u32, gid: u32) {
        self.uid.store(uid, Ordering::Relaxed);
        self.gid.store(gid, Ordering::Relaxed);
    }
    /// Sets the number of names.
    pub fn set_nlink(&self, n: u32) {
        self.nlink.store(n, Ordering::Relaxed);
    }
    /// One more name, but not if there is none any more (or far too many).
    pub fn link(&self) -> Result<(), Errno> {
        let r = self
            .nlink
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| {
                (n != 0 && n < u32::MAX / 2).then_some(n + 1)
            });
        match r {
            Ok(_) => Ok(()),
            Err(0) => Err(Errno::ENOENT),
            Err(_) => Err(Errno::EMLINK),
        }
    }
    /// Another subdirectory or name, unchecked.
    pub fn inc_nlink(&self) {
        self.nlink.fetch_add(1, Ordering::Relaxed);
    }
    /// One name less.
    pub fn dec_nlink(&self) {
        let _ = self
            .nlink
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
    }
    /// Makes a file without a name nameable (`O_TMPFILE`).
    pub fn revive(&self) {
        self.nlink.store(1, Ordering::Relaxed);
    }
    /// The timestamps.
    #[inline]
    pub fn times(&self) -> Times {
        Times {
            atime: self.times.atime.load(Ordering::Relaxed),
            mtime: self.times.mtime.load(Ordering::Relaxed),
            ctime: self.times.ctime.load(Ordering::Relaxed),
            btime: self.times.btime,
        }
    }
    /// Sets the times that are given.
    pub fn set_times(&self, atime: Option<Time>, mtime: Option<Time>, ctime: Option<Time>) {
        let own = &self.times;
        for (time, new) in [(&own.atime, atime), (&own.mtime, mtime), (&own.ctime, ctime)] {
            if let Some(new) = new {
                time.store(new, Ordering::Relaxed);
            }
        }
    }
    /// The contents changed now.
    pub fn touch_modified(&self) {
        let now = now();
        self.times.mtime.store(now, Ordering::Relaxed);
        self.times.ctime.store(now, Ordering::Relaxed);
    }
    /// The inode changed now.
    pub fn touch_changed(&self) {
        self.times.ctime.store(now(), Ordering::Relaxed);
    }
    /// It was read: `relatime`, so the time moves only if it is not newer than the last change or a day old.
    pub fn touch_accessed(&self) {
        const DAY: i64 = 86_400 * 1_000_000_000;
        let now = now();
        let t = self.times();
        if t.atime <= t.mtime || t.atime <= t.ctime || now - t.atime >= DAY {
            self.times.atime.store(now, Ordering::Relaxed);
        }
    }
    /// Bytes, as `stat` shows them.
    pub fn size(&self) -> u64 {
        match &self.pages {
            Some(pages) => pages.size(),
            None => self.ops.size(self),
        }
    }
    /// `st_mode`.
    pub fn st_mode(&self) -> u32 {
        self.kind.mode_bits() | self.mode()
    }

    /// Somebody wants to write; `ETXTBSY` while it is being executed.
    pub fn get_write(&self) -> Result<(), Errno> {
        let r = self
            .writers
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, |n| {
                (n >= 0).then_some(n + 1)
            });
        r.map(|_| ()).map_err(|_| Errno::ETXTBSY)
    }
    /// The inverse of [`Inode::get_write`].
    pub fn put_write(&self) {
        self.writers.fetch_sub(1, Ordering::Release);
    }
    /// Exec forbids writing; `ETXTBSY` while somebody writes.
    pub fn deny_write(&self) -> Result<(), Errno> {
        let r = self
            .writers
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, |n| {
                (n <= 0).then_some(n - 1)
            });
        r.map(|_| ()).map_err(|_| Errno::ETXTBSY)
    }
    /// The inverse of [`Inode::deny_write`].
    pub fn allow_write(&self) {
        self.writers.fetch_add(1, Ordering::Release);
    }
    /// Whether somebody has it open for writing.
    pub fn has_writers(&self) -> bool {
        self.writers.load(Ordering::Relaxed) > 0
    }
}

impl Drop for Inode {
    fn drop(&mut self) {
        crate::fs::inotify::inode_gone(self);
        // Take the operations out, so that they can have the rest.
        let ops = core::mem::replace(&mut self.ops, Box::new(NoOps));
        ops.evict(self);
    }
}

/// The wall clock, for timestamps.
pub fn now() -> Time {
    crate::time::realtime_ns() as i64
}

/// The dentry of a fresh tree: see [`Dentry::new_root`].
pub fn new_root(sb: &Arc<SuperBlock>, ops: Box<dyn InodeOps>, mode: u32) -> Arc<Dentry> {
    let new = NewInode {
        kind: FileType::Directory,
        mode,
        uid: 0,
        gid: 0,
        rdev: Dev::default(),
        target: b"",
    };
    Dentry::new_root(Arc::new(Inode::with_ino(sb, 1, ops, &new)))
}
