//! File systems: the registry of types, and the instance to which a tree belongs.

use crate::fs::dentry::Dentry;
use crate::fs::inode::{Dev, FileType};
use crate::fs::inotify::MadeUp;
use crate::mm::numbers::Numbers;
use crate::rcu::Shared;
use crate::sync::{Mutex, SpinLock};
use crate::task::creds::cap;
use crate::task::current;
use crate::task::ns::UserRef;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use limen_linux_abi::Errno;

/// The result of `statfs`. Counts of blocks are in units of `block_size`.
#[derive(Clone, Copy, Debug, Default)]
pub struct StatFs {
    /// Magic number.
    pub magic: u64,
    /// The size of a block in bytes.
    pub block_size: u64,
    /// How many blocks there are. 0: no limit.
    pub blocks: u64,
    /// Free blocks.
    pub free: u64,
    /// Inodes in all.
    pub files: u64,
    /// Free inodes.
    pub files_free: u64,
}

impl StatFs {
    /// Of a file system that stores nothing, with this magic number.
    pub fn made_up(magic: u64) -> Self {
        Self {
            magic,
            block_size: crate::mm::PAGE_SIZE as u64,
            ..Self::default()
        }
    }
}

/// What differs between instances of file systems.
pub trait SuperOps: Send + Sync + Any {
    /// Sizes and counts.
    fn statfs(&self) -> StatFs {
        StatFs::default()
    }
    /// Appends options for `/proc/mounts`, each with a comma before it.
    fn show_options(&self, out: &mut String) {
        let _ = out;
    }
    /// Whether modes cannot be changed: `chmod` gives `EPERM` to everyone.
    fn fixed_modes(&self) -> bool {
        false
    }
    /// The error of making an entry of `kind` in a directory that accepts none.
    fn no_entries(&self, kind: FileType) -> Errno {
        match kind {
            FileType::Regular => Errno::EACCES,
            _ => Errno::EPERM,
        }
    }
    /// Whether mounting twice at one place is allowed although there is one instance: on Linux each mount
    /// would be an instance of its own.
    fn stands_for_many(&self) -> bool {
        false
    }
    /// `EINVAL` if there are no such options. Comes before [`SuperOps::remount`].
    fn check_options(&self, data: &str) -> Result<(), Errno> {
        let _ = data;
        Ok(())
    }
    /// Changes the options (`mount -o remount`).
    fn remount(&self, data: &str) -> Result<(), Errno> {
        let _ = data;
        Ok(())
    }
}

impl dyn SuperOps {
    /// The instance as type `T`, if it is one.
    pub fn downcast<T: SuperOps>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }
}

/// An instance of a file system.
pub struct SuperBlock {
    /// Device number shown by `stat`.
    pub dev: Dev,
    /// Type name (`tmpfs`).
    pub fs_type: &'static str,
    /// The user namespace that has the rights of `CAP_SYS_ADMIN` on it. What others make is no device, and
    /// gives no ids, for anybody else.
    pub owner: UserRef,
    /// Its answers.
    pub ops: Box<dyn SuperOps>,
    /// Held by the one rename between directories: no directory may move while two of them are locked in
    /// order.
    pub rename_lock: Mutex<()>,
    /// The `MS_*` flags of the instance, such as `MS_RDONLY`.
    pub flags: AtomicU32,
    /// How many mounts show it. At 0 the tree is freed, unless it is `persistent`.
    pub mounts: AtomicU32,
    /// How many files are open for writing, in all its mounts.
    pub writers: AtomicU32,
    /// How many inodes there still are without a name.
    pub nameless: AtomicU32,
    /// There is only one instance, which is never freed.
    pub persistent: bool,
    /// Made-up inodes that are watched.
    pub watched: MadeUp,
    next_ino: AtomicU64,
}

/// A bit for each minor number that an only instance has: those below [`FIRST_OF_MANY`] but 0. There are
/// fewer such kinds in the source, and who is the first to look at one of them cannot handle an error.
static ONLY: AtomicU64 = AtomicU64::new(1);
/// The first minor number of instances that come and go.
const FIRST_OF_MANY: u32 = u64::BITS;
/// The numbers of these: all that fit into a device number.
static MINORS: Numbers = Numbers::new(FIRST_OF_MANY, (Dev::MINORS - FIRST_OF_MANY) as usize);

