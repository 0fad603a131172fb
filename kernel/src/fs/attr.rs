//! Attributes: what `stat` shows, and changing owner, permissions and times.

use crate::fs::dentry::Dentry;
use crate::fs::inode::{FileType, Inode, Time, now};
use crate::fs::inotify;
use crate::fs::memfd::SEAL_EXEC;
use crate::fs::mount::Mount;
use crate::fs::path::Path;
use crate::fs::perm;
use crate::mm::PAGE_SIZE;
use crate::task::creds::cap;
use core::sync::atomic::Ordering;
use limen_linux_abi::Errno;

/// What `stat` and `statx` show of a file. Attributes that the inode has are read only when the result is
/// laid out: together they would not fit into registers.
#[derive(Clone, Copy)]
pub struct Stat<'a> {
    /// The file.
    pub inode: &'a Inode,
    /// `st_mode`.
    pub mode: u32,
    /// The size in bytes.
    pub size: u64,
    /// Used storage in units of 512 bytes.
    pub blocks: u64,
    /// The number of the mount.
    pub mnt_id: u32,
    /// Whether the file is the root of a mount.
    pub mount_root: bool,
}

/// The size of a directory in memory, as Linux's tmpfs computes it.
fn directory_size(dentry: &Dentry) -> u64 {
    const ENTRY: u64 = 20;
    match dentry.children() {
        Some(children) if dentry.inode.ops.writable_directory() => (children.len() as u64 + 2) * ENTRY,
        _ => 0,
    }
}

/// The size of a file that is not in the page cache.
#[inline(never)]
fn size_without_pages(dentry: &Dentry) -> u64 {
    match dentry.inode.kind {
        FileType::Directory => directory_size(dentry),
        _ => dentry.inode.size(),
    }
}

/// What `stat` shows of `path`. Inlined, since callers convert the result to another layout at once.
#[inline(always)]
pub fn stat(path: &Path) -> Stat<'_> {
    stat_of(&path.mnt, &path.dentry)
}

/// [`stat`] of a place that need not be counted. Does not sleep.
#[inline(always)]
pub fn stat_of<'a>(mnt: &Mount, dentry: &'a Dentry) -> Stat<'a> {
    let inode = &**dentry.inode;
    inode.ops.refresh(inode);
    let (size, blocks) = match &inode.pages {
        Some(pages) => (pages.size(), (pages.resident() * (PAGE_SIZE / 512)) as u64),
        None => (size_without_pages(dentry), 0),
    };
    Stat {
        inode,
        mode: inode.st_mode(),
        size,
        blocks,
        mnt_id: mnt.id,
        mount_root: core::ptr::eq(&**mnt.root, dentry),
    }
}

/// `chmod`.
pub fn chmod(path: &Path, mode: u32) -> Result<(), Errno> {
    let inode = &path.dentry.inode;
    let creds = crate::task::current().creds();
    path.mnt.check_writable()?;
    if inode.kind == FileType::Symlink {
        return Err(Errno::EOPNOTSUPP);
    }
    let still = inode.lock_attributes();
    if !perm::owner_or_capable(inode, &creds) || inode.sb.ops.fixed_modes() {
        return Err(Errno::EPERM);
    }
    let mut mode = mode & 0o7777;
    if inode.seals.load(Ordering::Relaxed) & SEAL_EXEC != 0 && (inode.mode() ^ mode) & 0o111 != 0 {
        return Err(Errno::EPERM);
    }
    if !creds.in_group(inode.gid()) && !perm::capable(&creds, inode, cap::FSETID) {
        mode &= !0o2000;
    }
    inode.set_mode(mode);
    drop(still);
    inode.touch_changed();
    inode.ops.changed(inode);
    inotify::attrib_at(&path.dentry);
    Ok(())
}

