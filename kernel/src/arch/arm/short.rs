//! Short descriptors (what every v7-A has): tables of 32-bit entries. The tables that `mm` knows have two
//! levels with pages for tables: one of level 0 is four of the processor's behind one another, so it has its
//! own root of 16 KiB, four entries for each of `mm`'s. There is one root for each address-space identifier,
//! with the kernel's part in it; what is missing in one is copied when an access misses it ([`sync_root`]).
//! Re-exported by `mmu`.
//!
//! Closed user space: the tables of user space are of a domain of their own, and `DACR` says whether that may
//! be accessed at all.

use super::layout::{USER_END, phys_to_virt};
use super::{asid, cpus, sysreg};
use crate::mm::frame::{self, For};
use crate::mm::{PAGE_SIZE, PhysAddr};
use crate::sync::IrqSpinLock;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use limen_linear_map::{Map, Table, geometry, rule};

pub use super::asid::MmContext;
pub use super::descriptor::{Entry, MemoryKind};

/// The register that opens and closes user space, in instructions: `DACR`.
macro_rules! window_register {
    () => {
        "c3, c0, 0"
    };
}
pub(super) use window_register;

/// Not the other format.
pub(super) const SHORT: bool = true;
/// An entry in memory.
pub type Slot = AtomicU32;
/// Levels of a user page table; level 0 holds pages, `LEVELS - 1` is the root.
pub const LEVELS: usize = 2;
/// log2 of the entries of one table.
pub const TABLE_SHIFT: usize = 10;
/// A table of pages, and the root, are like the others.
pub const LEAF_SHIFT: usize = TABLE_SHIFT;
/// See there.
pub const ROOT_SHIFT: usize = TABLE_SHIFT;
/// log2 of what the kernel's own map has in blocks.
pub(super) const BLOCK_SHIFT: usize = 20;
/// Physical addresses have 32 bits.
pub(super) const PHYS_END: u64 = 1 << 32;
/// `DACR` with user space open: permissions of pages in the kernel's domain 0 and in user space's domain 1
/// are checked.
pub(super) const OPEN: u32 = 1 | 1 << 2;
/// `DACR` with user space closed: all accesses to pages of domain 1 are denied.
pub(super) const CLOSED: u32 = 1;

/// Entries of a root of the processor.
pub(super) const ROOT_ENTRIES: usize = 4096;
/// The first of them that is for the kernel's addresses.
const KERNEL_PART: usize = 0xc00;

/// The processor's root that has nothing of user space (physical).
pub(super) static KERNEL_TABLE: AtomicUsize = AtomicUsize::new(0);
/// The one secondary CPUs start with, which has the identity map as well (physical).
pub(super) static START_TABLE: AtomicUsize = AtomicUsize::new(0);
/// The kernel's root as `mm` knows it (an address).
pub(super) static MM_ROOT: AtomicUsize = AtomicUsize::new(0);

/// The processor's root with nothing of user space.
#[inline(always)]
pub(super) fn kernel_table() -> usize {
    KERNEL_TABLE.load(Ordering::Relaxed)
}

/// The kernel's map, as `crates/linear-map` knows it: with the processor's root, not `mm`'s.
pub(super) fn kernel_map(_: u64) -> Map {
    Map {
        geometry: &geometry::ARM_SHORT,
        rule: rule::ARM_SHORT,
        root: Table(kernel_table() as u64),
        largest: 1,
        groups: false,
    }
}

/// An entry of the processor's root at `table` (physical).
pub(super) fn entry_of(table: usize, index: usize) -> &'static AtomicU32 {
    let table = phys_to_virt(PhysAddr::new(table as u64)).cast::<AtomicU32>();
    // SAFETY: one of the processor's roots, which live for good and are only accessed as atomics.
    unsafe { &*table.add(index) }
}

