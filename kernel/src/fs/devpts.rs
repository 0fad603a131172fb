//! devpts: the slaves of pseudo-terminals by number, and a `ptmx`. One instance, whatever is mounted.

use crate::driver::tty::pty;
use crate::fs::dentry::Dentry;
use crate::fs::file::FileOps;
use crate::fs::inode::{Dev, FileType, Inode, InodeOps, NewInode};
use crate::fs::readdir::DirSink;
use crate::fs::superblock::{FsType, StatFs, SuperBlock, SuperOps};
use crate::sync::{Once, SpinLock};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use limen_linux_abi::Errno;

/// `DEVPTS_SUPER_MAGIC`.
const MAGIC: u64 = 0x1cd1;
/// "Not given": the opener's user or group.
const CALLER: u32 = u32::MAX;

static MODE: AtomicU32 = AtomicU32::new(0o600);
static PTMX_MODE: AtomicU32 = AtomicU32::new(0);
static UID: AtomicU32 = AtomicU32::new(CALLER);
static GID: AtomicU32 = AtomicU32::new(CALLER);

/// The file system type.
pub static DEVPTS: FsType = FsType {
    name: "devpts",
    needs_device: false,
    mount,
};

struct Super;

impl SuperOps for Super {
    fn statfs(&self) -> StatFs {
        StatFs::made_up(MAGIC)
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

fn options(data: &str) -> Result<(), Errno> {
    for word in data.split(',').filter(|w| !w.is_empty()) {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let decimal = || value.parse::<u32>().map_err(|_| Errno::EINVAL);
        let octal = || {
            u32::from_str_radix(value, 8)
                .map(|m| m & 0o777)
                .map_err(|_| Errno::EINVAL)
        };
        match key {
            "mode" => MODE.store(octal()?, Relaxed),
            "ptmxmode" => PTMX_MODE.store(octal()?, Relaxed),
            "uid" => UID.store(decimal()?, Relaxed),
            "gid" => GID.store(decimal()?, Relaxed),
            // There is one instance, and a bound that is far away.
            "newinstance" | "max" => {}
            _ => return Err(Errno::EINVAL),
        }
    }
    Ok(())
}

fn mount(_: &[u8], data: &str) -> Result<Arc<Dentry>, Errno> {
    static ROOT: Once<Arc<Dentry>> = Once::new();
    options(data)?;
    Ok(ROOT
        .get_or_init(|| {
            let sb = SuperBlock::new("devpts", Box::new(Super), true);
            crate::fs::inode::new_root(
                &sb,
                Box::new(Root {
                    nodes: SpinLock::new(BTreeMap::new()),
                }),
                0o755,
            )
        })
        .clone())
}

/// The directory. Nodes stay the same while their pair lives, so that changed owners and permissions do, too.
struct Root {
    nodes: SpinLock<BTreeMap<u32, (Arc<Inode>, Weak<crate::driver::tty::Tty>)>>,
}

/// A node: a slave by number, or `None` for `ptmx`.
struct Node(Option<u32>);

impl InodeOps for Node {
    fn open(&self, _: &Arc<Inode>, flags: u32) -> Result<Option<Arc<dyn FileOps>>, Errno> {
        match self.0 {
            None => pty::open_ptmx().map(Some),
            Some(index) => pty::slave(index).ok_or(Errno::EIO)?.open(flags).map(Some),
        }
    }
}

fn node(dir: &Arc<Inode>, which: Option<u32>, mode: u32, (uid, gid): (u32, u32), rdev: Dev) -> Arc<Inode> {
    let new = NewInode {
        kind: FileType::CharDevice,
        mode,
        uid,
        gid,
        rdev,
        target: b"",
    };
    let ino = which.map_or(2, |index| u64::from(index) + 3);
    Arc::new(Inode::with_ino(&dir.sb, ino, Box::new(Node(which)), &new))
}

impl InodeOps for Root {
    fn lookup(&self, dir: &Arc<Inode>, name: &[u8]) -> Result<Arc<Inode>, Errno> {
        if name == b"ptmx" {
            return Ok(node(dir, None, PTMX_MODE.load(Relaxed), (0, 0), Dev::new(5, 2)));
        }
        let text = core::str::from_utf8(name).map_err(|_| Errno::ENOENT)?;
        let index: u32 = text.parse().map_err(|_| Errno::ENOENT)?;
        let tty = pty::slave(index)
            .filter(|_| format!("{index}") == text)
            .ok_or(Errno::ENOENT)?;
        let mut nodes = self.nodes.lock();
        nodes.retain(|_, (_, tty)| tty.strong_count() > 0);
        if let Some((inode, of)) = nodes.get(&index)
            && of.upgrade().is_some_and(|t| Arc::ptr_eq(&t, &tty))
        {
            return Ok(inode.clone());
        }
        let owner = tty.driver().as_pty().map_or((0, 0), pty::Pair::owner);
        let pick = |given: u32, own: u32| if given == CALLER { own } else { given };
        let owner = (pick(UID.load(Relaxed), owner.0), pick(GID.load(Relaxed), owner.1));
        let inode = node(dir, Some(index), MODE.load(Relaxed), owner, pty::slave_dev(index));
        nodes.insert(index, (inode.clone(), Arc::downgrade(&tty)));
        Ok(inode)
    }
    fn list(&self, _: &Arc<Inode>, pos: u64, sink: &mut DirSink<'_>) -> Result<(), Errno> {
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
