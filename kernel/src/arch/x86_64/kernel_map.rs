//! The kernel's own map, as `crates/linear-map` knows it.

use super::cpu::{self, Features};
use super::cpus;
use super::mmu::{self, Entry, KERNEL_BASE, LINEAR_BASE, MODULES, VMAP};
use super::tlb;
use crate::mm::kernel_map::{Area, Image, Run, Size};
use core::fmt::{Result, Write};
use limen_linear_map::{Access, Map, Table, geometry, rule};

unsafe extern "C" {
    static _text: u8;
    static _etext: u8;
    static _erodata: u8;
    static __init_text_end: u8;
    static __init_end: u8;
    static _end: u8;
}

/// The image's bounds: text, constants, text of boot, its data, data (each to the next), end.
pub(super) fn image_parts() -> [usize; 6] {
    [
        &raw const _text as usize,
        &raw const _etext as usize,
        &raw const _erodata as usize,
        &raw const __init_text_end as usize,
        &raw const __init_end as usize,
        &raw const _end as usize,
    ]
}

/// The physical address of something in the image.
pub(super) fn image_phys(virt: usize) -> u64 {
    (virt - KERNEL_BASE) as u64
}

/// The parts of the kernel's addresses.
pub const AREAS: usize = 4;
/// Lines have no addresses of memory.
pub const SHOWS_MEMORY: bool = false;
/// Nothing is tested here.
pub const TESTS: &[crate::selftest::Test] = &[];

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

/// Where the image lies in memory.
pub fn image() -> Image {
    let [text, rodata, init, init_data, data, end] = image_parts();
    let guard = cpus::boot_stack_guard();
    Image::new(
        [text, rodata, init, init_data, data, guard, end].map(image_phys),
        text,
    )
}

/// Whether all leaves are to be pages here.
pub fn wants_pages() -> bool {
    false
}

/// An address as the tables count.
pub fn address(addr: usize) -> u64 {
    addr as u64
}

/// No CPU keeps a translation of the range from before, of leaves of these levels (the lowest, the highest);
/// nor of tables on the way, if `tables`. In any context, with the map's lock.
pub fn invalidate(start: u64, end: u64, levels: (usize, usize), tables: bool) {
    let _ = (levels, tables);
    tlb::flush_now(start as usize, end as usize);
}

/// The linear map first.
pub fn areas() -> [Area; AREAS] {
    [
        Area::new(LINEAR_BASE, LINEAR_BASE + (64 << 40), "Low Kernel Mapping"),
        Area::new(VMAP.0, VMAP.1, "vmalloc() Area"),
        Area::new(KERNEL_BASE, KERNEL_BASE + (1 << 30), "High Kernel Mapping"),
        Area::new(MODULES.0, MODULES.1, "Modules"),
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
