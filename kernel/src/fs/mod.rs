//! Files: the VFS, tmpfs, descriptors, paths, pipes, polling. Called by system calls, exec and memory
//! mappings.
//!
//! An open file description ([`File`], `file.rs`) has operations ([`file::FileOps`]) and a place
//! ([`path::Path`]). A place is a mount and a dentry (`dentry.rs`), whose inode (`inode.rs`) is the file
//! itself. `walk.rs` and `plain.rs` resolve paths, `open.rs` opens files, `names.rs` makes, removes and moves
//! names. `docs/fs.md` explains all this, and the order of locks.

#![forbid(unsafe_code)]

pub mod acl;
pub mod anon;
pub mod attr;
mod children;
pub mod closing;
pub mod context;
pub mod core_file;
pub mod count;
pub mod debugfs;
pub mod dentry;
pub mod devices;
pub mod devpts;
mod entry;
pub mod epoll;
pub mod eventfd;
pub mod fasync;
pub mod fcntl;
pub mod fdtable;
pub mod file;
mod file_caps;
pub mod initramfs;
pub mod inode;
pub mod inotify;
pub mod io;
mod kernel_map;
pub mod locks;
mod long_text;
pub mod lookup;
pub mod map;
pub mod memfd;
pub mod missing;
pub mod mount;
pub mod mountpoint;
pub mod moves;
pub mod mqueue;
pub mod names;
pub mod nsfs;
pub mod open;
pub mod path;
pub mod perm;
pub mod pipe;
pub mod plain;
pub mod poll;
pub mod procfs;
pub mod pseudo;
mod rcu;
pub mod readdir;
pub mod regular;
pub mod rseq;
pub mod seccomp;
pub mod secret;
pub mod selftest;
pub mod signalfd;
pub mod splice;
pub mod superblock;
pub mod sysfs;
pub mod timerfd;
pub mod tmpfs;
pub mod tracefs;
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

/// Registers the file system types and mounts an empty tmpfs as the first root. Once, at boot.
pub fn init() {
    count::init();
    inotify::init();
    epoll::init();
    superblock::register_fs_type(&tmpfs::TMPFS);
    superblock::register_fs_type(&tmpfs::RAMFS);
    superblock::register_fs_type(&devices::DEVTMPFS);
    superblock::register_fs_type(&devpts::DEVPTS);
    superblock::register_fs_type(&mqueue::MQUEUE);
    procfs::init();
    sysfs::init();
    debugfs::init();
    crate::ftrace::function::init();
    crate::ftrace::graph::init();
    tracefs::init();
    rcu::init();
    kernel_map::init();
    rseq::init();
    entry::init();
    missing::init();
    let root = tmpfs::new_kernel_tree("rootfs", "").expect("no options");
    mount::init(root.clone());
    populate(&root);
}

/// What Linux's built-in initramfs contains: a console, which init can open before anything is mounted on
/// `/dev`, and root's home.
fn populate(root: &crate::rcu::Shared<dentry::Dentry>) {
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
