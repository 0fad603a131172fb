//! The kernel's own map, as `crates/linear-map` knows it.

use super::kmap::FIXED;
use super::mmu::{self, Entry, IMAGE_BASE, LARGEST_LEAF, LINEAR_BASE, MODULES, VMAP};
use crate::arch::linear::kernel_slot;
use crate::mm::kernel_map::{Area, Run, Size};
use core::fmt::{Result, Write};
use limen_linear_map::{self as linear_map, Access, Map, Table, geometry, rule};

/// The parts of the kernel's addresses.
pub const AREAS: usize = 6;
/// Lines have no addresses of memory.
pub const SHOWS_MEMORY: bool = false;

/// The form of the tables, the rule for sizes, the root.
pub fn map() -> Map {
    Map {
        geometry: &geometry::ARM64_4K,
        rule: rule::ARM_BREAK,
        root: Table(mmu::kernel_root().as_u64()),
        largest: LARGEST_LEAF,
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
        area(LINEAR_BASE, VMAP.0, "Linear Mapping start"),
        area(VMAP.0, VMAP.1, "vmalloc() area"),
        area(IMAGE_BASE, MODULES.0, "Kernel image start"),
        area(MODULES.0, MODULES.1, "Modules start"),
        area(MODULES.1, FIXED, "Modules end"),
        area(FIXED, IMAGE_BASE + (1 << 30), "Fixmap start"),
    ]
}

/// A line of `kernel_page_tables`.
pub fn show(out: &mut dyn Write, run: &Run) -> Result {
    let attributes = run.leaf.attributes;
    let has = |access| attributes.access.contains(access);
    let kind = |bit| attributes.kind & bit != 0;
    let columns = [
        if has(Access::PRESENT) { " " } else { "F" },
        if kind(Entry::KIND_USER) { "USR" } else { "   " },
        if has(Access::WRITE) { "RW" } else { "ro" },
        if has(Access::EXECUTE) { "x " } else { "NX" },
        "SHD",
        "AF",
        if kind(Entry::KIND_NOT_GLOBAL) { "NG" } else { "  " },
        if run.leaf.grouped { "CON" } else { "   " },
        if run.level > 0 { "BLK" } else { "   " },
        if kind(Entry::KIND_USER_EXEC) { "   " } else { "UXN" },
        "  ",
        if kind(Entry::KIND_DEVICE) {
            "DEVICE/nGnRE"
        } else {
            "MEM/NORMAL"
        },
    ];
    let name = ["PTE", "PMD", "PUD", "PGD"][run.level];
    write!(
        out,
        "0x{:016x}-0x{:016x}   {} {name}",
        run.start,
        run.end,
        Size(run.end - run.start)
    )?;
    columns.iter().try_for_each(|column| write!(out, " {column}"))?;
    writeln!(out)
}
