//! The kernel's own tables of long descriptors (`kmap`): `TTBR1`'s is the one below the root.

use super::format::{EMPTY_ROOT, Entry};
use super::image::__table_pool_start;
use super::kernel_tables::Tables;
use super::layout::{LINEAR_BASE, image_to_phys};
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

    /// Hangs a table of pages in.
    pub(super) fn set_table(&mut self, virt: usize, table: *mut Entry) {
        let entry = Entry::table(PhysAddr::new(image_to_phys(table as usize)), 0);
        self.set(virt, 1, entry);
    }

    /// What `TTBR1` is to hold, on this CPU and on the others.
    pub(super) fn finish(&self) -> (u32, u32) {
        // SAFETY: the root is ours; the kernel's gigabyte is its last entry.
        let table = unsafe { self.root.add(LINEAR_BASE >> 30).read() }
            .phys()
            .as_usize() as u32;
        (table, table)
    }
}
