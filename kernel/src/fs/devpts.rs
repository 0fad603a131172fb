//! devpts: the slaves of pseudo-terminals by number, and `ptmx`. All mounts show one instance.

use crate::driver::tty::pty;
use crate::fs::dentry::Dentry;
use crate::fs::file::FileOps;
use crate::fs::inode::{Dev, FileType, Inode, InodeOps, NewInode};
use crate::fs::readdir::DirSink;
use crate::fs::superblock::{FsType, StatFs, SuperBlock, SuperOps, of_current};
use crate::rcu::Shared;
use crate::sync::{Once, SpinLock};
use crate::task::creds::cap;
use crate::task::current;
use crate::task::ns::user;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use limen_linux_abi::Errno;

/// `DEVPTS_SUPER_MAGIC`.
const MAGIC: u64 = 0x1cd1;
/// The mount option was not given: the user or group of the process that opens `ptmx`.
const CALLER: u32 = u32::MAX;

static MODE: AtomicU32 = AtomicU32::new(0o600);
static PTMX_MODE: AtomicU32 = AtomicU32::new(0);
static UID: AtomicU32 = AtomicU32::new(CALLER);
static GID: AtomicU32 = AtomicU32::new(CALLER);

/// The file system type.
pub static DEVPTS: FsType = FsType {
    name: "devpts",
    for_users: Some(of_current),
    revealing: false,
    needs_device: false,
    mount,
};

struct Super;

impl SuperOps for Super {
    fn statfs(&self) -> StatFs {
        StatFs::made_up(MAGIC)
    }
    fn stands_for_many(&self) -> bool {
        true
    }
    fn show_options(&self, out: &mut String) {
        if GID.load(Relaxed) != CALLER {
            out.push_str(&format!(",gid={}", GID.load(Relaxed)));
        }
        out.push_str(&format!(
            ",mode={:03o},ptmxmode={:03o}",
            MODE.load(Relaxed),
            PTMX_MODE.load(Relaxed)
        ));
    }
    fn remount(&self, data: &str) -> Result<(), Errno> {
        options(data)
    }
}

/// Sets the options in `data`, which are those of all, or only looks at them if the running task is no
/// administrator of the machine. `EINVAL`.
fn options(data: &str) -> Result<(), Errno> {
    let may = current().creds().capable(cap::SYS_ADMIN);
    let set = |option: &AtomicU32, to| {
        if may {
            option.store(to, Relaxed);
        }
    };
    for word in data.split(',').filter(|w| !w.is_empty()) {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let decimal = || value.parse::<u32>().map_err(|_| Errno::EINVAL);
        let octal = || {
            u32::from_str_radix(value, 8)
                .map(|m| m & 0o777)
                .map_err(|_| Errno::EINVAL)
        };
        match key {
            "mode" => set(&MODE, octal()?),
            "ptmxmode" => set(&PTMX_MODE, octal()?),
            "uid" => set(&UID, user::uid_meant(decimal()?)?),
            "gid" => set(&GID, user::gid_meant(decimal()?)?),
            // Accepted and ignored: there is one instance, and no limit is near.
            "newinstance" | "max" => {}
            _ => return Err(Errno::EINVAL),
        }
    }
    Ok(())
}

static ROOT: Once<Shared<Dentry>> = Once::new();
/// A node exists as long as its pair, so that changes of its owner and permissions stay.
static NODES: SpinLock<BTreeMap<u32, (Shared<Inode>, Weak<crate::driver::tty::Tty>)>> =
    SpinLock::new(BTreeMap::new());

fn mount(_: &[u8], data: &str) -> Result<Shared<Dentry>, Errno> {
    options(data)?;
    Ok(ROOT
        .get_or_init(|| {
            let sb = SuperBlock::new("devpts", Box::new(Super));
            crate::fs::inode::new_root(&sb, Box::new(Root), 0o755)
        })
        .clone())
}

/// A slave has got a name: its master was opened.
pub fn slave_made(index: u32) {
    if let Some(root) = ROOT.get() {
        crate::fs::inotify::name_made(&root.inode, format!("{index}").as_bytes());
    }
}

/// A slave has no name any more: its master was closed. Tells the watchers. May sleep.
pub fn slave_gone(index: u32) {
    let node = NODES.lock().remove(&index);
    if let Some((inode, _)) = &node {
        inode.set_nlink(0);
    }
    if let Some(root) = ROOT.get() {
        crate::fs::inotify::name_gone(&root.inode, format!("{index}").as_bytes());
    }
    // Perhaps the last reference: then the watchers of the slave itself are told, too.
    drop(node);
}

/// The directory.
struct Root;

/// A node: the slave with this number, or `None` for `ptmx`.
struct Node(Option<u32>);

impl InodeOps for Node {
    fn made_up(&self) -> bool {
        self.0.is_none()
    }
    fn open(&self, _: &Shared<Inode>, flags: u32) -> Result<Option<Arc<dyn FileOps>>, Errno> {
        match self.0 {
            None => pty::open_ptmx().map(Some),
            Some(index) => pty::slave(index).ok_or(Errno::EIO)?.open(flags).map(Some),
        }
    }
}

fn node(
    dir: &Shared<Inode>,
    which: Option<u32>,
    mode: u32,
    (uid, gid): (u32, u32),
    rdev: Dev,
) -> Shared<Inode> {
    let new = NewInode {
        kind: FileType::CharDevice,
        mode,
        uid,
        gid,
        rdev,
        target: b"",
    };
    let ino = which.map_or(2, |index| u64::from(index) + 3);
    Shared::new(Inode::with_ino(&dir.sb, ino, Box::new(Node(which)), &new))
}

impl InodeOps for Root {
    fn lookup(&self, dir: &Shared<Inode>, name: &[u8]) -> Result<Shared<Inode>, Errno> {
        if name == b"ptmx" {
            return Ok(node(dir, None, PTMX_MODE.load(Relaxed), (0, 0), Dev::new(5, 2)));
        }
        let text = core::str::from_utf8(name).map_err(|_| Errno::ENOENT)?;
        let index: u32 = text.parse().map_err(|_| Errno::ENOENT)?;
        let tty = pty::slave(index)
            .filter(|_| format!("{index}") == text)
            .ok_or(Errno::ENOENT)?;
        let mut nodes = NODES.lock();
        if let Some((inode, of)) = nodes.get(&index)
            && of.upgrade().is_some_and(|t| Arc::ptr_eq(&t, &tty))
        {
            return Ok(inode.clone());
        }
        let owner = tty.driver().as_pty().map_or((0, 0), pty::Pair::owner);
        let pick = |given: u32, own: u32| if given == CALLER { own } else { given };
        let owner = (pick(UID.load(Relaxed), owner.0), pick(GID.load(Relaxed), owner.1));
        let inode = node(dir, Some(index), MODE.load(Relaxed), owner, pty::slave_dev(index));
        let old = nodes.insert(index, (inode.clone(), Arc::downgrade(&tty)));
        drop(nodes);
        if let Some((old, _)) = old {
            old.set_nlink(0);
        }
        Ok(inode)
    }
    fn list(&self, _: &Shared<Inode>, pos: u64, sink: &mut DirSink<'_>) -> Result<(), Errno> {
        if pos <= 2 && !sink.add(b"ptmx", 2, FileType::CharDevice, 3) {
            return Ok(());
        }
        for index in pty::slaves(pos.saturating_sub(3) as u32) {
            let next = u64::from(index) + 4;
            if !sink.add(
                format!("{index}").as_bytes(),
                next - 1,
                FileType::CharDevice,
                next,
            ) {
                break;
            }
        }
        Ok(())
    }
}
