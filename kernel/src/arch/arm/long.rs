//! Long descriptors (the large physical address extension): three levels, tables of 64-bit entries. User
//! space is the lower three gigabytes, through `TTBR0`; the kernel is the fourth, through `TTBR1`, whose
//! table is of level 1. Re-exported by `mmu`.
//!
//! Closed user space: `TTBCR` forbids walks through `TTBR0` and hides its identifier, so that not even what
//! is in the TLB matches.

use super::{asid, sysreg};
use crate::mm::PhysAddr;
use core::arch::asm;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

use limen_linear_map::{Map, Table, geometry, rule};

pub use super::asid::MmContext;
pub use super::descriptor::{Entry, MemoryKind};

/// The register that opens and closes user space, in instructions: `TTBCR`.
macro_rules! window_register {
    () => {
        "c2, c0, 2"
    };
}
pub(super) use window_register;

/// Not the other format.
pub(super) const SHORT: bool = false;
/// An entry in memory.
pub type Slot = AtomicU64;
/// Levels of a user page table; level 0 holds pages, `LEVELS - 1` is the root.
pub const LEVELS: usize = 3;
/// log2 of the entries of one table.
pub const TABLE_SHIFT: usize = 9;
/// A table of pages, and the root, are like the others.
pub const LEAF_SHIFT: usize = TABLE_SHIFT;
/// See there.
pub const ROOT_SHIFT: usize = TABLE_SHIFT;
/// `TTBCR` with user space open.
pub(super) const OPEN: u32 = sysreg::TTBCR;
/// And closed: no walks through `TTBR0`, and the identifier is that of `TTBR1` (none), so that no user
/// translation in the TLB matches either.
pub(super) const CLOSED: u32 = OPEN | 1 << 7 | 1 << 22;
/// The highest level with leaves in the kernel's own map.
pub(super) const LARGEST_LEAF: usize = 1;
/// log2 of the bytes of one there.
pub(super) const BLOCK_SHIFT: usize = 21;
/// Physical addresses have 40 bits.
pub(super) const PHYS_END: u64 = 1 << 40;

/// The kernel's map, as `crates/linear-map` knows it, with the root at `root`.
pub(super) fn kernel_map(root: u64) -> Map {
    Map {
        geometry: &geometry::ARM_LONG,
        rule: rule::ARM_BREAK,
        root: Table(root),
        largest: LARGEST_LEAF,
        groups: false,
    }
}

/// Reads an entry in memory, before anything that follows. With long descriptors aligned double words are
/// read and written at once.
#[inline(always)]
pub fn load_slot(slot: &AtomicU64) -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: reads the slot.
    unsafe {
        asm!(
            "ldrd r2, r3, [{}]", in(reg) slot, out("r2") low, out("r3") high,
            options(nostack, preserves_flags, readonly),
        )
    }
    // What is read through the entry depends on its address: no barrier is needed for order.
    u64::from(low) | u64::from(high) << 32
}

/// Part of an entry in memory, which is zero only if the entry is empty: what is looked at to pass over empty
/// ones.
#[inline(always)]
pub fn load_part(slot: &AtomicU64) -> u32 {
    // SAFETY: the lower half, which has the attributes; halves are read and written at once, too.
    unsafe { (*(&raw const *slot).cast::<AtomicU32>()).load(Ordering::Relaxed) }
}

/// Writes an entry in memory, after everything before.
#[inline(always)]
pub fn store_slot(slot: &AtomicU64, value: u64) {
    fence(Ordering::Release);
    store_unordered(slot, value);
}

/// Writes an entry in memory at once, but in any order: a barrier follows the last of several.
#[inline(always)]
pub fn store_unordered(slot: &AtomicU64, value: u64) {
    // SAFETY: the slot is an atomic; see above.
    unsafe {
        asm!("strd r2, r3, [{}]", in(reg) slot, in("r2") value as u32, in("r3") (value >> 32) as u32,
            options(nostack, preserves_flags));
    }
}

/// The identifiers have 8 bits.
struct Asids;

impl asid::Identifiers for Asids {
    fn count() -> usize {
        1 << 8
    }
}

/// Makes `root` the current user address space of this CPU. Interrupts are off.
#[inline]
pub fn switch_to(root: PhysAddr, context: &MmContext) {
    let asid = asid::activate::<Asids>(context);
    // SAFETY: `root` is a user root table that the caller keeps alive while it is current; the identifier is
    // its own.
    unsafe { sysreg::write64!(TTBR0_64, root.as_u64() | asid << 48) }
    sysreg::isb();
}

/// Physical address of a root with nothing in it.
pub(super) static EMPTY_ROOT: AtomicUsize = AtomicUsize::new(0);

/// Makes the current user address space of this CPU an empty one. Interrupts are off.
pub(super) fn load_nobody() {
    // SAFETY: the table is empty for good, and identifier 0 is nobody else's.
    unsafe { sysreg::write64!(TTBR0_64, EMPTY_ROOT.load(Ordering::Relaxed) as u64) }
    sysreg::isb();
}

/// What the walker needs besides the tables of `mm`: nothing.
pub(super) fn init_roots() {}

/// Tables of `[start, end)` are about to be freed.
#[inline(always)]
pub(super) fn forget_tables(_asid: usize, _start: usize, _end: usize) {}

/// Whether the walker missed what the tables have for `addr`: here it walks them themselves.
#[inline(always)]
pub(super) fn sync_root(_addr: usize) -> bool {
    false
}
