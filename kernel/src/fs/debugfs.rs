//! debugfs: files that rooms of the kernel add to [`TREE`]. Nothing mounts it by itself: `mount -t debugfs none /sys/kernel/debug`.

use crate::fs::dentry::Dentry;
use crate::fs::inode::FileType;
use crate::fs::pseudo::{self, Directory, Node, Tree};
use crate::fs::superblock::FsType;
use crate::sync::Once;
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
    static ROOT: Once<Arc<Dentry>> = Once::new();
    Ok(ROOT
        .get_or_init(|| pseudo::instance("debugfs", MAGIC, Arc::new(Root)))
        .clone())
}

struct Root;

impl Directory for Root {
    fn get(&self, name: &[u8]) -> Option<Node> {
        TREE.find(name)
    }
    fn list(&self, pos: u64, add: &mut dyn FnMut(&[u8], FileType, u64) -> bool) {
        TREE.walk(pos, add);
    }
}

/// Registers the type.
pub fn init() {
    crate::fs::superblock::register_fs_type(&DEBUGFS);
}
