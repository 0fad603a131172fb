//! System calls on descriptors: reading, writing, duplicating, `ioctl`, lengths.

use super::SysResult;
use crate::fs::fdtable::FdTable;
use crate::fs::file::{File, FileMode};
use crate::fs::inode::FileType;
use crate::fs::io::{IoDst, IoSrc};
use crate::fs::locks::leases;
use crate::fs::lookup::AT_FDCWD;
use crate::fs::regular::MAX_SIZE;
use crate::fs::walk::Walk;
use crate::fs::{inotify, memfd, regular, secret, splice};
use crate::mm::copy::{self, read_iovecs, with_path};
use crate::mm::user::{Plain, UserPtr, Word};
use crate::task::current;
use alloc::sync::Arc;
use limen_linux_abi::{Errno, raw::general as abi};

/// The file behind a descriptor of the running task.
#[inline(always)]
pub(super) fn file(fd: i32) -> Result<Arc<File>, Errno> {
    current().file(fd)
}

/// The running task's descriptor table.
pub(super) fn files() -> Arc<FdTable> {
    current().files()
}

/// A position argument. `EINVAL`: it is negative; `ESPIPE`: the file has no positions.
fn position(file: &File, pos: i64) -> Result<Option<u64>, Errno> {
    let pos = u64::try_from(pos).map_err(|_| Errno::EINVAL)?;
    if file.mode().contains(FileMode::NO_PREAD) {
        return Err(Errno::ESPIPE);
    }
    Ok(Some(pos))
}

/// `RWF_APPEND`.
const APPEND: i32 = 16;

/// Checks `RWF_*` flags. `EOPNOTSUPP`: the file does not support one.
fn check_rwf(file: &File, flags: i32) -> Result<(), Errno> {
    const HIPRI: i32 = 1;
    const DSYNC: i32 = 2;
    const SYNC: i32 = 4;
    const NOWAIT: i32 = 8;
    if flags & !(HIPRI | DSYNC | SYNC | NOWAIT | APPEND) != 0
        || flags & NOWAIT != 0 && !file.is_regular() && !file.nonblocking()
    {
        return Err(Errno::EOPNOTSUPP);
    }
    Ok(())
}

pub(super) fn read_vector<W: Word>(
    fd: i32,
    (iov, count): (usize, usize),
    pos: Option<i64>,
    flags: i32,
) -> SysResult {
    if pos.is_some_and(i64::is_negative) {
        return Err(Errno::EINVAL);
    }
    current().with_file(fd, move |file| {
        let pos = match pos {
            Some(pos) => position(file, pos)?,
            None => None,
        };
        file.check(FileMode::READ)?;
        if file.mode().contains(FileMode::NO_READ) {
            return Err(Errno::EINVAL);
        }
        let list = read_iovecs::<W>(iov, count)?;
        let mut dst = IoDst::vector(&list);
        let mut result = Ok(0);
        if dst.remaining() != 0 {
            file.check_end(pos, dst.remaining())?;
            check_rwf(file, flags)?;
            result = file.read(&mut dst, pos);
        }
        // Unlike `read`, Linux tells watchers even if nothing was read.
        if result == Ok(0) {
            inotify::accessed(file);
        }
        result
    })
}

pub(super) fn write_vector<W: Word>(
    fd: i32,
    (iov, count): (usize, usize),
    pos: Option<i64>,
    flags: i32,
) -> SysResult {
    if pos.is_some_and(i64::is_negative) {
        return Err(Errno::EINVAL);
    }
    current().with_file(fd, move |file| {
        let pos = match pos {
            Some(pos) => position(file, pos)?,
            None => None,
        };
        file.check(FileMode::WRITE)?;
        if file.mode().contains(FileMode::NO_WRITE) {
            return Err(Errno::EINVAL);
        }
        let list = read_iovecs::<W>(iov, count)?;
        let mut src = IoSrc::vector(&list);
        if src.remaining() == 0 {
            return Ok(0);
        }
        file.check_end(pos, src.remaining())?;
        check_rwf(file, flags)?;
        if flags & APPEND != 0 && file.inode().pages.is_some() {
            return append(file, &mut src, pos.is_none());
        }
        file.write(&mut src, pos)
    })
}

