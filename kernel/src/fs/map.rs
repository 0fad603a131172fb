//! Files as the memory room maps them: `mmap` and exec come through here.

use super::regular::{FALLOC_KEEP_SIZE, FALLOC_PUNCH_HOLE};
use super::{File, FileMode, MapBacking};
use crate::mm::{FileMap, MappedFile, Prot};
use alloc::sync::Arc;
use alloc::vec::Vec;
use limen_linux_abi::Errno;

/// `MS_NOEXEC` among a mount's flags.
const NOEXEC: u32 = 8;
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
}

/// What mapping `file` from byte `offset` maps; `None` for fresh zeros (`/dev/zero`). `ENODEV` if it can't be mapped, `EACCES` if it was
/// opened in a way that does not allow it, `EPERM` for a sealed file.
pub fn file_map(file: &Arc<File>, offset: u64, shared: bool, prot: Prot) -> Result<Option<FileMap>, Errno> {
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
    if file.path.mnt.flags() & NOEXEC != 0 {
        may.remove(Prot::EXEC);
    }
    match file.ops().mmap(file)? {
        MapBacking::Pages(cache) => {
            let file: Arc<dyn MappedFile> = file.clone();
            Ok(Some(FileMap {
                cache,
                file: Some(file),
                offset,
                may,
            }))
        }
        MapBacking::Anonymous => Ok(None),
    }
}
