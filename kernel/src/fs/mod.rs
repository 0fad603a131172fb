//! Files: the VFS, the in-memory file system, descriptors, paths, pipes, polling. Called by system calls, exec and memory mappings.
//!
//! What is what: an open file description ([`File`], `file.rs`) has operations ([`FileOps`]) and a place ([`Path`]): a mount and a
//! dentry (`dentry.rs`), whose inode (`inode.rs`) is the file itself. `walk.rs` (with `plain.rs`) resolves paths, `open.rs` opens, `names.rs` makes,
//! removes and moves names. `docs/fs.md` tells it as a story, with the order of locks.

pub mod anon;
pub mod attr;
pub mod context;
pub mod debugfs;
pub mod dentry;
pub mod devices;
pub mod devpts;
pub mod epoll;
pub mod eventfd;
pub mod fcntl;
pub mod fdtable;
pub mod file;
pub mod initramfs;
pub mod inode;
pub mod inotify;
pub mod io;
pub mod locks;
mod long_text;
pub mod map;
pub mod memfd;
pub mod mount;
pub mod mountpoint;
pub mod names;
pub mod open;
pub mod path;
pub mod perm;
pub mod pipe;
pub mod plain;
pub mod poll;
pub mod procfs;
pub mod pseudo;
pub mod readdir;
pub mod regular;
pub mod splice;
pub mod superblock;
pub mod sysfs;
pub mod tmpfs;
pub mod walk;
pub mod xattr;

pub use context::FsContext;
pub use fdtable::FdTable;
pub use file::{File, FileMode, MapBacking};
pub use inode::{Dev, FileType};
pub use open::open_path;

/// `RLIMIT_FSIZE`.
pub const RLIMIT_FSIZE: usize = 1;
/// `RLIMIT_NOFILE`.
pub const RLIMIT_NOFILE: usize = 7;

/// Brings the room up: the file system types, and an empty tmpfs as the first root.
pub fn init() {
    superblock::register_fs_type(&tmpfs::TMPFS);
    superblock::register_fs_type(&tmpfs::RAMFS);
    superblock::register_fs_type(&devices::DEVTMPFS);
    superblock::register_fs_type(&devpts::DEVPTS);
    procfs::init();
    sysfs::init();
    debugfs::init();
    let root = tmpfs::new_tree("rootfs", "", true).expect("no options");
    mount::init(root.clone());
    populate(&root);
}

/// What Linux's built-in initramfs holds: a console that init can open before anything is mounted on `/dev`, and a home for root.
fn populate(root: &alloc::sync::Arc<dentry::Dentry>) {
    let new = |kind, mode, rdev| inode::NewInode {
        kind,
        mode,
        uid: 0,
        gid: 0,
        rdev,
        target: b"",
    };
    let directory =
        |name: &[u8], mode| tmpfs::add(root, name, &new(FileType::Directory, mode, Dev::default()));
    let made = directory(b"root", 0o700)
        .and_then(|_| directory(b"dev", 0o755))
        .and_then(|dev| {
            tmpfs::add(
                &dev,
                b"console",
                &new(FileType::CharDevice, 0o600, Dev::new(5, 1)),
            )
        });
    if let Err(e) = made {
        error!("The root could not be filled: {e:?}");
    }
}
