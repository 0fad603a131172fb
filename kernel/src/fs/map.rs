//! Files, as `mm` maps them. `mmap` and exec use this.

use super::mount::MS_NOEXEC;
use super::regular::{FALLOC_KEEP_SIZE, FALLOC_PUNCH_HOLE};
use super::{File, FileMode, MapBacking, perm};
use crate::mm::{FileMap, MappedFile, Prot};
use alloc::sync::Arc;
use alloc::vec::Vec;
use limen_linux_abi::Errno;

/// Seals that forbid new shared writable mappings (`F_SEAL_WRITE`, `F_SEAL_FUTURE_WRITE`).
const SEALS_WRITE: u32 = 0x8 | 0x10;

impl MappedFile for File {
    fn path(&self) -> Result<Vec<u8>, Errno> {
        self.path.display()
    }
    fn id(&self) -> (u64, u64) {
        (self.inode().sb.dev.encode() as u64, self.inode().ino)
    }
    fn punch_hole(&self, start: u64, end: u64) -> Result<(), Errno> {
        self.ops()
            .fallocate(self, FALLOC_KEEP_SIZE | FALLOC_PUNCH_HOLE, start, end - start)
    }
    fn tells_residency(&self) -> bool {
        let creds = crate::task::current().creds();
        perm::owner_or_capable(self.inode(), &creds)
            || perm::path_permission(&self.path, perm::WRITE, &creds).is_ok()
    }
    fn is_unlinked(&self) -> bool {
        self.inode().nlink() == 0
    }
}

/// What a mapping of `file` from byte `offset` on maps. `ENODEV`: it cannot be mapped; `EACCES`: the way in
/// which it was opened does not allow it; `EPERM`: a seal forbids it.
pub fn file_map(file: &Arc<File>, offset: u64, shared: bool, prot: Prot) -> Result<FileMap, Errno> {
    let mode = file.mode();
    let writes = shared && prot.contains(Prot::WRITE);
    if !mode.intersects(FileMode::READ | FileMode::EXEC) || writes && !mode.contains(FileMode::WRITE) {
        return Err(Errno::EACCES);
    }
    let mut may = Prot::READ | Prot::EXEC;
    may.set(Prot::WRITE, mode.contains(FileMode::WRITE));
    let sealed = file.inode().seals.load(core::sync::atomic::Ordering::Acquire) & SEALS_WRITE != 0;
    if sealed && shared {
        if prot.contains(Prot::WRITE) {
            return Err(Errno::EPERM);
        }
        may.remove(Prot::WRITE);
    }
    if file.path.mnt.flags() & MS_NOEXEC != 0 {
        may.remove(Prot::EXEC);
    }
    let cache = match file.ops().mmap(file)? {
        MapBacking::Pages(cache) => Some(cache),
        MapBacking::Anonymous => None,
    };
    let file: Arc<dyn MappedFile> = file.clone();
    Ok(FileMap {
        cache,
        file: Some(file),
        offset,
        may,
    })
}
