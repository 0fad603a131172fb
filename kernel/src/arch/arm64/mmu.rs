//! Page table entries, the address layout, TLB maintenance. The kernel's own map is built in `kmap`,
//! address-space identifiers are handed out in `asid`. Addresses of 48 bits in both halves, whatever the page
//! size: user space through `TTBR0_EL1`, the kernel through `TTBR1_EL1`.

use super::copy::{PIECE, copy_vectors};
use super::{asid, cpus, sysreg};
use crate::mm::PhysAddr;
use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering};
use limen_linear_map::{Geometry, geometry};

pub use super::asid::MmContext;
pub use super::descriptor::{Entry, MemoryKind};
pub use crate::arch::linear::{HIGH_MEMORY, View, linear_end, load_part, load_slot, store_slot};

pub use crate::arch::pages::SHIFT as PAGE_SHIFT;

/// Writes an entry in memory at once, but in any order: a barrier follows the last of several.
#[inline(always)]
pub fn store_unordered(slot: &AtomicU64, value: u64) {
    slot.store(value, Ordering::Relaxed);
}

/// One past the largest user address (a multiple of the page size).
pub const USER_END: usize = 1 << 48;
/// What user mode can read and execute in the kernel's part, as `/proc/PID/maps` shows it: start, end, name.
/// Here nothing.
pub const GATE: Option<(usize, usize, &str)> = None;
/// What is there: nothing.
pub fn gate() -> &'static [u8] {
    &[]
}
/// Permissions that a load is allowed by: any.
pub const READABLE: crate::mm::Prot = crate::mm::Prot::all();
/// An entry in memory.
pub type Slot = AtomicU64;
/// Levels of a user page table; level 0 holds pages, `LEVELS - 1` is the root.
pub const LEVELS: usize = (48 - PAGE_SHIFT).div_ceil(TABLE_SHIFT);
/// log2 of the entries of one table: it is as large as a page.
pub const TABLE_SHIFT: usize = PAGE_SHIFT - 3;
/// A table of pages is like the others.
pub const LEAF_SHIFT: usize = TABLE_SHIFT;
/// log2 of the entries of the root: it has the bits that are left.
pub const ROOT_SHIFT: usize = 48 - PAGE_SHIFT - (LEVELS - 1) * TABLE_SHIFT;
/// Where the linear map of RAM starts: virtual = physical + this.
pub const LINEAR_BASE: usize = 0xffff_0000_0000_0000;
/// Kernel virtual range for dynamic mappings (stacks, device registers), as `(start, end)`.
pub const VMAP: (usize, usize) = (0xffff_8000_0000_0000, 0xffff_c000_0000_0000);
/// Where the kernel image is linked.
pub const IMAGE_BASE: usize = 0xffff_ffff_8000_0000;
/// Kernel virtual range for code and data of modules, as `(start, end)`: behind the image, where most
/// branches reach it without a veneer.
pub const MODULES: (usize, usize) = (IMAGE_BASE + (64 << 20), IMAGE_BASE + (512 << 20));

/// The kernel's linear map: the address where `phys` can be read and written. RAM only.
#[inline(always)]
pub fn phys_to_virt(phys: PhysAddr) -> *mut u8 {
    (phys.as_usize() | LINEAR_BASE) as *mut u8
}

/// What of a range of RAM can be used: start and size.
pub fn usable_part(start: u64, size: u64) -> Option<(u64, u64)> {
    const LIMIT: u64 = 1 << 47;
    (start < LIMIT).then(|| (start, size.min(LIMIT - start)))
}

/// The inverse of [`phys_to_virt`].
#[inline(always)]
pub fn virt_to_phys(virt: *const u8) -> PhysAddr {
    PhysAddr::new(virt as u64 & !(LINEAR_BASE as u64))
}

/// Where the image was loaded.
pub(super) static IMAGE_PHYS: AtomicU64 = AtomicU64::new(0);

/// The physical address of something in the kernel image.
pub fn image_to_phys(address: usize) -> u64 {
    (address - IMAGE_BASE) as u64 + IMAGE_PHYS.load(Ordering::Relaxed)
}

/// The tables' form.
pub(super) const GEOMETRY: &Geometry = match PAGE_SHIFT {
    12 => &geometry::ARM64_4K,
    14 => &geometry::ARM64_16K,
    _ => &geometry::ARM64_64K,
};
/// The highest level with leaves: they are of 1 GiB (4K pages), 32 MiB (16K), 512 MiB (64K).
pub(super) const LARGEST_LEAF: usize = GEOMETRY.largest();

