//! Mounts: what each is, and what may be done with it. There is one table of them for all processes (`tree`).

use crate::fs::dentry::Dentry;
use crate::fs::inotify;
use crate::fs::path::Path;
use crate::rcu::{Held, Retire, Retiring, Shared};
use crate::sched::WaitQueue;
use crate::sync::{Once, SpinLock};
use crate::task::{TaskFlags, creds::cap, current};
use alloc::string::String;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use limen_linux_abi::Errno;

mod shown;
mod tree;

pub use shown::{for_roots_below, show_mountinfo, show_mounts, show_mountstats};
use tree::{CHANGE, LIST, node};
pub use tree::{check_unmount_flags, do_mount, forget, pivot_root, to_umount, umount};

/// `MS_RDONLY`.
pub const MS_RDONLY: u32 = 1;
/// `MS_NOSUID`.
pub const MS_NOSUID: u32 = 2;
/// `MS_NODEV`.
pub const MS_NODEV: u32 = 4;
/// `MS_NOEXEC`.
pub const MS_NOEXEC: u32 = 8;
/// `MS_REMOUNT`.
pub const MS_REMOUNT: u32 = 32;
/// `MS_NOSYMFOLLOW`.
pub const MS_NOSYMFOLLOW: u32 = 256;
/// `MS_NOATIME`.
pub const MS_NOATIME: u32 = 1024;
/// `MS_NODIRATIME`.
pub const MS_NODIRATIME: u32 = 2048;
/// `MS_BIND`.
pub const MS_BIND: u32 = 4096;
/// `MS_MOVE`.
pub const MS_MOVE: u32 = 8192;
/// `MS_REC`.
pub const MS_REC: u32 = 16384;
/// `MS_UNBINDABLE`, `MS_PRIVATE`, `MS_SLAVE`, `MS_SHARED`.
pub const MS_PROPAGATION: u32 = 0xf << 17;
/// `MS_RELATIME`.
pub const MS_RELATIME: u32 = 1 << 21;
/// `MS_STRICTATIME`.
const MS_STRICTATIME: u32 = 1 << 24;
/// When the times of access change. A remount that names none of them leaves that as it is.
const ACCESS_TIMES: u32 = MS_NOATIME | MS_NODIRATIME | MS_RELATIME | MS_STRICTATIME;
/// Flags that belong to a mount.
const PER_MOUNT: u32 =
    MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOSYMFOLLOW | MS_NOATIME | MS_NODIRATIME | MS_RELATIME;
/// `MNT_FORCE`.
const MNT_FORCE: u32 = 1;
/// `MNT_DETACH`.
const MNT_DETACH: u32 = 2;
/// `MNT_EXPIRE`.
const MNT_EXPIRE: u32 = 4;
/// `UMOUNT_NOFOLLOW`.
pub const UMOUNT_NOFOLLOW: u32 = 8;

/// A mount: a tree, and the place at which it is mounted.
pub struct Mount {
    /// Number shown in `mountinfo`.
    pub id: u32,
    /// The root of the part of the tree that it shows.
    pub root: Held<Dentry>,
    /// `MS_*` flags of this mount.
    flags: AtomicU32,
    /// The source, as given to `mount`.
    pub source: String,
    at: SpinLock<Option<Path>>,
    /// Whether it is in [`LIST`]. Only then mounts below it may change.
    listed: AtomicBool,
    internal: bool,
    /// Nobody has used it since `MNT_EXPIRE`.
    expiring: AtomicBool,
    /// How many files are open for writing through it.
    writers: AtomicU32,
}

static NEXT_ID: AtomicU32 = AtomicU32::new(1);
static ROOT: Once<Path> = Once::new();

