//! tmpfs: files in memory. The entries of a directory are in its dentry (`fs/dentry.rs`), contents in page
//! caches. What remains is to make inodes and to count. Also used for rootfs and devtmpfs.

use crate::fs::dentry::Dentry;
use crate::fs::inode::{FileType, Inode, InodeOps, Link, NewInode, new_root};
use crate::fs::superblock::{FsType, StatFs, SuperBlock, SuperOps, of_current};
use crate::mm::cache::Budget;
use crate::mm::{PAGE_SIZE, PageCache};
use crate::rcu::Shared;
use crate::sync::SpinLock;
use crate::task::ns::user::{self, UserRef};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt::Write;
use core::sync::atomic::{AtomicU64, Ordering};
use limen_linux_abi::Errno;

/// `TMPFS_MAGIC`.
const MAGIC: u64 = 0x0102_1994;
/// How many bytes an entry adds to a directory's size, without its name (`BOGO_DIRENT_SIZE`).
const DIRENT_SIZE: u64 = 20;

/// tmpfs.
pub static TMPFS: FsType = FsType {
    name: "tmpfs",
    for_users: Some(of_current),
    revealing: false,
    needs_device: false,
    mount: |_, data| mount("tmpfs", data),
};
/// `ramfs`: the same, since its options are a subset.
pub static RAMFS: FsType = FsType {
    name: "ramfs",
    for_users: Some(of_current),
    revealing: false,
    needs_device: false,
    mount: |_, data| mount("ramfs", data),
};

/// Limits and use of an instance.
pub struct Account {
    pages: Arc<Budget>,
    max_inodes: AtomicU64,
    inodes: AtomicU64,
}

/// Mount options.
#[derive(Clone, Debug, Default, PartialEq)]
struct Options {
    size: Option<usize>,
    inodes: Option<u64>,
    mode: Option<u32>,
    uid: Option<u32>,
    gid: Option<u32>,
}

impl Options {
    fn parse(data: &str) -> Result<Self, Errno> {
        let mut o = Self::default();
        let bad = |_| Errno::EINVAL;
        for option in data.split(',').filter(|o| !o.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            match name {
                "size" => o.size = Some(bytes(value)?.div_ceil(PAGE_SIZE as u64) as usize),
                "nr_blocks" => o.size = Some(bytes(value)? as usize),
                "nr_inodes" => o.inodes = Some(bytes(value)?),
                "mode" => o.mode = Some(u32::from_str_radix(value, 8).map_err(bad)? & 0o7777),
                "uid" => o.uid = Some(user::uid_meant(value.parse().map_err(bad)?)?),
                "gid" => o.gid = Some(user::gid_meant(value.parse().map_err(bad)?)?),
                "huge" | "mpol" | "inode32" | "inode64" | "noswap" | "strictatime" | "relatime" => {}
                _ => return Err(Errno::EINVAL),
            }
        }
        Ok(o)
    }
}

