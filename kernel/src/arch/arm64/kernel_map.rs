//! The kernel's own map, as `crates/linear-map` knows it.

use super::bbm;
use super::exception::{Syndrome, forgets};
pub use super::image::image;
use super::mmu::{self, Entry, IMAGE_BASE, LARGEST_LEAF, LINEAR_BASE, MODULES, VMAP};
use crate::check;
use crate::mm::kernel_map::{Area, Run, Size};
use crate::selftest::Test;
use core::fmt::{Result, Write};
use limen_linear_map::{Access, Map, Table};

/// Where device pages needed before `mm` is up are mapped: the end of the image's gigabyte.
pub(super) const FIXED: usize = IMAGE_BASE + (1 << 30) - (2 << 20);
/// The parts of the kernel's addresses.
pub const AREAS: usize = 6;
/// Lines have no addresses of memory.
pub const SHOWS_MEMORY: bool = false;
/// What only arm64 has.
pub const TESTS: &[Test] = &[("a TLB conflict abort is survived", conflict)];

/// The form of the tables, the rule for sizes, the root.
pub fn map() -> Map {
    Map {
        geometry: mmu::GEOMETRY,
        rule: bbm::rule(),
        root: Table(mmu::kernel_root().as_u64()),
        largest: LARGEST_LEAF,
        groups: bbm::live(),
    }
}

/// Whether all leaves are to be pages here.
pub fn wants_pages() -> bool {
    bbm::off()
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
        Area::new(LINEAR_BASE, VMAP.0, "Linear Mapping start"),
        Area::new(VMAP.0, VMAP.1, "vmalloc() area"),
        Area::new(IMAGE_BASE, MODULES.0, "Kernel image start"),
        Area::new(MODULES.0, MODULES.1, "Modules start"),
        Area::new(MODULES.1, FIXED, "Modules end"),
        Area::new(FIXED, IMAGE_BASE + (1 << 30), "Fixmap start"),
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

/// QEMU raises no TLB conflict aborts, so that the handler is called with what the processor would say: class
/// and fault status code.
fn conflict() -> core::result::Result<(), &'static str> {
    let abort = |class: u64, status: u64| {
        forgets(&Syndrome {
            esr: class << 26 | status,
            far: LINEAR_BASE as u64,
        })
    };
    // Instruction and data aborts, of user mode and of the kernel.
    for class in [0x20, 0x21, 0x24, 0x25] {
        check!(abort(class, 0x30));
        // A translation fault.
        check!(!abort(class, 0x07));
    }
    // `svc`, whose number is in these bits.
    check!(!abort(0x15, 0x30));
    Ok(())
}
