//! Which task may do what to a file.

use crate::fs::acl;
use crate::fs::inode::{FileType, Inode};
use crate::fs::path::Path;
use crate::task::ns::user;
use crate::task::{Creds, creds::cap};
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use limen_linux_abi::Errno;

/// Execute, or search of a directory.
pub const EXEC: u32 = 1;
/// Write.
pub const WRITE: u32 = 2;
/// Read.
pub const READ: u32 = 4;

/// Whether owner, group and mode of the inode, or the caller's capabilities, allow all of `mask`. `EACCES`.
#[inline]
pub fn permission(inode: &Inode, mask: u32, creds: &Creds) -> Result<(), Errno> {
    check(inode, inode.mode_word(), mask, creds)
}

/// Whether the running task may search a directory. `EACCES`. Most directories may be searched by everyone.
#[inline]
pub fn may_search(inode: &Inode) -> Result<(), Errno> {
    if inode.for_everybody() {
        return Ok(());
    }
    check(inode, inode.mode_word(), EXEC, &crate::task::current().creds())
}

fn check(inode: &Inode, mode: u32, mask: u32, creds: &Creds) -> Result<(), Errno> {
    if let Some(verdict) = inode.ops.permission(inode, mask) {
        return verdict;
    }
    let of_class = |mode| {
        if creds.in_group(inode.gid()) {
            mode >> 3
        } else {
            mode
        }
    };
    let bits = if creds.fsuid == inode.uid() {
        mode >> 6
    } else if mode & Inode::HAS_ACL != 0 {
        match acl::allows(inode, mask, creds) {
            Ok(allowed) => {
                if allowed {
                    mask
                } else {
                    0
                }
            }
            Err(mode) => of_class(mode),
        }
    } else {
        of_class(mode)
    };
    if mask & !bits & 7 == 0 {
        return Ok(());
    }
    let directory = inode.kind == FileType::Directory;
    if (directory || mask & EXEC == 0 || mode & 0o111 != 0) && capable(creds, inode, cap::DAC_OVERRIDE) {
        return Ok(());
    }
    let search = if directory {
        mask & WRITE == 0
    } else {
        mask == READ
    };
    if search && capable(creds, inode, cap::DAC_READ_SEARCH) {
        Ok(())
    } else {
        Err(Errno::EACCES)
    }
}

/// Whether `creds` have `cap` for a file: their user namespace must know its owner and its group.
#[inline]
pub fn capable(creds: &Creds, inode: &Inode, cap: u32) -> bool {
    creds.capable_own(cap) && (creds.user.is_none() || creds.capable_for(inode.uid(), inode.gid(), cap))
}

/// Whether what `creds` make gets ids that the file system of `inode` has. `EOVERFLOW`.
#[inline]
pub fn may_have(inode: &Inode, kuid: u32, kgid: u32) -> Result<(), Errno> {
    match user::maps_both(&inode.sb.owner, kuid, kgid) {
        true => Ok(()),
        false => Err(Errno::EOVERFLOW),
    }
}

/// [`permission`]. In addition `EROFS`: a write to a file of a read-only mount or file system (not to a
/// device).
pub fn path_permission(path: &Path, mask: u32, creds: &Creds) -> Result<(), Errno> {
    if mask & WRITE != 0 {
        match path.dentry.inode.kind {
            FileType::Regular | FileType::Directory | FileType::Symlink => path.mnt.check_writable()?,
            _ => {}
        }
    }
    permission(&path.dentry.inode, mask, creds)
}

/// Whether the caller owns the inode or has `CAP_FOWNER`, for which its user namespace needs to know the
/// owner only: who acts as a file's owner does so whatever its group.
pub fn owner_or_capable(inode: &Inode, creds: &Creds) -> bool {
    let knows = || creds.user.is_none() || user::from_kuid(&creds.user, inode.uid()).is_some();
    creds.fsuid == inode.uid() || creds.capable_own(cap::FOWNER) && knows()
}

/// Whether the entry of `victim` may be removed from `dir`: that needs write and search permission for the
/// directory, and what its sticky bit demands.
pub fn may_delete(dir: &Path, victim: &Inode, creds: &Creds) -> Result<(), Errno> {
    path_permission(dir, WRITE | EXEC, creds)?;
    let d = &dir.dentry.inode;
    if d.mode() & 0o1000 != 0
        && victim.uid() != creds.fsuid
        && d.uid() != creds.fsuid
        && !capable(creds, victim, cap::FOWNER)
    {
        return Err(Errno::EPERM);
    }
    Ok(())
}

