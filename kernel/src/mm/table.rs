//! Page tables in memory, of user address spaces and of the kernel's dynamic mappings: finding an entry, and
//! making the tables on the way to it. The format of an entry is known to `arch::mmu::Entry`.

use super::frame::{self, For, Pfn};
use super::{PAGE_SHIFT, PhysAddr};
use crate::arch::mmu::{self, Entry, LEAF_SHIFT, LEVELS, ROOT_SHIFT, Slot, TABLE_SHIFT};
use core::sync::atomic::Ordering;

/// Entries of a table, the most that one has.
pub const ENTRIES: usize = 1 << TABLE_SHIFT;
/// Entries of a table of pages.
pub const LEAF_ENTRIES: usize = 1 << LEAF_SHIFT;
const _: () = assert!(LEAF_SHIFT <= TABLE_SHIFT && ROOT_SHIFT <= TABLE_SHIFT);

/// A page table. Several CPUs and the processor's own table walk change its entries.
pub type Table = [Slot; ENTRIES];

/// The table at `phys`.
///
/// The reference is `'static` although tables are freed: the caller has locked the address space, or owns it,
/// and so keeps its tables.
#[inline(always)]
pub fn table(phys: PhysAddr) -> &'static Table {
    // SAFETY: page tables are whole frames of the linear map, and accessed only by atomics as long as they
    // are tables.
    unsafe { &*mmu::phys_to_virt(phys).cast::<Table>() }
}

/// The root's level.
const ROOT: usize = LEVELS - 1;

/// How many bytes one entry of a table of `level` covers, as a shift.
#[inline(always)]
pub const fn level_shift(level: usize) -> usize {
    let less = if level > 0 { TABLE_SHIFT - LEAF_SHIFT } else { 0 };
    PAGE_SHIFT + level * TABLE_SHIFT - less
}

/// The index into a table of `level` for `addr`.
#[inline(always)]
pub const fn index(addr: usize, level: usize) -> usize {
    let entries = match level {
        0 => LEAF_ENTRIES,
        ROOT => 1 << ROOT_SHIFT,
        _ => ENTRIES,
    };
    addr >> level_shift(level) & (entries - 1)
}

/// Reads an entry.
#[inline(always)]
pub fn load(slot: &Slot) -> Entry {
    Entry(mmu::load_slot(slot))
}

/// Writes an entry.
#[inline(always)]
pub fn store(slot: &Slot, entry: Entry) {
    mmu::store_slot(slot, entry.0);
}

/// The slot of the page at `addr`, if all tables on the way exist.
#[inline]
pub fn find(root: PhysAddr, addr: usize) -> Option<&'static Slot> {
    let mut at = root;
    let mut level = LEVELS - 1;
    while level > 0 {
        let entry = load(&table(at)[index(addr, level)]);
        if !entry.is_table() {
            return None;
        }
        at = entry.phys();
        level -= 1;
    }
    Some(&table(at)[index(addr, 0)])
}

/// The entry of the page at `addr`. Tables on the way are made, and `made` is called with each. `None`: no
/// memory. Several CPUs may do this at the same time.
#[inline(always)]
pub fn find_or_make(root: PhysAddr, addr: usize, whom: For, made: impl Fn(Pfn)) -> Option<&'static Slot> {
    let mut at = root;
    let mut level = LEVELS - 1;
    while level > 0 {
        let slot = &table(at)[index(addr, level)];
        let entry = load(slot);
        at = if entry.is_table() {
            entry.phys()
        } else {
            make(slot, level - 1, whom, &made)?
        };
        level -= 1;
    }
    Some(&table(at)[index(addr, 0)])
}

#[cold]
#[inline(never)]
fn make(slot: &Slot, level: usize, whom: For, made: &impl Fn(Pfn)) -> Option<PhysAddr> {
    let new = new_table(whom)?;
    let entry = Entry::table(frame::phys(new), level);
    match slot.compare_exchange(Entry::EMPTY.0, entry.0, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => {
            made(new);
            Some(frame::phys(new))
        }
        Err(found) => {
            frame::free(new);
            Some(Entry(found).phys())
        }
    }
}

/// The table whose first slot is `first`.
#[inline(always)]
pub fn table_of(first: &'static Slot) -> &'static Table {
    debug_assert!((first as *const Slot as usize).is_multiple_of(size_of::<Table>()));
    // SAFETY: the entry is the first one of a table, which lives as long (see `table`).
    unsafe { &*(first as *const Slot).cast::<Table>() }
}

/// A zeroed table page.
pub fn new_table(whom: For) -> Option<Pfn> {
    let pfn = frame::alloc(whom)?;
    mmu::clear_page(frame::phys(pfn));
    Some(pfn)
}

/// How many entries are tested at a time.
const GROUP: usize = 8;

/// Whether all entries are empty.
#[inline(always)]
fn none_there(slots: &[Slot; GROUP]) -> bool {
    slots.iter().fold(0, |all, slot| all | mmu::load_part(slot)) == 0
}

const _: () = assert!(Entry::EMPTY.0 == 0);

/// Calls `f(address, slot, entry)` for every entry for a page in `[start, end)` that is not empty.
#[inline(always)]
pub fn for_each(root: PhysAddr, start: usize, end: usize, mut f: impl FnMut(usize, &'static Slot, Entry)) {
    for_each_part(
        root,
        start,
        end,
        #[inline(always)]
        |addr, slots| each_of(slots, |i, slot, entry| f(addr + (i << PAGE_SHIFT), slot, entry)),
    );
}

/// Calls `f(address, slots)` for that part of each leaf table that lies in `[start, end)`, even if it is
/// empty.
#[inline(always)]
pub fn for_each_part(root: PhysAddr, start: usize, end: usize, mut f: impl FnMut(usize, &'static [Slot])) {
    let mut addr = start;
    'outer: while addr < end {
        let mut at = root;
        let mut level = LEVELS - 1;
        while level > 0 {
            let entry = load(&table(at)[index(addr, level)]);
            if !entry.is_table() {
                addr = (addr | ((1 << level_shift(level)) - 1)).wrapping_add(1);
                if addr == 0 {
                    return;
                }
                continue 'outer;
            }
            at = entry.phys();
            level -= 1;
        }
        let stop = end.min((addr | ((1 << level_shift(1)) - 1)).wrapping_add(1));
        let first = index(addr, 0);
        let count = stop.wrapping_sub(addr) >> PAGE_SHIFT;
        f(addr, &table(at)[first..first + count]);
        addr = stop;
    }
}

/// Calls `f(index, slot, entry)` for every entry of `slots` that is not empty. Many mapped pages were never
/// touched, so empty entries are skipped in groups.
#[inline(always)]
pub fn each_of<'a>(slots: &'a [Slot], mut f: impl FnMut(usize, &'a Slot, Entry)) {
    let count = slots.len();
    let mut i = 0;
    while i < count {
        if let Some(group) = slots[i..].first_chunk::<GROUP>()
            && none_there(group)
        {
            i += GROUP;
            continue;
        }
        let end = count.min(i + GROUP);
        for slot in &slots[i..end] {
            let entry = load(slot);
            if !entry.is_empty() {
                f(i, slot, entry);
            }
            i += 1;
        }
    }
}

/// Whether an entry of `slots` is not empty.
#[inline(always)]
pub fn any_there(slots: &[Slot]) -> bool {
    let (groups, rest) = slots.as_chunks();
    !groups.iter().all(none_there) || rest.iter().any(|slot| mmu::load_part(slot) != 0)
}