/// `RWF_APPEND`: writes at the end of the file. `own`: the file's own position is moved there.
fn append(file: &File, src: &mut IoSrc<'_>, own: bool) -> SysResult {
    if !own {
        return file.write(src, Some(regular::AT_END));
    }
    let mut pos = file.pos.lock();
    let n = file.write(src, Some(regular::AT_END))?;
    *pos = file.inode().size();
    Ok(n)
}

/// A position in two registers, the lower half first. If one register holds it, the other one is ignored.
fn join(low: usize, high: usize) -> i64 {
    if size_of::<usize>() == size_of::<i64>() {
        low as i64
    } else {
        ((high as u64) << 32 | low as u64) as i64
    }
}

pub(super) fn seek(fd: i32, offset: i64, whence: u32) -> Result<u64, Errno> {
    current().with_file(fd, move |file| {
        if whence > 4 {
            return Err(Errno::EINVAL);
        }
        file.ops().seek(file, offset, whence)
    })
}

/// How much of `count` from `from` on is sent if the offset can't be beyond `most`. `EOVERFLOW`: nothing.
fn count_to(most: i64, from: i64, count: usize) -> Result<usize, Errno> {
    match usize::try_from(most - from) {
        Ok(room) if room > 0 || count == 0 => Ok(count.min(room)),
        _ => Err(Errno::EOVERFLOW),
    }
}

/// `sendfile`. The offset in user memory, of type `T`, is moved.
pub(super) fn send<T: Plain + TryInto<i64> + TryFrom<i64>>(
    out: i32,
    source: i32,
    offset: UserPtr<T>,
    count: usize,
) -> SysResult {
    let offset = match offset.non_null() {
        Some(at) => Some((at, at.read()?.try_into().map_err(|_| Errno::EINVAL)?)),
        None => None,
    };
    let source = file(source)?;
    let from = splice::source_position(&source, offset.map(|(_, from)| from))?;
    let count = match offset {
        Some((_, from)) if T::try_from(i64::MAX).is_err() => count_to(i32::MAX.into(), from, count)?,
        _ => count,
    };
    source.check_end(from, count)?;
    let n = splice::sendfile(&*file(out)?, &source, from, count)?;
    if let Some((at, from)) = offset {
        let moved = splice::moves(&source, n) as i64;
        at.write(T::try_from(from + moved).map_err(|_| Errno::EOVERFLOW)?)?;
    }
    Ok(n)
}

/// The offset -1 of `pwritev2` means the file's own position.
pub(super) fn own_position(pos: i64) -> Option<i64> {
    if pos == -1 { None } else { Some(pos) }
}

fn dup_to(old: i32, new: i32, cloexec: bool) -> SysResult {
    let files = files();
    let file = files.get_any(old)?;
    files.install_at(file, new, cloexec)?;
    Ok(new as usize)
}

/// `ioctl` commands of all files.
fn generic_ioctl(fd: i32, file: &Arc<File>, cmd: u32, arg: usize) -> Option<SysResult> {
    use limen_linux_abi::native::FIOQSIZE;
    use limen_linux_abi::native::ioctl::{FIOASYNC, FIOCLEX, FIONBIO, FIONCLEX, FIONREAD};
    const FIGETBSZ: u32 = 2;
    let flag = |bit: u32| -> SysResult {
        let on = UserPtr::<i32>::new(arg).read()? != 0;
        file.change_flags(if on { bit } else { 0 }, bit)?;
        Ok(0)
    };
    Some(match cmd {
        FIOCLEX => files().set_cloexec(fd, true).map(|()| 0),
        FIONCLEX => files().set_cloexec(fd, false).map(|()| 0),
        FIONBIO => flag(abi::O_NONBLOCK),
        FIOASYNC => UserPtr::<i32>::new(arg).read().and_then(|on| {
            if file.set_async(fd, on != 0)? {
                Ok(0)
            } else {
                Err(Errno::ENOTTY)
            }
        }),
        FIGETBSZ if file.inode().kind == FileType::Regular || file.inode().kind == FileType::Directory => {
            UserPtr::<i32>::new(arg)
                .write(crate::mm::PAGE_SIZE as i32)
                .map(|()| 0)
        }
        FIONREAD if file.is_regular() => {
            let left = file.inode().size().saturating_sub(*file.pos.lock());
            UserPtr::<i32>::new(arg)
                .write(left.min(i32::MAX as u64) as i32)
                .map(|()| 0)
        }
        FIOQSIZE if file.is_regular() || file.inode().kind == FileType::Directory => {
            UserPtr::<u64>::new(arg).write(file.inode().size()).map(|()| 0)
        }
        _ => return None,
    })
}

