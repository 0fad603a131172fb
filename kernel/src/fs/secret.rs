//! `memfd_secret`: files whose content only programs can reach that map them. The kernel's own map does not
//! have their pages; they are mapped shared, and are neither read nor written in another way.

use crate::fs::file::{File, FileMode, FileOps, MapBacking};
use crate::fs::{anon, count};
use crate::mm::PageCache;
use alloc::sync::Arc;
use limen_linux_abi::{Errno, raw::general as abi};

/// A secret file.
struct Secret(Arc<PageCache>);

impl FileOps for Secret {
    fn mmap(&self, _: &File) -> Result<MapBacking, Errno> {
        Ok(MapBacking::Pages(self.0.clone()))
    }
    fn fallocate(&self, _: &File, _: u32, _: u64, _: u64) -> Result<(), Errno> {
        Err(Errno::EOPNOTSUPP)
    }
}

/// `memfd_secret`, whose only flag is `O_CLOEXEC`: the caller handles it, and installs the file. Errors:
/// `EINVAL`; `ENOSYS` if the command line says `secretmem.enable=0`; `ENFILE`.
pub fn create(flags: u32) -> Result<Arc<File>, Errno> {
    let off = matches!(
        crate::cmdline::value("secretmem.enable"),
        Some("0" | "n" | "N" | "off" | "no")
    );
    if off {
        return Err(Errno::ENOSYS);
    }
    if flags & !abi::O_CLOEXEC != 0 {
        return Err(Errno::EINVAL);
    }
    count::may_open()?;
    let pages = PageCache::new_secret();
    let path = anon::secret_place(pages.clone());
    Ok(File::new(
        Arc::new(Secret(pages)),
        path,
        abi::O_RDWR | abi::O_LARGEFILE,
        FileMode::STREAM | FileMode::NO_PREAD | FileMode::NO_READ | FileMode::NO_WRITE,
    ))
}
