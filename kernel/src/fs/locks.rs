//! Advisory locks.

use crate::fs::fdtable::FdTable;
use crate::fs::file::File;
use alloc::sync::Arc;

/// The locks of an inode.
pub struct FileLocks;

/// An open file description is gone: its `flock` and open-file-description locks go.
pub fn file_released(file: &File) {
    let _ = file;
}

/// A descriptor was closed: the process's POSIX locks on the file go.
pub fn descriptor_closed(file: &Arc<File>, table: &FdTable) {
    let _ = (file, table);
}

/// `flock`.
pub fn flock(file: &Arc<File>, operation: u32) -> Result<(), limen_linux_abi::Errno> {
    let _ = (file, operation);
    Ok(())
}
/// `F_GETLK`.
pub fn get(
    file: &Arc<File>,
    table: &Arc<FdTable>,
    lock: crate::mm::user::UserPtr<[u8; 32]>,
    ofd: bool,
) -> Result<(), limen_linux_abi::Errno> {
    let _ = (file, table, lock, ofd);
    Ok(())
}
/// `F_SETLK`.
pub fn set(
    file: &Arc<File>,
    table: &Arc<FdTable>,
    lock: crate::mm::user::UserPtr<[u8; 32]>,
    ofd: bool,
    wait: bool,
) -> Result<(), limen_linux_abi::Errno> {
    let _ = (file, table, lock, ofd, wait);
    Ok(())
}
