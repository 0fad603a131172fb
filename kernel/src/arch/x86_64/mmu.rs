//! Page table entries and the address layout; which address space this CPU has loaded.

use super::{cpu, page, tlb};
use crate::mm::{PhysAddr, Prot};
use core::sync::atomic::{AtomicU64, Ordering};
use limen_linear_map::{self as linear_map, Access, Attributes, Leaf};

pub use super::tlb::MmContext;
pub use crate::arch::linear::{HIGH_MEMORY, View, linear_end, load_part, load_slot, store_slot};

/// Writes an entry in memory at once, but in any order: a barrier follows the last of several.
#[inline(always)]
pub fn store_unordered(slot: &AtomicU64, value: u64) {
    slot.store(value, Ordering::Relaxed);
}

/// log2 of the page size.
pub const PAGE_SHIFT: usize = 12;
/// One past the largest user address (a multiple of the page size).
pub const USER_END: usize = 0x0000_7fff_ffff_f000;
/// What user mode can read and execute in the kernel's part, as `/proc/PID/maps` shows it: start, end, name.
/// Here nothing.
pub const GATE: Option<(usize, usize, &str)> = None;
/// What is there: nothing.
pub fn gate() -> &'static [u8] {
    &[]
}
/// Permissions that a load is allowed by: any.
pub const READABLE: Prot = Prot::all();
/// An entry in memory.
pub type Slot = AtomicU64;
/// Levels of a user page table; level 0 holds pages, `LEVELS - 1` is the root.
pub const LEVELS: usize = 4;
/// log2 of the entries of one table.
pub const TABLE_SHIFT: usize = 9;
/// A table of pages, and the root, are like the others.
pub const LEAF_SHIFT: usize = TABLE_SHIFT;
/// See there.
pub const ROOT_SHIFT: usize = TABLE_SHIFT;
/// Kernel virtual range for dynamic mappings (stacks, device registers), as `(start, end)`.
pub const VMAP: (usize, usize) = (0xffff_c900_0000_0000, 0xffff_c980_0000_0000);
/// Kernel virtual range for code and data of modules, as `(start, end)`: above the image's gigabyte, as on
/// Linux.
pub const MODULES: (usize, usize) = (0xffff_ffff_c000_0000, 0xffff_ffff_e000_0000);
/// Where physical address 0 lies in the kernel's linear map of RAM.
pub const LINEAR_BASE: usize = 0xffff_8880_0000_0000;
/// What is added to the physical addresses of the kernel's image.
pub const KERNEL_BASE: usize = 0xffff_ffff_8000_0000;
/// The address bits of an entry.
pub const PHYS_MASK: u64 = 0x000f_ffff_ffff_f000;

// Bits of an entry.
pub(super) const PRESENT: u64 = 1 << 0;
pub(super) const WRITE: u64 = 1 << 1;
const USER: u64 = 1 << 2;
const WRITE_THROUGH: u64 = 1 << 3;
const CACHE_DISABLE: u64 = 1 << 4;
pub(super) const ACCESSED: u64 = 1 << 5;
pub(super) const DIRTY: u64 = 1 << 6;
/// In an entry above level 0: it is a page itself (large), not a table.
pub(super) const BLOCK: u64 = 1 << 7;
pub(super) const GLOBAL: u64 = 1 << 8;
/// In an entry that is not present: a page that nobody may access (the processor ignores everything then).
const NO_ACCESS: u64 = 1 << 8;
pub(super) const NO_EXECUTE: u64 = 1 << 63;

/// The kernel's root table (physical).
pub(super) static KERNEL_ROOT: AtomicU64 = AtomicU64::new(0);

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

const fn user_bits(prot: Prot) -> u64 {
    if prot.is_empty() {
        return NO_ACCESS;
    }
    let mut bits = PRESENT | USER;
    if prot.contains(Prot::WRITE) {
        bits |= WRITE;
    }
    if !prot.contains(Prot::EXEC) {
        bits |= NO_EXECUTE;
    }
    bits
}

