//! Extended attributes: kept with the inode, in memory. `user.`, `trusted.`, `security.` and, as plain bytes, `system.posix_acl_*` are
//! told apart by who may change them.

use crate::fs::inode::{FileType, Inode};
use crate::fs::path::Path;
use crate::fs::perm;
use crate::mm::copy::zeroed;
use crate::mm::user::{read_bytes, write_bytes};
use crate::syscall::SysResult;
use crate::task::current;
use alloc::boxed::Box;
use alloc::vec::Vec;
use limen_linux_abi::Errno;

/// Longest value (`XATTR_SIZE_MAX`), and longest list.
const MAX_VALUE: usize = 65536;
/// All attributes of one file together; keeps a program from filling kernel memory.
const MAX_TOTAL: usize = 1 << 20;
const XATTR_CREATE: u32 = 1;
const XATTR_REPLACE: u32 = 2;

/// Whether the running task may read (or write) attribute `name`.
fn check(path: &Path, name: &[u8], write: bool) -> Result<(), Errno> {
    let inode = &path.dentry.inode;
    let creds = current().creds();
    if write {
        path.mnt.check_writable()?;
    }
    if name.starts_with(b"user.") {
        if !matches!(inode.kind, FileType::Regular | FileType::Directory) {
            return Err(if write { Errno::EPERM } else { Errno::ENODATA });
        }
        return perm::permission(inode, if write { perm::WRITE } else { perm::READ }, &creds);
    }
    if name.starts_with(b"trusted.") {
        return match creds.capable(perm::CAP_SYS_ADMIN) {
            true => Ok(()),
            false => Err(if write { Errno::EPERM } else { Errno::ENODATA }),
        };
    }
    if name.starts_with(b"security.") {
        let cap = if name == b"security.capability" {
            perm::CAP_SETFCAP
        } else {
            perm::CAP_SYS_ADMIN
        };
        return if write && !creds.capable(cap) {
            Err(Errno::EPERM)
        } else {
            Ok(())
        };
    }
    if !name.starts_with(b"system.") {
        perm::permission(inode, if write { perm::WRITE } else { perm::READ }, &creds)?;
    }
    Err(Errno::EOPNOTSUPP)
}

fn has_storage(inode: &Inode) -> bool {
    inode.sb.ops.downcast::<crate::fs::tmpfs::Super>().is_some()
}

/// `EINVAL` for flags of `setxattr` that are none.
pub fn check_flags(flags: u32) -> Result<(), Errno> {
    if flags & !(XATTR_CREATE | XATTR_REPLACE) != 0 {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

/// `setxattr`, with flags that were checked.
pub fn set(path: &Path, name: &[u8], value: usize, size: usize, flags: u32) -> Result<(), Errno> {
    if size > MAX_VALUE {
        return Err(Errno::E2BIG);
    }
    let mut data = zeroed(size)?;
    read_bytes(&mut data, value)?;
    check(path, name, true)?;
    let inode = &path.dentry.inode;
    if !has_storage(inode) {
        return Err(Errno::EOPNOTSUPP);
    }
    let (key, data): (Box<[u8]>, Box<[u8]>) = (name.into(), data.into());
    let old = {
        let mut all = inode.xattrs.lock();
        let all = all.get_or_insert_default();
        let exists = all.contains_key(name);
        if flags & XATTR_CREATE != 0 && exists {
            return Err(Errno::EEXIST);
        }
        if flags & XATTR_REPLACE != 0 && !exists {
            return Err(Errno::ENODATA);
        }
        let total: usize = all.iter().map(|(k, v)| k.len() + v.len()).sum();
        if total + name.len() + size > MAX_TOTAL {
            return Err(Errno::ENOSPC);
        }
        all.insert(key, data)
    };
    drop(old);
    inode.touch_changed();
    crate::fs::inotify::attrib(inode);
    Ok(())
}

/// Copies out `data`, or tells its size if `size` is 0.
fn give(data: &[u8], to: usize, size: usize) -> SysResult {
    if size == 0 {
        return Ok(data.len());
    }
    if data.len() > size {
        return Err(Errno::ERANGE);
    }
    write_bytes(to, data)?;
    Ok(data.len())
}

/// The value of `name`, for the kernel itself (exec looks at `security.capability`).
pub fn value(inode: &Inode, name: &[u8]) -> Option<Vec<u8>> {
    inode.xattrs.lock().as_ref()?.get(name).map(|v| v.to_vec())
}

/// `getxattr`.
pub fn get(path: &Path, name: &[u8], to: usize, size: usize) -> SysResult {
    check(path, name, false)?;
    let inode = &path.dentry.inode;
    if !has_storage(inode) {
        return Err(Errno::EOPNOTSUPP);
    }
    give(&value(inode, name).ok_or(Errno::ENODATA)?, to, size)
}

/// `listxattr`.
pub fn list(path: &Path, to: usize, size: usize) -> SysResult {
    let admin = current().creds().capable(perm::CAP_SYS_ADMIN);
    let mut names = Vec::new();
    if let Some(all) = path.dentry.inode.xattrs.lock().as_ref() {
        for name in all.keys().filter(|n| admin || !n.starts_with(b"trusted.")) {
            names.extend_from_slice(name);
            names.push(0);
        }
    }
    give(&names, to, size)
}

/// `removexattr`.
pub fn remove(path: &Path, name: &[u8]) -> Result<(), Errno> {
    check(path, name, true)?;
    let inode = &path.dentry.inode;
    let old = inode.xattrs.lock().as_mut().and_then(|all| all.remove(name));
    if old.is_none() {
        return Err(Errno::ENODATA);
    }
    inode.touch_changed();
    crate::fs::inotify::attrib(inode);
    Ok(())
}
