//! Taking away again what `shmat` has mapped: the pieces of one attachment, wherever `mprotect` and the like
//! have split it.

use super::gather::Gather;
use super::space::{AddressSpace, Regions};
use super::vma::{Backing, MappedFile, Vma};
use super::{PAGE_SHIFT, PAGE_SIZE};
use crate::arch::mmu::USER_END;
use alloc::sync::Arc;
use limen_linux_abi::{Errno, SysResult};

/// The file of `vma` if it is a piece of an attachment.
fn attachment(vma: &Vma) -> Option<(&Arc<dyn MappedFile>, u64)> {
    match &vma.backing {
        Backing::File {
            cache,
            file: Some(file),
        } if cache.is_attached() => Some((file, cache.size())),
        _ => None,
    }
}

/// A piece of an attachment: where it is, its file, and the file's size in bytes.
type Piece = (usize, usize, Arc<dyn MappedFile>, u64);

/// The first piece from `from` to `end` of an attachment that began at `addr`; of `file`, if that is given.
fn piece(
    regions: &Regions,
    addr: usize,
    (from, end): (usize, usize),
    file: Option<&Arc<dyn MappedFile>>,
) -> Option<Piece> {
    regions.map.range(from, end).find_map(|r| {
        let (its, size) = attachment(&r.value)?;
        let offset = r.start.checked_sub(addr)?;
        let fits = (offset >> PAGE_SHIFT) as u64 == r.value.index
            && r.end <= end
            && file.is_none_or(|file| core::ptr::addr_eq(Arc::as_ptr(file), Arc::as_ptr(its)));
        fits.then(|| (r.start, r.end, its.clone(), size))
    })
}

impl AddressSpace {
    /// `shmdt`: unmaps what is left of the attachment that began at `addr`. `EINVAL`: there is none.
    pub fn detach(&self, addr: usize) -> SysResult {
        if addr & (PAGE_SIZE - 1) != 0 {
            return Err(Errno::EINVAL);
        }
        let mut gather = Gather::new();
        let mut regions = self.regions.write();
        let first = piece(&regions, addr, (addr, USER_END), None);
        let mut result = Err(Errno::EINVAL);
        let mut next = first;
        while let Some((start, end, file, size)) = next {
            // Whole mappings are taken out: that splits none, and needs no room.
            result = regions.unmap(self, start, end, &mut gather);
            if result.is_err() {
                break;
            }
            let size = (size as usize).next_multiple_of(PAGE_SIZE);
            let limit = addr.saturating_add(size).min(USER_END);
            next = if end < limit {
                piece(&regions, addr, (end, limit), Some(&file))
            } else {
                None
            };
        }
        let dead = gather.finish(self);
        drop(regions);
        drop(dead);
        result.map(|()| 0)
    }
}
