//! System calls that make eventfds and inotify instances.

use super::SysResult;
use super::file::{file, files};
use crate::fs::{eventfd, inotify};
use limen_linux_abi::{Errno, raw::general as abi};

fn new_inotify(flags: u32) -> SysResult {
    if flags & !(abi::O_CLOEXEC | abi::O_NONBLOCK) != 0 {
        return Err(Errno::EINVAL);
    }
    Ok(files().install(inotify::create(flags)?, flags & abi::O_CLOEXEC != 0)? as usize)
}

crate::syscalls! {
    fn eventfd(count: u32) {
        Ok(files().install(eventfd::create(count, 0)?, false)? as usize)
    }
    fn eventfd2(count: u32, flags: u32) {
        Ok(files().install(eventfd::create(count, flags)?, flags & abi::O_CLOEXEC != 0)? as usize)
    }
    fn inotify_init() {
        new_inotify(0)
    }
    fn inotify_init1(flags: u32) {
        new_inotify(flags)
    }
    fn inotify_add_watch(fd: i32, path: usize, mask: u32) {
        inotify::check_mask(mask)?;
        inotify::add_watch(&*file(fd)?, path, mask)
    }
    fn inotify_rm_watch(fd: i32, wd: i32) {
        let file = file(fd)?;
        inotify::remove_watch(&file, wd)?;
        Ok(0)
    }
}
