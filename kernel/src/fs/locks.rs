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
