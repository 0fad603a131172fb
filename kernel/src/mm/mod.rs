//! Memory: page frames, the kernel heap, kernel mappings, address spaces, page faults, and the typed door to user memory.

pub mod cache;
pub mod copy;
mod dma;
pub mod frame;
mod heap;
mod page;
pub mod peek;
mod stack;
pub mod table;
pub mod user;
pub mod vmap;

pub use cache::PageCache;
pub use dma::DmaBuffer;
pub use frame::free_reserved;
pub use page::Page;
pub use stack::KernelStack;
pub use vmap::map_device;

use crate::boot::BootInfo;
use bitflags::bitflags;

/// log2 of the page size.
pub const PAGE_SHIFT: usize = crate::arch::mmu::PAGE_SHIFT;
/// Bytes of a page.
pub const PAGE_SIZE: usize = 1 << PAGE_SHIFT;

/// log2 of a kernel stack's size (thread and interrupt stacks). A stack is the upper half of a slot of twice its size that is
/// aligned to its own size; the lower half is not mapped. One bit of the stack pointer then tells an overflow, which is what entry
/// code that has no register to spare tests.
pub const STACK_SHIFT: usize = 15;

/// A physical address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct PhysAddr(u64);

impl PhysAddr {
    /// From a number.
    pub const fn new(addr: u64) -> Self {
        Self(addr)
    }
    /// As a number.
    pub const fn as_u64(self) -> u64 {
        self.0
    }
    /// As a machine word.
    pub const fn as_usize(self) -> usize {
        self.0 as usize
    }
}

bitflags! {
    /// Access permissions.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Prot: u8 {
        /// Loads.
        const READ = 1;
        /// Stores.
        const WRITE = 2;
        /// Instruction fetches.
        const EXEC = 4;
    }
}

/// Brings up frames, heap and kernel mappings. Boot CPU, interrupts off.
pub fn init(info: &BootInfo<'_>) {
    frame::init(info);
    vmap::init();
    info!(
        "Memory: {} KiB free of {} KiB",
        frame::free_count() * PAGE_SIZE / 1024,
        info.memory.iter().map(|r| r.size).sum::<u64>() / 1024
    );
}

/// A page for user data, with arbitrary content. `None`: memory is exhausted.
pub fn alloc_page() -> Option<Page> {
    Page::alloc(frame::For::User)
}

/// A zeroed page for user data. `None`: memory is exhausted.
pub fn alloc_zeroed_page() -> Option<Page> {
    Page::alloc_zeroed(frame::For::User)
}

/// Page frames there are in all.
pub fn total_pages() -> usize {
    frame::total()
}

/// A page fault, decoded by the architecture. Runs as the threshold's fault handler. User mode: resolves it or sends the signal.
/// Kernel mode with an exception-table entry at the faulting instruction: resolves it or moves the frame to the fix-up. Anything else panics.
pub fn handle_fault(frame: &mut crate::arch::frame::Frame, addr: usize, access: Prot, from_user: bool) {
    let _ = (frame, addr, access, from_user);
}

/// The address space of a process. (Stand-in until the memory room's own lands.)
pub struct AddressSpace;

impl AddressSpace {
    /// Loads it on this CPU; the scheduler calls this in a switch, interrupts off.
    pub fn activate(&self) {}

    /// What identifies the futex word at `addr` among all address spaces: (memory object, offset in it) of a shared mapping; (this
    /// address space, `addr`) for private memory. `EFAULT` if nothing is mapped there.
    pub fn futex_key(&self, addr: usize) -> Result<(usize, u64), limen_linux_abi::Errno> {
        Ok((core::ptr::from_ref(self) as usize, addr as u64))
    }
}
