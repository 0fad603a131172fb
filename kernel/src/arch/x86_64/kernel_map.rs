//! The kernel's own map, as `crates/linear-map` knows it.

use super::cpu::{self, Features};
use super::mmu::{self, Entry, KERNEL_BASE, LINEAR_BASE, MODULES, VMAP};
use crate::arch::linear::kernel_slot;
use crate::mm::kernel_map::{Area, Run, Size};
use core::fmt::{Result, Write};
use limen_linear_map::{self as linear_map, Access, Map, Table, geometry, rule};

/// The parts of the kernel's addresses.
pub const AREAS: usize = 4;
/// Lines have no addresses of memory.
pub const SHOWS_MEMORY: bool = false;

/// The form of the tables, the rule for sizes, the root.
pub fn map() -> Map {
    Map {
        geometry: &geometry::X86_64,
        rule: rule::X86,
        root: Table(mmu::kernel_root().as_u64()),
        largest: if cpu::has(Features::PAGES_1G) { 2 } else { 1 },
        groups: false,
    }
}

/// An entry of a table.
pub fn read(table: Table, level: usize, index: usize) -> linear_map::Entry {
    Entry(mmu::load_slot(kernel_slot(table.0, index))).kernel(level)
}

/// The linear map first.
pub fn areas() -> [Area; AREAS] {
    let area = |start: usize, end: usize, name| Area {
        start: start as u64,
        end: end as u64,
        name,
    };
    [
        area(LINEAR_BASE, LINEAR_BASE + (64 << 40), "Low Kernel Mapping"),
        area(VMAP.0, VMAP.1, "vmalloc() Area"),
        area(KERNEL_BASE, KERNEL_BASE + (1 << 30), "High Kernel Mapping"),
        area(MODULES.0, MODULES.1, "Modules"),
    ]
}

/// A line of `kernel_page_tables`.
pub fn show(out: &mut dyn Write, run: &Run) -> Result {
    let attributes = run.leaf.attributes;
    write!(
        out,
        "0x{:016x}-0x{:016x}   {} ",
        run.start,
        run.end,
        Size(run.end - run.start)
    )?;
    if !attributes.access.contains(Access::PRESENT) {
        out.write_str("                                   ")?;
    } else {
        let kind = |bit| attributes.kind & bit != 0;
        let columns = [
            if kind(Entry::KIND_USER) { "USR " } else { "    " },
            if attributes.access.contains(Access::WRITE) {
                "RW "
            } else {
                "ro "
            },
            if kind(Entry::KIND_DEVICE) {
                "PWT PCD "
            } else {
                "        "
            },
            if run.level > 0 { "PSE " } else { "    " },
            "    ",
            if kind(Entry::KIND_GLOBAL) { "GLB " } else { "    " },
            if attributes.access.contains(Access::EXECUTE) {
                "x  "
            } else {
                "NX "
            },
        ];
        columns.iter().try_for_each(|column| out.write_str(column))?;
    }
    writeln!(out, "{}", ["pte", "pmd", "pud", "pgd"][run.level])
}
