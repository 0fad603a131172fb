//! debugfs: files that rooms of the kernel add to [`TREE`]. It has to be mounted by hand: `mount -t debugfs
//! none /sys/kernel/debug`.

use crate::fs::dentry::Dentry;
use crate::fs::pseudo::{self, Fixed, Plain, Tree};
use crate::fs::superblock::FsType;
use alloc::sync::Arc;
use limen_linux_abi::Errno;

/// `DEBUGFS_MAGIC`.
const MAGIC: u64 = 0x6462_6720;

/// The file system type.
pub static DEBUGFS: FsType = FsType {
    name: "debugfs",
    needs_device: false,
    mount,
};

/// Its names.
pub static TREE: Tree = Tree::new();

fn mount(_: &[u8], _: &str) -> Result<Arc<Dentry>, Errno> {
    static ONLY: pseudo::Only = pseudo::Only::new();
    Ok(ONLY.root("debugfs", Plain(MAGIC), Fixed(&TREE)))
}

/// Registers the type.
pub fn init() {
    crate::fs::superblock::register_fs_type(&DEBUGFS);
}
