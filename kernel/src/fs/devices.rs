//! Device nodes: which driver serves which number, and devtmpfs, where drivers' nodes appear.

use crate::fs::dentry::Dentry;
use crate::fs::file::FileOps;
use crate::fs::inode::{Dev, FileType, Inode, NewInode};
use crate::fs::mount::Mount;
use crate::fs::superblock::FsType;
use crate::fs::tmpfs;
use crate::rcu::Shared;
use crate::sync::SpinLock;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use limen_linux_abi::Errno;

/// Opens a device. `flags` are those of `open`.
pub type OpenDevice = fn(dev: Dev, flags: u32) -> Result<Arc<dyn FileOps>, Errno>;

static CHAR_DEVICES: SpinLock<BTreeMap<Dev, OpenDevice>> = SpinLock::new(BTreeMap::new());
static BLOCK_DEVICES: SpinLock<BTreeMap<Dev, OpenDevice>> = SpinLock::new(BTreeMap::new());
/// devtmpfs, in a mount of the kernel's own, so that it is never unmounted. All mounts show this
/// instance.
static OWN: SpinLock<Option<Shared<Mount>>> = SpinLock::new(None);

/// devtmpfs.
pub static DEVTMPFS: FsType = FsType {
    name: "devtmpfs",
    for_users: None,
    revealing: false,
    needs_device: false,
    mount: |_, _| Ok(root()),
};

/// The devtmpfs root, made on first use.
pub fn root() -> Shared<Dentry> {
    if let Some(own) = OWN.lock().as_ref() {
        return own.root.clone();
    }
    let new = tmpfs::new_kernel_tree("devtmpfs", "mode=0755").expect("the options are well-formed");
    let new = Mount::new_internal(new, 0);
    OWN.lock().get_or_insert(new).root.clone()
}

fn add_node(name: &str, kind: FileType, dev: Dev, mode: u32) -> Result<(), Errno> {
    let mut dir = root();
    let mut parts = name.split('/').peekable();
    while let Some(part) = parts.next() {
        let last = parts.peek().is_none();
        let (kind, mode) = if last {
            (kind, mode)
        } else {
            (FileType::Directory, 0o755)
        };
        let new = NewInode {
            kind,
            mode,
            uid: 0,
            gid: 0,
            rdev: dev,
            target: b"",
        };
        let child = match dir.lookup(part.as_bytes()) {
            Ok(child) => child,
            Err(_) => tmpfs::add(&dir, part.as_bytes(), &new)?,
        };
        dir = child;
    }
    Ok(())
}

/// Registers the driver of character device `dev`, and makes a node `name` with permissions `mode` in
/// devtmpfs (slashes make directories).
pub fn register_char_device(name: &str, dev: Dev, mode: u32, open: OpenDevice) {
    CHAR_DEVICES.lock().insert(dev, open);
    if let Err(e) = add_node(name, FileType::CharDevice, dev, mode) {
        warning!("devtmpfs: {name}: {e:?}");
    }
}

/// As [`register_char_device`], for a block device.
pub fn register_block_device(name: &str, dev: Dev, mode: u32, open: OpenDevice) {
    BLOCK_DEVICES.lock().insert(dev, open);
    if let Err(e) = add_node(name, FileType::BlockDevice, dev, mode) {
        warning!("devtmpfs: {name}: {e:?}");
    }
}

/// Opens a device node. `ENXIO`: its number has no driver.
pub fn open(inode: &Inode, flags: u32) -> Result<Arc<dyn FileOps>, Errno> {
    let table = if inode.kind == FileType::BlockDevice {
        &BLOCK_DEVICES
    } else {
        &CHAR_DEVICES
    };
    let open = table.lock().get(&inode.rdev).copied().ok_or(Errno::ENXIO)?;
    open(inode.rdev, flags)
}
