//! System calls that load and unload modules of the kernel.

use super::file::file;
use crate::fs::file::{File, FileMode};
use crate::mm::copy::{UserString, zeroed};
use crate::mm::user::read_bytes;
use crate::module::{self, IGNORE_MODVERSIONS, IGNORE_VERMAGIC};
use crate::task::audit;
use alloc::vec::Vec;
use limen_linux_abi::{Errno, raw::general as abi};

/// The longest parameters, in bytes.
const LONGEST: usize = 1 << 20;
/// The shortest thing that could be an object.
const SHORTEST: usize = 52;
/// The largest module file (`INT_MAX`).
const LARGEST: u64 = 0x7fff_ffff;
/// `MODULE_INIT_COMPRESSED_FILE`: the kernel decompresses nothing.
const COMPRESSED: u32 = 4;
/// The size of a name, NUL included (`MODULE_NAME_LEN`).
const NAME: usize = 64 - size_of::<usize>();

/// A module's parameters. `EINVAL`: they are too long.
fn parameters(at: usize) -> Result<Vec<u8>, Errno> {
    match UserString::read(at, LONGEST) {
        Ok(text) => {
            let mut copy = zeroed(text.as_bytes().len())?;
            copy.copy_from_slice(text.as_bytes());
            Ok(copy)
        }
        Err(Errno::ENAMETOOLONG) => Err(Errno::EINVAL),
        Err(error) => Err(error),
    }
}

/// The whole content of a regular file. `ETXTBSY`: somebody may write it.
fn content(file: &File) -> Result<Vec<u8>, Errno> {
    if !file.is_regular() {
        return Err(Errno::EINVAL);
    }
    let inode = file.inode();
    inode.deny_write()?;
    let read = || {
        let size = inode.size();
        if size == 0 {
            return Err(Errno::EINVAL);
        }
        if size > LARGEST {
            return Err(Errno::EFBIG);
        }
        let mut bytes = zeroed(size as usize)?;
        let mut done = 0;
        while done < bytes.len() {
            match file.read_at(&mut bytes[done..], done as u64)? {
                0 => return Err(Errno::EIO),
                n => done += n,
            }
        }
        Ok(bytes)
    };
    let result = read();
    inode.allow_write();
    result
}

crate::syscalls! {
    fn init_module(image: usize, len: usize, args: usize) {
        module::may_change()?;
        if len < SHORTEST {
            return Err(Errno::ENOEXEC);
        }
        let mut file = zeroed(len)?;
        read_bytes(&mut file, image)?;
        module::load(file, || parameters(args), 0)?;
        Ok(0)
    }
    fn finit_module(fd: i32, args: usize, flags: u32) {
        module::may_change()?;
        if flags & !(IGNORE_MODVERSIONS | IGNORE_VERMAGIC | COMPRESSED) != 0 {
            return Err(Errno::EINVAL);
        }
        let file = file(fd)?;
        file.check(FileMode::READ)?;
        module::together(file.inode(), || {
            let content = content(&file)?;
            if flags & COMPRESSED != 0 {
                return Err(Errno::EOPNOTSUPP);
            }
            module::load(content, || parameters(args), flags)
        })?;
        Ok(0)
    }
    fn delete_module(name: usize, flags: u32) {
        module::may_change()?;
        let _ = flags & (abi::O_NONBLOCK | abi::O_TRUNC);
        let name = match UserString::read(name, NAME) {
            Ok(name) => name,
            // No module has so long a name.
            Err(Errno::ENAMETOOLONG) => return Err(Errno::ENOENT),
            Err(error) => return Err(error),
        };
        if audit::wants_details() {
            audit::details::module(name.as_bytes());
        }
        module::unload(name.as_bytes())?;
        Ok(0)
    }
}