impl SuperBlock {
    /// A new instance with an anonymous device number of its own, which is free again when nothing is left of
    /// the instance. It belongs to `owner`. `EMFILE`: all numbers are used; `ENOMEM`. May sleep.
    pub fn new(fs_type: &'static str, ops: Box<dyn SuperOps>, owner: UserRef) -> Result<Arc<Self>, Errno> {
        let minor = MINORS.take()?.ok_or(Errno::EMFILE)?;
        Ok(Self::with_minor(fs_type, ops, owner, minor, false))
    }
    /// The only instance of its kind, which stays for ever.
    pub fn only(fs_type: &'static str, ops: Box<dyn SuperOps>) -> Arc<Self> {
        let lowest = |used: u64| used.checked_add(1).map(|more| used | more);
        let used = ONLY
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, lowest)
            .expect("there are fewer kinds of file systems than numbers for them");
        Self::with_minor(fs_type, ops, None, used.trailing_ones(), true)
    }
    fn with_minor(
        fs_type: &'static str,
        ops: Box<dyn SuperOps>,
        owner: UserRef,
        minor: u32,
        persistent: bool,
    ) -> Arc<Self> {
        Arc::new(Self {
            owner,
            dev: Dev::new(0, minor),
            fs_type,
            ops,
            rename_lock: Mutex::new(()),
            flags: AtomicU32::new(0),
            mounts: AtomicU32::new(0),
            writers: AtomicU32::new(0),
            nameless: AtomicU32::new(0),
            persistent,
            watched: MadeUp::new(),
            next_ino: AtomicU64::new(2),
        })
    }
    /// A new inode number. The root has 1.
    pub fn next_ino(&self) -> u64 {
        self.next_ino.fetch_add(1, Ordering::Relaxed)
    }
}

impl Drop for SuperBlock {
    fn drop(&mut self) {
        let minor = self.dev.minor();
        if self.persistent {
            // Two threads made it at the same time, and the other one's stays.
            ONLY.fetch_and(!(1 << minor), Ordering::Relaxed);
        } else {
            MINORS.give_back(minor);
        }
    }
}

/// The user namespace of the running task.
pub fn of_current() -> UserRef {
    current().creds().user.clone()
}

/// A type of file system.
pub struct FsType {
    /// Name in `mount -t`.
    pub name: &'static str,
    /// The user namespace whose root may mount it, and which has the new instance. `None`: only that of the
    /// initial one may.
    pub for_users: Option<fn() -> UserRef>,
    /// Whether it tells of the whole system: a user namespace may only mount it if it sees all of one
    /// already.
    pub revealing: bool,
    /// Whether it needs a block device (`nodev` in `/proc/filesystems` if not).
    pub needs_device: bool,
    /// Makes or finds an instance and returns its root. `source` and `data` are those of `mount(2)`.
    pub mount: fn(source: &[u8], data: &str) -> Result<Shared<Dentry>, Errno>,
}

impl FsType {
    /// Whether the running task may mount it, as far as that follows from the type.
    pub fn may_mount(&self) -> bool {
        let of = self.for_users.and_then(|of| of());
        current().creds().capable_in(&of, cap::SYS_ADMIN)
    }
}

static TYPES: SpinLock<Vec<&'static FsType>> = SpinLock::new(Vec::new());

/// Registers a type.
pub fn register_fs_type(fs: &'static FsType) {
    TYPES.lock().push(fs);
}

/// Finds a type; `ENODEV` if there is none of that name.
pub fn find_fs_type(name: &[u8]) -> Result<&'static FsType, Errno> {
    TYPES
        .lock()
        .iter()
        .find(|t| t.name.as_bytes() == name)
        .copied()
        .ok_or(Errno::ENODEV)
}

/// `/proc/filesystems`.
pub fn show_fs_types(out: &mut String) {
    for t in TYPES.lock().iter() {
        out.push_str(if t.needs_device { "" } else { "nodev" });
        out.push('\t');
        out.push_str(t.name);
        out.push('\n');
    }
}
