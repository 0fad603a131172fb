//! The kernel's own map, as `crates/linear-map` knows it.

pub use super::image::image;
use super::kuser;
use super::layout::{LINEAR_BASE, LINEAR_SIZE, VMAP, WINDOW};
use super::mmu::{self, Entry};
use crate::mm::kernel_map::{Area, Run, Size};
use core::fmt::{Result, Write};
use limen_linear_map::{Access, Map};

/// Where device pages needed before `mm` is up are mapped.
pub(super) const FIXED: usize = 0xffe0_0000;
/// The parts of the kernel's addresses.
pub const AREAS: usize = 5;
/// Lines have no addresses of memory.
pub const SHOWS_MEMORY: bool = false;
/// Nothing is tested here.
pub const TESTS: &[crate::selftest::Test] = &[];

/// The form of the tables, the rule for sizes, the root.
pub fn map() -> Map {
    mmu::kernel_map(mmu::kernel_root().as_u64())
}

/// Whether all leaves are to be pages here.
pub fn wants_pages() -> bool {
    cfg!(feature = "short-descriptors")
}

/// An address as the tables count.
pub fn address(addr: usize) -> u64 {
    addr as u64
}

/// No CPU keeps a translation of the range from before, of leaves of these levels (the lowest, the highest);
/// nor of tables on the way, if `tables`. In any context, with the map's lock.
pub fn invalidate(start: u64, end: u64, levels: (usize, usize), tables: bool) {
    // An invalidation by address forgets tables on the way, too.
    let _ = tables;
    mmu::flush_kernel_by(
        start as usize,
        end as usize,
        usize::from(map().geometry.level(levels.0).shift),
    );
}

/// The linear map first.
pub fn areas() -> [Area; AREAS] {
    [
        Area::new(LINEAR_BASE, LINEAR_BASE + LINEAR_SIZE as usize, "Kernel Mapping"),
        Area::new(VMAP.0, VMAP.1, "vmalloc() Area"),
        Area::new(WINDOW.0, WINDOW.1, "Persistent kmap() Area"),
        Area::new(FIXED, FIXED + (1 << 20), "Fixmap Area"),
        Area::new(kuser::ADDRESS, kuser::ADDRESS + 4096, "Vectors"),
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
