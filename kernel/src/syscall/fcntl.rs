//! `fcntl`.

use super::SysResult;
use super::file::files;
use crate::fs::fasync::{self, Kind};
use crate::fs::fdtable::FdTable;
use crate::fs::file::{File, FileMode};
use crate::fs::{FileType, RLIMIT_NOFILE, locks, memfd, perm, pipe};
use crate::mm::user::{Abi, UserPtr};
use crate::task::{creds::cap, current};
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use limen_linux_abi::abi::{compat, old};
use limen_linux_abi::{Errno, Layout, LockRequest, native, raw::general as abi};

const F_DUPFD: u32 = 0;
const F_GETFD: u32 = 1;
const F_SETFD: u32 = 2;
const F_GETFL: u32 = 3;
const F_SETFL: u32 = 4;
const F_GETLK: u32 = 5;
const F_SETLK: u32 = 6;
const F_SETLKW: u32 = 7;
// The same commands with `struct flock64`, on ABIs that have `fcntl64`.
const F_GETLK64: u32 = 12;
const F_SETLK64: u32 = 13;
const F_SETLKW64: u32 = 14;
const F_SETOWN: u32 = 8;
const F_GETOWN: u32 = 9;
const F_SETSIG: u32 = 10;
const F_GETSIG: u32 = 11;
const F_SETOWN_EX: u32 = 15;
const F_GETOWN_EX: u32 = 16;
const F_OFD_GETLK: u32 = 36;
const F_OFD_SETLK: u32 = 37;
const F_OFD_SETLKW: u32 = 38;
const F_SETLEASE: u32 = 1024;
const F_GETLEASE: u32 = 1025;
const F_DUPFD_QUERY: u32 = 1027;
const F_GET_RW_HINT: u32 = 1035;
const F_SET_RW_HINT: u32 = 1036;
const F_DUPFD_CLOEXEC: u32 = 1030;
const F_SETPIPE_SZ: u32 = 1031;
const F_GETPIPE_SZ: u32 = 1032;
const F_ADD_SEALS: u32 = 1033;
const F_GET_SEALS: u32 = 1034;
/// `F_UNLCK`.
const UNLCK: usize = 2;
/// `RWH_WRITE_LIFE_EXTREME`, the largest value.
const WRITE_LIFE_EXTREME: u64 = 5;

/// Which structures the commands for record locks take.
#[derive(Clone, Copy, PartialEq)]
enum Locks {
    /// `struct flock`, and `struct flock64` for the commands of `fcntl64` and for locks of open file
    /// descriptions.
    Both,
    /// The same, with the old ABI's `struct flock64`.
    Packed,
    /// `struct flock` only.
    Old,
    /// The same as [`Locks::Both`], of 32-bit programs, which are not the native ones.
    Narrow,
}

/// Record locks of the running task on `file`, its descriptor `fd`.
fn record_lock<T: Layout>(
    (fd, file): (i32, &Arc<File>),
    files: &Arc<FdTable>,
    (cmd, at): (u32, UserPtr<Abi<T>>),
    decode: impl FnOnce(&T) -> LockRequest,
    answer: impl FnOnce(&mut T, &LockRequest) -> Option<()>,
) -> SysResult {
    let ofd = cmd >= F_OFD_GETLK;
    let wait = matches!(cmd, F_SETLKW | F_SETLKW64 | F_OFD_SETLKW);
    let mut user = at.read()?;
    let mut lock = decode(&user.0);
    if !matches!(cmd, F_GETLK | F_GETLK64 | F_OFD_GETLK) {
        locks::set(file, files, &lock, ofd, wait)?;
        // If another thread closed the descriptor meanwhile, it did not see this lock and could not release
        // it.
        if !ofd && lock.kind as usize != UNLCK && !files.get_any(fd).is_ok_and(|now| Arc::ptr_eq(&now, file))
        {
            locks::descriptor_closed(file, files);
            return Err(Errno::EBADF);
        }
        return Ok(0);
    }
    locks::get(file, files, &mut lock, ofd)?;
    answer(&mut user.0, &lock).ok_or(Errno::EOVERFLOW)?;
    at.write(user).map(|()| 0)
}

/// `fcntl`; on ABIs with 32-bit words `fcntl64`.
pub(super) fn fcntl(fd: i32, cmd: u32, arg: usize) -> SysResult {
    do_fcntl(fd, cmd, arg, Locks::Both)
}

/// `fcntl` of ABIs with 32-bit words: without commands for 64-bit positions.
pub(super) fn fcntl_old(fd: i32, cmd: u32, arg: usize) -> SysResult {
    do_fcntl(fd, cmd, arg, Locks::Old)
}

/// `fcntl64` of the old ABI.
pub(super) fn fcntl_packed(fd: i32, cmd: u32, arg: usize) -> SysResult {
    do_fcntl(fd, cmd, arg, Locks::Packed)
}

/// `fcntl` and `fcntl64` of 32-bit programs.
pub(super) fn fcntl_narrow(fd: i32, cmd: u32, arg: usize) -> SysResult {
    do_fcntl(fd, cmd, arg, Locks::Narrow)
}

