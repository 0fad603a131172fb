//! The kernel's own map, as `crates/linear-map` knows it. The tree is that of quadrant 3: its addresses are the
//! kernel's without the upper two bits.

use super::mmu::{self, Entry, LARGEST_LEAF, LINEAR_BASE, VMAP};
use crate::arch::linear::kernel_slot;
use crate::mm::kernel_map::{Area, Run, Size};
use core::fmt::{Result, Write};
use limen_linear_map::{self as linear_map, Access, Map, Table, rule};

/// The parts of the kernel's addresses.
pub const AREAS: usize = 2;
/// Lines have the memory's address.
pub const SHOWS_MEMORY: bool = true;

/// The form of the tables, the rule for sizes, the root.
pub fn map() -> Map {
    Map {
        geometry: mmu::GEOMETRY,
        rule: rule::POWER,
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
        start: (start & !LINEAR_BASE) as u64,
        end: (end & !LINEAR_BASE) as u64,
        name,
    };
    [
        area(LINEAR_BASE, VMAP.0, "Start of kernel VM"),
        area(VMAP.0, VMAP.1, "vmalloc() Area"),
    ]
}

/// A line of `kernel_page_tables`.
pub fn show(out: &mut dyn Write, run: &Run) -> Result {
    let attributes = run.leaf.attributes;
    let has = |access| attributes.access.contains(access);
    let kind = |bit| attributes.kind & bit != 0;
    let base = LINEAR_BASE as u64;
    let columns = [
        if kind(Entry::KIND_USER) { "user" } else { "    " },
        if has(Access::READ) { "r" } else { " " },
        if has(Access::WRITE) { "w" } else { " " },
        if has(Access::EXECUTE) { " X " } else { "   " },
        if has(Access::PRESENT) { "valid" } else { "     " },
        "present",
        "dirty",
        "accessed",
        if kind(Entry::KIND_DEVICE) {
            "non-idempotent"
        } else {
            ""
        },
    ];
    let (first, last) = (base | run.start, base | (run.end - 1));
    write!(
        out,
        "0x{first:016x}-0x{last:016x}  0x{:016x} {} ",
        run.leaf.phys,
        Size(run.end - run.start)
    )?;
    columns.iter().try_for_each(|column| write!(out, "  {column}"))?;
    writeln!(out)
}
