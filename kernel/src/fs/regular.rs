//! Regular files whose contents are a page cache: tmpfs files and memfds.

use crate::fs::file::{File, FileOps, MapBacking, is_too_far};
use crate::fs::inode::{FileType, Inode};
use crate::fs::io::{IoDst, IoSrc};
use crate::fs::{RLIMIT_FSIZE, perm};
use crate::mm::{PAGE_SHIFT, PAGE_SIZE, PageCache};
use crate::rcu::Shared;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use limen_linux_abi::SysResult;
use limen_linux_abi::{Errno, raw::general as abi};

/// The size of the largest file in bytes (`MAX_LFS_FILESIZE`).
pub const MAX_SIZE: u64 = i64::MAX as u64;
/// The position of a write with `RWF_APPEND`, which goes to the file's end. It is above all limits, so it
/// needs no check of its own: it is found where the limits are checked.
pub const AT_END: u64 = 1 << 63;
/// `F_SEAL_SHRINK`.
pub const SEAL_SHRINK: u32 = 2;
/// `F_SEAL_GROW`.
pub const SEAL_GROW: u32 = 4;
/// `F_SEAL_WRITE`.
pub const SEAL_WRITE: u32 = 8;
/// `F_SEAL_FUTURE_WRITE`.
pub const SEAL_FUTURE_WRITE: u32 = 16;
/// `FALLOC_FL_KEEP_SIZE`.
pub const FALLOC_KEEP_SIZE: u32 = 1;
/// `FALLOC_FL_PUNCH_HOLE`.
pub const FALLOC_PUNCH_HOLE: u32 = 2;
/// `FALLOC_FL_COLLAPSE_RANGE`.
const FALLOC_COLLAPSE_RANGE: u32 = 8;
/// `FALLOC_FL_ZERO_RANGE`.
const FALLOC_ZERO_RANGE: u32 = 16;
/// `FALLOC_FL_INSERT_RANGE`.
const FALLOC_INSERT_RANGE: u32 = 32;
/// `FALLOC_FL_UNSHARE_RANGE`.
const FALLOC_UNSHARE_RANGE: u32 = 64;

/// `EOPNOTSUPP` or `EINVAL` if `fallocate`'s `mode` means nothing for any file.
pub fn check_fallocate(mode: u32) -> Result<(), Errno> {
    let without = |flag, others| mode & flag == 0 || mode & others == 0;
    let known = FALLOC_KEEP_SIZE
        | FALLOC_PUNCH_HOLE
        | FALLOC_COLLAPSE_RANGE
        | FALLOC_ZERO_RANGE
        | FALLOC_INSERT_RANGE
        | FALLOC_UNSHARE_RANGE;
    let hole = mode & FALLOC_PUNCH_HOLE != 0;
    if mode & !known != 0 || hole && mode & (FALLOC_KEEP_SIZE | FALLOC_ZERO_RANGE) != FALLOC_KEEP_SIZE {
        return Err(Errno::EOPNOTSUPP);
    }
    if without(FALLOC_COLLAPSE_RANGE, !FALLOC_COLLAPSE_RANGE)
        && without(FALLOC_INSERT_RANGE, !FALLOC_INSERT_RANGE)
        && without(FALLOC_UNSHARE_RANGE, !(FALLOC_UNSHARE_RANGE | FALLOC_KEEP_SIZE))
    {
        Ok(())
    } else {
        Err(Errno::EINVAL)
    }
}

/// The operations of an open regular file.
pub struct Regular;

fn pages(inode: &Inode) -> Result<&Arc<PageCache>, Errno> {
    inode.pages.as_ref().ok_or(Errno::EINVAL)
}

/// The largest size of a file that was opened with `flags`. For programs whose `off_t` has 32 bits it is 2
/// GiB - 1, unless `O_LARGEFILE` is given.
#[inline(always)]
pub fn max_size(flags: u32) -> u64 {
    if size_of::<usize>() == 8 || flags & abi::O_LARGEFILE != 0 {
        MAX_SIZE
    } else {
        i32::MAX as u64
    }
}

