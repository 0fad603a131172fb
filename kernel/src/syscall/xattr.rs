//! System calls on extended attributes.

use super::SysResult;
use super::stat::{by_path, of_fd};
use crate::fs::path::Path;
use crate::fs::walk::Walk;
use crate::fs::xattr;
use crate::mm::copy::UserString;
use crate::task::audit;
use limen_linux_abi::Errno;

fn xattr_name(addr: usize) -> Result<UserString, Errno> {
    match UserString::read(addr, 256) {
        Ok(s) if s.as_bytes().is_empty() => Err(Errno::ERANGE),
        Err(Errno::ENAMETOOLONG) => Err(Errno::ERANGE),
        other => other,
    }
}

fn setxattr_at(at: &Path, name: usize, value: usize, size: usize, flags: u32) -> SysResult {
    xattr::check_flags(flags)?;
    xattr::set(at, xattr_name(name)?.as_bytes(), value, size, flags).map(|()| 0)
}

fn getxattr_at(at: &Path, name: usize, value: usize, size: usize) -> SysResult {
    xattr::get(at, xattr_name(name)?.as_bytes(), value, size)
}

/// Calls `f` with the file behind a descriptor, of which records of the call tell.
fn of_used(fd: i32, f: impl FnOnce(&Path) -> SysResult) -> SysResult {
    let at = of_fd(fd)?;
    if audit::wants_details() {
        audit::names::used(&at.dentry);
    }
    f(&at)
}

crate::syscalls! {
    fn setxattr(path: usize, name: usize, value: usize, size: usize, flags: u32) {
        setxattr_at(&by_path(path, Walk::FOLLOW)?, name, value, size, flags)
    }
    fn lsetxattr(path: usize, name: usize, value: usize, size: usize, flags: u32) {
        setxattr_at(&by_path(path, Walk::empty())?, name, value, size, flags)
    }
    fn fsetxattr(fd: i32, name: usize, value: usize, size: usize, flags: u32) {
        of_used(fd, |at| setxattr_at(at, name, value, size, flags))
    }
    fn getxattr(path: usize, name: usize, value: usize, size: usize) {
        getxattr_at(&by_path(path, Walk::FOLLOW)?, name, value, size)
    }
    fn lgetxattr(path: usize, name: usize, value: usize, size: usize) {
        getxattr_at(&by_path(path, Walk::empty())?, name, value, size)
    }
    fn fgetxattr(fd: i32, name: usize, value: usize, size: usize) {
        of_used(fd, |at| getxattr_at(at, name, value, size))
    }
    fn listxattr(path: usize, list: usize, size: usize) {
        xattr::list(&by_path(path, Walk::FOLLOW)?, list, size)
    }
    fn llistxattr(path: usize, list: usize, size: usize) {
        xattr::list(&by_path(path, Walk::empty())?, list, size)
    }
    fn flistxattr(fd: i32, list: usize, size: usize) {
        of_used(fd, |at| xattr::list(at, list, size))
    }
    fn removexattr(path: usize, name: usize) {
        xattr::remove(&by_path(path, Walk::FOLLOW)?, xattr_name(name)?.as_bytes()).map(|()| 0)
    }
    fn lremovexattr(path: usize, name: usize) {
        xattr::remove(&by_path(path, Walk::empty())?, xattr_name(name)?.as_bytes()).map(|()| 0)
    }
    fn fremovexattr(fd: i32, name: usize) {
        of_used(fd, |at| xattr::remove(at, xattr_name(name)?.as_bytes()).map(|()| 0))
    }
}