impl Mount {
    fn build(root: Shared<Dentry>, flags: u32, source: &[u8], internal: bool) -> Shared<Self> {
        root.inode.sb.mounts.fetch_add(1, Ordering::Relaxed);
        Shared::new(Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            root: Held::new(root),
            flags: AtomicU32::new(flags & PER_MOUNT),
            source: String::from_utf8_lossy(source).into_owned(),
            at: SpinLock::new(None),
            listed: AtomicBool::new(false),
            internal,
            expiring: AtomicBool::new(false),
            writers: AtomicU32::new(0),
        })
    }
    /// A walk has come to it.
    #[inline(always)]
    pub fn used(&self) {
        if self.expiring.load(Ordering::Relaxed) {
            self.stays();
        }
    }
    /// It does not expire, unless that is what the walk is for.
    #[cold]
    #[inline(never)]
    fn stays(&self) {
        if !current().flags().contains(TaskFlags::EXPIRES_MOUNT) {
            self.expiring.store(false, Ordering::Relaxed);
        }
    }
    /// A mount for files outside any tree (pipes, sockets, anonymous files), with `MS_*` flags.
    pub fn new_internal(root: Shared<Dentry>, flags: u32) -> Shared<Self> {
        Self::build(root, flags, b"none", true)
    }
    /// Whether it is a mount for files outside any tree.
    pub fn is_internal(&self) -> bool {
        self.internal
    }
    /// Whether it shows its whole tree, not only a directory of it.
    pub fn shows_all(&self) -> bool {
        self.root.is_root()
    }
    /// `EINVAL` for a mount that was unmounted, and for one of files outside any tree.
    fn check_listed(&self) -> Result<(), Errno> {
        if self.listed.load(Ordering::Relaxed) {
            Ok(())
        } else {
            Err(Errno::EINVAL)
        }
    }
    /// Where it is mounted. `None` for the first root, and for a mount that was unmounted.
    pub fn mountpoint(&self) -> Option<Path> {
        self.at.lock().clone()
    }
    /// `MS_*` flags.
    #[inline]
    pub fn flags(&self) -> u32 {
        self.flags.load(Ordering::Relaxed)
    }
    /// `EROFS` if the mount or the file system is read-only.
    #[inline]
    pub fn check_writable(&self) -> Result<(), Errno> {
        if (self.flags() | self.root.inode.sb.flags.load(Ordering::Relaxed)) & MS_RDONLY != 0 {
            Err(Errno::EROFS)
        } else {
            Ok(())
        }
    }
    /// A file is opened for writing: counts it, so that nobody makes the mount read-only meanwhile. `EROFS`.
    /// The inverse is [`Mount::put_write`]. May sleep.
    pub fn get_write(&self) -> Result<(), Errno> {
        // Counted before it looks; who makes it read-only says so before it looks at the count.
        self.count_write();
        let flags = [&self.flags, &self.root.inode.sb.flags].map(|flags| flags.load(Ordering::SeqCst));
        if (flags[0] | flags[1]) & MS_RDONLY == 0 {
            return Ok(());
        }
        self.put_write();
        // Perhaps somebody is just finding out that it cannot be made read-only.
        let _change = CHANGE.lock();
        self.check_writable()?;
        self.count_write();
        Ok(())
    }
    fn count_write(&self) {
        self.writers.fetch_add(1, Ordering::SeqCst);
        self.root.inode.sb.writers.fetch_add(1, Ordering::SeqCst);
    }
    /// The inverse of [`Mount::get_write`].
    pub fn put_write(&self) {
        self.writers.fetch_sub(1, Ordering::Release);
        self.root.inode.sb.writers.fetch_sub(1, Ordering::Release);
    }
}

/// Sets `MS_RDONLY` in `flags`, unless one of `busy` is not 0: `EBUSY`. The caller holds `CHANGE`.
fn make_read_only(flags: &AtomicU32, busy: &[&AtomicU32]) -> Result<(), Errno> {
    let before = flags.fetch_or(MS_RDONLY, Ordering::SeqCst);
    if before & MS_RDONLY == 0 && busy.iter().any(|count| count.load(Ordering::SeqCst) != 0) {
        flags.fetch_and(!MS_RDONLY, Ordering::Relaxed);
        return Err(Errno::EBUSY);
    }
    Ok(())
}

