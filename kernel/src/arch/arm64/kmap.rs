//! The kernel's own map, built once at boot before anything else runs on it: the image (text executable and
//! read-only, constants read-only, data writable), the linear map of all RAM with the largest blocks (never
//! executable; the image's text and constants read-only there, too), and a few device pages. Nothing is
//! writable and executable.

use super::cpus::START;
use super::image::{
    __boot_stack_guard, __image_end, __init_end, __init_text_end, __rodata_end, __table_pool_end,
    __table_pool_start, __text_end, address,
};
use super::kernel_map::{self, FIXED};
use super::kernel_tables::Tables;
use super::mmu::{
    self, EARLY_LEVEL, EARLY_TABLES, EMPTY_ROOT, Entry, IMAGE_BASE, IMAGE_PHYS, MemoryKind, TABLE_SHIFT,
};
use crate::mm::PhysRange;
use crate::mm::table::{index, level_shift};
use crate::mm::{PAGE_SIZE, PhysAddr, Prot};
use core::arch::naked_asm;
use core::sync::atomic::Ordering;
use limen_linear_map::{Map, Table};

pub use super::mmu::image_to_phys;

/// Where the devicetree is mapped until the final map is live, in the early tables: in the middle of what
/// their last table covers.
const EARLY_DEVICETREE: usize = IMAGE_BASE + (1 << (level_shift(EARLY_LEVEL + 1) - 1));

/// Notes where the image is. First of all.
#[unsafe(link_section = ".init.text")]
pub fn init(image_phys: u64) {
    IMAGE_PHYS.store(image_phys, Ordering::Relaxed);
}

/// Makes the devicetree at `phys` readable through the early tables; up to 2 MiB from there, which is the
/// most the protocol allows.
#[unsafe(link_section = ".init.text")]
pub fn early_devicetree(phys: u64) -> *const u8 {
    const BLOCK: u64 = 2 << 20;
    // The early tables are the first pages of the pool; the last of them has the image.
    // SAFETY: the linker script places the pool; nobody else uses it yet.
    let table = unsafe {
        (&raw const __table_pool_start)
            .cast_mut()
            .cast::<u64>()
            .add((EARLY_TABLES - 1) << TABLE_SHIFT)
    };
    let (first, shift) = (index(EARLY_DEVICETREE, EARLY_LEVEL), level_shift(EARLY_LEVEL));
    for n in 0..(2 * BLOCK) >> shift {
        let entry = Entry::kernel_leaf(
            PhysAddr::new((phys & !(BLOCK - 1)) + (n << shift)),
            Prot::READ,
            MemoryKind::Normal,
            EARLY_LEVEL,
        );
        // SAFETY: within the last table; that slot was empty.
        unsafe { table.add(first + n as usize).write_volatile(entry.0) };
    }
    mmu::update_kernel(EARLY_DEVICETREE, EARLY_DEVICETREE + (4 << 20));
    (EARLY_DEVICETREE + (phys & (BLOCK - 1)) as usize) as *const u8
}

/// The map under construction.
pub struct Builder {
    tables: Tables,
    map: Map,
}

impl Builder {
    /// An empty map. The tables come from the pool in the image, after the early tables, which are
    /// live.
    #[unsafe(link_section = ".init.text")]
    pub fn new() -> Self {
        let start = &raw const __table_pool_start as usize + EARLY_TABLES * PAGE_SIZE;
        let end = &raw const __table_pool_end as usize;
        let offset = IMAGE_BASE.wrapping_sub(image_to_phys(IMAGE_BASE) as usize);
        let mut tables = Tables::new(start, end, offset);
        let root = tables.pages(1);
        let empty = tables.pages(1);
        EMPTY_ROOT.store(image_to_phys(empty as usize), Ordering::Relaxed);
        let root = Table(tables.phys(root));
        let map = Map {
            root,
            ..kernel_map::map()
        };
        Self { tables, map }
    }

    /// The image at its link address.
    #[unsafe(link_section = ".init.text")]
    pub fn map_image(&mut self) {
        // SAFETY: linker symbols; only their addresses are used.
        let (text_end, rodata_end, init_text_end, init_end, guard, end) = unsafe {
            (
                address(&__text_end),
                address(&__rodata_end),
                address(&__init_text_end),
                address(&__init_end),
                address(&__boot_stack_guard),
                address(&__image_end),
            )
        };
        let mut part = |start: usize, end: usize, prot| {
            let (phys, size) = (image_to_phys(start), (end - start) as u64);
            self.tables
                .map(&self.map, start, phys, size, prot, MemoryKind::Normal)
        };
        part(IMAGE_BASE, text_end, Prot::READ | Prot::EXEC);
        part(text_end, rodata_end, Prot::READ);
        // What is given back after boot has leaves of its own.
        part(rodata_end, init_text_end, Prot::READ | Prot::EXEC);
        part(init_text_end, init_end, Prot::READ | Prot::WRITE);
        part(init_end, guard, Prot::READ | Prot::WRITE);
        part(guard + PAGE_SIZE, end, Prot::READ | Prot::WRITE);
    }

    /// A range of RAM in the linear map.
    #[unsafe(link_section = ".init.text")]
    pub fn map_ram(&mut self, range: PhysRange) {
        self.tables.map_ram(&self.map, range, &kernel_map::image(), false);
    }

    /// Device page `slot` at `phys`; returns where.
    #[unsafe(link_section = ".init.text")]
    pub fn map_fixed(&mut self, slot: usize, phys: u64) -> usize {
        let virt = FIXED + slot * PAGE_SIZE;
        let page = phys & !(PAGE_SIZE as u64 - 1);
        let prot = Prot::READ | Prot::WRITE;
        self.tables
            .map(&self.map, virt, page, PAGE_SIZE as u64, prot, MemoryKind::Device);
        virt + (phys - page) as usize
    }

    /// Makes the map live, for good. Returns what the kernel occupies: the image without the unused end of
    /// the pool.
    #[unsafe(link_section = ".init.text")]
    pub fn activate(self) -> PhysRange {
        let root = self.map.root.0;
        START.table.store(root as usize, Ordering::Relaxed);
        let replace = image_to_phys(replace_kernel_root as *const () as usize) as usize;
        // SAFETY: the identity map of early boot is current, so the function can be called at its physical
        // address; the new map has this code, this stack and all data at the same addresses as the old one.
        unsafe {
            core::mem::transmute::<usize, unsafe extern "C" fn(u64, u64)>(replace)(
                root,
                EMPTY_ROOT.load(Ordering::Relaxed),
            )
        }
        mmu::switch_to_kernel();
        mmu::flush_kernel(0, usize::MAX);
        PhysRange {
            start: PhysAddr::new(image_to_phys(IMAGE_BASE)),
            size: image_to_phys(self.tables.next) - image_to_phys(IMAGE_BASE),
        }
    }
}

/// Makes `root` the kernel's, with `empty` a table with nothing in it (both physical). Called at its physical
/// address, through the identity map: no two translations of one address may meet in the TLB, so the old ones
/// go first. In between nothing is at its link address, the stack neither.
#[unsafe(naked)]
#[unsafe(link_section = ".idmap.text")]
unsafe extern "C" fn replace_kernel_root(root: u64, empty: u64) {
    naked_asm!(
        "msr ttbr1_el1, x1",
        "isb",
        "tlbi vmalle1",
        "dsb nsh",
        "isb",
        "msr ttbr1_el1, x0",
        "isb",
        "ret"
    )
}
