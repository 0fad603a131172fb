//! Files: the VFS, the in-memory file system, descriptors, paths, pipes, polling.

/// Brings the room up.
pub fn init() {}