/// An entry of a table was written: if it is one of the kernel's root, the processor's roots get it, too.
/// That happens at boot only, before there are roots for user space.
#[inline(always)]
fn note_kernel_entry(slot: &Slot, entry: Entry) {
    let at = core::ptr::from_ref(slot) as usize;
    if at & !(PAGE_SIZE - 1) == MM_ROOT.load(Ordering::Relaxed) {
        copy_kernel_entry(at % PAGE_SIZE / 4, entry);
    }
    let kernel = phys_to_virt(PhysAddr::new(kernel_table() as u64)) as usize;
    if at.wrapping_sub(kernel) < ROOT_ENTRIES * 4 {
        // The linear map, of pages now: other CPUs begin with it.
        entry_of(START_TABLE.load(Ordering::Relaxed), at.wrapping_sub(kernel) / 4)
            .store(entry.0, Ordering::Relaxed);
    }
}

#[cold]
fn copy_kernel_entry(index: usize, entry: Entry) {
    for table in [&KERNEL_TABLE, &START_TABLE] {
        for n in 0..4 {
            entry_of(table.load(Ordering::Relaxed), index * 4 + n)
                .store(entry.quarter(n, true), Ordering::Relaxed);
        }
    }
    sysreg::store_barrier();
}

/// Reads an entry in memory, before anything that depends on it.
#[inline(always)]
pub fn load_slot(slot: &Slot) -> u32 {
    slot.load(Ordering::Relaxed)
}

/// Part of an entry in memory, which is zero only if the entry is empty: what is looked at to pass over empty
/// ones.
#[inline(always)]
pub fn load_part(slot: &Slot) -> u32 {
    slot.load(Ordering::Relaxed)
}

/// Writes an entry in memory, after everything before.
#[inline(always)]
pub fn store_slot(slot: &Slot, value: u32) {
    slot.store(value, Ordering::Release);
    note_kernel_entry(slot, Entry(value));
}

/// Writes an entry in memory at once, but in any order: a barrier follows the last of several.
#[inline(always)]
pub fn store_unordered(slot: &Slot, value: u32) {
    slot.store(value, Ordering::Relaxed);
    note_kernel_entry(slot, Entry(value));
}

/// Sets `TTBR0` and the identifier, never one with the other's: in between nothing is cached under an
/// identifier that anybody has.
#[inline(always)]
fn load(table: usize, asid: u32) {
    let local = cpus::cpu_local() as u32;
    // SAFETY: the table has the kernel's part; interrupts are off.
    unsafe {
        sysreg::write!(CONTEXTIDR, local);
        sysreg::isb();
        sysreg::write!(TTBR0, table as u32 | sysreg::TTBR0_WALKS);
        sysreg::isb();
        sysreg::write!(CONTEXTIDR, local | asid);
    }
    sysreg::isb();
}

/// Makes `root` the current user address space of this CPU. Interrupts are off.
#[inline]
pub fn switch_to(root: PhysAddr, context: &MmContext) {
    let asid = asid::activate::<Asids>(context) as usize;
    if OWNER[asid].load(Ordering::Acquire) != root.as_usize() {
        take_over(asid, root);
    }
    load(table_of(asid), asid as u32);
}

/// Makes the current user address space of this CPU an empty one. Interrupts are off.
pub(super) fn load_nobody() {
    load(kernel_table(), 0);
}

const MAX_ROOTS: usize = 256;
/// Bytes of a root.
const ROOT_SIZE: usize = ROOT_ENTRIES * 4;
/// Physical address of the roots, one for each identifier, and how many there are.
static ROOTS: AtomicUsize = AtomicUsize::new(0);
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// The root of `mm`'s (physical address) that each is a copy of.
static OWNER: [AtomicUsize; MAX_ROOTS] = [const { AtomicUsize::new(0) }; MAX_ROOTS];
/// Taken where entries of the roots come and go.
static CHANGES: IrqSpinLock<()> = IrqSpinLock::new(());

/// Makes the roots: all there can be, fewer where memory is small. Boot CPU, before the first user address
/// space is switched to.
pub(super) fn init_roots() {
    let wanted = if frame::total() >= 32768 {
        MAX_ROOTS
    } else {
        (2 * cpus::count() + 2).next_power_of_two().max(32)
    };
    let order = (wanted * ROOT_SIZE / PAGE_SIZE).ilog2() as usize;
    let Some(pfn) = frame::alloc_block(order, For::Kernel) else {
        panic!("no memory for page tables");
    };
    ROOTS.store(frame::phys(pfn).as_usize(), Ordering::Relaxed);
    COUNT.store(wanted, Ordering::Relaxed);
}

