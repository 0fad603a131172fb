//! Short descriptors (what every v7-A has): tables of 32-bit entries. The room's tables have two levels with
//! pages for tables: one of level 0 is four of the processor's behind one another, so it has its own root of
//! 16 KiB, four entries for each of the room's. There is one root for each address-space identifier, with the
//! kernel's part in it; what is missing in one is copied when an access misses it ([`sync_root`]).
//! Re-exported by `mmu`.
//!
//! Closed user space: the tables of user space are of a domain of their own, and `DACR` says whether that may
//! be accessed at all.

use super::kmap_format::{self, KERNEL_PART, ROOT_ENTRIES, kernel_table, note_kernel_entry};
use super::{asid, sysreg};
use crate::mm::frame::{self, For};
use crate::mm::{PhysAddr, Prot};
use crate::sync::IrqSpinLock;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

pub use super::asid::MmContext;

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
/// Its value.
pub(super) type Raw = u32;
/// Levels of a user page table; level 0 holds pages, `LEVELS - 1` is the root.
pub const LEVELS: usize = 2;
/// log2 of the entries of one table.
pub const TABLE_SHIFT: usize = 10;
/// log2 of what the kernel's own map has in blocks.
pub(super) const BLOCK_SHIFT: usize = 20;
/// Physical addresses have 32 bits.
pub(super) const PHYS_END: u64 = 1 << 32;
/// `DACR` with user space open, and closed: the kernel's domain 0 is always checked against the tables, user
/// space's domain 1 is, or is denied.
pub(super) const OPEN: u32 = 1 | 1 << 2;
/// See [`OPEN`].
pub(super) const CLOSED: u32 = 1;

/// How a kernel mapping's memory behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// Ordinary cached memory.
    Normal,
    /// Device registers.
    Device,
}

const TABLE: u32 = 1;
const USER_DOMAIN: u32 = 1 << 5;
/// A page of 4 KiB.
const PAGE: u32 = 2;
const NO_EXEC: u32 = 1;
const BUFFERED: u32 = 1 << 2;
const CACHED: u32 = 1 << 3;
const ACCESSED: u32 = 1 << 4;
const USER: u32 = 1 << 5;
/// With `BUFFERED` and `CACHED`: write-back, allocating on writes.
const ALLOCATING: u32 = 1 << 6;
const READ_ONLY: u32 = 1 << 9;
const SHARED: u32 = 1 << 10;
const NOT_GLOBAL: u32 = 1 << 11;
const NORMAL: u32 = BUFFERED | CACHED | ALLOCATING | SHARED;
const ADDRESS: u32 = !0xfff;

/// One page table entry (any level of the room's), as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Entry(pub u32);

impl Entry {
    /// Nothing mapped.
    pub const EMPTY: Self = Self(0);

