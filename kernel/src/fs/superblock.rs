//! File systems: the registry of types, and the instance to which a tree belongs.

use crate::fs::dentry::Dentry;
use crate::fs::inode::{Dev, FileType};
use crate::fs::inotify::MadeUp;
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

static NEXT_MINOR: AtomicU32 = AtomicU32::new(1);

impl SuperBlock {
    /// The only instance of a type, with an anonymous device number of its own. It is the machine's,
    /// whoever needs it first.
    pub fn new(fs_type: &'static str, ops: Box<dyn SuperOps>) -> Arc<Self> {
        Self::owned(fs_type, ops, true, None)
    }
    /// A new instance, which belongs to `owner`.
    pub fn owned(
        fs_type: &'static str,
        ops: Box<dyn SuperOps>,
        persistent: bool,
        owner: UserRef,
    ) -> Arc<Self> {
        Arc::new(Self {
            owner,
            dev: Dev::new(0, NEXT_MINOR.fetch_add(1, Ordering::Relaxed)),
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
