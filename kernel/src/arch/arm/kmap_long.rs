//! The kernel's own tables of long descriptors (`kmap`): `TTBR1`'s is the one below the root.

use super::format::{EMPTY_ROOT, Entry, LEVELS, TABLE_SHIFT};
use super::kmap_tables::{__table_pool_start, Tables};
use super::layout::{LINEAR_BASE, PAGE_SHIFT, image_to_phys, phys_to_virt};
use crate::mm::PhysAddr;
use core::sync::atomic::Ordering;

/// Adds a block to the early map: its table is the first page of the pool, for the kernel's gigabyte.
pub(super) fn set_early(virt: usize, entry: Entry) {
    let table = (&raw const __table_pool_start).cast_mut().cast::<u64>();
    // SAFETY: within the table; that slot was empty.
    unsafe { table.add((virt >> 21) & 511).write_volatile(entry.0) };
}

/// The map is live.
pub(super) fn live(_tables: &Tables) {}

impl Tables {
    /// What the format needs besides the root.
    pub(super) fn begin(&mut self) {
        let empty = self.table();
        EMPTY_ROOT.store(image_to_phys(empty as usize) as usize, Ordering::Relaxed);
    }

    /// Writes the entry of level `at` for `virt`.
    pub(super) fn set(&mut self, virt: usize, at: usize, entry: Entry) {
        let mut table = self.root;
        for level in (at + 1..LEVELS).rev() {
            let index = virt >> (PAGE_SHIFT + TABLE_SHIFT * level) & 511;
            // SAFETY: `table` is one of our tables, in the image.
            let slot = unsafe { table.add(index) };
            // SAFETY: the slot lies in one of the image's tables.
            let current = Entry(unsafe { slot.read() });
            table = if current.is_empty() {
                let lower = self.table();
                // SAFETY: the slot lies in one of the image's tables, which nothing else
                // writes yet.
                unsafe { slot.write(Entry::table(PhysAddr::new(image_to_phys(lower as usize))).0) };
                lower
            } else {
                phys_to_virt(current.phys()).cast()
            };
        }
        // SAFETY: the slot lies in one of the image's tables, which nothing else writes yet.
        unsafe {
            table
                .add(virt >> (PAGE_SHIFT + TABLE_SHIFT * at) & 511)
                .write(entry.0)
        };
    }

    /// Hangs a table of pages in.
    pub(super) fn set_table(&mut self, virt: usize, table: *mut u64) {
        let entry = Entry::table(PhysAddr::new(image_to_phys(table as usize)));
        self.set(virt, 1, entry);
    }

    /// What `TTBR1` is to hold, on this CPU and on the others.
    pub(super) fn finish(&self) -> (u32, u32) {
        // SAFETY: the root is ours; the kernel's gigabyte is its last entry.
        let table = Entry(unsafe { self.root.add(LINEAR_BASE >> 30).read() })
            .phys()
            .as_usize() as u32;
        (table, table)
    }
}
