//! Extended attributes, kept with the inode in memory. The rights to read and change `trusted.` and
//! `security.` attributes differ. `system.posix_acl_*` are access control lists ([`acl`]). Files in memory
//! have no `user.` attributes, as on Linux 6.1.

use crate::fs::acl::{self, Which};
use crate::fs::file_caps;
use crate::fs::inode::{FileType, Inode};
use crate::fs::path::Path;
use crate::fs::perm;
use crate::mm::copy::zeroed;
use crate::mm::reserve::room_exact;
use crate::mm::user::{read_bytes, write_bytes};
use crate::task::{creds::cap, current};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use limen_linux_abi::Errno;
use limen_linux_abi::SysResult;

/// The capabilities of a program.
const CAPABILITY: &[u8] = b"security.capability";
/// How many bytes a value (`XATTR_SIZE_MAX`), or a list of names, may have.
const MAX_VALUE: usize = 65536;
/// How many bytes all attributes of a file may have, so that a program cannot fill the kernel's memory.
const MAX_TOTAL: usize = 1 << 20;
const XATTR_CREATE: u32 = 1;
const XATTR_REPLACE: u32 = 2;

/// Whether the running task may read or, with `write`, change attribute `name`.
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
        perm::permission(inode, if write { perm::WRITE } else { perm::READ }, &creds)?;
        return Err(Errno::EOPNOTSUPP);
    }
    if name.starts_with(b"trusted.") {
        return match creds.capable(cap::SYS_ADMIN) {
            true => Ok(()),
            false => Err(if write { Errno::EPERM } else { Errno::ENODATA }),
        };
    }
    if name.starts_with(b"security.") {
        let may = match name == CAPABILITY {
            true => perm::capable(&creds, inode, cap::SETFCAP),
            false => creds.capable_in(&inode.sb.owner, cap::SYS_ADMIN),
        };
        return if write && !may { Err(Errno::EPERM) } else { Ok(()) };
    }
    if !name.starts_with(b"system.") {
        perm::permission(inode, if write { perm::WRITE } else { perm::READ }, &creds)?;
    }
    Err(Errno::EOPNOTSUPP)
}

/// Whether the file system stores attributes.
pub fn has_storage(inode: &Inode) -> bool {
    inode.sb.ops.downcast::<crate::fs::tmpfs::Super>().is_some()
}

/// `EINVAL` for unknown flags of `setxattr`.
pub fn check_flags(flags: u32) -> Result<(), Errno> {
    if flags & !(XATTR_CREATE | XATTR_REPLACE) != 0 {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

/// `setxattr`. The flags have been checked.
pub fn set(path: &Path, name: &[u8], value: usize, size: usize, flags: u32) -> Result<(), Errno> {
    if size > MAX_VALUE {
        return Err(Errno::E2BIG);
    }
    let mut data = zeroed(size)?;
    read_bytes(&mut data, value)?;
    if let Some(which) = Which::named(name) {
        return acl::set(path, which, Some(&data));
    }
    check(path, name, true)?;
    let inode = &path.dentry.inode;
    if !has_storage(inode) {
        return Err(Errno::EOPNOTSUPP);
    }
    if name == CAPABILITY {
        data = file_caps::kept(inode, data)?;
    }
    let size = data.len();
    let (key, data): (Box<[u8]>, _) = (name.into(), Arc::new(data));
    let old = {
        let mut all = inode.lock_attributes();
        let all = &mut all.get_or_insert_default().named;
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

/// Copies `data` to the program, or only returns its size if `size` is 0.
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

/// The value of `name`, for the kernel itself (exec reads `security.capability`).
pub fn value(inode: &Inode, name: &[u8]) -> Option<Arc<Vec<u8>>> {
    inode.lock_attributes().as_ref()?.named.get(name).cloned()
}

/// `getxattr`.
pub fn get(path: &Path, name: &[u8], to: usize, size: usize) -> SysResult {
    let inode = &path.dentry.inode;
    if let Some(which) = Which::named(name) {
        return give(&acl::get(inode, which)?, to, size);
    }
    check(path, name, false)?;
    if !has_storage(inode) {
        return Err(Errno::EOPNOTSUPP);
    }
    let found = value(inode, name).ok_or(Errno::ENODATA)?;
    if name == CAPABILITY {
        return give(&file_caps::shown(inode, &found)?, to, size);
    }
    give(&found, to, size)
}

/// `listxattr`.
pub fn list(path: &Path, to: usize, size: usize) -> SysResult {
    let admin = current().creds().capable(cap::SYS_ADMIN);
    let shown = |name: &&[u8]| admin || !name.starts_with(b"trusted.");
    let mut names = Vec::new();
    loop {
        let all = path.dentry.inode.lock_attributes();
        let listed = || {
            let kept = all.iter().flat_map(|all| all.named.keys());
            let acls = all.iter().flat_map(|all| all.acls.names());
            acls.chain(kept.map(|name| &**name).filter(shown))
        };
        let need: usize = listed().map(|name| name.len() + 1).sum();
        if names.capacity() >= need {
            for name in listed() {
                names.extend_from_slice(name);
                names.push(0);
            }
            break;
        }
        drop(all);
        room_exact(&mut names, need)?;
    }
    give(&names, to, size)
}

/// `removexattr`.
pub fn remove(path: &Path, name: &[u8]) -> Result<(), Errno> {
    if let Some(which) = Which::named(name) {
        return acl::set(path, which, None);
    }
    check(path, name, true)?;
    let inode = &path.dentry.inode;
    let old = inode
        .lock_attributes()
        .as_mut()
        .and_then(|all| all.named.remove(name));
    if old.is_none() {
        return Err(Errno::ENODATA);
    }
    inode.touch_changed();
    crate::fs::inotify::attrib(inode);
    Ok(())
}