/// There is an identifier for each root.
struct Asids;

impl asid::Identifiers for Asids {
    fn count() -> usize {
        COUNT.load(Ordering::Relaxed)
    }
    fn taken(asid: usize) {
        OWNER[asid].store(0, Ordering::Release);
    }
}

fn table_of(asid: usize) -> usize {
    ROOTS.load(Ordering::Relaxed) + asid * ROOT_SIZE
}

/// An entry of the processor's root of `asid`.
fn hardware(asid: usize, index: usize) -> &'static AtomicU32 {
    entry_of(table_of(asid), index)
}

/// An entry of `mm`'s root at `root`.
fn entry(root: usize, index: usize) -> Entry {
    Entry(crate::mm::table::table(PhysAddr::new(root as u64))[index].load(Ordering::Acquire))
}

/// Entries of `mm`'s root that user space has.
const USER_ENTRIES: usize = USER_END.div_ceil(1 << 22);

/// Makes the processor's root of `asid` that of another address space.
#[cold]
#[inline(never)]
fn take_over(asid: usize, root: PhysAddr) {
    let _changes = CHANGES.lock();
    if OWNER[asid].load(Ordering::Acquire) == root.as_usize() {
        return;
    }
    for index in 0..USER_ENTRIES {
        copy(asid, root.as_usize(), index);
    }
    // Between the end of user space and the kernel there is nothing.
    for index in USER_ENTRIES * 4..KERNEL_PART {
        hardware(asid, index).store(0, Ordering::Relaxed);
    }
    for index in KERNEL_PART..ROOT_ENTRIES {
        let entry = entry_of(kernel_table(), index).load(Ordering::Relaxed);
        hardware(asid, index).store(entry, Ordering::Relaxed);
    }
    sysreg::store_barrier();
    OWNER[asid].store(root.as_usize(), Ordering::Release);
}

/// Copies entry `index` of `mm`'s root. `CHANGES` is held. Returns whether there is one.
fn copy(asid: usize, root: usize, index: usize) -> bool {
    let entry = entry(root, index);
    for n in 0..4 {
        let value = if entry.is_empty() {
            0
        } else {
            entry.quarter(n, false)
        };
        hardware(asid, index * 4 + n).store(value, Ordering::Release);
    }
    !entry.is_empty()
}

/// Makes the processor's root of the current address space agree with `mm`'s for `addr`, before or after
/// a page fault there. `true`: it did not, and the access should be tried again.
#[inline]
pub(super) fn sync_root(addr: usize) -> bool {
    let asid = sysreg::read!(CONTEXTIDR) as usize & 0xff;
    if asid == 0 || hardware(asid, addr >> 20).load(Ordering::Relaxed) != 0 {
        return false;
    }
    sync_slow(addr)
}

#[cold]
fn sync_slow(addr: usize) -> bool {
    let _changes = CHANGES.lock();
    // Interrupts are off: the identifier is that of the running thread's address space.
    let asid = sysreg::read!(CONTEXTIDR) as usize & 0xff;
    let root = OWNER[asid].load(Ordering::Relaxed);
    let copied = asid != 0 && root != 0 && copy(asid, root, addr >> 22);
    sysreg::store_barrier();
    copied
}

/// Tables of `[start, end)` are about to be freed; `mm`'s root does not have them any more.
pub(super) fn forget_tables(asid: usize, start: usize, end: usize) {
    let _changes = CHANGES.lock();
    let root = OWNER[asid].load(Ordering::Relaxed);
    if root == 0 || start >= end {
        return;
    }
    for index in start >> 22..=(end.min(USER_END) - 1) >> 22 {
        if entry(root, index).is_empty() {
            copy(asid, root, index);
        }
    }
    sysreg::store_barrier();
}