    const fn user_bits(prot: Prot) -> u32 {
        let common = NORMAL | ACCESSED | NOT_GLOBAL | USER;
        if prot.is_empty() {
            // Kept but not there: `PROT_NONE`.
            return common | READ_ONLY;
        }
        common
            | PAGE
            | if prot.contains(Prot::WRITE) { 0 } else { READ_ONLY }
            | if prot.contains(Prot::EXEC) { 0 } else { NO_EXEC }
    }
    /// A user page. `prot` without any access bit maps nothing accessible but keeps the frame (`PROT_NONE`):
    /// faults on every access. Young and, if writable, dirty already.
    #[inline]
    pub fn user_page(phys: PhysAddr, prot: Prot) -> Self {
        Self(phys.as_usize() as u32 | Self::user_bits(prot))
    }
    /// A kernel page (level 0) or section of 1 MiB (level 1).
    pub fn kernel_leaf(phys: PhysAddr, prot: Prot, kind: MemoryKind, level: usize) -> Self {
        let mut bits = PAGE | ACCESSED;
        bits |= match kind {
            MemoryKind::Normal => NORMAL,
            MemoryKind::Device => BUFFERED,
        };
        if !prot.contains(Prot::WRITE) {
            bits |= READ_ONLY;
        }
        if !prot.contains(Prot::EXEC) {
            bits |= NO_EXEC;
        }
        if level == 1 {
            // The same bits elsewhere: those of the attributes are six higher, execution is bit 4.
            let high = bits & (ACCESSED | USER | ALLOCATING | READ_ONLY | SHARED);
            bits = PAGE | bits & (BUFFERED | CACHED) | high << 6 | (bits & NO_EXEC) << 4;
        }
        Self(phys.as_usize() as u32 | bits)
    }
    /// A pointer to a lower table of user space.
    #[inline]
    pub fn table(phys: PhysAddr) -> Self {
        Self(phys.as_usize() as u32 | TABLE | USER_DOMAIN)
    }
    /// Whether nothing is there.
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
    /// Whether a lower table is there (asked of levels above 0 only).
    #[inline(always)]
    pub fn is_table(self) -> bool {
        self.0 & 3 == TABLE
    }
    /// The page's or table's physical address.
    #[inline(always)]
    pub fn phys(self) -> PhysAddr {
        PhysAddr::new(u64::from(self.0 & ADDRESS))
    }
    /// The user permissions.
    #[inline]
    pub fn prot(self) -> Prot {
        if self.0 & PAGE == 0 {
            return Prot::empty();
        }
        let mut prot = Prot::READ;
        prot.set(Prot::WRITE, self.0 & READ_ONLY == 0);
        prot.set(Prot::EXEC, self.0 & NO_EXEC == 0);
        prot
    }
    /// The same page without permission to write; `None` if it has none.
    #[inline(always)]
    pub fn write_protected(self) -> Option<Self> {
        (self.0 & (PAGE | READ_ONLY) == PAGE).then_some(Self(self.0 | READ_ONLY))
    }
    /// The same page with other user permissions.
    #[inline]
    pub fn with_prot(self, prot: Prot) -> Self {
        Self(self.0 & ADDRESS | Self::user_bits(prot))
    }
    /// What the processor's root has for part `n` of four, in the kernel's domain or in user space's.
    pub(super) fn quarter(self, n: usize, kernel: bool) -> u32 {
        let entry = if kernel { self.0 & !USER_DOMAIN } else { self.0 };
        entry + (n << 10) as u32
    }
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

/// Writes an entry in memory, after everything before. The kernel's upper entries are the processor's
/// business, too.
#[inline(always)]
pub fn store_slot(slot: &Slot, value: u32) {
    slot.store(value, Ordering::Release);
    note_kernel_entry(slot, Entry(value));
}

/// `TTBR0`: walks write-back, inner shareable.
pub(super) const WALKS: u32 = 1 << 6 | 1 << 5 | 1 << 3 | 1 << 1;

/// Sets `TTBR0` and the identifier, never one with the other's: in between nothing is cached under an
/// identifier that anybody has.
#[inline(always)]
fn load(table: usize, asid: u32) {
    let local = super::cpus::cpu_local() as u32;
    // SAFETY: the table has the kernel's part; interrupts are off.
    unsafe {
        sysreg::write!("p15, 0, {}, c13, c0, 1", local);
        sysreg::isb();
        sysreg::write!("p15, 0, {}, c2, c0, 0", table as u32 | WALKS);
        sysreg::isb();
        sysreg::write!("p15, 0, {}, c13, c0, 1", local | asid);
    }
    sysreg::isb();
}

/// Makes `root` the current user address space of this CPU. Interrupts are off.
#[inline]
pub fn switch_to(root: PhysAddr, context: &MmContext) {
    let asid = asid::activate(context) as usize;
    if OWNER[asid].load(Ordering::Acquire) != root.as_usize() {
        take_over(asid, root);
    }
    load(table_of(asid), asid as u32);
}

/// Leaves user address spaces: only kernel mappings are valid on this CPU afterwards (idle, kernel threads
/// that outlive their last user). Interrupts are off.
pub fn switch_to_kernel() {
    super::mmu::close_user();
    load(kernel_table(), 0);
}

const MAX_ROOTS: usize = 256;
/// Bytes of a root.
const ROOT_SIZE: usize = ROOT_ENTRIES * 4;
/// Physical address of the roots, one for each identifier, and how many there are.
static ROOTS: AtomicUsize = AtomicUsize::new(0);
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// The room's root (physical address) that each is a copy of.
static OWNER: [AtomicUsize; MAX_ROOTS] = [const { AtomicUsize::new(0) }; MAX_ROOTS];
/// Taken where entries of the roots come and go.
static CHANGES: IrqSpinLock<()> = IrqSpinLock::new(());

/// Makes the roots: all there can be, fewer where memory is small. Boot CPU, before the first user address
/// space is switched to.
pub(super) fn init_roots() {
    let wanted = if frame::total() >= 32768 {
        MAX_ROOTS
    } else {
        (2 * super::cpus::count() + 2).next_power_of_two().max(32)
    };
    let order = (wanted * ROOT_SIZE / crate::mm::PAGE_SIZE).ilog2() as usize;
    let Some(pfn) = frame::alloc_block(order, For::Kernel) else {
        panic!("no memory for page tables");
    };
    ROOTS.store(frame::phys(pfn).as_usize(), Ordering::Relaxed);
    COUNT.store(wanted, Ordering::Relaxed);
}

/// How many address-space identifiers there are.
pub(super) fn asid_count() -> usize {
    COUNT.load(Ordering::Relaxed)
}

/// An address-space identifier begins to be used for another address space.
pub(super) fn asid_taken(asid: usize) {
    OWNER[asid].store(0, Ordering::Release);
}

fn table_of(asid: usize) -> usize {
    ROOTS.load(Ordering::Relaxed) + asid * ROOT_SIZE
}

/// An entry of the processor's root of `asid`.
fn hardware(asid: usize, index: usize) -> &'static AtomicU32 {
    kmap_format::hardware(table_of(asid), index)
}

