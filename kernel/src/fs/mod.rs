//! Files: the VFS, the in-memory file system, descriptors, paths, pipes, polling.

/// Brings the room up.
pub fn init() {}

use alloc::sync::Arc;

/// An open file. (Stand-in until the file room's own lands.)
pub struct File;

/// Descriptors. (Stand-in until the file room's own lands.)
pub struct FdTable;

impl FdTable {
    /// An empty table.
    pub fn new() -> Arc<Self> {
        Arc::new(Self)
    }
}

/// Root directory, working directory and umask of a thread. (Stand-in until the file room's own lands.)
pub struct FsContext;

impl FsContext {
    /// The context of the first process: the first root, umask 022.
    pub fn initial() -> Arc<Self> {
        Arc::new(Self)
    }
}
