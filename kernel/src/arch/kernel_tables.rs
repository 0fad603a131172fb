//! The kernel's own map (`kmap`) under construction, when nothing can be allocated yet: tables come from a
//! range of memory that is set aside. What is mapped how large is `crates/linear-map`'s business.

use super::kernel_map;
use super::mmu::{self, Entry, MemoryKind};
use crate::mm::kernel_map::{Image, numbers};
use crate::mm::{PAGE_SIZE, PhysAddr, PhysRange, Prot};
use limen_linear_map::{self as linear_map, Build, Map, Table, Tables as Read};

/// The tables of the map.
pub(super) struct Tables {
    /// Where the next table goes, by its address here, and where the range ends.
    pub(super) next: usize,
    end: usize,
    /// What is added to a table's physical address for the one here.
    offset: usize,
}

impl Tables {
    /// None yet: they will be in `[next, end)`, which is at physical addresses lower by
    /// `offset`.
    pub(super) fn new(next: usize, end: usize, offset: usize) -> Self {
        Self { next, end, offset }
    }

    /// An empty table, or so many pages one behind the other.
    pub(super) fn pages(&mut self, count: usize) -> *mut Entry {
        let table = self.next;
        self.next += count * PAGE_SIZE;
        assert!(
            self.next <= self.end,
            "memory is in too many pieces for the boot page tables"
        );
        // SAFETY: pages of the range that nobody has yet.
        unsafe { core::ptr::write_bytes(table as *mut u8, 0, count * PAGE_SIZE) };
        table as *mut Entry
    }

    /// The physical address of a table.
    pub(super) fn phys(&self, table: *const Entry) -> u64 {
        (table as usize).wrapping_sub(self.offset) as u64
    }

    fn slot(&self, table: Table, index: usize) -> *mut Entry {
        ((table.0 as usize).wrapping_add(self.offset) as *mut Entry).wrapping_add(index)
    }

    /// Maps `[phys, phys + size)` at `virt` with the largest leaves that fit; everything is page-aligned.
    #[unsafe(link_section = ".init.text")]
    pub(super) fn map(&mut self, map: &Map, virt: usize, phys: u64, size: u64, prot: Prot, kind: MemoryKind) {
        let entry = Entry::kernel_leaf(PhysAddr::new(phys), prot, kind, 0);
        if let linear_map::Entry::Leaf(leaf) = entry.kernel(0)
            && let Err(error) = map.build(self, kernel_map::address(virt), phys, size, leaf.attributes)
        {
            panic!("the kernel's map cannot be built: {error:?} at {virt:#x}");
        }
    }

    /// A range of RAM in the linear map, with `image` in it ([`Image::parts`]); `runs_here`: where it is
    /// linked.
    #[unsafe(link_section = ".init.text")]
    pub(super) fn map_ram(&mut self, map: &Map, range: PhysRange, image: &Image, runs_here: bool) {
        let page = PAGE_SIZE as u64;
        let start = range.start.as_u64().next_multiple_of(page);
        let end = (range.start.as_u64() + range.size) & !(page - 1);
        let pages = Map {
            largest: 0,
            groups: false,
            ..*map
        };
        let block = if map.rule.parks(map.rule.table) {
            map.geometry.level(1.min(map.largest)).size()
        } else {
            1
        };
        for part in image.parts(runs_here, block) {
            let map = if part.pages { &pages } else { map };
            let (from, to) = (part.start.max(start), part.end.min(end));
            if from < to {
                let virt = mmu::phys_to_virt(PhysAddr::new(from)) as usize;
                self.map(map, virt, from, to - from, part.prot, MemoryKind::Normal);
            }
        }
    }
}

impl Read for Tables {
    fn read(&self, table: Table, level: usize, index: usize) -> linear_map::Entry {
        // SAFETY: the engine asks for entries of tables that came from here.
        unsafe { self.slot(table, index).read() }.kernel(level)
    }
}

impl Build for Tables {
    fn table(&mut self, _level: usize) -> Option<Table> {
        let table = self.pages(1);
        Some(Table(self.phys(table)))
    }

    fn write(&mut self, table: Table, level: usize, index: usize, count: usize, entry: linear_map::Entry) {
        let (mut number, more) = numbers(entry, level);
        for n in 0..count {
            // SAFETY: an entry of a table that came from here, which nobody else writes yet.
            unsafe { self.slot(table, index + n).write(Entry::of_number(number)) };
            number = number.wrapping_add(more);
        }
    }
}
