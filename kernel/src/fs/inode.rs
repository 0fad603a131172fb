//! Inodes: the files themselves, apart from their names. The attributes every file system has live in
//! [`Inode`]; what differs is behind [`InodeOps`].

use crate::fs::acl::Acls;
use crate::fs::dentry::Dentry;
use crate::fs::file::FileOps;
use crate::fs::locks::FileLocks;
use crate::fs::path::Path;
use crate::fs::pipe::Pipe;
use crate::fs::procfs::Subject;
use crate::fs::readdir::DirSink;
use crate::fs::superblock::SuperBlock;
use crate::mm::PageCache;
use crate::rcu::{Retire, Retiring, Shared, Shown};
use crate::sync::{Once, SpinGuard, SpinLock};
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
    /// No type in `st_mode`: anonymous inodes (eventfd, epoll, timerfd and so on).
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

/// A device number (`dev_t` in the kernel): 12 bits of major, 20 of minor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dev(u32);

impl Dev {
    /// How many minor numbers there are.
    pub const MINORS: u32 = 1 << 20;

    /// From its two halves.
    pub const fn new(major: u32, minor: u32) -> Self {
        Self(major << 20 | (minor & (Self::MINORS - 1)))
    }
    /// The major number.
    pub const fn major(self) -> u32 {
        self.0 >> 20
    }
    /// The minor number.
    pub const fn minor(self) -> u32 {
        self.0 & (Self::MINORS - 1)
    }
    /// As the kernel and `/proc/<pid>/fdinfo` have it: `major << 20 | minor`.
    pub const fn raw(self) -> u32 {
        self.0
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

/// The timestamps of an inode. Each is an atomic of its own, without a lock: no reader needs two that belong
/// together.
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
    /// Straight to this place, without a walk (links of `/proc/<pid>`, such as `exe` and `fd/<n>`).
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

/// The operations that differ between file systems. The defaults are those of a read-only directory without
/// entries.
pub trait InodeOps: Send + Sync {
    /// Looks up `name` in a directory whose entries are made up by the file system (procfs). Directories that
    /// keep all entries as dentries need not implement it.
    fn lookup(&self, dir: &Shared<Inode>, name: &[u8]) -> Result<Shared<Inode>, Errno> {
        let _ = (dir, name);
        Err(Errno::ENOENT)
    }
    /// Lists the made-up entries of a directory, from cookie `pos` (>= 2) on. They follow the entries that
    /// are dentries.
    fn list(&self, dir: &Shared<Inode>, pos: u64, sink: &mut DirSink<'_>) -> Result<(), Errno> {
        let _ = (dir, pos, sink);
        Ok(())
    }
    /// Makes an inode for a new entry of this directory.
    fn create(&self, dir: &Shared<Inode>, new: &NewInode<'_>) -> Result<Shared<Inode>, Errno> {
        let _ = (dir, new);
        Err(Errno::EPERM)
    }
    /// Whether entries may be made and removed.
    fn writable_directory(&self) -> bool {
        false
    }
    /// Whether it is a directory made only to mount something on it, in which nothing ever is.
    fn is_mount_point(&self) -> bool {
        false
    }
    /// Whether entries may be renamed, files may get further names there, and files may be made without one.
    fn moves_names(&self) -> bool {
        self.writable_directory()
    }
    /// Of a directory whose entries are made up: whether programs may make and remove directories in it.
    fn lets_make(&self) -> bool {
        false
    }
    /// Makes a directory there.
    fn make_in(&self, name: &[u8]) -> Result<(), Errno> {
        let _ = name;
        Err(Errno::EPERM)
    }
    /// Removes a directory there.
    fn remove_in(&self, name: &[u8]) -> Result<(), Errno> {
        let _ = name;
        Err(Errno::EPERM)
    }
    /// A program has changed mode or owner.
    fn changed(&self, inode: &Inode) {
        let _ = inode;
    }
    /// Whether each lookup may make a new `Inode` for the same file: then two are the same file if their
    /// numbers are equal.
    fn made_up(&self) -> bool {
        false
    }
    /// Where a symbolic link leads.
    fn follow(&self, inode: &Shared<Inode>) -> Result<Link, Errno> {
        let _ = inode;
        Err(Errno::EINVAL)
    }
    /// The text of a symbolic link; by default what `follow` says.
    fn readlink(&self, inode: &Shared<Inode>) -> Result<Vec<u8>, Errno> {
        match self.follow(inode)? {
            Link::Text(text) => Ok(text),
            Link::Jump(path) => path.display(),
        }
    }
    /// The operations of a newly opened file; `None` for the ordinary ones of this type of file. `flags` are
    /// those of `open`.
    fn open(&self, inode: &Shared<Inode>, flags: u32) -> Result<Option<Arc<dyn FileOps>>, Errno> {
        let _ = (inode, flags);
        Ok(None)
    }
    /// A chance to bring the attributes up to date before they are shown or checked. Must not sleep.
    fn refresh(&self, inode: &Inode) {
        let _ = inode;
    }
    /// Extra permission rule for directories like `/proc/<pid>/fd`; `None`: the ordinary rules.
    fn permission(&self, inode: &Inode, mask: u32) -> Option<Result<(), Errno>> {
        let _ = (inode, mask);
        None
    }
    /// `st_size` of inodes that are neither regular files nor directories. Must not sleep.
    fn size(&self, inode: &Inode) -> u64 {
        let _ = inode;
        0
    }
    /// In nsfs: the namespace for which the file stands.
    fn namespace(&self) -> Option<&crate::task::ns::NsRef> {
        None
    }
    /// In procfs: the process or thread whose directory this is.
    fn subject(&self) -> Option<&Subject> {
        None
    }
    /// Called when the inode goes away: it has no name and no user any more. Readers may still look at its
    /// attributes.
    fn evict(&self, inode: &Inode) {
        let _ = inode;
    }
}

/// Plain operations for inodes that need none (pipes, sockets, anonymous files).
pub struct NoOps;
impl InodeOps for NoOps {}

/// A file's extended attributes.
#[derive(Default)]
pub struct Xattrs {
    /// The attributes that the kernel only stores.
    pub named: BTreeMap<Box<[u8]>, Arc<Vec<u8>>>,
    /// The access control lists (`system.posix_acl_access`, `system.posix_acl_default`).
    pub acls: Acls,
}

/// A file.
pub struct Inode {
    /// Kind.
    pub kind: FileType,
    /// Inode number, unique in its file system.
    pub ino: u64,
    /// Its file system.
    pub sb: Arc<SuperBlock>,
    /// Device number, for device nodes.
    pub rdev: Dev,
    /// The operations of its file system.
    pub ops: Box<dyn InodeOps>,
    /// Contents of a regular file.
    pub pages: Option<Arc<PageCache>>,
    /// Permission bits, and [`Inode::HAS_ACL`] and [`Inode::HAS_DEFAULT_ACL`] beside them: a permission check
    /// learns with one load whether there is an access control list, too.
    mode: AtomicU32,
    uid: AtomicU32,
    gid: AtomicU32,
    nlink: AtomicU32,
    times: OwnTimes,
    /// As Linux's `i_writecount`: the number of writers if positive, of executions that forbid writing if
    /// negative.
    writers: AtomicI32,
    /// Of a regular file: how often it is open by path for reading only.
    readers: AtomicU32,
    /// `F_SEAL_*`, as [`crate::fs::memfd`] keeps them; only memfds can have any.
    pub seals: AtomicU32,
    /// `F_SET_RW_HINT`: stored, not used.
    pub write_hint: AtomicU8,
    /// Extended attributes. A change of owner, permission bits or lists holds this lock from its check to its
    /// end ([`Inode::lock_attributes`]).
    xattrs: SpinLock<Option<Box<Xattrs>>>,
    /// Advisory locks; empty until the first lock is taken, so `close` of a file without locks costs one
    /// load.
    pub locks: Once<Arc<FileLocks>>,
    /// The pipe behind a FIFO while somebody has it open.
    pub pipe: SpinLock<Weak<Pipe>>,
    /// The listener bound to a socket's name.
    pub socket: Shown<Weak<dyn core::any::Any + Send + Sync>>,
    /// Whether an inotify watch exists: operations on inodes without watches cost one load.
    pub watched: AtomicBool,
    /// inotify watches.
    pub watches: SpinLock<crate::fs::inotify::Watchers>,
}

impl Inode {
    /// Beside the permission bits: the inode has an access control list (`system.posix_acl_access`).
    pub const HAS_ACL: u32 = 1 << 16;
    /// Beside the permission bits: the directory has a default list, which new entries inherit
    /// (`system.posix_acl_default`).
    pub const HAS_DEFAULT_ACL: u32 = 1 << 17;
    /// Somebody has a lease on it ([`crate::fs::locks::leases`]).
    pub const HAS_LEASE: u32 = 1 << 18;

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
            mode: AtomicU32::new(new.kind.mode_bits() | new.mode & 0o7777),
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
            readers: AtomicU32::new(0),
            seals: AtomicU32::new(0),
            write_hint: AtomicU8::new(0),
            xattrs: SpinLock::new(None),
            locks: Once::new(),
            pipe: SpinLock::new(Weak::new()),
            socket: Shown::empty(),
            watched: AtomicBool::new(false),
            watches: SpinLock::new(crate::fs::inotify::Watchers::default()),
        }
    }

