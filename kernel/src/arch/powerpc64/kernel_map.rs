//! The kernel's own map, as `crates/linear-map` knows it. The tree is that of quadrant 3: its addresses are
//! the kernel's without the upper two bits.

use super::layout::to_phys;
use super::mmu::{self, Entry, LARGEST_LEAF, LINEAR_BASE, VMAP};
use super::tlb;
use crate::mm::PhysAddr;
use crate::mm::kernel_map::{Area, Image, Run, Size};
use core::fmt::{Result, Write};
use limen_linear_map::{Access, Map, Table, geometry, rule};

unsafe extern "C" {
    static __image_start: u8;
    static __text_end: u8;
    static __rodata_end: u8;
    static __boot_stack_guard: u8;
    static __table_pool_end: u8;
}

/// The parts of the kernel's addresses.
pub const AREAS: usize = 2;
/// Lines have the memory's address.
pub const SHOWS_MEMORY: bool = true;

/// The form of the tables, the rule for sizes, the root.
pub fn map() -> Map {
    Map {
        geometry: &geometry::POWER_4K,
        rule: rule::POWER,
        root: Table(mmu::kernel_root().as_u64()),
        largest: LARGEST_LEAF,
        groups: false,
    }
}

/// Where the image is.
pub(super) fn image() -> Image {
    // SAFETY: linker symbols; only their addresses are used.
    let at = unsafe {
        [
            &__image_start,
            &__text_end,
            &__rodata_end,
            &__boot_stack_guard,
            &__table_pool_end,
        ]
    };
    let [text, rodata, data, guard, end] = at.map(|symbol| to_phys(core::ptr::from_ref(symbol) as usize));
    Image {
        text,
        rodata,
        data,
        guard,
        end,
    }
}

/// The image's part of the linear map, first address and one past the last: what changes of size need is in
/// it.
pub fn image_range() -> (u64, u64) {
    let image = image();
    let at = |phys| address(mmu::phys_to_virt(PhysAddr::new(phys)) as usize);
    (at(image.text), at(image.end))
}

/// Whether all leaves are to be pages here.
pub fn wants_pages() -> bool {
    false
}

/// An address as the tables count.
pub fn address(addr: usize) -> u64 {
    (addr & !LINEAR_BASE) as u64
}

/// No CPU keeps a translation of the range from before, of leaves of that level or above; nor of tables on
/// the way, if `tables`. In any context, with the map's lock.
pub fn invalidate(start: u64, end: u64, level: usize, tables: bool) {
    if level > 0 || tables {
        // Large pages would have to be named by their size.
        tlb::flush_pid(0);
    } else {
        mmu::flush_kernel(start as usize | LINEAR_BASE, end as usize | LINEAR_BASE);
    }
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