impl Entry {
    /// Nothing mapped.
    pub const EMPTY: Self = Self(0);
    /// A user page. `prot` without any access bit (`PROT_NONE`) keeps the frame but faults on every access.
    /// Young and, if writable, dirty already.
    #[inline(always)]
    pub fn user_page(phys: PhysAddr, prot: Prot) -> Self {
        let dirty = if prot.contains(Prot::WRITE) { DIRTY } else { 0 };
        Self(phys.as_u64() | user_bits(prot) | ACCESSED | dirty)
    }
    /// A kernel page (level 0) or block (higher levels).
    pub fn kernel_leaf(phys: PhysAddr, prot: Prot, kind: MemoryKind, level: usize) -> Self {
        if prot.is_empty() {
            return Self::EMPTY;
        }
        let mut bits = phys.as_u64() | PRESENT | ACCESSED | DIRTY;
        if cpu::has(cpu::Features::PGE) {
            bits |= GLOBAL;
        }
        if prot.contains(Prot::WRITE) {
            bits |= WRITE;
        }
        if !prot.contains(Prot::EXEC) {
            bits |= NO_EXECUTE;
        }
        if kind == MemoryKind::Device {
            bits |= CACHE_DISABLE | WRITE_THROUGH;
        }
        if level > 0 {
            bits |= BLOCK;
        }
        Self(bits)
    }
    /// A pointer to a lower table. (The user bit only permits; the leaf decides.)
    #[inline(always)]
    pub fn table(phys: PhysAddr, level: usize) -> Self {
        let _ = level;
        Self(phys.as_u64() | PRESENT | WRITE | USER | ACCESSED)
    }
    /// Whether nothing is there.
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
    /// Whether a lower table is there (asked of levels above 0 only).
    #[inline(always)]
    pub fn is_table(self) -> bool {
        self.0 & (PRESENT | BLOCK) == PRESENT
    }
    /// The page's or table's physical address.
    #[inline(always)]
    pub fn phys(self) -> PhysAddr {
        PhysAddr::new(self.0 & PHYS_MASK)
    }
    /// The user permissions.
    #[inline(always)]
    pub fn prot(self) -> Prot {
        if self.0 & PRESENT == 0 {
            return Prot::empty();
        }
        let mut prot = Prot::READ;
        prot.set(Prot::WRITE, self.0 & WRITE != 0);
        prot.set(Prot::EXEC, self.0 & NO_EXECUTE == 0);
        prot
    }
    /// In the kind of a leaf of the kernel's: user mode may access it.
    pub(super) const KIND_USER: u8 = 1;
    /// Device registers.
    pub(super) const KIND_DEVICE: u8 = 2;
    /// The same in all address spaces.
    pub(super) const KIND_GLOBAL: u8 = 4;

    /// An entry of the kernel's map at `level`, as `crates/linear-map` has it.
    pub fn kernel(self, level: usize) -> linear_map::Entry {
        if self.is_empty() {
            return linear_map::Entry::Empty;
        }
        if level > 0 && self.is_table() {
            return linear_map::Entry::Table(linear_map::Table(self.phys().as_u64()));
        }
        let has = |bit| self.0 & bit != 0;
        let mut access = Access::READ;
        access.set(Access::PRESENT, has(PRESENT));
        access.set(Access::WRITE, has(WRITE));
        access.set(Access::EXECUTE, !has(NO_EXECUTE));
        let kinds = [
            (USER, Self::KIND_USER),
            (CACHE_DISABLE, Self::KIND_DEVICE),
            (GLOBAL, Self::KIND_GLOBAL),
        ];
        let kinds = kinds.into_iter().filter(|(bit, _)| has(*bit));
        // The address of what is not present is inverted, so that no processor guesses with it (L1TF).
        let inverted = if has(PRESENT) { 0 } else { PHYS_MASK };
        linear_map::Entry::Leaf(Leaf {
            phys: (self.0 ^ inverted) & PHYS_MASK,
            attributes: Attributes {
                access,
                kind: kinds.map(|(_, kind)| kind).sum(),
            },
            grouped: false,
            marked: false,
        })
    }
    /// The inverse of [`Entry::kernel`].
    pub fn of_kernel(entry: linear_map::Entry, level: usize) -> Self {
        let leaf = match entry {
            linear_map::Entry::Empty => return Self::EMPTY,
            linear_map::Entry::Table(table) => return Self(table.0 | PRESENT | WRITE | ACCESSED),
            linear_map::Entry::Leaf(leaf) => leaf,
        };
        let has = |access| leaf.attributes.access.contains(access);
        let kind = |kind| leaf.attributes.kind & kind != 0;
        let bits = [
            (has(Access::WRITE), WRITE),
            (!has(Access::EXECUTE), NO_EXECUTE),
            (kind(Self::KIND_USER), USER),
            (kind(Self::KIND_DEVICE), CACHE_DISABLE | WRITE_THROUGH),
            (kind(Self::KIND_GLOBAL), GLOBAL),
            (level > 0, BLOCK),
            (has(Access::PRESENT), PRESENT),
        ];
        let bits = bits.into_iter().filter(|(there, _)| *there);
        let inverted = if has(Access::PRESENT) { 0 } else { PHYS_MASK };
        Self(
            bits.fold((leaf.phys ^ inverted) | ACCESSED | DIRTY, |all, (_, bit)| {
                all | bit
            }),
        )
    }
    /// As a number, to reckon with.
    #[inline(always)]
    pub fn number(self) -> u64 {
        self.0
    }
    /// The inverse of [`Entry::number`].
    #[inline(always)]
    pub fn of_number(number: u64) -> Self {
        Self(number)
    }
    /// The same page without permission to write; `None` if it has none.
    #[inline(always)]
    pub fn write_protected(self) -> Option<Self> {
        (self.0 & (PRESENT | WRITE) == PRESENT | WRITE).then_some(Self(self.0 & !WRITE))
    }
    /// The same page with other user permissions.
    #[inline(always)]
    pub fn with_prot(self, prot: Prot) -> Self {
        Self(self.0 & (PHYS_MASK | ACCESSED | DIRTY) | user_bits(prot))
    }
}

