//! The boot loader's initramfs image. Its pages are given to the page allocator as they are used up.

use super::{PAGE_SIZE, PhysAddr, free_reserved};
use crate::arch::mmu;
use crate::mm::PhysRange;

/// The image. Offsets are in bytes from its start.
pub struct Initrd {
    range: PhysRange,
    /// The bytes before this offset have been given back.
    freed: u64,
}

impl Initrd {
    /// Takes the image over. Only once per image, since its pages are freed.
    pub fn new(range: PhysRange) -> Self {
        Self { range, freed: 0 }
    }
    /// Bytes of the image.
    pub fn len(&self) -> u64 {
        self.range.size
    }
    /// At most `max` bytes from `offset` on. Empty at the end, and where the bytes have been given back.
    pub fn bytes(&self, offset: u64, max: usize) -> &[u8] {
        if offset < self.freed || offset >= self.range.size {
            return &[];
        }
        let n = (self.range.size - offset).min(max as u64) as usize;
        let at = mmu::phys_to_virt(PhysAddr::new(self.range.start.as_u64() + offset));
        // SAFETY: the boot protocol says that these bytes exist. They are reserved until `release` frees
        // them, which needs `&mut self`.
        unsafe { core::slice::from_raw_parts(at, n) }
    }
    /// The bytes before `offset` are no longer needed.
    pub fn release(&mut self, offset: u64) {
        let page = PAGE_SIZE as u64;
        let start = self.range.start.as_u64();
        let from = start + self.freed;
        let to = if offset >= self.range.size {
            start + self.range.size
        } else {
            (start + offset) / page * page
        };
        if to > from {
            free_reserved(PhysRange {
                start: PhysAddr::new(from),
                size: to - from,
            });
            self.freed = to - start;
        }
    }
}

impl Drop for Initrd {
    fn drop(&mut self) {
        self.release(self.range.size);
    }
}