/// An entry of the room's root at `root`.
fn entry(root: usize, index: usize) -> Entry {
    Entry(crate::mm::table::table(PhysAddr::new(root as u64))[index].load(Ordering::Acquire))
}

/// Entries of the room's root that user space has.
const USER_ENTRIES: usize = super::mmu::USER_END.div_ceil(1 << 22);

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
        let entry = kmap_format::hardware(kernel_table(), index).load(Ordering::Relaxed);
        hardware(asid, index).store(entry, Ordering::Relaxed);
    }
    sysreg::store_barrier();
    OWNER[asid].store(root.as_usize(), Ordering::Release);
}

/// Copies entry `index` of the room's root. `CHANGES` is held. Returns whether there is one.
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

/// Makes the processor's root of the current address space agree with the room's for `addr`, before or after
/// a page fault there. `true`: it did not, and the access should be tried again.
#[inline]
pub(super) fn sync_root(addr: usize) -> bool {
    let asid = sysreg::read!("p15, 0, {}, c13, c0, 1") as usize & 0xff;
    if asid == 0 || hardware(asid, addr >> 20).load(Ordering::Relaxed) != 0 {
        return false;
    }
    sync_slow(addr)
}

#[cold]
fn sync_slow(addr: usize) -> bool {
    let _changes = CHANGES.lock();
    // Interrupts are off: the identifier is that of the running thread's address space.
    let asid = sysreg::read!("p15, 0, {}, c13, c0, 1") as usize & 0xff;
    let root = OWNER[asid].load(Ordering::Relaxed);
    let copied = asid != 0 && root != 0 && copy(asid, root, addr >> 22);
    sysreg::store_barrier();
    copied
}

/// Tables of `[start, end)` are about to be freed; the room's root does not have them any more.
pub(super) fn forget_tables(asid: usize, start: usize, end: usize) {
    let _changes = CHANGES.lock();
    let root = OWNER[asid].load(Ordering::Relaxed);
    if root == 0 || start >= end {
        return;
    }
    for index in start >> 22..=(end.min(super::mmu::USER_END) - 1) >> 22 {
        if entry(root, index).is_empty() {
            copy(asid, root, index);
        }
    }
    sysreg::store_barrier();
}
