//! System calls on pipes.

use super::SysResult;
use super::file::{file, files};
use crate::fs::{FileMode, pipe, splice};
use crate::mm::copy::read_iovecs;
use crate::mm::user::{UserPtr, Word};
use limen_linux_abi::{Errno, raw::general as abi};

fn make(to: usize, flags: u32) -> SysResult {
    if flags & !(abi::O_CLOEXEC | abi::O_NONBLOCK | abi::O_DIRECT) != 0 {
        return Err(Errno::EINVAL);
    }
    let (reader, writer) = pipe::create(flags)?;
    let files = files();
    let fds = files.install_pair(reader, writer, flags & abi::O_CLOEXEC != 0)?;
    if let Err(e) = UserPtr::<[i32; 2]>::new(to).write(fds) {
        let _ = (files.close(fds[0]), files.close(fds[1]));
        return Err(e);
    }
    Ok(0)
}

/// `vmsplice`, with a list of words `W`.
pub(super) fn do_vmsplice<W: Word>(fd: i32, (iov, count): (usize, usize), flags: u32) -> SysResult {
    splice::check_flags(flags)?;
    let file = file(fd)?;
    if !file.mode().intersects(FileMode::READ | FileMode::WRITE) {
        return Err(Errno::EBADF);
    }
    let list = read_iovecs::<W>(iov, count)?;
    splice::vmsplice(&file, &list, flags)
}

crate::syscalls! {
    fn pipe(to: usize) {
        make(to, 0)
    }
    fn pipe2(to: usize, flags: u32) {
        make(to, flags)
    }
    fn splice(source: i32, from: usize, out: i32, to: usize, len: usize, flags: u32) {
        if len == 0 {
            return Ok(0);
        }
        splice::check_flags(flags)?;
        let (source, out) = (file(source)?, file(out)?);
        let (from, to) = (UserPtr::new(from).non_null(), UserPtr::new(to).non_null());
        splice::splice(&source, from, &out, to, len, flags)
    }
    fn tee(source: i32, out: i32, len: usize, flags: u32) {
        splice::check_flags(flags)?;
        if len == 0 {
            return Ok(0);
        }
        let (source, out) = (file(source)?, file(out)?);
        if !source.mode().contains(FileMode::READ) || !out.mode().contains(FileMode::WRITE) {
            return Err(Errno::EBADF);
        }
        let (Some(a), Some(b)) = (pipe::of(&source), pipe::of(&out)) else { return Err(Errno::EINVAL) };
        let nonblock = flags & 2 != 0 || source.nonblocking() || out.nonblocking();
        splice::link(a, b, len, nonblock, false)
    }
    fn vmsplice(fd: i32, iov: usize, count: usize, flags: u32) {
        do_vmsplice::<usize>(fd, (iov, count), flags)
    }
}
