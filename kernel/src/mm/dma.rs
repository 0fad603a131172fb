//! Physically contiguous, zeroed memory for devices.

use super::frame::{self, For, Pfn};
use super::{PAGE_SIZE, PhysAddr};

/// A contiguous buffer. It is freed when dropped; the device must no longer use it then.
#[derive(Debug)]
pub struct DmaBuffer {
    pfn: Pfn,
    order: usize,
}

impl DmaBuffer {
    /// At least `size` bytes, zeroed, aligned to the size rounded up to a power of two (at least a page).
    /// `None` if there is none.
    pub fn new(size: usize) -> Option<Self> {
        let order = size.div_ceil(PAGE_SIZE).max(1).next_power_of_two().ilog2() as usize;
        let pfn = frame::alloc_block(order, For::Kernel)?;
        // SAFETY: the frames are RAM and belong to nobody else.
        unsafe { frame::virt(pfn).write_bytes(0, PAGE_SIZE << order) };
        Some(Self { pfn, order })
    }
    /// The address for the device.
    pub fn phys(&self) -> PhysAddr {
        frame::phys(self.pfn)
    }
    /// The address for the kernel.
    pub fn as_ptr(&self) -> *mut u8 {
        frame::virt(self.pfn)
    }
    /// The size in bytes.
    #[allow(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        PAGE_SIZE << self.order
    }
    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the frames belong to the buffer and are initialised.
        unsafe { core::slice::from_raw_parts(self.as_ptr(), self.len()) }
    }
    /// Its bytes, for writing before the device is told of them.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `bytes`; exclusively borrowed.
        unsafe { core::slice::from_raw_parts_mut(self.as_ptr(), self.len()) }
    }
    /// Gives up ownership. Returns address and number of pages, for [`DmaBuffer::from_raw`].
    pub fn into_raw(self) -> (PhysAddr, usize) {
        let raw = (self.phys(), 1 << self.order);
        core::mem::forget(self);
        raw
    }
    /// The inverse of [`DmaBuffer::into_raw`].
    pub fn from_raw(phys: PhysAddr, pages: usize) -> Self {
        Self {
            pfn: frame::pfn(phys),
            order: pages.next_power_of_two().ilog2() as usize,
        }
    }
}

impl Drop for DmaBuffer {
    fn drop(&mut self) {
        frame::free_block(self.pfn, self.order);
    }
}