/// Parses a number with `k`, `m`, `g` or, for sizes, `%` of memory.
fn bytes(text: &str) -> Result<u64, Errno> {
    let (digits, unit) = match text.find(|c: char| !c.is_ascii_digit()) {
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    let n: u64 = digits.parse().map_err(|_| Errno::EINVAL)?;
    let factor = match unit {
        "" => 1,
        "k" | "K" => 1 << 10,
        "m" | "M" => 1 << 20,
        "g" | "G" => 1 << 30,
        "%" => return Ok((total_pages() as u64 * PAGE_SIZE as u64 / 100).saturating_mul(n)),
        _ => return Err(Errno::EINVAL),
    };
    Ok(n.saturating_mul(factor))
}

fn total_pages() -> usize {
    crate::mm::total_pages()
}

/// An instance.
pub struct Super {
    /// Its limits and counts, shared with its files' page caches.
    pub account: Arc<Account>,
    options: SpinLock<Options>,
}

impl SuperOps for Super {
    fn statfs(&self) -> StatFs {
        let a = &self.account;
        let (max, files) = (a.pages.limit(), a.max_inodes.load(Ordering::Relaxed));
        let unlimited = max == usize::MAX;
        StatFs {
            magic: MAGIC,
            block_size: PAGE_SIZE as u64,
            blocks: if unlimited { 0 } else { max as u64 },
            free: if unlimited {
                0
            } else {
                max.saturating_sub(a.pages.used()) as u64
            },
            files: if unlimited { 0 } else { files },
            files_free: if unlimited {
                0
            } else {
                files.saturating_sub(a.inodes.load(Ordering::Relaxed))
            },
        }
    }
    fn show_options(&self, out: &mut String) {
        let o = self.options.lock().clone();
        if let Some(pages) = o.size {
            let _ = write!(out, ",size={}k", pages * PAGE_SIZE / 1024);
        }
        if let Some(n) = o.inodes {
            let _ = write!(out, ",nr_inodes={n}");
        }
        if let Some(mode) = o.mode.filter(|m| *m != 0o1777) {
            let _ = write!(out, ",mode={mode:03o}");
        }
        if let Some(uid) = o.uid.filter(|u| *u != 0) {
            let _ = write!(out, ",uid={uid}");
        }
        if let Some(gid) = o.gid.filter(|g| *g != 0) {
            let _ = write!(out, ",gid={gid}");
        }
    }
    fn check_options(&self, data: &str) -> Result<(), Errno> {
        Options::parse(data).map(drop)
    }
    fn remount(&self, data: &str) -> Result<(), Errno> {
        let new = Options::parse(data)?;
        let a = &self.account;
        if let Some(size) = new.size {
            if size != 0 && size < a.pages.used() {
                return Err(Errno::EINVAL);
            }
            a.pages.set_limit(if size == 0 { usize::MAX } else { size });
        }
        if let Some(inodes) = new.inodes {
            if inodes != 0 && inodes < a.inodes.load(Ordering::Relaxed) {
                return Err(Errno::EINVAL);
            }
            a.max_inodes
                .store(if inodes == 0 { u64::MAX } else { inodes }, Ordering::Relaxed);
        }
        let mut o = self.options.lock();
        o.size = new.size.or(o.size);
        o.inodes = new.inodes.or(o.inodes);
        Ok(())
    }
}

/// The operations of all inodes but symbolic links.
struct Node;
/// A symbolic link and its target.
struct Symlink(Box<[u8]>);

fn account(sb: &SuperBlock) -> Result<&Arc<Account>, Errno> {
    Ok(&sb.ops.downcast::<Super>().ok_or(Errno::EINVAL)?.account)
}

fn evict(inode: &Inode) {
    if let Ok(a) = account(&inode.sb) {
        a.inodes.fetch_sub(1, Ordering::Relaxed);
    }
}

impl InodeOps for Node {
    fn create(&self, dir: &Shared<Inode>, new: &NewInode<'_>) -> Result<Shared<Inode>, Errno> {
        make(&dir.sb, new)
    }
    fn writable_directory(&self) -> bool {
        true
    }
    fn size(&self, inode: &Inode) -> u64 {
        // Two for the directory itself. Its entries are not counted here, so the size is plausible but not
        // exact.
        if inode.kind == FileType::Directory {
            u64::from(inode.nlink()) * DIRENT_SIZE
        } else {
            0
        }
    }
    fn evict(&self, inode: &Inode) {
        evict(inode);
    }
}

impl InodeOps for Symlink {
    fn follow(&self, _: &Shared<Inode>) -> Result<Link, Errno> {
        Ok(Link::Text(crate::mm::reserve::copy_of(&self.0)?))
    }
    fn size(&self, _: &Inode) -> u64 {
        self.0.len() as u64
    }
    fn evict(&self, inode: &Inode) {
        evict(inode);
    }
}

/// Makes an inode of `sb`. `ENOSPC`: there are as many inodes as allowed.
pub fn make(sb: &Arc<SuperBlock>, new: &NewInode<'_>) -> Result<Shared<Inode>, Errno> {
    let a = account(sb)?;
    let max = a.max_inodes.load(Ordering::Relaxed);
    a.inodes
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| {
            (n < max).then_some(n + 1)
        })
        .map_err(|_| Errno::ENOSPC)?;
    let ops: Box<dyn InodeOps> = match new.kind {
        FileType::Symlink => Box::new(Symlink(Box::from(new.target))),
        _ => Box::new(Node),
    };
    let mut inode = Inode::new(sb, ops, new);
    if new.kind == FileType::Regular {
        inode.pages = Some(PageCache::with(Some(a.pages.clone()), None));
    }
    Ok(Shared::new(inode))
}

