//! The arguments of `mount`, `umount2` and `pivot_root`.

use super::SysResult;
use crate::fs::lookup::{AT_FDCWD, lookup};
use crate::fs::mount;
use crate::fs::walk::Walk;
use crate::mm::PAGE_SIZE;
use crate::mm::copy::{UserString, copy_in, read_path, zeroed};
use alloc::string::String;
use limen_linux_abi::Errno;

/// `MS_MGC_VAL`, which old programs pass in the upper half of the flags.
const MAGIC: u32 = 0xc0ed_0000;

/// An optional string. `None`: the pointer is null.
fn optional(addr: usize) -> Result<Option<UserString>, Errno> {
    if addr == 0 {
        Ok(None)
    } else {
        UserString::read(addr, PAGE_SIZE).map(Some)
    }
}

/// The options: at most a page, which need not contain a NUL.
fn options(addr: usize) -> Result<String, Errno> {
    if addr == 0 {
        return Ok(String::new());
    }
    let mut page = zeroed(PAGE_SIZE)?;
    let n = copy_in(&mut page, addr);
    let n = if n == 0 {
        // The page may be followed by an unmapped one: copies what can be read.
        let whole = UserString::read(addr, PAGE_SIZE)?;
        page[..whole.as_bytes().len()].copy_from_slice(whole.as_bytes());
        whole.as_bytes().len()
    } else {
        n
    };
    let end = page[..n].iter().position(|b| *b == 0).unwrap_or(n);
    page.truncate(end);
    String::from_utf8(page).map_err(|_| Errno::EINVAL)
}

/// `mount`.
pub(super) fn do_mount(source: usize, target: usize, fs_type: usize, flags: u32, data: usize) -> SysResult {
    let source = optional(source)?;
    let fs_type = optional(fs_type)?;
    let data = options(data)?;
    let target = read_path(target)?;
    let at = lookup(AT_FDCWD, target.as_bytes(), Walk::FOLLOW)?;
    mount::may_mount()?;
    let flags = if flags & 0xffff_0000 == MAGIC {
        flags & 0xffff
    } else {
        flags
    };
    let source_bytes = source.as_ref().map_or(&b"none"[..], |s| s.as_bytes());
    let source_path = || match &source {
        Some(s) => lookup(AT_FDCWD, s.as_bytes(), Walk::FOLLOW),
        None => Err(Errno::EINVAL),
    };
    let special = mount::MS_REMOUNT | mount::MS_BIND | mount::MS_MOVE | mount::MS_PROPAGATION;
    let fs_type = match &fs_type {
        Some(t) => t.as_bytes(),
        None if flags & special != 0 => b"",
        None => return Err(Errno::EINVAL),
    };
    mount::do_mount(source_bytes, source_path, at, fs_type, flags, &data)?;
    Ok(0)
}

/// `umount2`.
pub(super) fn do_umount(target: usize, flags: u32) -> SysResult {
    mount::check_unmount_flags(flags)?;
    let target = read_path(target)?;
    let walk = if flags & mount::UMOUNT_NOFOLLOW != 0 {
        Walk::empty()
    } else {
        Walk::FOLLOW
    };
    let at = mount::to_umount(flags, || lookup(AT_FDCWD, target.as_bytes(), walk))?;
    mount::umount(at, flags)?;
    Ok(0)
}

/// `pivot_root`.
pub(super) fn do_pivot_root(new_root: usize, put_old: usize) -> SysResult {
    mount::may_mount()?;
    let directory = |at| {
        lookup(
            AT_FDCWD,
            read_path(at)?.as_bytes(),
            Walk::FOLLOW | Walk::DIRECTORY,
        )
    };
    mount::pivot_root(directory(new_root)?, directory(put_old)?)?;
    Ok(0)
}
