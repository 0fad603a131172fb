//! Files outside any tree: pipes, sockets, eventfds and others. Each has an inode and a place in an internal
//! mount, so code that needs a path for a descriptor needs no special case.

use crate::fs::dentry::Dentry;
use crate::fs::file::{File, FileMode, FileOps};
use crate::fs::inode::{Dev, FileType, Inode, InodeOps, NewInode, NoOps, new_root};
use crate::fs::mount::{MS_NODEV, MS_NOEXEC, MS_NOSUID, Mount};
use crate::fs::path::Path;
use crate::fs::superblock::{StatFs, SuperBlock, SuperOps};
use crate::mm::PageCache;
use crate::rcu::Shared;
use crate::sync::SpinLock;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::sync::Arc;
use limen_linux_abi::Errno;

struct Internal(u64);

impl SuperOps for Internal {
    fn statfs(&self) -> StatFs {
        StatFs::made_up(self.0)
    }
}

/// Anonymous inodes can't be opened through `/proc/<pid>/fd`.
struct Anonymous;

impl InodeOps for Anonymous {
    fn open(&self, _: &Shared<Inode>, _: u32) -> Result<Option<Arc<dyn FileOps>>, Errno> {
        Err(Errno::ENXIO)
    }
}

/// An internal mount, made at first use.
struct Lazy {
    mount: SpinLock<Option<Shared<Mount>>>,
    name: &'static str,
    magic: u64,
    /// `MS_*`.
    flags: u32,
}

impl Lazy {
    const fn new(name: &'static str, magic: u64, flags: u32) -> Self {
        Self {
            mount: SpinLock::new(None),
            name,
            magic,
            flags,
        }
    }
    fn get(&self) -> Shared<Mount> {
        if let Some(m) = self.mount.lock().as_ref() {
            return m.clone();
        }
        let sb = SuperBlock::new(self.name, Box::new(Internal(self.magic)));
        let new = Mount::new_internal(new_root(&sb, Box::new(NoOps), 0o555), self.flags);
        self.mount.lock().get_or_insert(new).clone()
    }
}

/// These files are neither programs nor devices.
const ONLY_DATA: u32 = MS_NOSUID | MS_NODEV | MS_NOEXEC;

static PIPES: Lazy = Lazy::new("pipefs", 0x5049_5045, ONLY_DATA);
static SOCKETS: Lazy = Lazy::new("sockfs", 0x534f_434b, ONLY_DATA);
static ANON: Lazy = Lazy::new("anon_inodefs", 0x0904_1934, ONLY_DATA);
/// The mount of memfds. As other files of tmpfs they may be executed.
static DETACHED: Lazy = Lazy::new("tmpfs", 0x0102_1994, 0);
static NAMESPACES: Lazy = Lazy::new("nsfs", 0x6e73_6673, 0);
static SECRET: Lazy = Lazy::new("secretmem", 0x5345_434d, MS_NOEXEC);
/// One shared place for each class of anonymous files.
static CLASSES: SpinLock<BTreeMap<&'static str, Path>> = SpinLock::new(BTreeMap::new());

fn place(mnt: Shared<Mount>, inode: Shared<Inode>, label: &[u8]) -> Path {
    Path {
        dentry: Dentry::new_detached(inode, label),
        mnt,
    }
}

fn owned(kind: FileType, mode: u32) -> NewInode<'static> {
    let creds = crate::task::current().creds();
    NewInode {
        kind,
        mode,
        uid: creds.fsuid,
        gid: creds.fsgid,
        rdev: Dev::default(),
        target: b"",
    }
}

/// A place for a new pipe.
pub fn pipe_place() -> Path {
    let mnt = PIPES.get();
    let inode = Inode::new(&mnt.root.inode.sb, Box::new(NoOps), &owned(FileType::Fifo, 0o600));
    let label = format!("pipe:[{}]", inode.ino);
    place(mnt, Shared::new(inode), label.as_bytes())
}

/// Whether this is the place of a `pipe2` pipe, and no FIFO of a file system.
pub fn is_pipe(inode: &Inode) -> bool {
    Arc::ptr_eq(&inode.sb, &PIPES.get().root.inode.sb)
}

/// A place for a new socket.
pub fn socket_place() -> Path {
    let mnt = SOCKETS.get();
    let inode = Inode::new(
        &mnt.root.inode.sb,
        Box::new(Anonymous),
        &owned(FileType::Socket, 0o777),
    );
    let label = format!("socket:[{}]", inode.ino);
    place(mnt, Shared::new(inode), label.as_bytes())
}

/// An anonymous file of class `name` (`[eventfd]`) that can be polled and has no position. `ENFILE`.
pub fn file(
    name: &'static str,
    ops: Arc<dyn FileOps>,
    flags: u32,
    mode: FileMode,
) -> Result<Arc<File>, Errno> {
    crate::fs::count::may_open()?;
    let known = CLASSES.lock().get(name).cloned();
    let path = known.unwrap_or_else(|| {
        let mnt = ANON.get();
        let new = NewInode {
            mode: 0o600,
            uid: 0,
            gid: 0,
            ..owned(FileType::Anonymous, 0)
        };
        let inode = Inode::new(&mnt.root.inode.sb, Box::new(Anonymous), &new);
        let path = place(mnt, Shared::new(inode), format!("anon_inode:{name}").as_bytes());
        CLASSES.lock().entry(name).or_insert(path).clone()
    });
    let mode = mode | FileMode::NO_PREAD | FileMode::POLLS;
    Ok(File::new(ops, path, flags, mode))
}

/// A place for a file that only its mappings can reach.
pub fn secret_place(pages: Arc<PageCache>) -> Path {
    let mnt = SECRET.get();
    let mut inode = Inode::new(
        &mnt.root.inode.sb,
        Box::new(Anonymous),
        &owned(FileType::Regular, 0o600),
    );
    inode.pages = Some(pages);
    let path = place(mnt, Shared::new(inode), b"/secretmem");
    path.dentry.set_unlinked();
    path
}

/// A place for the file of a namespace, with its number.
pub fn namespace_place(ops: Box<dyn InodeOps>, ino: u32, label: &[u8]) -> Path {
    let mnt = NAMESPACES.get();
    let new = NewInode {
        kind: FileType::Regular,
        mode: 0o444,
        uid: 0,
        gid: 0,
        rdev: Dev::default(),
        target: b"",
    };
    let inode = Inode::with_ino(&mnt.root.inode.sb, ino.into(), ops, &new);
    place(mnt, Shared::new(inode), label)
}

/// A place outside the tree for a file of another file system (memfds).
pub fn detached(inode: Shared<Inode>, label: &[u8]) -> Path {
    place(DETACHED.get(), inode, label)
}
