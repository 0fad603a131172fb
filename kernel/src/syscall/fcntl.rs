//! `fcntl`.

use super::SysResult;
use super::file::files;
use crate::fs::file::{FileMode, Owner};
use crate::fs::{RLIMIT_NOFILE, locks, memfd, perm, pipe};
use crate::mm::user::UserPtr;
use crate::task::current;
use alloc::sync::Arc;
use limen_linux_abi::{Errno, raw::general as abi};

const F_DUPFD: u32 = 0;
const F_GETFD: u32 = 1;
const F_SETFD: u32 = 2;
const F_GETFL: u32 = 3;
const F_SETFL: u32 = 4;
const F_GETLK: u32 = 5;
const F_SETLK: u32 = 6;
const F_SETLKW: u32 = 7;
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
const F_DUPFD_CLOEXEC: u32 = 1030;
const F_SETPIPE_SZ: u32 = 1031;
const F_GETPIPE_SZ: u32 = 1032;
const F_ADD_SEALS: u32 = 1033;
const F_GET_SEALS: u32 = 1034;
/// `F_UNLCK`.
const UNLCK: usize = 2;

/// The call.
pub(super) fn do_fcntl(fd: i32, cmd: u32, arg: usize) -> SysResult {
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
            file.change_flags(flags, crate::fs::file::SETFL_MASK)?;
            Ok(0)
        }
        F_GETLK | F_OFD_GETLK => locks::get(&file, &files, UserPtr::new(arg), cmd == F_OFD_GETLK).map(|()| 0),
        F_SETLK | F_SETLKW | F_OFD_SETLK | F_OFD_SETLKW => {
            let wait = cmd == F_SETLKW || cmd == F_OFD_SETLKW;
            let ofd = cmd == F_OFD_SETLK || cmd == F_OFD_SETLKW;
            locks::set(&file, &files, UserPtr::new(arg), ofd, wait).map(|()| 0)
        }
        F_SETOWN => {
            file.set_owner(|o| {
                *o = Owner {
                    pid: arg as i32,
                    thread: false,
                    signal: o.signal,
                }
            });
            Ok(0)
        }
        F_GETOWN => Ok(file.owner().pid as isize as usize),
        F_SETOWN_EX => {
            let [kind, pid] = UserPtr::<[i32; 2]>::new(arg).read()?;
            let (pid, thread) = match kind {
                0 => (pid, true),
                1 => (pid, false),
                2 => (-pid, false),
                _ => return Err(Errno::EINVAL),
            };
            file.set_owner(|o| {
                *o = Owner {
                    pid,
                    thread,
                    signal: o.signal,
                }
            });
            Ok(0)
        }
        F_GETOWN_EX => {
            let o = file.owner();
            let value = match o.pid {
                pid if pid < 0 => [2, -pid],
                pid if o.thread => [0, pid],
                pid => [1, pid],
            };
            UserPtr::<[i32; 2]>::new(arg).write(value).map(|()| 0)
        }
        F_SETSIG => {
            if arg > 64 {
                return Err(Errno::EINVAL);
            }
            file.set_owner(|o| o.signal = arg as u32);
            Ok(0)
        }
        F_GETSIG => Ok(file.owner().signal as usize),
        F_SETLEASE => Err(Errno::EINVAL),
        F_GETLEASE => Ok(UNLCK),
        F_SETPIPE_SZ => {
            let privileged = current().creds().capable(perm::CAP_SYS_RESOURCE);
            pipe::of(&file).ok_or(Errno::EBADF)?.set_size(arg, privileged)
        }
        F_GETPIPE_SZ => Ok(pipe::of(&file).ok_or(Errno::EBADF)?.size()),
        F_ADD_SEALS => memfd::add_seals(&file, arg as u32).map(|()| 0),
        F_GET_SEALS => memfd::seals(&file).map(|s| s as usize),
        _ => Err(Errno::EINVAL),
    }
}