/// The kernel's linear map: the address where `phys` can be read and written. RAM only.
#[inline(always)]
pub fn phys_to_virt(phys: PhysAddr) -> *mut u8 {
    (phys.as_usize() + LINEAR_BASE) as *mut u8
}

/// The inverse of [`phys_to_virt`].
#[inline(always)]
pub fn virt_to_phys(virt: *const u8) -> PhysAddr {
    PhysAddr::new((virt as usize - LINEAR_BASE) as u64)
}

/// Fills a fresh, zeroed user root table with what every address space shares with the kernel.
pub fn init_user_root(root: PhysAddr) {
    const INDEX: fn(usize) -> usize = |addr| addr >> 39 & 511;
    // SAFETY: the kernel's root lives for ever and its used top-level entries never change after boot; `root`
    // is the caller's.
    unsafe {
        let from = phys_to_virt(kernel_root()).cast::<u64>();
        let to = phys_to_virt(root).cast::<u64>();
        let mut at = INDEX(LINEAR_BASE);
        // RAM: one entry per 512 GiB.
        while from.add(at).read() != 0 {
            to.add(at).write(from.add(at).read());
            at += 1;
        }
        for at in [INDEX(VMAP.0), INDEX(KERNEL_BASE)] {
            to.add(at).write(from.add(at).read());
        }
    }
}

/// The root of the kernel's own table (for the [`VMAP`] range; the same entry format).
#[inline(always)]
pub fn kernel_root() -> PhysAddr {
    PhysAddr::new(KERNEL_ROOT.load(Ordering::Relaxed))
}

/// Makes `root` the current user address space of this CPU. Interrupts are off.
///
/// The address space left stays marked as active here: taking it out would cost an atomic operation at every
/// switch, and whoever changes it next is told that it is not (`tlb::serve`).
#[inline(always)]
pub fn switch_to(root: PhysAddr, context: &MmContext) {
    tlb::note_loaded(context);
    // SAFETY: every user root shares the kernel's part.
    unsafe { cpu::write_cr3(root.as_u64()) };
}

/// Leaves user address spaces: only kernel mappings are valid on this CPU afterwards (idle, kernel threads
/// that outlive their last user). Interrupts are off.
pub fn switch_to_kernel() {
    tlb::note_none_loaded();
    // SAFETY: the kernel's root.
    unsafe { cpu::write_cr3(kernel_root().as_u64()) };
}

/// Forgets cached translations of `[start, end)` of an address space on every CPU that may hold them.
/// `tables_freed`: table pages were removed, too. On return no CPU uses the old translations. Interrupts on,
/// no spinlock taken with interrupts off is held.
#[inline]
pub fn flush_user(context: &MmContext, start: usize, end: usize, tables_freed: bool) {
    // `invlpg` drops the paging-structure caches, too, so `tables_freed` needs nothing more.
    let _ = tables_freed;
    tlb::flush(Some(context), start, end);
}

/// After an entry became valid, or gained permission and `was_valid`: whatever the processor needs before the
/// access is retried (often nothing).
#[inline(always)]
pub fn update_user(context: &MmContext, addr: usize, was_valid: bool) {
    // Entries that are not valid are not cached, and a fault on a stale weaker one drops it.
    let _ = (context, addr, was_valid);
}

/// Forgets cached translations of a kernel range on every CPU.
pub fn flush_kernel(start: usize, end: usize) {
    tlb::flush(None, start, end);
}

/// After invalid kernel entries of a range became valid: whatever the processor needs before they are used
/// (often nothing).
#[inline(always)]
pub fn update_kernel(start: usize, end: usize) {
    let _ = (start, end);
}

/// Makes newly written code in the page at `phys` visible to instruction fetch, before it is mapped
/// executable.
pub fn sync_instructions(phys: PhysAddr) {
    let _ = phys;
}

/// Zeroes the page at `phys`.
#[inline]
pub fn clear_page(phys: PhysAddr) {
    // SAFETY: the caller owns the page; the linear map makes all RAM writable.
    unsafe { page::clear(phys_to_virt(phys)) }
}

/// Copies the page at `from` to the page at `to`.
#[inline]
pub fn copy_page(to: PhysAddr, from: PhysAddr) {
    // SAFETY: the caller owns both pages, which differ; the linear map covers all RAM.
    unsafe { page::copy(phys_to_virt(to), phys_to_virt(from)) }
}
