//! The kernel's own map, as `crates/linear-map` knows it. The tree is that of quadrant 3: its addresses are
//! the kernel's without the upper two bits.

use super::layout::to_phys;
use super::mmu::{self, Entry, LARGEST_LEAF, LINEAR_BASE, VMAP};
use super::tlb;
use crate::mm::kernel_map::{Area, Image, Run, Size};
use core::fmt::{Result, Write};
use limen_linear_map::{Access, Map, Table, rule};

unsafe extern "C" {
    static __image_start: u8;
    static __text_end: u8;
    static __rodata_end: u8;
    static __init_text_end: u8;
    static __init_end: u8;
    static __boot_stack_guard: u8;
    static __image_end: u8;
}

/// The parts of the kernel's addresses.
pub const AREAS: usize = 2;
/// Lines have the memory's address.
pub const SHOWS_MEMORY: bool = true;
/// Nothing is tested here.
pub const TESTS: &[crate::selftest::Test] = &[];

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

/// Where the image lies in memory.
pub fn image() -> Image {
    // SAFETY: linker symbols; only their addresses are used.
    let at = unsafe {
        [
            &__image_start,
            &__text_end,
            &__rodata_end,
            &__init_text_end,
            &__init_end,
            &__boot_stack_guard,
            &__image_end,
        ]
    };
    let at = at.map(|symbol| core::ptr::from_ref(symbol) as usize);
    Image::new(at.map(to_phys), at[0])
}

/// Whether all leaves are to be pages here.
pub fn wants_pages() -> bool {
    false
}

/// An address as the tables count.
pub fn address(addr: usize) -> u64 {
    (addr & !LINEAR_BASE) as u64
}

/// No CPU keeps a translation of the range from before, of leaves of these levels (the lowest, the highest);
/// nor of tables on the way, if `tables`. In any context, with the map's lock.
pub fn invalidate(start: u64, end: u64, levels: (usize, usize), tables: bool) {
    if levels.1 > 0 || tables {
        // Large pages would have to be named by their size.
        tlb::flush_pid(0);
    } else {
        mmu::flush_kernel(start as usize | LINEAR_BASE, end as usize | LINEAR_BASE);
    }
}

/// The linear map first.
pub fn areas() -> [Area; AREAS] {
    [
        Area::new(LINEAR_BASE, VMAP.0, "Start of kernel VM"),
        Area::new(VMAP.0, VMAP.1, "vmalloc() Area"),
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