/// `chown` to the kernel's ids. `u32::MAX` leaves the user or the group unchanged. `EOVERFLOW`: the file
/// system cannot have that owner.
pub fn chown(path: &Path, uid: u32, gid: u32) -> Result<(), Errno> {
    let inode = &path.dentry.inode;
    let creds = crate::task::current().creds();
    path.mnt.check_writable()?;
    // With the lock: an owner who has just lost the file does not give it rights (set-user-ID) afterwards.
    let still = inode.lock_attributes();
    let (old_uid, old_gid) = (inode.uid(), inode.gid());
    let (new_uid, new_gid) = (
        if uid == u32::MAX { old_uid } else { uid },
        if gid == u32::MAX { old_gid } else { gid },
    );
    perm::may_have(inode, new_uid, new_gid)?;
    if !perm::capable(&creds, inode, cap::CHOWN) {
        let owner = creds.fsuid == old_uid;
        if uid != u32::MAX && !(owner && new_uid == old_uid) {
            return Err(Errno::EPERM);
        }
        if gid != u32::MAX && !(owner && (new_gid == old_gid || creds.in_group(new_gid))) {
            return Err(Errno::EPERM);
        }
    }
    let may_keep = perm::capable(&creds, inode, cap::FSETID);
    inode.set_owner(new_uid, new_gid);
    if inode.kind != FileType::Directory && (uid != u32::MAX || gid != u32::MAX) {
        let mode = inode.mode();
        let mut new = mode & !0o4000;
        if mode & 0o010 != 0 || (mode & 0o2000 != 0 && !creds.in_group(new_gid) && !may_keep) {
            new &= !0o2000;
        }
        inode.set_mode(new);
    }
    drop(still);
    inode.touch_changed();
    inode.ops.changed(inode);
    inotify::attrib_at(&path.dentry);
    Ok(())
}

/// A time of `utimensat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// Leave it unchanged (`UTIME_OMIT`).
    Omit,
    /// The present time (`UTIME_NOW`).
    Now,
    /// The given time.
    At(Time),
}

/// `utimensat`.
pub fn set_times(path: &Path, atime: SetTime, mtime: SetTime) -> Result<(), Errno> {
    if (atime, mtime) == (SetTime::Omit, SetTime::Omit) {
        return Ok(());
    }
    let inode = &path.dentry.inode;
    let creds = crate::task::current().creds();
    path.mnt.check_writable()?;
    if !perm::owner_or_capable(inode, &creds) {
        // Setting both to the present time needs only permission to write.
        if (atime, mtime) != (SetTime::Now, SetTime::Now) {
            return Err(Errno::EPERM);
        }
        perm::permission(inode, perm::WRITE, &creds)?;
    }
    let now = now();
    let pick = |new| match new {
        SetTime::Omit => None,
        SetTime::Now => Some(now),
        SetTime::At(time) => Some(time),
    };
    inode.set_times(pick(atime), pick(mtime), Some(now));
    inotify::attrib_at(&path.dentry);
    Ok(())
}

/// `access`: checks for the real ids or, with `effective`, for the effective ones.
pub fn access(path: &Path, mask: u32, effective: bool) -> Result<(), Errno> {
    let inode: &Inode = &path.dentry.inode;
    let current = crate::task::current().creds();
    let mut creds = (*current).clone();
    if !effective {
        creds.fsuid = creds.uid;
        creds.fsgid = creds.gid;
        if !creds.is_root(creds.uid) {
            creds.effective = 0;
        } else {
            creds.effective = creds.permitted;
        }
    }
    if mask & perm::EXEC != 0
        && inode.kind == FileType::Regular
        && path.mnt.flags() & crate::fs::mount::MS_NOEXEC != 0
    {
        return Err(Errno::EACCES);
    }
    perm::permission(inode, mask, &creds)?;
    if mask & perm::WRITE != 0
        && matches!(
            inode.kind,
            FileType::Regular | FileType::Directory | FileType::Symlink
        )
    {
        path.mnt.check_writable()?;
    }
    Ok(())
}
