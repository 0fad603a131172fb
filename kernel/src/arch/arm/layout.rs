//! The address layout: which kernel addresses are what, and the linear map of RAM.

use crate::mm::{PhysAddr, Prot};
use core::sync::atomic::{AtomicUsize, Ordering};

/// log2 of the page size.
pub const PAGE_SHIFT: usize = 12;
/// One past the largest user address (a multiple of the page size): 16 MiB below the kernel, as on Linux.
pub const USER_END: usize = 0xbf00_0000;
/// Permissions that a load is allowed by: any.
pub const READABLE: Prot = Prot::all();
/// What user mode can read and execute in the kernel's part, as `/proc/PID/maps` shows it: start, end, name.
/// Here the kernel helpers.
pub const GATE: Option<(usize, usize, &str)> = Some((0xffff_0000, 0xffff_1000, "[vectors]"));
/// What is there.
pub fn gate() -> &'static [u8] {
    super::kuser::bytes()
}
/// Where the linear map of RAM starts.
pub const LINEAR_BASE: usize = 0xc000_0000;
/// Its most bytes. What lies behind is reached through `View`.
pub(super) const LINEAR_SIZE: u64 = 0x2f80_0000;
/// Kernel virtual range for dynamic mappings (stacks, device registers), as `(start, end)`.
pub const VMAP: (usize, usize) = (0xf000_0000, 0xff00_0000);
/// Modules need no range of their own: they branch to the kernel through veneers.
pub const MODULES: (usize, usize) = (0, 0);
/// Where pages beyond the linear map are mapped for a while (`window`).
pub(super) const WINDOW: (usize, usize) = (0xff00_0000, 0xff80_0000);
/// Where the kernel image is linked.
pub const IMAGE_BASE: usize = 0xc001_0000;
/// Physical address of what is at [`LINEAR_BASE`].
static PHYS_BASE: AtomicUsize = AtomicUsize::new(0);

/// RAM mapped at [`LINEAR_BASE`] starts at `base`, a multiple of 2 MiB. First of all.
pub(super) fn set_phys_base(base: usize) {
    PHYS_BASE.store(base, Ordering::Relaxed);
}

/// The physical address of what is at [`LINEAR_BASE`].
#[inline(always)]
pub(super) fn linear_start() -> u64 {
    PHYS_BASE.load(Ordering::Relaxed) as u64
}

/// The kernel's linear map: the address where `phys` can be read and written. RAM below `linear_end` only.
#[inline(always)]
pub fn phys_to_virt(phys: PhysAddr) -> *mut u8 {
    phys.as_usize()
        .wrapping_sub(PHYS_BASE.load(Ordering::Relaxed))
        .wrapping_add(LINEAR_BASE) as *mut u8
}

/// The inverse of [`phys_to_virt`].
#[inline(always)]
pub fn virt_to_phys(virt: *const u8) -> PhysAddr {
    PhysAddr::new((virt as usize - LINEAR_BASE).wrapping_add(PHYS_BASE.load(Ordering::Relaxed)) as u64)
}

/// The physical address of something in the kernel image.
pub fn image_to_phys(address: usize) -> u64 {
    virt_to_phys(address as *const u8).as_u64()
}