pub(super) fn do_truncate(path: usize, size: i64) -> SysResult {
    let size = u64::try_from(size).map_err(|_| Errno::EINVAL)?;
    let at = with_path(path, |path| {
        crate::fs::lookup::lookup(AT_FDCWD, path, Walk::FOLLOW)
    })?;
    let inode = &at.dentry.inode;
    match inode.kind {
        FileType::Directory => return Err(Errno::EISDIR),
        FileType::Regular => {}
        _ => return Err(Errno::EINVAL),
    }
    crate::fs::perm::path_permission(&at, crate::fs::perm::WRITE, &current().creds())?;
    inode.get_write()?;
    let r = leases::opening(inode, abi::O_WRONLY).and_then(|()| regular::set_size(inode, size));
    inode.put_write();
    r?;
    inotify::modified_inode(&at.dentry);
    Ok(0)
}

pub(super) fn do_sync_file_range(fd: i32, offset: i64, len: i64, flags: u32) -> SysResult {
    let file = file(fd)?;
    if flags & !7 != 0 || offset < 0 || len < 0 || offset.checked_add(len).is_none() {
        return Err(Errno::EINVAL);
    }
    match file.inode().kind {
        FileType::Regular | FileType::BlockDevice | FileType::Directory | FileType::Symlink => Ok(0),
        _ => Err(Errno::ESPIPE),
    }
}

pub(super) fn advise(fd: i32, _offset: i64, len: i64, advice: u32) -> SysResult {
    let file = file(fd)?;
    if file.inode().kind == FileType::Fifo {
        return Err(Errno::ESPIPE);
    }
    if len < 0 || advice > 5 {
        return Err(Errno::EINVAL);
    }
    Ok(0)
}

pub(super) fn do_ftruncate(fd: i32, size: i64) -> SysResult {
    let size = u64::try_from(size).map_err(|_| Errno::EINVAL)?;
    let file = file(fd)?;
    if !file.is_regular() || !file.mode().contains(FileMode::WRITE) {
        return Err(Errno::EINVAL);
    }
    regular::set_size(file.inode(), size)?;
    inotify::modified_inode(&file.path.dentry);
    Ok(0)
}

/// `readahead`: there is nothing to read ahead of.
pub(super) fn read_ahead(fd: i32) -> SysResult {
    let file = file(fd)?;
    if !file.mode().contains(FileMode::READ) {
        return Err(Errno::EBADF);
    }
    if file.is_regular() {
        Ok(0)
    } else {
        Err(Errno::EINVAL)
    }
}

/// `pread64`, to address and length.
#[inline(always)]
pub(super) fn read_at(fd: i32, (buf, len): (usize, usize), pos: i64) -> SysResult {
    if pos < 0 {
        return Err(Errno::EINVAL);
    }
    current().with_file_to_read(fd, move |file| file.read_to_user(buf, len, position(file, pos)?))
}

/// `pwrite64`, from address and length.
#[inline(always)]
pub(super) fn write_at(fd: i32, (buf, len): (usize, usize), pos: i64) -> SysResult {
    if pos < 0 {
        return Err(Errno::EINVAL);
    }
    current().with_file_to_write(fd, move |file| {
        file.write_from_user(buf, len, position(file, pos)?)
    })
}

