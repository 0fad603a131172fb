//! `memfd_create`: files in memory without a name, and seals.

use crate::fs::anon;
use crate::fs::dentry::Dentry;
use crate::fs::file::{File, FileMode};
use crate::fs::inode::{Dev, FileType, NewInode};
use crate::fs::regular::{Regular, SEAL_FUTURE_WRITE, SEAL_GROW, SEAL_SHRINK, SEAL_WRITE};
use crate::fs::tmpfs;
use crate::rcu::Shared;
use crate::sync::SpinLock;
use alloc::format;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use limen_linux_abi::{Errno, raw::general as abi};

const MFD_CLOEXEC: u32 = 1;
const MFD_ALLOW_SEALING: u32 = 2;
const MFD_HUGETLB: u32 = 4;
const MFD_NOEXEC_SEAL: u32 = 8;
const MFD_EXEC: u32 = 16;
/// `F_SEAL_SEAL`. Kept inverted: most files cannot be sealed, and so have no bit set.
const SEAL_SEAL: u32 = 1;
/// `F_SEAL_EXEC`.
pub const SEAL_EXEC: u32 = 32;

/// The file system of memfds. Made at first use.
static TREE: SpinLock<Option<Shared<Dentry>>> = SpinLock::new(None);

fn tree() -> Result<Shared<Dentry>, Errno> {
    if let Some(t) = TREE.lock().as_ref() {
        return Ok(t.clone());
    }
    let new = tmpfs::new_kernel_tree("tmpfs", "size=0,nr_inodes=0")?;
    Ok(TREE.lock().get_or_insert(new).clone())
}

/// `EINVAL` if `memfd_create` does not know one of the flags.
pub fn check_flags(flags: u32) -> Result<(), Errno> {
    if flags & !(MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL | MFD_EXEC) != 0
        || flags & (MFD_EXEC | MFD_NOEXEC_SEAL) == MFD_EXEC | MFD_NOEXEC_SEAL
        || flags & MFD_HUGETLB != 0
    {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

/// `memfd_create`. The flags have been checked. The caller installs the file.
pub fn create(name: &[u8], flags: u32) -> Result<Arc<File>, Errno> {
    let creds = crate::task::current().creds();
    let noexec = flags & MFD_NOEXEC_SEAL != 0;
    let new = NewInode {
        kind: FileType::Regular,
        mode: if noexec { 0o666 } else { 0o777 },
        uid: creds.fsuid,
        gid: creds.fsgid,
        rdev: Dev::default(),
        target: b"",
    };
    crate::fs::count::may_open()?;
    let inode = tmpfs::make(&tree()?.inode.sb, &new)?;
    inode.set_nlink(0);
    let seals = match (flags & MFD_ALLOW_SEALING != 0, noexec) {
        (_, true) => SEAL_EXEC,
        (true, _) => 0,
        _ => SEAL_SEAL,
    };
    inode.seals.store(seals ^ SEAL_SEAL, Ordering::Relaxed);
    let label = format!("/memfd:{}", alloc::string::String::from_utf8_lossy(name));
    let path = anon::detached(inode, label.as_bytes());
    path.dentry.set_unlinked();
    Ok(File::new(
        Arc::new(Regular),
        path,
        abi::O_RDWR | abi::O_LARGEFILE,
        FileMode::SENDS | FileMode::RECEIVES,
    ))
}

/// `F_GET_SEALS`. For files in memory only.
pub fn seals(file: &File) -> Result<u32, Errno> {
    match (file.is_regular(), &file.inode().pages) {
        (true, Some(pages)) if !pages.is_secret() => {
            Ok(file.inode().seals.load(Ordering::Relaxed) ^ SEAL_SEAL)
        }
        _ => Err(Errno::EINVAL),
    }
}

/// `F_ADD_SEALS`. `EBUSY`: a mapping may write, and a seal against that is asked for.
pub fn add_seals(file: &File, mut new: u32) -> Result<(), Errno> {
    if !file.mode().contains(FileMode::WRITE) {
        return Err(Errno::EPERM);
    }
    let known = SEAL_SEAL | SEAL_SHRINK | SEAL_GROW | SEAL_WRITE | SEAL_FUTURE_WRITE | SEAL_EXEC;
    if new & !known != 0 {
        return Err(Errno::EINVAL);
    }
    let inode = file.inode();
    let writing = inode.pages.as_ref().map(|pages| pages.writing());
    let old = seals(file)?;
    if old & SEAL_SEAL != 0 {
        return Err(Errno::EPERM);
    }
    // A file that must stay executable must not be changed either.
    if new & SEAL_EXEC != 0 && inode.mode() & 0o111 != 0 {
        new |= SEAL_SHRINK | SEAL_GROW | SEAL_WRITE | SEAL_FUTURE_WRITE;
    }
    if new & SEAL_WRITE != 0
        && let Some(pages) = &writing
    {
        pages.seal_mappings()?;
    }
    inode.seals.store((old | new) ^ SEAL_SEAL, Ordering::Relaxed);
    Ok(())
}