fn do_fcntl(fd: i32, cmd: u32, arg: usize, which: Locks) -> SysResult {
    let files = files();
    let file = files.get_any(fd)?;
    match cmd {
        F_DUPFD | F_DUPFD_CLOEXEC => {
            if arg as u64 >= crate::task::rlimit(RLIMIT_NOFILE) || arg > i32::MAX as usize {
                return Err(Errno::EINVAL);
            }
            return Ok(files.install_from(file, arg, cmd == F_DUPFD_CLOEXEC)? as usize);
        }
        F_DUPFD_QUERY => {
            let other = files.get_any(arg as i32)?;
            return Ok(usize::from(Arc::ptr_eq(&file, &other)));
        }
        F_GETFD => return Ok(usize::from(files.cloexec(fd)?)),
        F_SETFD => {
            files.set_cloexec(fd, arg & 1 != 0)?;
            return Ok(0);
        }
        F_GETFL => return Ok(file.flags() as usize),
        _ if file.mode().contains(FileMode::PATH) => return Err(Errno::EBADF),
        _ => {}
    }
    match cmd {
        F_SETFL => {
            let flags = arg as u32;
            if flags & abi::O_NOATIME != 0
                && file.flags() & abi::O_NOATIME == 0
                && !perm::owner_or_capable(file.inode(), &current().creds())
            {
                return Err(Errno::EPERM);
            }
            // Only pipes support `O_DIRECT` (as packets).
            if flags & abi::O_DIRECT != 0
                && !matches!(file.inode().kind, FileType::Fifo | FileType::BlockDevice)
            {
                return Err(Errno::EINVAL);
            }
            file.set_async(fd, flags & crate::fs::file::O_ASYNC != 0)?;
            file.change_flags(flags, crate::fs::file::SETFL_MASK)?;
            Ok(0)
        }
        F_GETLK | F_SETLK | F_SETLKW if which == Locks::Narrow => record_lock(
            (fd, &file),
            &files,
            (cmd, UserPtr::new(arg)),
            compat::Flock::request,
            compat::answer_lock,
        ),
        F_GETLK | F_SETLK | F_SETLKW => record_lock(
            (fd, &file),
            &files,
            (cmd, UserPtr::new(arg)),
            native::Flock::request,
            native::Flock::answer,
        ),
        F_GETLK64 | F_SETLK64 | F_SETLKW64 if size_of::<usize>() == 8 && which != Locks::Narrow => {
            Err(Errno::EINVAL)
        }
        F_GETLK64 | F_SETLK64 | F_SETLKW64 | F_OFD_GETLK | F_OFD_SETLK | F_OFD_SETLKW
            if which == Locks::Both =>
        {
            record_lock(
                (fd, &file),
                &files,
                (cmd, UserPtr::new(arg)),
                native::Flock64::request,
                native::Flock64::answer,
            )
        }
        F_GETLK64 | F_SETLK64 | F_SETLKW64 | F_OFD_GETLK | F_OFD_SETLK | F_OFD_SETLKW
            if matches!(which, Locks::Packed | Locks::Narrow) =>
        {
            record_lock(
                (fd, &file),
                &files,
                (cmd, UserPtr::new(arg)),
                old::Flock64::request,
                old::Flock64::answer,
            )
        }
        F_SETOWN => fasync::set_signed_owner(&file, arg as i32).map(|()| 0),
        F_GETOWN => Ok(fasync::signed_owner(&file) as isize as usize),
        F_SETOWN_EX => {
            let [kind, pid] = UserPtr::<[i32; 2]>::new(arg).read()?;
            let kinds = [Kind::Thread, Kind::Process, Kind::Group];
            let kind = usize::try_from(kind).ok().and_then(|kind| kinds.get(kind));
            fasync::set_owner(&file, *kind.ok_or(Errno::EINVAL)?, pid).map(|()| 0)
        }
        F_GETOWN_EX => {
            let (kind, id) = file.owner().shown();
            UserPtr::<[i32; 2]>::new(arg).write([kind as i32, id]).map(|()| 0)
        }
        F_SETSIG => {
            if arg > 64 {
                return Err(Errno::EINVAL);
            }
            file.set_owner(|o| o.signal = arg as u32);
            Ok(0)
        }
        F_GETSIG => Ok(file.owner().signal as usize),
        F_GET_RW_HINT => {
            let hint = file.inode().write_hint.load(Ordering::Relaxed);
            UserPtr::new(arg).write(u64::from(hint)).map(|()| 0)
        }
        F_SET_RW_HINT => {
            let hint = UserPtr::<u64>::new(arg).read()?;
            if hint > WRITE_LIFE_EXTREME {
                return Err(Errno::EINVAL);
            }
            file.inode().write_hint.store(hint as u8, Ordering::Relaxed);
            Ok(0)
        }
        F_SETLEASE => locks::leases::set(&file, fd, arg as isize).map(|()| 0),
        F_GETLEASE => Ok(locks::leases::get(&file)),
        F_SETPIPE_SZ => {
            let privileged = current().creds().capable(cap::SYS_RESOURCE);
            pipe::of(&file).ok_or(Errno::EBADF)?.set_size(arg, privileged)
        }
        F_GETPIPE_SZ => Ok(pipe::of(&file).ok_or(Errno::EBADF)?.size()),
        F_ADD_SEALS => {
            let seals = u32::try_from(arg).map_err(|_| Errno::EINVAL)?;
            memfd::add_seals(&file, seals).map(|()| 0)
        }
        F_GET_SEALS => memfd::seals(&file).map(|s| s as usize),
        _ => Err(Errno::EINVAL),
    }
}
