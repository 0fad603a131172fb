//! Mapping in the kernel's own tables (`kernel_tables`) where all levels are alike.

use super::kernel_tables::Tables;
use super::mmu::{Entry, LARGEST_LEAF, LEVELS, MemoryKind, image_at, image_to_phys};
use crate::mm::table::{index, level_shift};
use crate::mm::{PhysAddr, Prot};

impl Tables {
    /// Maps `[phys, phys + size)` at `virt` with the largest leaves that fit; everything is page-aligned.
    pub(super) fn map(
        &mut self,
        mut virt: usize,
        mut phys: u64,
        mut size: u64,
        prot: Prot,
        kind: MemoryKind,
    ) {
        let bytes = |level: usize| 1u64 << level_shift(level);
        while size > 0 {
            let fits =
                |&level: &usize| (virt as u64 | phys) & (bytes(level) - 1) == 0 && size >= bytes(level);
            let level = (1..=LARGEST_LEAF).rev().find(fits).unwrap_or(0);
            self.set(
                virt,
                level,
                Entry::kernel_leaf(PhysAddr::new(phys), prot, kind, level),
            );
            virt = virt.wrapping_add(bytes(level) as usize);
            phys += bytes(level);
            size -= bytes(level);
        }
    }

    /// Writes the entry of level `at` for `virt`.
    pub(super) fn set(&mut self, virt: usize, at: usize, entry: Entry) {
        let mut table = self.root;
        for level in (at + 1..LEVELS).rev() {
            // SAFETY: `table` is one of our tables, in the image.
            let slot = unsafe { table.add(index(virt, level)) };
            // SAFETY: the slot lies in one of the image's tables.
            let current = unsafe { slot.read() };
            table = if current.is_empty() {
                let lower = self.table();
                // SAFETY: the slot lies in one of the image's tables, which nothing else writes yet.
                unsafe {
                    slot.write(Entry::table(
                        PhysAddr::new(image_to_phys(lower as usize)),
                        level - 1,
                    ))
                };
                lower
            } else {
                image_at(current.phys()).cast()
            };
        }
        // SAFETY: the slot lies in one of the image's tables, which nothing else writes yet.
        unsafe { table.add(index(virt, at)).write(entry) };
    }
}