/// `MS_REMOUNT`: changes the options of the file system, or with `MS_BIND` only those of the mount. `EBUSY`:
/// it is to be read-only, and files are open for writing, or there are some without a name.
fn remount(at: &Path, flags: u32, data: &str) -> Result<(), Errno> {
    let _change = CHANGE.lock();
    at.mnt.check_listed()?;
    if !Shared::ptr_eq(&at.dentry, &at.mnt.root) {
        return Err(Errno::EINVAL);
    }
    let sb = &at.mnt.root.inode.sb;
    let before = sb.flags.load(Ordering::Relaxed);
    if flags & MS_BIND == 0 {
        sb.ops.check_options(data)?;
        if flags & MS_RDONLY != 0 {
            make_read_only(&sb.flags, &[&sb.writers, &sb.nameless])?;
        }
        sb.ops
            .remount(data)
            .inspect_err(|_| sb.flags.store(before, Ordering::Relaxed))?;
        sb.flags
            .store(before & !MS_RDONLY | flags & MS_RDONLY, Ordering::Relaxed);
    } else if flags & !before & MS_RDONLY != 0 {
        make_read_only(&at.mnt.flags, &[&at.mnt.writers])?;
    }
    let mut own = flags & PER_MOUNT;
    if flags & ACCESS_TIMES == 0 {
        own |= at.mnt.flags() & ACCESS_TIMES;
    }
    at.mnt.flags.store(own, Ordering::Relaxed);
    CHANGES.announce();
    Ok(())
}

impl Retire for Mount {
    fn retire(&self, retiring: &Retiring) {
        self.leave();
        let at = self.at.lock().take();
        drop(at);
        self.root.give_up(retiring);
    }
    fn seen(&self) {
        self.root.seen();
    }
}

impl Mount {
    /// It shows its file system no more.
    fn leave(&self) {
        let sb = &self.root.inode.sb;
        if sb.mounts.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        inotify::all_unmounted(sb);
        if !sb.persistent {
            inotify::ended(sb);
            let mut top = self.root.clone();
            while let Some(p) = top.parent() {
                top = p;
            }
            top.dismantle();
        }
    }
}

/// Tells waiters that a mount has changed.
pub struct Changes {
    count: AtomicU32,
    /// The queue of waiters.
    pub queue: WaitQueue,
}

/// The one of the only mount namespace.
pub static CHANGES: Changes = Changes {
    count: AtomicU32::new(0),
    queue: WaitQueue::new(),
};

impl Changes {
    /// How many changes there were.
    pub fn count(&self) -> u32 {
        self.count.load(Ordering::Acquire)
    }
    fn announce(&self) {
        self.count.fetch_add(1, Ordering::Release);
        self.queue.wake_all();
    }
}

/// Makes `root` the first root.
pub fn init(root: Shared<Dentry>) {
    let mnt = Mount::build(root.clone(), 0, b"rootfs", false);
    mnt.listed.store(true, Ordering::Relaxed);
    let node = node(&mnt, u64::from(mnt.id)).expect("memory for the first mount");
    LIST.lock().insert(node);
    if ROOT.set(Path { mnt, dentry: root }).is_err() {
        warning!("The root is already there");
    }
}

/// The root of the first mount, where init starts.
pub fn initial_root() -> Path {
    ROOT.get().expect("fs::init has run").clone()
}

/// Whether the running thread sees another root than its mount namespace has: then a new user namespace must
/// not let it out.
pub fn is_chrooted() -> bool {
    let mut root = initial_root();
    root.cross_mounts();
    crate::fs::context::current_root() != root
}

/// `EPERM` unless the running task may mount and unmount.
pub fn may_mount() -> Result<(), Errno> {
    if crate::task::current().creds().capable(cap::SYS_ADMIN) {
        Ok(())
    } else {
        Err(Errno::EPERM)
    }
}