/// How many of the `len` bytes of a write at `pos` `RLIMIT_FSIZE` and the largest size allow. `EFBIG` (and
/// `SIGXFSZ`): none.
fn limit(pos: u64, len: usize, max_size: u64) -> Result<usize, Errno> {
    let max = crate::task::rlimit(RLIMIT_FSIZE);
    if max < max_size && pos >= max && len != 0 {
        crate::fs::fcntl::signal_current(25);
        return Err(Errno::EFBIG);
    }
    if pos >= max_size && len != 0 {
        return Err(Errno::EFBIG);
    }
    Ok(len.min((max.min(max_size) - pos.min(max)).min(usize::MAX as u64) as usize))
}

/// Called if something may forbid a complete write at `at`: a seal, `RWF_APPEND`, or a limit of the size.
/// Returns where the write begins and how many bytes remain, at least one; shortens `src` to that.
#[cold]
#[inline(never)]
fn restrict(file: &File, pages: &PageCache, src: &mut IoSrc<'_>, mut at: u64) -> Result<(u64, usize), Errno> {
    if at == AT_END {
        at = pages.size();
    } else if is_too_far(at, src.remaining()) && file.flags() & abi::O_APPEND == 0 {
        return Err(Errno::EINVAL);
    }
    src.truncate(limit(at, src.remaining(), max_size(file.flags()))?);
    let seals = file.inode().seals.load(Ordering::Relaxed);
    if seals & (SEAL_WRITE | SEAL_FUTURE_WRITE) != 0 {
        return Err(Errno::EPERM);
    }
    if seals & SEAL_GROW != 0 && at + src.remaining() as u64 > pages.size() {
        if at >= pages.size() {
            return Err(Errno::EPERM);
        }
        src.truncate((pages.size() - at) as usize);
    }
    Ok((at, src.remaining()))
}

/// Writes at `at` or, with `O_APPEND`, at the end. Returns the position behind the written bytes, and their
/// number.
#[inline(always)]
fn write(file: &File, src: &mut IoSrc<'_>, mut at: u64) -> Result<(u64, usize), Errno> {
    let inode = file.inode();
    let pages = pages(inode)?;
    let mut len = src.remaining();
    if len == 0 {
        return Ok((at, 0));
    }
    let mut pages = pages.writing();
    let flags = file.flags();
    if flags & abi::O_APPEND != 0 {
        at = pages.size();
    }
    let end = at + len as u64;
    if inode.seals.load(Ordering::Relaxed) != 0
        || end > crate::task::rlimit(RLIMIT_FSIZE)
        || end > max_size(flags)
    {
        (at, len) = restrict(file, &pages, src, at)?;
    }
    let n = pages.write_at(at, src, len)?;
    inode.touch_modified();
    perm::drop_privilege_bits(inode);
    Ok((at + n as u64, n))
}

/// Writes at the file's position, which is moved.
#[inline(never)]
fn write_on(file: &File, src: &mut IoSrc<'_>) -> SysResult {
    let mut pos = file.pos.lock();
    let (behind, n) = write(file, src, *pos)?;
    *pos = behind;
    Ok(n)
}

impl FileOps for Regular {
    fn read(&self, file: &File, dst: &mut IoDst<'_>, pos: Option<u64>) -> SysResult {
        let inode = file.inode();
        let pages = pages(inode)?;
        let n = match pos {
            Some(pos) => pages.read_at(pos, dst)?,
            None => {
                let mut pos = file.pos.lock();
                let n = pages.read_at(*pos, dst)?;
                // Only a read that asks for more than there is can end beyond the largest position.
                if dst.remaining() > 0 && is_too_far(*pos, n + dst.remaining()) {
                    return Err(Errno::EINVAL);
                }
                *pos += n as u64;
                n
            }
        };
        if file.flags() & abi::O_NOATIME == 0 && file.path.mnt.flags() & crate::fs::mount::MS_NOATIME == 0 {
            inode.touch_accessed();
        }
        Ok(n)
    }

    fn write(&self, file: &File, src: &mut IoSrc<'_>, pos: Option<u64>) -> SysResult {
        match pos {
            Some(pos) => Ok(write(file, src, pos)?.1),
            None => write_on(file, src),
        }
    }

    fn mmap(&self, file: &File) -> Result<MapBacking, Errno> {
        let inode = file.inode();
        let pages = pages(inode)?.clone();
        inode.touch_accessed();
        Ok(MapBacking::Pages(pages))
    }

