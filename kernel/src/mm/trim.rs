//! Freeing page tables of an unmapped range, if there are many.

use super::frame;
use super::gather::Gather;
use super::space::AddressSpace;
use super::{PAGE_SIZE, PhysAddr, table};
use crate::arch::mmu::{self, Entry, USER_END};
use core::sync::atomic::Ordering::Relaxed;
use limen_page_alloc::NONE;

/// In the `Frame::info` of a table: it was taken out of the tree.
const TABLE_DEAD: u32 = 1;

/// Empty tables of an address space that are kept for the next mapping: 192 KiB of them.
const SPARE: usize = (192 << 10) / PAGE_SIZE;

impl AddressSpace {
    /// Whether there are so many tables that looking for empty ones is worthwhile. A few are kept for the
    /// next mapping.
    pub(super) fn many_tables(&self) -> bool {
        let resident = self.anon.load(Relaxed) + self.file.load(Relaxed);
        self.table_count.load(Relaxed) >= SPARE + resident / (table::LEAF_ENTRIES / 4)
    }

    /// Frees tables around the just unmapped `[start, end)`: those whose whole span lies in `[below, above)`,
    /// where nothing is mapped. Tables directly below the root are kept; they are few.
    pub(super) fn trim_tables(
        &self,
        (start, end): (usize, usize),
        (below, above): (usize, usize),
        gather: &mut Gather,
    ) {
        let (mut floor, mut ceiling) = (start, end);
        let mut freed = 0;
        for level in 1..(mmu::LEVELS - 1).max(2) {
            let span = 1usize << table::level_shift(level);
            // Only spans in which the range itself lies can have become empty.
            floor = below.max(start & !(span - 1));
            ceiling = above.min(end.checked_next_multiple_of(span).unwrap_or(USER_END));
            freed += self.trim_level(level, floor, ceiling.min(USER_END));
        }
        if freed == 0 {
            return;
        }
        self.table_count.fetch_sub(freed, Relaxed);
        // Moves the marked tables from the list of tables to that of gathered frames. No thread adds a table
        // meanwhile: the regions are locked for writing.
        let mut at = self.tables.swap(NONE, Relaxed);
        let mut kept = NONE;
        while at != NONE {
            let record = frame::record(at);
            let next = record.a.load(Relaxed);
            if record.info.load(Relaxed) & TABLE_DEAD != 0 {
                gather.keep_table(at);
            } else {
                record.a.store(kept, Relaxed);
                kept = at;
            }
            at = next;
        }
        self.tables.store(kept, Relaxed);
        gather.note_tables(floor, ceiling.min(USER_END));
    }

    /// Takes those tables out of the tree to which entries of `level` refer and whose whole span lies in
    /// `[floor, ceiling)`, together with the tables below them. Returns how many.
    fn trim_level(&self, level: usize, floor: usize, ceiling: usize) -> usize {
        let span = 1usize << table::level_shift(level);
        let mut at = floor.next_multiple_of(span);
        let mut freed = 0;
        while at < ceiling && ceiling - at >= span {
            let (mut node, mut here) = (self.root, mmu::LEVELS - 1);
            let nothing = loop {
                let slot = &table::table(node)[table::index(at, here)];
                let entry = table::load(slot);
                if !entry.is_table() {
                    break here;
                }
                if here == level {
                    table::store(slot, Entry::EMPTY);
                    freed += bury(entry.phys(), level - 1);
                    break here;
                }
                node = entry.phys();
                here -= 1;
            };
            let step = 1 << table::level_shift(nothing);
            let Some(next) = (at & !(step - 1)).checked_add(step) else {
                break;
            };
            at = next;
        }
        freed
    }
}

/// Marks a table of `level` that was taken out of the tree, and the tables below it. Returns how many they
/// are.
fn bury(node: PhysAddr, level: usize) -> usize {
    let mut count = 1;
    if level > 0 {
        table::each_of(table::table(node), |_, _, entry| {
            count += bury(entry.phys(), level - 1);
        });
    } else {
        debug_assert!(
            !table::any_there(table::table(node)),
            "a page where nothing is mapped"
        );
    }
    frame::record(frame::pfn(node))
        .info
        .store(frame::INFO_OWNED | TABLE_DEAD, Relaxed);
    count
}
