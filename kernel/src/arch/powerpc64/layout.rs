//! The address layout: which kernel addresses are what, the linear map of RAM, in which the image lies, and
//! the kernel's own tree.

use crate::mm::{PhysAddr, Prot};

unsafe extern "C" {
    static __kernel_root: u8;
}

pub use crate::arch::pages::SHIFT as PAGE_SHIFT;
const _: () = assert!(PAGE_SHIFT != 14, "the processors have pages of 4 and 64 KiB");
/// One past the largest user address (a multiple of the page size).
pub const USER_END: usize = 1 << 47;
/// What user mode can read and execute in the kernel's part, as `/proc/PID/maps` shows it: start, end, name.
/// Here nothing.
pub const GATE: Option<(usize, usize, &str)> = None;
/// What is there: nothing.
pub fn gate() -> &'static [u8] {
    &[]
}
/// Permissions that a load is allowed by: not execution alone.
pub const READABLE: Prot = Prot::READ.union(Prot::WRITE);
/// Where the linear map of RAM starts: virtual = physical + this.
pub const LINEAR_BASE: usize = 0xc000_0000_0000_0000;
/// Kernel virtual range for dynamic mappings (stacks, device registers), as `(start, end)`.
pub const VMAP: (usize, usize) = (0xc000_8000_0000_0000, 0xc000_c000_0000_0000);

/// Kernel virtual range for code and data of modules, as `(start, end)`: the last GiB of what is used of
/// [`VMAP`], so that a module's TOC reaches all of it.
pub const MODULES: (usize, usize) = (VMAP.0 + (1023 << 30), VMAP.0 + (1024 << 30));

/// The kernel's linear map: the address where `phys` can be read and written. RAM only.
#[inline(always)]
pub fn phys_to_virt(phys: PhysAddr) -> *mut u8 {
    (phys.as_usize() | LINEAR_BASE) as *mut u8
}

/// The inverse of [`phys_to_virt`].
#[inline(always)]
pub fn virt_to_phys(virt: *const u8) -> PhysAddr {
    PhysAddr::new(virt as u64 & !(LINEAR_BASE as u64))
}

/// The physical address of something in the kernel image or the linear map.
#[inline(always)]
pub fn to_phys(address: usize) -> u64 {
    (address & !LINEAR_BASE) as u64
}

/// The root of the kernel's own table (for the [`VMAP`] range; the same entry format).
pub fn kernel_root() -> PhysAddr {
    PhysAddr::new(to_phys(&raw const __kernel_root as usize))
}