    fn fsync(&self, _: &File) -> Result<(), Errno> {
        Ok(())
    }

    fn fallocate(&self, file: &File, mode: u32, offset: u64, len: u64) -> Result<(), Errno> {
        let inode = file.inode();
        let pages = pages(inode)?;
        let end = offset
            .checked_add(len)
            .filter(|e| *e <= MAX_SIZE)
            .ok_or(Errno::EFBIG)?;
        if mode & !(FALLOC_KEEP_SIZE | FALLOC_PUNCH_HOLE) != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        let mut pages = pages.writing();
        let seals = inode.seals.load(Ordering::Relaxed);
        if mode & FALLOC_PUNCH_HOLE != 0 {
            if seals & (SEAL_WRITE | SEAL_FUTURE_WRITE) != 0 {
                return Err(Errno::EPERM);
            }
            pages.punch_hole(
                offset,
                end.min(pages.size().next_multiple_of(PAGE_SIZE as u64))
                    .max(offset),
            );
            inode.touch_modified();
            return Ok(());
        }
        if seals & SEAL_GROW != 0 && end > pages.size() {
            return Err(Errno::EPERM);
        }
        limit(end - 1, 1, MAX_SIZE)?;
        pages.fill_holes(offset >> PAGE_SHIFT, end.div_ceil(PAGE_SIZE as u64), || {
            if crate::task::current().signal_pending() {
                return Err(Errno::EINTR);
            }
            Ok(())
        })?;
        if mode & FALLOC_KEEP_SIZE == 0 && end > pages.size() {
            pages.set_size(end);
        }
        inode.touch_changed();
        Ok(())
    }
}

/// Changes a regular file's size (`truncate`, `O_TRUNC`). The caller has checked permissions.
pub fn set_size(inode: &Shared<Inode>, size: u64) -> Result<(), Errno> {
    match inode.kind {
        FileType::Regular => {}
        FileType::Directory => return Err(Errno::EISDIR),
        _ => return Err(Errno::EINVAL),
    }
    if size > MAX_SIZE {
        return Err(Errno::EFBIG);
    }
    let Some(pages) = &inode.pages else { return Ok(()) };
    let mut pages = pages.writing();
    if pages.is_secret() && pages.size() != 0 {
        return Err(Errno::EINVAL);
    }
    let old = pages.size();
    if size > old {
        limit(size - 1, 1, MAX_SIZE)?;
    }
    let seals = inode.seals.load(Ordering::Relaxed);
    if (size < old && seals & SEAL_SHRINK != 0) || (size > old && seals & SEAL_GROW != 0) {
        return Err(Errno::EPERM);
    }
    pages.truncate(size);
    inode.touch_modified();
    perm::drop_privilege_bits(inode);
    Ok(())
}

/// `lseek` of files with a position.
pub fn seek(file: &File, offset: i64, whence: u32) -> Result<u64, Errno> {
    if file.mode().contains(crate::fs::file::FileMode::STREAM) {
        return Err(Errno::ESPIPE);
    }
    if file.mode().contains(crate::fs::file::FileMode::NO_PREAD) {
        return Ok(0);
    }
    let inode = file.inode();
    let mut pos = file.pos.lock();
    let size = inode.size();
    let base = match whence {
        0 => 0,
        1 => *pos as i64,
        2 => size as i64,
        3 | 4 => {
            let from = u64::try_from(offset)
                .ok()
                .filter(|o| *o < size)
                .ok_or(Errno::ENXIO)?;
            let found = match (&inode.pages, whence) {
                (Some(p), 3) => {
                    let index = p.next_data(from >> PAGE_SHIFT).ok_or(Errno::ENXIO)?;
                    (index << PAGE_SHIFT).max(from)
                }
                (Some(p), _) => (p.next_hole(from >> PAGE_SHIFT) << PAGE_SHIFT)
                    .max(from)
                    .min(size),
                (None, 3) => from,
                (None, _) => size,
            };
            if found >= size && whence == 3 {
                return Err(Errno::ENXIO);
            }
            *pos = found;
            return Ok(found);
        }
        _ => return Err(Errno::EINVAL),
    };
    let new = base.checked_add(offset).ok_or(Errno::EINVAL)?;
    *pos = u64::try_from(new).map_err(|_| Errno::EINVAL)?;
    Ok(*pos)
}
