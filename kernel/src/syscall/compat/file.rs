//! Files: positions in two registers, and structures with words of 32 bits.

use super::super::{Pair, dir, fcntl, file, pipe, stat};
use crate::fs::lookup::AT_FDCWD;
use crate::fs::walk::Walk;
use crate::mm::user::UserPtr;
use crate::task::current;
use limen_linux_abi::Errno;
use limen_linux_abi::abi::compat::{OldStat, Stat, Stat64, Statfs, Statfs64};
use limen_linux_abi::raw::general::AT_SYMLINK_NOFOLLOW;

/// A position in two words of registers, the lower half first.
fn join(low: u32, high: u32) -> i64 {
    (u64::from(high) << 32 | u64::from(low)) as i64
}

/// `EINVAL`: a program's `struct statfs64` has another size.
fn check_statfs64(size: usize) -> Result<(), Errno> {
    if size == size_of::<Statfs64>() {
        Ok(())
    } else {
        Err(Errno::EINVAL)
    }
}

crate::syscalls! {
    fn lseek(fd: i32, offset: i32, whence: u32) {
        Ok(file::seek(fd, offset.into(), whence)? as usize)
    }
    fn pread64(fd: i32, buf: usize, len: usize, pos: Pair) {
        file::read_at(fd, (buf, len), pos)
    }
    fn pwrite64(fd: i32, buf: usize, len: usize, pos: Pair) {
        file::write_at(fd, (buf, len), pos)
    }
    fn truncate(path: usize, size: i32) {
        file::do_truncate(path, size.into())
    }
    fn ftruncate(fd: i32, size: i32) {
        file::do_ftruncate(fd, size.into())
    }
    fn truncate64(path: usize, size: Pair) {
        file::do_truncate(path, size)
    }
    fn ftruncate64(fd: i32, size: Pair) {
        file::do_ftruncate(fd, size)
    }
    fn readahead(fd: i32, _offset: Pair, _count: usize) {
        file::read_ahead(fd)
    }
    fn fadvise64(fd: i32, offset: Pair, len: u32, advice: u32) {
        file::advise(fd, offset, len.into(), advice)
    }
    fn fadvise64_64(fd: i32, offset: Pair, len: Pair, advice: u32) {
        file::advise(fd, offset, len, advice)
    }
    fn sync_file_range(fd: i32, offset: Pair, len: Pair, flags: u32) {
        file::do_sync_file_range(fd, offset, len, flags)
    }
    fn fallocate(fd: i32, mode: u32, offset: Pair, len: Pair) {
        file::do_fallocate(fd, mode, offset, len)
    }
    fn readv(fd: i32, iov: usize, count: usize) {
        file::read_vector::<u32>(fd, (iov, count), None, 0)
    }
    fn writev(fd: i32, iov: usize, count: usize) {
        file::write_vector::<u32>(fd, (iov, count), None, 0)
    }
    fn preadv(fd: i32, iov: usize, count: usize, low: u32, high: u32) {
        file::read_vector::<u32>(fd, (iov, count), Some(join(low, high)), 0)
    }
    fn pwritev(fd: i32, iov: usize, count: usize, low: u32, high: u32) {
        file::write_vector::<u32>(fd, (iov, count), Some(join(low, high)), 0)
    }
    fn preadv2(fd: i32, iov: usize, count: usize, low: u32, high: u32, flags: i32) {
        file::read_vector::<u32>(fd, (iov, count), file::own_position(join(low, high)), flags)
    }
    fn pwritev2(fd: i32, iov: usize, count: usize, low: u32, high: u32, flags: i32) {
        file::write_vector::<u32>(fd, (iov, count), file::own_position(join(low, high)), flags)
    }
    fn vmsplice(fd: i32, iov: usize, count: usize, flags: u32) {
        pipe::do_vmsplice::<u32>(fd, (iov, count), flags)
    }
    fn sendfile(out: i32, source: i32, offset: UserPtr<i32>, count: usize) {
        file::send(out, source, offset, count)
    }
    fn fcntl(fd: i32, cmd: u32, arg: usize) {
        fcntl::fcntl_narrow(fd, cmd, arg)
    }
    fn fcntl64(fd: i32, cmd: u32, arg: usize) {
        fcntl::fcntl_narrow(fd, cmd, arg)
    }
    fn getdents(fd: i32, buf: usize, size: i32) {
        dir::list::<false, 4>(fd, buf, size)
    }
    fn readdir(fd: i32, to: usize) {
        dir::list_one(fd, to)
    }
    fn oldstat(path: usize, to: usize) {
        stat::stat_at((AT_FDCWD, path, 0), to, OldStat::new)
    }
    fn oldlstat(path: usize, to: usize) {
        stat::stat_at((AT_FDCWD, path, AT_SYMLINK_NOFOLLOW), to, OldStat::new)
    }
    fn oldfstat(fd: i32, to: usize) {
        stat::stat_of(fd, to, OldStat::new)
    }
    fn stat(path: usize, to: usize) {
        stat::stat_at((AT_FDCWD, path, 0), to, Stat::new)
    }
    fn lstat(path: usize, to: usize) {
        stat::stat_at((AT_FDCWD, path, AT_SYMLINK_NOFOLLOW), to, Stat::new)
    }
    fn fstat(fd: i32, to: usize) {
        stat::stat_of(fd, to, Stat::new)
    }
    fn stat64(path: usize, to: usize) {
        stat::stat_at((AT_FDCWD, path, 0), to, Stat64::new)
    }
    fn lstat64(path: usize, to: usize) {
        stat::stat_at((AT_FDCWD, path, AT_SYMLINK_NOFOLLOW), to, Stat64::new)
    }
    fn fstat64(fd: i32, to: usize) {
        stat::stat_of(fd, to, Stat64::new)
    }
    fn fstatat64(dirfd: i32, path: usize, to: usize, flags: u32) {
        stat::stat_at((dirfd, path, flags), to, Stat64::new)
    }
    fn statfs(path: usize, to: usize) {
        stat::do_statfs(to, &stat::by_path(path, Walk::FOLLOW)?, Statfs::new)
    }
    fn fstatfs(fd: i32, to: usize) {
        let file = current().file_any(fd)?;
        stat::do_statfs(to, &file.path, Statfs::new)
    }
    fn statfs64(path: usize, size: usize, to: usize) {
        check_statfs64(size)?;
        stat::do_statfs(to, &stat::by_path(path, Walk::FOLLOW)?, Statfs64::new)
    }
    fn fstatfs64(fd: i32, size: usize, to: usize) {
        check_statfs64(size)?;
        let file = current().file_any(fd)?;
        stat::do_statfs(to, &file.path, Statfs64::new)
    }
}
