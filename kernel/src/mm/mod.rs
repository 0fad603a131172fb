//! Memory: page frames, the kernel heap, kernel mappings, address spaces, page faults, and typed access to
//! user memory.

mod attach;
mod boot_info;
pub mod cache;
mod change;
mod cids;
pub mod commit;
pub mod copy;
mod dma;
pub mod dump;
pub mod fault;
mod fork;
pub mod frame;
mod gather;
mod heap;
pub mod init_memory;
pub mod initrd;
pub mod kernel_map;
pub mod layout;
pub mod limits;
pub mod linear;
pub use linear::selftest::TESTS as MAP_TESTS;
pub use linear::selftest_cost::TESTS as MAP_COST_TESTS;
pub use linear::selftest_faults::TESTS as MAP_FAULT_TESTS;
pub mod mmap;
pub mod numbers;
pub mod oom;
mod page;
pub mod peek;
mod remap;
mod remote;
pub mod reserve;
pub mod selftest;
mod slot;
pub mod space;
mod stack;
mod stats;
pub mod symbols;
pub mod table;
pub mod text;
mod told;
mod trim;
pub mod user;
mod vma;
pub mod vmap;

pub use boot_info::{BootInfo, PhysRange};
pub use cache::{Attached, PageCache};
pub use dma::DmaBuffer;
pub use fault::{FaultError, handle_fault};
pub use frame::free_reserved;
pub use mmap::{MapFlags, implied};
pub use oom::is_dying;
pub use page::Page;
pub use slot::{CurrentSpace, MmSlot, current_space};
pub use space::{AddressSpace, Layout, Mapped, VmaInfo};
pub use stack::KernelStack;
pub use stats::stats;
pub use told::Told;
pub use vma::{FileMap, MappedFile, SpecialPages, VmFlags};
pub use vmap::map_device;

use bitflags::bitflags;
use frame::For;

/// log2 of the page size.
pub const PAGE_SHIFT: usize = crate::arch::mmu::PAGE_SHIFT;
/// Bytes of a page.
pub const PAGE_SIZE: usize = 1 << PAGE_SHIFT;

/// log2 of a kernel stack's size in bytes (threads' and interrupt stacks). A stack is the upper half of a
/// slot. The slot has twice the stack's size and is aligned to its own size; its lower half is not mapped. So
/// one bit of the stack pointer tells of an overflow. Entry code tests that bit, as it has no register to
/// spare for more.
pub const STACK_SHIFT: usize = if PAGE_SHIFT > 15 { PAGE_SHIFT } else { 15 };

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

/// Makes frames, heap and kernel mappings usable. Boot CPU, interrupts off.
#[unsafe(link_section = ".init.text")]
pub fn init(info: &BootInfo<'_>) {
    frame::init(info);
    vmap::init();
    linear::init();
    let zero = Page::alloc_zeroed(For::Kernel).expect("no memory for the page of zeros");
    let _ = ZERO_PAGE.set(zero);
    info!(
        "Memory: {} KiB free of {} KiB",
        frame::free_count() * PAGE_SIZE / 1024,
        info.memory
            .iter()
            .map(|r| r.size)
            .sum::<u64>()
            .min(crate::cmdline::size("mem").unwrap_or(u64::MAX))
            / 1024
    );
}

/// The page of zeros that is mapped for memory which was only read. Never written, never freed.
#[inline(always)]
pub fn zero_page() -> &'static Page {
    match ZERO_PAGE.get() {
        Some(page) => page,
        None => no_zero_page(),
    }
}

#[cold]
fn no_zero_page() -> ! {
    panic!("the memory room is not up yet")
}

static ZERO_PAGE: crate::sync::Once<Page> = crate::sync::Once::new();

/// A page for user data, with arbitrary content. May sleep and, in the end, call the OOM killer. `None`: the
/// running task is to be killed, or sleeping is not allowed here.
pub fn alloc_page() -> Option<Page> {
    match Page::alloc(For::User) {
        Some(page) => Some(page),
        None => alloc_page_slow(For::User),
    }
}

/// [`alloc_page`], in the linear map, so that the kernel always has an address of it.
pub fn alloc_addressed_page() -> Option<Page> {
    match Page::alloc(For::Addressed) {
        Some(page) => Some(page),
        None => alloc_page_slow(For::Addressed),
    }
}

#[cold]
fn alloc_page_slow(whom: For) -> Option<Page> {
    loop {
        let room = oom::make_room();
        if let Some(page) = Page::alloc(whom) {
            return Some(page);
        }
        if room.is_err() {
            // A task that is being killed may use part of the reserve.
            return if oom::is_dying() {
                Page::alloc(For::Dying)
            } else {
                None
            };
        }
    }
}

/// A zeroed page for user data; see [`alloc_page`].
pub fn alloc_zeroed_page() -> Option<Page> {
    let page = alloc_page()?;
    crate::arch::mmu::clear_page(page.phys());
    Some(page)
}

/// How many page frames there are.
pub fn total_pages() -> usize {
    frame::total()
}