/// The level of the early map's entries: blocks of 2 MiB, to which images are aligned, or pages where blocks
/// are larger.
pub(super) const EARLY_LEVEL: usize = if PAGE_SHIFT == 12 { 1 } else { 0 };
/// Tables of an early map: one of each level.
pub(super) const EARLY_TABLES: usize = LEVELS - EARLY_LEVEL;

/// Physical address of a table with nothing in it.
pub(super) static EMPTY_ROOT: AtomicU64 = AtomicU64::new(0);

/// Fills a fresh, zeroed user root table with what every address space shares with the kernel: nothing, the
/// kernel has its own half.
pub fn init_user_root(root: PhysAddr) {
    let _ = root;
}

/// What address spaces need for each CPU, once these are counted: nothing.
pub(super) fn init_roots() {}

/// The root of the kernel's own table (for the [`VMAP`] range; the same entry format).
pub fn kernel_root() -> PhysAddr {
    PhysAddr::new(cpus::START.table.load(Ordering::Relaxed) as u64)
}

/// The identifiers have 8 or 16 bits.
struct Asids;

impl asid::Identifiers for Asids {
    fn count() -> usize {
        // ID_AA64MMFR0_EL1.ASIDBits
        if sysreg::read!("id_aa64mmfr0_el1") >> 4 & 0xf >= 2 {
            1 << 16
        } else {
            1 << 8
        }
    }
}

/// Makes `root` the current user address space of this CPU. Interrupts are off.
#[inline]
pub fn switch_to(root: PhysAddr, context: &MmContext) {
    let asid = asid::activate::<Asids>(context);
    // SAFETY: `root` is a user root table that the caller keeps alive while it is current; the identifier is
    // its own.
    unsafe { sysreg::write!("ttbr0_el1", root.as_u64() | asid << 48) }
    sysreg::isb();
}

/// Leaves user address spaces: only kernel mappings are valid on this CPU afterwards (idle, kernel threads
/// that outlive their last user). Interrupts are off.
pub fn switch_to_kernel() {
    // SAFETY: the table is empty for good, and identifier 0 is nobody else's.
    unsafe { sysreg::write!("ttbr0_el1", EMPTY_ROOT.load(Ordering::Relaxed)) }
    sysreg::isb();
}

/// So many pages, a whole table's with the smallest pages, are not invalidated one by one.
const FLUSH_ALL_FROM: usize = 512;

/// Forgets cached translations of `[start, end)` of an address space on every CPU that may hold them.
/// `tables_freed`: table pages were removed, too. On return no CPU uses the old translations. Interrupts on,
/// no spinlock taken with interrupts off is held.
pub fn flush_user(context: &MmContext, start: usize, end: usize, tables_freed: bool) {
    // SAFETY: a barrier: whoever gives the address space an identifier after the question for it sees what
    // was stored to the tables before.
    unsafe { asm!("dsb ish", options(nostack, preserves_flags)) };
    // An address space that never had one has nothing cached.
    let Some(asid) = asid::current(context) else {
        return;
    };
    let pages = (end - start) >> PAGE_SHIFT;
    // SAFETY: forgetting translations is always allowed; the barriers order it after the stores that changed
    // the tables.
    unsafe {
        if pages >= FLUSH_ALL_FROM {
            asm!("tlbi aside1is, {}", in(reg) asid << 48, options(nostack, preserves_flags));
        } else {
            let mut addr = start;
            while addr < end {
                let operand = asid << 48 | (addr as u64 >> 12) & 0xfff_ffff_ffff;
                if tables_freed {
                    asm!("tlbi vae1is, {}", in(reg) operand, options(nostack, preserves_flags));
                } else {
                    asm!("tlbi vale1is, {}", in(reg) operand, options(nostack, preserves_flags));
                }
                addr += 1 << PAGE_SHIFT;
            }
        }
        asm!("dsb ish", options(nostack, preserves_flags));
    }
}

/// After an entry became valid, or gained permission and `was_valid`: whatever the processor needs before the
/// access is retried. An invalid entry is never cached. One that refused an access may stay so; on other CPUs
/// it then refuses another one, which comes to this, too.
#[inline(always)]
pub fn update_user(context: &MmContext, addr: usize, was_valid: bool) {
    if was_valid && let Some(asid) = asid::current(context) {
        let operand = asid << 48 | (addr as u64 >> 12) & 0xfff_ffff_ffff;
        // SAFETY: as for `flush_user`, on this CPU only.
        unsafe {
            asm!(
                "dsb ishst", "tlbi vale1, {}", "dsb nsh", in(reg) operand, options(nostack, preserves_flags),
            );
        }
    }
}

