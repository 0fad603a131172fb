//! What the `virtio-drivers` crate needs from the kernel: memory that devices can access.

use crate::arch::mmu;
use crate::mm::{DmaBuffer, PAGE_SIZE, PhysAddr};
use core::ptr::NonNull;
use virtio_drivers::{BufferDirection, Hal};

/// The kernel's memory for virtio. Devices use physical addresses, and caches are coherent.
pub struct Memory;

// SAFETY: `dma_alloc` returns zeroed, page-aligned memory that belongs to nobody else. The device gets the
// address of that memory.
unsafe impl Hal for Memory {
    fn dma_alloc(pages: usize, _: BufferDirection) -> (u64, NonNull<u8>) {
        let Some(buffer) = DmaBuffer::new(pages * virtio_drivers::PAGE_SIZE) else {
            return (0, NonNull::dangling());
        };
        let Some(at) = NonNull::new(buffer.as_ptr()) else {
            return (0, NonNull::dangling());
        };
        let (phys, _) = buffer.into_raw();
        (phys.as_u64(), at)
    }
    unsafe fn dma_dealloc(phys: u64, _: NonNull<u8>, pages: usize) -> i32 {
        let pages = (pages * virtio_drivers::PAGE_SIZE)
            .div_ceil(PAGE_SIZE)
            .next_power_of_two();
        drop(DmaBuffer::from_raw(PhysAddr::new(phys), pages));
        0
    }
    unsafe fn mmio_phys_to_virt(phys: u64, size: usize) -> NonNull<u8> {
        // Only the PCI transport calls this, with bus addresses.
        NonNull::new(crate::mm::map_device(super::pci::to_phys(phys), size))
            .expect("room for device mappings")
    }
    unsafe fn share(buffer: NonNull<[u8]>, _: BufferDirection) -> u64 {
        // All buffers of these drivers are DMA buffers or on the heap, so they are in the linear map.
        mmu::virt_to_phys(buffer.as_ptr().cast::<u8>()).as_u64()
    }
    unsafe fn unshare(_: u64, _: NonNull<[u8]>, _: BufferDirection) {}
}
