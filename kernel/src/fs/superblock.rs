//! File systems, mounted or not: the registry of types, and the instance behind a tree.

use crate::fs::dentry::Dentry;
use crate::fs::inode::{Dev, FileType};
use crate::sync::{Mutex, SpinLock};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use limen_linux_abi::Errno;

/// What `statfs` tells; block counts are in `block_size` units.
#[derive(Clone, Copy, Debug, Default)]
pub struct StatFs {
    /// Magic number.
    pub magic: u64,
    /// Bytes of a block.
    pub block_size: u64,
    /// Blocks in all (0: unlimited).
    pub blocks: u64,
    /// Free blocks.
    pub free: u64,
    /// Inodes in all.
    pub files: u64,
    /// Free inodes.
    pub files_free: u64,
}

impl StatFs {
    /// Of a file system that keeps nothing: its magic number.
    pub fn made_up(magic: u64) -> Self {
        Self {
            magic,
            block_size: 4096,
            ..Self::default()
        }
    }
}

/// What an instance of a file system answers for.
pub trait SuperOps: Send + Sync + Any {
    /// Space.
    fn statfs(&self) -> StatFs {
        StatFs::default()
    }
    /// Options for `/proc/mounts`, each with a leading comma.
    fn show_options(&self, out: &mut String) {
        let _ = out;
    }
    /// Whether its files have the modes they have: `chmod` is not permitted to anybody.
    fn fixed_modes(&self) -> bool {
        false
    }
    /// What making an entry of `kind` in a directory that takes none says.
    fn no_entries(&self, kind: FileType) -> Errno {
        match kind {
            FileType::Regular => Errno::EACCES,
            _ => Errno::EPERM,
        }
    }
    /// Remount with new options.
    fn remount(&self, data: &str) -> Result<(), Errno> {
        let _ = data;
        Ok(())
    }
}

impl dyn SuperOps {
    /// As its own type.
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
    /// Its answers.
    pub ops: Box<dyn SuperOps>,
    /// Only one rename between directories at a time: directories can't move while two of them are being ordered.
    pub rename_lock: Mutex<()>,
    /// `MS_RDONLY` and friends that belong to the instance.
    pub flags: AtomicU32,
    /// How many mounts show it; at zero the tree is taken apart, unless it is `persistent`.
    pub mounts: AtomicU32,
    /// There is only one instance, and it stays.
    pub persistent: bool,
    next_ino: AtomicU64,
}

static NEXT_MINOR: AtomicU32 = AtomicU32::new(1);

impl SuperBlock {
    /// A new instance with a fresh anonymous device number.
    pub fn new(fs_type: &'static str, ops: Box<dyn SuperOps>, persistent: bool) -> Arc<Self> {
        Arc::new(Self {
            dev: Dev::new(0, NEXT_MINOR.fetch_add(1, Ordering::Relaxed)),
            fs_type,
            ops,
            rename_lock: Mutex::new(()),
            flags: AtomicU32::new(0),
            mounts: AtomicU32::new(0),
            persistent,
            next_ino: AtomicU64::new(2),
        })
    }
    /// A fresh inode number; the root has 1.
    pub fn next_ino(&self) -> u64 {
        self.next_ino.fetch_add(1, Ordering::Relaxed)
    }
}

/// A type of file system: `mount` makes the tree. `source` and `data` are `mount(2)`'s.
pub struct FsType {
    /// Name in `mount -t`.
    pub name: &'static str,
    /// Whether it needs a block device (`nodev` in `/proc/filesystems` if not).
    pub needs_device: bool,
    /// Makes (or finds) an instance and gives its root.
    pub mount: fn(source: &[u8], data: &str) -> Result<Arc<Dentry>, Errno>,
}

static TYPES: SpinLock<Vec<&'static FsType>> = SpinLock::new(Vec::new());

/// Adds a type.
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