/// `fs.protected_hardlinks`. On, as in Debian's Linux.
pub static PROTECTED_HARDLINKS: AtomicBool = AtomicBool::new(true);

/// Whether a task may make another name for `inode`. The owner may. Others may only for a regular file that
/// they can read and write and that gives no rights (set-user-ID): they could as well copy it. `EPERM`.
pub fn may_link(inode: &Inode, creds: &Creds) -> Result<(), Errno> {
    const SET_UID: u32 = 0o4000;
    const SET_GID_EXECUTABLE: u32 = 0o2010;
    if !PROTECTED_HARDLINKS.load(Relaxed) || owner_or_capable(inode, creds) {
        return Ok(());
    }
    let mode = inode.mode();
    let gives_rights = mode & SET_UID != 0 || mode & SET_GID_EXECUTABLE == SET_GID_EXECUTABLE;
    let ordinary = inode.kind == FileType::Regular && !gives_rights;
    if ordinary && permission(inode, READ | WRITE, creds).is_ok() {
        Ok(())
    } else {
        Err(Errno::EPERM)
    }
}

/// `fs.protected_symlinks`. On, as in Debian's Linux.
pub static PROTECTED_SYMLINKS: AtomicBool = AtomicBool::new(true);
/// `fs.protected_fifos` and `fs.protected_regular`. 0: off; 1: in sticky directories that everyone may write;
/// 2: also in those that their group may write.
pub static PROTECTED_FIFOS: AtomicU8 = AtomicU8::new(0);
/// See [`PROTECTED_FIFOS`].
pub static PROTECTED_REGULAR: AtomicU8 = AtomicU8::new(0);

const STICKY: u32 = 0o1000;

/// Whether the symbolic link `link` in `dir` may be followed as the last part of a path. In directories like
/// `/tmp` a task may only follow its own links and those of the directory's owner. `EACCES`.
pub fn may_follow(dir: &Inode, link: &Inode) -> Result<(), Errno> {
    const SHARED: u32 = STICKY | 0o002;
    if !PROTECTED_SYMLINKS.load(Relaxed)
        || dir.mode() & SHARED != SHARED
        || link.uid() == dir.uid()
        || link.uid() == crate::task::current().creds().fsuid
    {
        Ok(())
    } else {
        Err(Errno::EACCES)
    }
}

/// Whether `O_CREAT` may open an existing file in a directory of that mode and owner. If the settings say so,
/// not in directories like `/tmp` if the file belongs to another user who does not own the directory.
/// `EACCES`.
pub fn may_open_existing(dir: (u32, u32), found: &Inode, creds: &Creds) -> Result<(), Errno> {
    let protected = match found.kind {
        FileType::Fifo => PROTECTED_FIFOS.load(Relaxed),
        FileType::Regular => PROTECTED_REGULAR.load(Relaxed),
        _ => 0,
    };
    let (mode, owner) = dir;
    if protected == 0 || mode & STICKY == 0 || found.uid() == owner || found.uid() == creds.fsuid {
        return Ok(());
    }
    if mode & 0o002 != 0 || (mode & 0o020 != 0 && protected >= 2) {
        Err(Errno::EACCES)
    } else {
        Ok(())
    }
}

/// A write without `CAP_FSETID` removes set-user-ID and, if the group may execute, set-group-ID.
#[inline(always)]
pub fn drop_privilege_bits(inode: &Inode) {
    if inode.mode() & 0o6000 != 0 && inode.kind == FileType::Regular {
        drop_set_bits(inode);
    }
}

/// [`drop_privilege_bits`] of a file that has such a bit.
#[cold]
#[inline(never)]
fn drop_set_bits(inode: &Inode) {
    if crate::task::current().creds().capable(cap::FSETID) {
        return;
    }
    let dropped = |mode: u32| match mode & 0o2010 {
        0o2010 => 0o6000,
        _ => 0o4000,
    };
    let still = inode.lock_attributes();
    let mode = inode.mode();
    inode.set_mode(mode & !dropped(mode));
    drop(still);
    if mode & dropped(mode) != 0 {
        inode.touch_changed();
    }
}
