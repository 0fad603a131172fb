//! The kernel's own map, as `crates/linear-map` knows it.

use super::kmap::FIXED;
use super::kuser;
use super::layout::{LINEAR_BASE, LINEAR_SIZE, VMAP, WINDOW, phys_to_virt};
use super::mmu::{self, Entry, Slot};
use crate::mm::PhysAddr;
use crate::mm::kernel_map::{Area, Run, Size};
use core::fmt::{Result, Write};
use limen_linear_map::{self as linear_map, Access, Map, Table};

/// The parts of the kernel's addresses.
pub const AREAS: usize = 5;
/// Lines have no addresses of memory.
pub const SHOWS_MEMORY: bool = false;

/// The form of the tables, the rule for sizes, the root.
pub fn map() -> Map {
    mmu::kernel_map()
}

/// An entry of a table.
pub fn read(table: Table, level: usize, index: usize) -> linear_map::Entry {
    let table = phys_to_virt(PhysAddr::new(table.0)).cast::<Slot>();
    // SAFETY: the caller found the table in the kernel's map, and has its lock or only looks at it; entries
    // are accessed only by atomics.
    let slot = unsafe { &*table.add(index) };
    Entry(mmu::load_slot(slot)).kernel(level)
}

/// The linear map first.
pub fn areas() -> [Area; AREAS] {
    let area = |start: usize, end: usize, name| Area {
        start: start as u64,
        end: end as u64,
        name,
    };
    [
        area(LINEAR_BASE, LINEAR_BASE + LINEAR_SIZE as usize, "Kernel Mapping"),
        area(VMAP.0, VMAP.1, "vmalloc() Area"),
        area(WINDOW.0, WINDOW.1, "Persistent kmap() Area"),
        area(FIXED, FIXED + (1 << 20), "Fixmap Area"),
        area(kuser::ADDRESS, kuser::ADDRESS + 4096, "Vectors"),
    ]
}

/// A line of `kernel_page_tables`.
pub fn show(out: &mut dyn Write, run: &Run) -> Result {
    let attributes = run.leaf.attributes;
    let has = |access| attributes.access.contains(access);
    let kind = |bit| attributes.kind & bit != 0;
    let columns = [
        if kind(Entry::KIND_USER) { "USR" } else { "   " },
        if has(Access::WRITE) { "RW" } else { "ro" },
        if has(Access::EXECUTE) || kind(Entry::KIND_USER_EXEC) {
            "x "
        } else {
            "NX"
        },
        "SHD",
        if kind(Entry::KIND_DEVICE) {
            "DEV/SHARED"
        } else {
            "MEM/CACHED/WBWA"
        },
    ];
    let name = ["PTE", "PMD", "PGD"][run.level];
    write!(
        out,
        "0x{:08x}-0x{:08x}   {} {name}",
        run.start,
        run.end,
        Size(run.end - run.start)
    )?;
    columns.iter().try_for_each(|column| write!(out, " {column}"))?;
    writeln!(out)
}
