//! The kernel's own tables of long descriptors (`kmap`): `TTBR1`'s is the one below the root.

use super::format::{EMPTY_ROOT, Entry};
use super::image::__table_pool_start;
use super::kernel_tables::Tables;
use super::layout::{LINEAR_BASE, image_to_phys, phys_to_virt};
use super::mmu::kernel_root;
use crate::mm::PAGE_SIZE;
use core::sync::atomic::Ordering;
use limen_linear_map::{self as linear_map, Map, Table};

/// Adds a block to the early map: its table is the first page of the pool, for the kernel's gigabyte.
pub(super) fn set_early(virt: usize, entry: Entry) {
    let table = (&raw const __table_pool_start).cast_mut().cast::<u64>();
    // SAFETY: within the table; that slot was empty.
    unsafe { table.add((virt >> 21) & 511).write_volatile(entry.0) };
}

/// The map is live.
pub(super) fn live() {}

impl Tables {
    /// What the format needs besides the root.
    pub(super) fn begin(&mut self) {
        let empty = self.pages(1);
        EMPTY_ROOT.store(image_to_phys(empty as usize) as usize, Ordering::Relaxed);
    }

    /// A page that is mapped as `entry` says.
    pub(super) fn set(&mut self, map: &Map, virt: usize, entry: Entry) {
        if let linear_map::Entry::Leaf(leaf) = entry.kernel(0) {
            let built = map.build(self, virt as u64, leaf.phys, PAGE_SIZE as u64, leaf.attributes);
            assert!(built.is_ok(), "the kernel's map has something at {virt:#x}");
        }
    }

    /// Hangs a table of pages in.
    pub(super) fn set_table(&mut self, map: &Map, virt: usize, table: *mut Entry) {
        let table = Table(self.phys(table));
        let built = map.build_table(self, virt as u64, table);
        assert!(built.is_ok(), "the kernel's map has something at {virt:#x}");
    }

    /// What `TTBR1` is to hold, on this CPU and on the others.
    pub(super) fn finish(&self) -> (u32, u32) {
        let root = phys_to_virt(kernel_root()).cast::<Entry>();
        // SAFETY: the root is ours; the kernel's gigabyte is its last entry.
        let table = unsafe { root.add(LINEAR_BASE >> 30).read() }.phys().as_usize() as u32;
        (table, table)
    }
}
