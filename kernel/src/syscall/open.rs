//! System calls that open files by path.

use super::SysResult;
use crate::fs::lookup::AT_FDCWD;
use crate::fs::missing;
use crate::fs::open::{self, How, O_TMPFILE_BIT};
use crate::fs::walk::Walk;
use crate::mm::copy::with_path;
use crate::mm::user::UserPtr;
use crate::task::audit::details::Special;
use crate::task::{audit, current};
use limen_linux_abi::{Errno, raw::general as abi};

/// How `open` treats its flags before `openat2` would check them: unknown ones are ignored. `EINVAL`:
/// `O_CREAT` with `O_DIRECTORY`, or `O_TMPFILE` without permission to write.
#[inline(always)]
fn check_kind(flags: u32) -> Result<(), Errno> {
    const DIRECTORY: u32 = abi::O_DIRECTORY;
    let made = flags & (abi::O_CREAT | O_TMPFILE_BIT);
    if made == 0 || flags & abi::O_PATH != 0 {
        return Ok(());
    }
    let unnamed = made & O_TMPFILE_BIT != 0;
    let writes = flags & abi::O_ACCMODE != abi::O_RDONLY;
    match flags & DIRECTORY != 0 {
        true if made == O_TMPFILE_BIT && writes => Ok(()),
        false if !unnamed => Ok(()),
        _ => Err(Errno::EINVAL),
    }
}

fn do_open(dirfd: i32, path: usize, flags: u32, mode: u32) -> SysResult {
    const KNOWN: u32 = abi::O_ACCMODE
        | abi::O_CREAT
        | abi::O_EXCL
        | abi::O_NOCTTY
        | abi::O_TRUNC
        | abi::O_APPEND
        | abi::O_NONBLOCK
        | abi::O_SYNC
        | crate::fs::file::O_ASYNC
        | abi::O_DIRECT
        | abi::O_LARGEFILE
        | abi::O_DIRECTORY
        | abi::O_NOFOLLOW
        | abi::O_NOATIME
        | abi::O_CLOEXEC
        | abi::O_PATH
        | O_TMPFILE_BIT;
    let mut flags = flags & KNOWN;
    check_kind(flags)?;
    if size_of::<usize>() == 8 && flags & abi::O_PATH == 0 {
        flags |= abi::O_LARGEFILE;
    }
    finish_open(dirfd, path, flags, mode, Walk::empty())
}

fn finish_open(dirfd: i32, path: usize, flags: u32, mode: u32, resolve: Walk) -> SysResult {
    let task = current();
    let mode = if flags & (abi::O_CREAT | O_TMPFILE_BIT) != 0 {
        mode & 0o7777
    } else {
        0
    };
    let files = task.files();
    let how = How { flags, mode, resolve };
    with_path(path, move |path| {
        // Reserved before the file is opened: what opening does to a file cannot be undone.
        let fd = files
            .reserve(flags & abi::O_CLOEXEC != 0)
            .map_err(|e| if path.is_empty() { Errno::ENOENT } else { e })?;
        match open::open(dirfd, path, &how) {
            Ok(file) => {
                files.fill(fd, file);
                Ok(fd as usize)
            }
            Err(e) => {
                files.give_back(fd);
                missing::note(e, dirfd, path);
                Err(e)
            }
        }
    })
}

fn do_openat2(dirfd: i32, path: usize, how: usize, size: usize) -> SysResult {
    if size < 24 {
        return Err(Errno::EINVAL);
    }
    if size > crate::mm::PAGE_SIZE {
        return Err(Errno::E2BIG);
    }
    let [flags, mode, resolve] = UserPtr::<[u64; 3]>::new(how).read()?;
    for i in 24..size {
        if UserPtr::<u8>::new(how + i).read()? != 0 {
            return Err(Errno::E2BIG);
        }
    }
    if audit::wants_details() {
        audit::details::special(Special::OpenAt2([flags, mode, resolve]));
    }
    let flags = u32::try_from(flags).map_err(|_| Errno::EINVAL)?;
    let has_mode = flags & (abi::O_CREAT | O_TMPFILE_BIT) != 0;
    if mode & !0o7777 != 0 || (mode != 0 && !has_mode) || resolve & !0x3f != 0 || resolve & 0x18 == 0x18 {
        return Err(Errno::EINVAL);
    }
    check_kind(flags)?;
    let path_only = abi::O_PATH | abi::O_DIRECTORY | abi::O_NOFOLLOW | abi::O_CLOEXEC;
    if flags & abi::O_PATH != 0 && flags & !path_only != 0 {
        return Err(Errno::EINVAL);
    }
    let mut walk = Walk::empty();
    for (bit, flag) in [
        (1, Walk::NO_XDEV),
        (2, Walk::NO_MAGICLINKS),
        (4, Walk::NO_SYMLINKS | Walk::NO_MAGICLINKS),
        (8, Walk::BENEATH),
        (16, Walk::IN_ROOT),
    ] {
        if resolve & bit != 0 {
            walk |= flag;
        }
    }
    if resolve & 32 != 0 && flags & (abi::O_CREAT | abi::O_TRUNC | O_TMPFILE_BIT) != 0 {
        return Err(Errno::EAGAIN);
    }
    finish_open(dirfd, path, flags, mode as u32, walk)
}

crate::syscalls! {
    fn open(path: usize, flags: u32, mode: u32) {
        do_open(AT_FDCWD, path, flags, mode)
    }
    fn creat(path: usize, mode: u32) {
        do_open(AT_FDCWD, path, abi::O_CREAT | abi::O_WRONLY | abi::O_TRUNC, mode)
    }
    fn openat(dirfd: i32, path: usize, flags: u32, mode: u32) {
        do_open(dirfd, path, flags, mode)
    }
    fn openat2(dirfd: i32, path: usize, how: usize, size: usize) {
        do_openat2(dirfd, path, how, size)
    }
}