pub(super) fn do_fallocate(fd: i32, mode: u32, offset: i64, len: i64) -> SysResult {
    let file = file(fd)?;
    if offset < 0 || len <= 0 {
        return Err(Errno::EINVAL);
    }
    regular::check_fallocate(mode)?;
    if !file.mode().contains(FileMode::WRITE) {
        return Err(Errno::EBADF);
    }
    match file.inode().kind {
        FileType::Fifo => return Err(Errno::ESPIPE),
        FileType::Directory => return Err(Errno::EISDIR),
        FileType::Regular | FileType::BlockDevice => {}
        _ => return Err(Errno::ENODEV),
    }
    if (offset as u64).saturating_add(len as u64) > MAX_SIZE {
        return Err(Errno::EFBIG);
    }
    file.ops().fallocate(&file, mode, offset as u64, len as u64)?;
    inotify::modified(&file);
    Ok(0)
}

crate::syscalls! {
    fn read(fd: i32, buf: usize, len: usize) {
        current().with_file_to_read(fd, move |file| file.read_to_user(buf, len, None))
    }
    fn write(fd: i32, buf: usize, len: usize) {
        current().with_file_to_write(fd, move |file| file.write_from_user(buf, len, None))
    }
    fn pread64(fd: i32, buf: usize, len: usize, pos: i64) {
        read_at(fd, (buf, len), pos)
    }
    fn pwrite64(fd: i32, buf: usize, len: usize, pos: i64) {
        write_at(fd, (buf, len), pos)
    }
    fn readv(fd: i32, iov: usize, count: usize) {
        read_vector::<usize>(fd, (iov, count), None, 0)
    }
    fn writev(fd: i32, iov: usize, count: usize) {
        write_vector::<usize>(fd, (iov, count), None, 0)
    }
    fn preadv(fd: i32, iov: usize, count: usize, low: usize, high: usize) {
        read_vector::<usize>(fd, (iov, count), Some(join(low, high)), 0)
    }
    fn pwritev(fd: i32, iov: usize, count: usize, low: usize, high: usize) {
        write_vector::<usize>(fd, (iov, count), Some(join(low, high)), 0)
    }
    fn preadv2(fd: i32, iov: usize, count: usize, low: usize, high: usize, flags: i32) {
        read_vector::<usize>(fd, (iov, count), own_position(join(low, high)), flags)
    }
    fn pwritev2(fd: i32, iov: usize, count: usize, low: usize, high: usize, flags: i32) {
        write_vector::<usize>(fd, (iov, count), own_position(join(low, high)), flags)
    }
    fn lseek(fd: i32, offset: isize, whence: u32) {
        let at = seek(fd, offset as i64, whence)?;
        // The position may not fit into the result; one that is an address may look like an error.
        if size_of::<usize>() == 8 {
            return Ok(at as usize);
        }
        isize::try_from(at).map(|at| at as usize).map_err(|_| Errno::EOVERFLOW)
    }
    fn _llseek(fd: i32, high: u32, low: u32, to: UserPtr<u64>, whence: u32) {
        let at = seek(fd, (u64::from(high) << 32 | u64::from(low)) as i64, whence)?;
        to.write(at).map(|()| 0)
    }
    fn close(fd: i32) {
        current().close(fd)?;
        Ok(0)
    }
    fn close_range(first: u32, last: u32, flags: u32) {
        const UNSHARE: u32 = 2;
        const CLOEXEC: u32 = 4;
        if flags & !(UNSHARE | CLOEXEC) != 0 || first > last {
            return Err(Errno::EINVAL);
        }
        if flags & UNSHARE != 0 {
            crate::task::unshare::unshare_files()?;
        }
        files().close_range(first, last, flags & CLOEXEC != 0);
        Ok(0)
    }
    fn dup(fd: i32) {
        let files = files();
        let file = files.get_any(fd)?;
        Ok(files.install(file, false)? as usize)
    }
    fn dup2(old: i32, new: i32) {
        if old == new {
            current().file_any(old)?;
            return Ok(new as usize);
        }
        dup_to(old, new, false)
    }
    fn dup3(old: i32, new: i32, flags: u32) {
        if flags & !abi::O_CLOEXEC != 0 || old == new {
            return Err(Errno::EINVAL);
        }
        dup_to(old, new, flags != 0)
    }
    fn fcntl(fd: i32, cmd: u32, arg: usize) {
        super::fcntl::fcntl(fd, cmd, arg)
    }
    fn fcntl_old(fd: i32, cmd: u32, arg: usize) {
        super::fcntl::fcntl_old(fd, cmd, arg)
    }
    fn flock(fd: i32, operation: u32) {
        // There are no mandatory locks: asking for one has no effect.
        const LOCK_MAND: u32 = 32;
        if operation & LOCK_MAND != 0 {
            return Ok(0);
        }
        crate::fs::locks::check_operation(operation)?;
        crate::fs::locks::flock(&file(fd)?, operation)?;
        Ok(0)
    }
    fn ioctl(fd: i32, cmd: u32, arg: usize) {
        let file = file(fd)?;
        if let Some(result) = generic_ioctl(fd, &file, cmd, arg) {
            return result;
        }
        file.ops().ioctl(&file, cmd, arg)
    }
    fn fsync(fd: i32) {
        let file = file(fd)?;
        file.ops().fsync(&file)?;
        Ok(0)
    }
    fn fdatasync(fd: i32) {
        let file = file(fd)?;
        file.ops().fsync(&file)?;
        Ok(0)
    }
    fn sync() {
        Ok(0)
    }
    fn syncfs(fd: i32) {
        file(fd)?;
        Ok(0)
    }
    fn sync_file_range(fd: i32, offset: i64, len: i64, flags: u32) {
        do_sync_file_range(fd, offset, len, flags)
    }
    // For ABIs that pass 64-bit arguments in pairs of registers: with the flags first, there are enough
    // registers.
    fn sync_file_range2(fd: i32, flags: u32, offset: i64, len: i64) {
        do_sync_file_range(fd, offset, len, flags)
    }
    fn truncate(path: usize, size: isize) {
        do_truncate(path, size as i64)
    }
    fn truncate64(path: usize, size: i64) {
        do_truncate(path, size)
    }
    fn ftruncate(fd: i32, size: isize) {
        do_ftruncate(fd, size as i64)
    }
    fn ftruncate64(fd: i32, size: i64) {
        do_ftruncate(fd, size)
    }
    fn fallocate(fd: i32, mode: u32, offset: i64, len: i64) {
        do_fallocate(fd, mode, offset, len)
    }
    fn fadvise64(fd: i32, offset: i64, len: isize, advice: u32) {
        advise(fd, offset, len as i64, advice)
    }
    // For ABIs that pass 64-bit arguments in pairs of registers: with the advice first, there are enough
    // registers.
    fn arm_fadvise64_64(fd: i32, advice: u32, offset: i64, len: i64) {
        advise(fd, offset, len, advice)
    }
    fn readahead(fd: i32, offset: i64, count: usize) {
        let _ = (offset, count);
        read_ahead(fd)
    }
    fn sendfile(out: i32, source: i32, offset: UserPtr<isize>, count: usize) {
        send(out, source, offset, count)
    }
    fn sendfile64(out: i32, source: i32, offset: UserPtr<i64>, count: usize) {
        send(out, source, offset, count)
    }
    fn copy_file_range(source: i32, from: usize, out: i32, to: usize, len: usize, flags: u32) {
        let (source, out) = (file(source)?, file(out)?);
        let (from, to) = (UserPtr::new(from).non_null(), UserPtr::new(to).non_null());
        splice::copy_file_range(&source, from, &out, to, len, flags)
    }
    fn memfd_secret(flags: u32) {
        let file = secret::create(flags)?;
        Ok(files().install(file, flags & abi::O_CLOEXEC != 0)? as usize)
    }
    fn memfd_create(name: usize, flags: u32) {
        memfd::check_flags(flags)?;
        let name = copy::UserString::read(name, 250).map_err(|e| match e {
            Errno::ENAMETOOLONG => Errno::EINVAL,
            e => e,
        })?;
        let file = memfd::create(name.as_bytes(), flags)?;
        Ok(files().install(file, flags & 1 != 0)? as usize)
    }
}
