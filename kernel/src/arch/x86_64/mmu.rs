//! Page table entries, the address layout, TLB maintenance and the kernel's own map.

use crate::mm::{PhysAddr, Prot};

/// log2 of the page size.
pub const PAGE_SHIFT: usize = 12;
/// One past the largest user address (a multiple of the page size).
pub const USER_END: usize = 0x0000_7fff_ffff_f000;
/// Levels of a user page table; level 0 holds pages, `LEVELS - 1` is the root.
pub const LEVELS: usize = 4;
/// log2 of the entries of one table.
pub const TABLE_SHIFT: usize = 9;
/// Kernel virtual range for dynamic mappings (stacks, device registers), as `(start, end)`.
pub const VMAP: (usize, usize) = (0, 0);

/// How a kernel mapping's memory behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// Ordinary cached memory.
    Normal,
    /// Device registers.
    Device,
}

/// One page table entry (any level), as a value. Tables in memory are arrays of `AtomicU64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Entry(pub u64);

impl Entry {
    /// Nothing mapped.
    pub const EMPTY: Self = Self(0);
    /// A user page. `prot` without any access bit maps nothing accessible but keeps the frame (`PROT_NONE`): present to [`Entry::is_page`], faults on every access.
    /// Young and, if writable, dirty already.
    pub fn user_page(phys: PhysAddr, prot: Prot) -> Self {
        let _ = (phys, prot);
        Self(0)
    }
    /// A kernel page (level 0) or block (higher levels).
    pub fn kernel_leaf(phys: PhysAddr, prot: Prot, kind: MemoryKind, level: usize) -> Self {
        let _ = (phys, prot, kind, level);
        Self(0)
    }
    /// A pointer to a lower table.
    pub fn table(phys: PhysAddr) -> Self {
        let _ = phys;
        Self(0)
    }
    /// Whether nothing is there.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
    /// Whether a lower table is there (asked of levels above 0 only).
    pub fn is_table(self) -> bool {
        false
    }
    /// Whether a page (level 0) is there, `PROT_NONE` included.
    pub fn is_page(self) -> bool {
        false
    }
    /// The page's or table's physical address.
    pub fn phys(self) -> PhysAddr {
        PhysAddr::new(0)
    }
    /// The user permissions.
    pub fn prot(self) -> Prot {
        Prot::empty()
    }
    /// The same page with other user permissions.
    pub fn with_prot(self, prot: Prot) -> Self {
        let _ = prot;
        self
    }
    /// Whether written since mapped (true if the processor cannot tell and it is writable).
    pub fn dirty(self) -> bool {
        false
    }
    /// Whether used since last cleared.
    pub fn young(self) -> bool {
        true
    }
}

/// What the processor keeps per address space (address-space identifier, which CPUs it ran on).
#[derive(Debug, Default)]
pub struct MmContext {}

impl MmContext {
    /// For a new address space.
    pub fn new() -> Self {
        Self {}
    }
}

/// The kernel's linear map: the address where `phys` can be read and written. RAM only.
#[inline(always)]
pub fn phys_to_virt(phys: PhysAddr) -> *mut u8 {
    phys.as_usize() as *mut u8
}

/// The inverse of [`phys_to_virt`].
#[inline(always)]
pub fn virt_to_phys(virt: *const u8) -> PhysAddr {
    PhysAddr::new(virt as u64)
}

/// Fills a fresh, zeroed user root table with what every address space shares with the kernel.
pub fn init_user_root(root: PhysAddr) {
    let _ = root;
}

/// The root of the kernel's own table (for the [`VMAP`] range; the same entry format).
pub fn kernel_root() -> PhysAddr {
    PhysAddr::new(0)
}

/// Makes `root` the current user address space of this CPU. Interrupts are off.
pub fn switch_to(root: PhysAddr, context: &MmContext) {
    let _ = (root, context);
}

/// Leaves user address spaces: only kernel mappings are valid on this CPU afterwards (idle, kernel threads that outlive their last user). Interrupts are off.
pub fn switch_to_kernel() {}

/// Forgets cached translations of `[start, end)` of an address space on every CPU that may hold them. `tables_freed`: table pages were removed, too.
/// On return no CPU uses the old translations. Interrupts on, no spinlock taken with interrupts off is held.
pub fn flush_user(context: &MmContext, start: usize, end: usize, tables_freed: bool) {
    let _ = (context, start, end, tables_freed);
}

/// After an invalid entry became valid or gained permission: whatever the processor needs before the access is retried (often nothing).
#[inline(always)]
pub fn update_user(context: &MmContext, addr: usize) {
    let _ = (context, addr);
}

/// Forgets cached translations of a kernel range on every CPU.
pub fn flush_kernel(start: usize, end: usize) {
    let _ = (start, end);
}

/// After invalid kernel entries of a range became valid: whatever the processor needs before they are used (often nothing).
#[inline(always)]
pub fn update_kernel(start: usize, end: usize) {
    let _ = (start, end);
}

/// Makes newly written code in the page at `phys` visible to instruction fetch, before it is mapped executable.
pub fn sync_instructions(phys: PhysAddr) {
    let _ = phys;
}

/// Zeroes the page at `phys`.
#[inline(always)]
pub fn clear_page(phys: PhysAddr) {
    // SAFETY: the caller owns the page; the linear map makes all RAM writable.
    unsafe { phys_to_virt(phys).write_bytes(0, 1 << PAGE_SHIFT) }
}

/// Copies the page at `from` to the page at `to`.
#[inline(always)]
pub fn copy_page(to: PhysAddr, from: PhysAddr) {
    // SAFETY: the caller owns both pages, which differ; the linear map covers all RAM.
    unsafe { core::ptr::copy_nonoverlapping(phys_to_virt(from), phys_to_virt(to), 1 << PAGE_SHIFT) }
}