    /// Permission bits (`07777`).
    #[inline(always)]
    pub fn mode(&self) -> u32 {
        self.mode_word() & 0o7777
    }
    /// The permission bits with [`Inode::HAS_ACL`] and the other `HAS_` bits beside them.
    #[inline(always)]
    pub fn mode_word(&self) -> u32 {
        self.mode.load(Ordering::Relaxed)
    }
    /// Whether everybody may search this directory (or execute this file), so no credentials need be looked
    /// at.
    #[inline(always)]
    pub fn for_everybody(&self) -> bool {
        self.mode_word() & (0o111 | Self::HAS_ACL) == 0o111
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
    /// The number of names (`st_nlink`).
    #[inline(always)]
    pub fn nlink(&self) -> u32 {
        self.nlink.load(Ordering::Relaxed)
    }
    /// Locks owner, permission bits, lists and extended attributes: what a change of them checks stays true
    /// until it is made. One of them alone is read without the lock.
    pub fn lock_attributes(&self) -> SpinGuard<'_, Option<Box<Xattrs>>> {
        self.xattrs.lock()
    }
    /// Permission bits, owner and group at one moment, for those who give rights by all three.
    pub fn identity(&self) -> (u32, u32, u32) {
        let _still = self.xattrs.lock();
        (self.mode(), self.uid(), self.gid())
    }
    /// Sets the permission bits.
    pub fn set_mode(&self, mode: u32) {
        self.change_mode(|old| old & !0o7777 | mode & 0o7777);
    }
    /// Changes the permission bits and the bits beside them ([`Inode::mode_word`]) in one atomic step.
    pub fn change_mode(&self, new: impl Fn(u32) -> u32) {
        let _ = self
            .mode
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |old| Some(new(old)));
    }
    /// Sets owner and group.
    pub fn set_owner(&self, uid: u32, gid: u32) {
        self.uid.store(uid, Ordering::Relaxed);
        self.gid.store(gid, Ordering::Relaxed);
    }
    /// Sets the number of names.
    pub fn set_nlink(&self, n: u32) {
        let old = self.nlink.swap(n, Ordering::Relaxed);
        if (old == 0) != (n == 0) {
            self.sb
                .nameless
                .fetch_add(if n == 0 { 1 } else { u32::MAX }, Ordering::Relaxed);
        }
    }
    /// Adds a name. `ENOENT` if the last one has been removed, `EMLINK` if there are too many.
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
    /// Adds a name or a subdirectory, unchecked.
    pub fn inc_nlink(&self) {
        self.nlink.fetch_add(1, Ordering::Relaxed);
    }
    /// Removes a name or a subdirectory.
    pub fn dec_nlink(&self) {
        let old = self
            .nlink
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        if old == Ok(1) {
            self.sb.nameless.fetch_add(1, Ordering::Relaxed);
        }
    }
    /// Gives a file that was made without a name (`O_TMPFILE`) its first one.
    pub fn revive(&self) {
        self.set_nlink(1);
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
    /// Sets the times that are `Some`.
    pub fn set_times(&self, atime: Option<Time>, mtime: Option<Time>, ctime: Option<Time>) {
        let own = &self.times;
        for (time, new) in [(&own.atime, atime), (&own.mtime, mtime), (&own.ctime, ctime)] {
            if let Some(new) = new {
                time.store(new, Ordering::Relaxed);
            }
        }
    }
    /// The contents changed: `mtime` and `ctime` become the present time.
    pub fn touch_modified(&self) {
        let now = now();
        self.times.mtime.store(now, Ordering::Relaxed);
        self.times.ctime.store(now, Ordering::Relaxed);
    }
    /// The attributes changed: `ctime` becomes the present time.
    pub fn touch_changed(&self) {
        self.times.ctime.store(now(), Ordering::Relaxed);
    }
    /// The file was read. As with `relatime`, `atime` changes only if it is not newer than `mtime` and
    /// `ctime`, or is a day old.
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
        self.mode_word() & 0xffff
    }

    /// Counts a writer; `ETXTBSY` while the file is being executed. The inverse is [`Inode::put_write`].
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
    /// `execve` forbids writing; `ETXTBSY` while a writer exists. The inverse is [`Inode::allow_write`].
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
    /// Somebody reads and does not write.
    pub fn get_read(&self) {
        self.readers.fetch_add(1, Ordering::Acquire);
    }
    /// The inverse of [`Inode::get_read`].
    pub fn put_read(&self) {
        self.readers.fetch_sub(1, Ordering::Release);
    }
    /// Writers (executions, if negative), and those who only read.
    pub fn opens(&self) -> (i32, u32) {
        let writers = self.writers.load(Ordering::Relaxed);
        (writers, self.readers.load(Ordering::Relaxed))
    }
    /// Whether a writer exists.
    pub fn has_writers(&self) -> bool {
        self.writers.load(Ordering::Relaxed) > 0
    }
}

impl Retire for Inode {
    fn retire(&self, _: &Retiring) {
        crate::fs::inotify::inode_gone(self);
        if self.nlink() == 0 {
            self.sb.nameless.fetch_sub(1, Ordering::Relaxed);
        }
        if let Some(pages) = &self.pages
            && Arc::strong_count(pages) == 1
        {
            pages.empty();
        }
        self.ops.evict(self);
    }
}

/// The wall clock, for timestamps.
pub fn now() -> Time {
    crate::time::realtime_ns() as i64
}

/// The dentry of a fresh tree: see [`Dentry::new_root`].
pub fn new_root(sb: &Arc<SuperBlock>, ops: Box<dyn InodeOps>, mode: u32) -> Shared<Dentry> {
    let new = NewInode {
        kind: FileType::Directory,
        mode,
        uid: 0,
        gid: 0,
        rdev: Dev::default(),
        target: b"",
    };
    Dentry::new_root(Shared::new(Inode::with_ino(sb, 1, ops, &new)))
}