/// Forgets cached translations of a kernel range on every CPU.
pub fn flush_kernel(start: usize, end: usize) {
    flush_kernel_by(start, end, PAGE_SHIFT);
}

/// The same, where every leaf has at least `1 << shift` bytes. In any context.
pub(super) fn flush_kernel_by(start: usize, end: usize, shift: usize) {
    // SAFETY: as for `flush_user`.
    unsafe {
        asm!("dsb ishst", options(nostack, preserves_flags));
        if (end - start) >> shift >= FLUSH_ALL_FROM {
            asm!("tlbi vmalle1is", options(nostack, preserves_flags));
        } else {
            let mut addr = start;
            while addr < end {
                asm!(
                    "tlbi vaae1is, {}", in(reg) (addr as u64 >> 12) & 0xfff_ffff_ffff,
                    options(nostack, preserves_flags),
                );
                addr += 1 << shift;
            }
        }
        asm!("dsb ish", "isb", options(nostack, preserves_flags));
    }
}

/// After invalid kernel entries of a range became valid: whatever the processor needs before they are used
/// (often nothing).
#[inline(always)]
pub fn update_kernel(start: usize, end: usize) {
    let _ = (start, end);
    // SAFETY: barriers only: the stores to the tables are visible to walks before the next instruction.
    unsafe { core::arch::asm!("dsb ishst", "isb", options(nostack, preserves_flags)) };
}

/// Makes newly written code in the page at `phys` visible to instruction fetch, before it is mapped
/// executable.
pub fn sync_instructions(phys: PhysAddr) {
    let ctr = sysreg::read!("ctr_el0");
    let start = phys_to_virt(phys) as usize;
    // SAFETY: cleaning data to the point of unification and dropping instruction caches changes no memory
    // contents.
    unsafe {
        // CTR_EL0.IDC: data need not be cleaned; DIC: instructions need not be invalidated.
        if ctr & 1 << 28 == 0 {
            let line = 4 << (ctr >> 16 & 0xf);
            let mut addr = start;
            while addr < start + (1 << PAGE_SHIFT) {
                asm!("dc cvau, {}", in(reg) addr, options(nostack, preserves_flags));
                addr += line;
            }
        }
        asm!("dsb ish", options(nostack, preserves_flags));
        if ctr & 1 << 29 == 0 {
            // By address would miss aliases in caches indexed by virtual address.
            asm!("ic ialluis", "dsb ish", options(nostack, preserves_flags));
        }
        asm!("isb", options(nostack, preserves_flags));
    }
}

/// Zeroes the page at `phys`.
#[inline(always)]
pub fn clear_page(phys: PhysAddr) {
    let dczid = sysreg::read!("dczid_el0");
    let start = phys_to_virt(phys) as usize;
    let end = start + (1 << PAGE_SHIFT);
    // DCZID_EL0.DZP: `dc zva` is forbidden.
    if dczid & 1 << 4 == 0 {
        let block = 4usize << (dczid & 0xf);
        // 32 blocks in a turn where a page has that many: nearly all processors have blocks of 64 bytes.
        if block << 5 <= 1 << PAGE_SHIFT {
            // SAFETY: the caller owns the page; the linear map makes all RAM writable; the page is a multiple
            // of 32 blocks.
            unsafe {
                asm!(
                    "2:",
                    ".rept 32",
                    "dc zva, {at}",
                    "add {at}, {at}, {block}",
                    ".endr",
                    "cmp {at}, {end}",
                    "b.lo 2b",
                    at = inout(reg) start => _, block = in(reg) block, end = in(reg) end, options(nostack));
            }
            return;
        }
        // SAFETY: the caller owns the page; a block is not larger than a page.
        unsafe {
            asm!("2: dc zva, {at}", "add {at}, {at}, {block}", "cmp {at}, {end}", "b.lo 2b",
                at = inout(reg) start => _, block = in(reg) block, end = in(reg) end, options(nostack));
        }
    } else {
        // SAFETY: the caller owns the page, and the linear map makes it writable.
        unsafe { phys_to_virt(phys).write_bytes(0, 1 << PAGE_SHIFT) }
    }
}

/// Copies the page at `from` to the page at `to`.
#[inline(always)]
pub fn copy_page(to: PhysAddr, from: PhysAddr) {
    let (to, from) = (phys_to_virt(to) as usize, phys_to_virt(from) as usize);
    // SAFETY: the caller owns both pages, which differ; the linear map covers all RAM.
    unsafe { copy_vectors::<0>(to, from, (1 << PAGE_SHIFT) / PIECE) };
}