/// Adds an entry to a directory, for the kernel itself. `EEXIST`: there is one with this name.
pub fn add(dir: &Shared<Dentry>, name: &[u8], new: &NewInode<'_>) -> Result<Shared<Dentry>, Errno> {
    let inode = make(&dir.inode.sb, new)?;
    crate::fs::names::insert_new(dir, name, inode)
}

/// Makes an instance of the running task's user namespace, whose root belongs to the task.
fn mount(fs_type: &'static str, data: &str) -> Result<Shared<Dentry>, Errno> {
    let creds = crate::task::current().creds();
    new_tree(fs_type, data, creds.user.clone(), (creds.fsuid, creds.fsgid))
}

/// Makes an instance of the machine's, for the kernel itself. `fs_type` is its type's name.
pub fn new_kernel_tree(fs_type: &'static str, data: &str) -> Result<Shared<Dentry>, Errno> {
    new_tree(fs_type, data, None, (0, 0))
}

/// Makes an instance that belongs to `owner`. Its root belongs to user and group `ids`, unless the options
/// say something else. `EINVAL`: no such options; the errors of [`SuperBlock::new`].
fn new_tree(
    fs_type: &'static str,
    data: &str,
    owner: UserRef,
    ids: (u32, u32),
) -> Result<Shared<Dentry>, Errno> {
    let mut options = Options::parse(data)?;
    let half = (total_pages() / 2).max(64);
    let limit = match options.size {
        None => half,
        Some(0) => usize::MAX,
        Some(n) => n,
    };
    // This holds for the first root, too; its archive may change it.
    if matches!(fs_type, "tmpfs" | "rootfs") {
        options.mode = options.mode.or(Some(0o1777));
    }
    let account = Arc::new(Account {
        pages: Arc::new(Budget::new(if fs_type == "ramfs" { usize::MAX } else { limit })),
        max_inodes: AtomicU64::new(match options.inodes {
            Some(0) => u64::MAX,
            Some(n) => n,
            None => half as u64,
        }),
        inodes: AtomicU64::new(1),
    });
    let mode = options.mode.unwrap_or(0o755);
    let (uid, gid) = (options.uid.unwrap_or(ids.0), options.gid.unwrap_or(ids.1));
    (options.uid, options.gid) = (Some(uid), Some(gid));
    let sb = SuperBlock::new(
        fs_type,
        Box::new(Super {
            account,
            options: SpinLock::new(options),
        }),
        owner,
    )?;
    let root = new_root(&sb, Box::new(Node), mode);
    root.inode.set_owner(uid, gid);
    Ok(root)
}

/// Sets how many pages an instance may have. 0: half of the memory, but no fewer than it has.
pub fn set_page_limit(sb: &SuperBlock, pages: usize) {
    if let Ok(a) = account(sb) {
        let limit = if pages == 0 {
            (total_pages() / 2).max(a.pages.used())
        } else {
            pages
        };
        a.pages.set_limit(limit);
    }
}
