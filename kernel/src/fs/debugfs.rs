//! debugfs: files that rooms of the kernel add to [`TREE`]. It has to be mounted by hand: `mount -t debugfs
//! none /sys/kernel/debug`.

use crate::fs::dentry::Dentry;
use crate::fs::mount::Mount;
use crate::fs::pseudo::{self, Fixed, Plain, Tree};
use crate::fs::superblock::FsType;
use crate::rcu::Shared;
use crate::sync::Once;
use limen_linux_abi::Errno;

/// `DEBUGFS_MAGIC`.
const MAGIC: u64 = 0x6462_6720;

/// The file system type.
pub static DEBUGFS: FsType = FsType {
    name: "debugfs",
    for_users: None,
    revealing: false,
    needs_device: false,
    mount,
};

/// Its names.
pub static TREE: Tree = Tree::new();

fn mount(_: &[u8], _: &str) -> Result<Shared<Dentry>, Errno> {
    static ONLY: pseudo::Only = pseudo::Only::new();
    /// The kernel's own mount: who watches a file hears of no unmounting.
    static OWN: Once<Shared<Mount>> = Once::new();
    let root = ONLY.root("debugfs", Plain(MAGIC), Fixed(&TREE));
    OWN.get_or_init(|| Mount::new_internal(root.clone(), 0));
    Ok(root)
}

/// Registers the type.
pub fn init() {
    crate::fs::superblock::register_fs_type(&DEBUGFS);
}
