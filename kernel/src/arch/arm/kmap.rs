//! The kernel's own map, built once at boot before anything else runs on it. RAM that fits is mapped at a
//! constant distance with the largest blocks, the image within it (text executable and read-only, constants
//! read-only); the kernel helpers' page at the top; a few device pages. Nothing is writable and executable.

use super::cpus::START;
use super::image::{__table_pool_end, __table_pool_start};
use super::kernel_map::{self, FIXED};
use super::kernel_tables::Tables;
use super::layout::{IMAGE_BASE, LINEAR_BASE, PAGE_SHIFT, WINDOW, set_phys_base};
use super::mmu::{self, BLOCK_SHIFT, Entry, KERNEL_ROOT, MemoryKind, TABLE_SHIFT, linear_end};
use super::{kmap_format, kuser, sysreg, window};
use crate::mm::PhysRange;
use crate::mm::{PAGE_SIZE, PhysAddr, Prot};
use core::arch::asm;
use core::sync::atomic::Ordering;
use limen_linear_map::Map;

pub use super::layout::image_to_phys;

/// Where the devicetree is mapped until the final map is live, in the early tables.
const EARLY_DEVICETREE: usize = 0xf000_0000;

/// Notes where the image is. First of all.
#[unsafe(link_section = ".init.text")]
pub fn init(image_phys: u64) {
    set_phys_base(image_phys as usize - (IMAGE_BASE - LINEAR_BASE));
}

/// Makes the devicetree at `phys` readable through the early tables; up to 2 MiB from there, which is the
/// most that is looked at.
#[unsafe(link_section = ".init.text")]
pub fn early_devicetree(phys: u64) -> *const u8 {
    const BLOCK: u64 = 1 << BLOCK_SHIFT;
    let blocks = (2 << 20 >> BLOCK_SHIFT) + 1;
    for n in 0..blocks {
        let at = PhysAddr::new((phys & !(BLOCK - 1)) + n * BLOCK);
        let entry = Entry::kernel_leaf(at, Prot::READ, MemoryKind::Normal, 1);
        kmap_format::set_early(EARLY_DEVICETREE + (n << BLOCK_SHIFT) as usize, entry);
    }
    mmu::update_kernel(EARLY_DEVICETREE, EARLY_DEVICETREE + (4 << 20));
    (EARLY_DEVICETREE + (phys & (BLOCK - 1)) as usize) as *const u8
}

/// The map under construction.
pub struct Builder {
    tables: Tables,
    map: Map,
    /// The first of the window's tables; null until there are any.
    window: *mut Entry,
}

impl Builder {
    /// An empty map.
    #[unsafe(link_section = ".init.text")]
    pub fn new() -> Self {
        // The pool's first page is the early table, which is live.
        let start = &raw const __table_pool_start as usize + PAGE_SIZE;
        let end = &raw const __table_pool_end as usize;
        let offset = IMAGE_BASE.wrapping_sub(image_to_phys(IMAGE_BASE) as usize);
        let mut tables = Tables::new(start, end, offset);
        let root = tables.pages(1);
        KERNEL_ROOT.store(tables.phys(root) as usize, Ordering::Relaxed);
        tables.begin();
        Self {
            tables,
            map: kernel_map::map(),
            window: core::ptr::null_mut(),
        }
    }

    /// The image is part of the linear map; here only what lies outside comes: the kernel helpers' page.
    #[unsafe(link_section = ".init.text")]
    pub fn map_image(&mut self) {
        let page = PhysAddr::new(image_to_phys(kuser::page()));
        let entry = Entry::user_page(page, Prot::READ | Prot::EXEC);
        self.tables.set(&self.map, kuser::ADDRESS, entry);
    }

    /// A range of RAM in the linear map.
    #[unsafe(link_section = ".init.text")]
    pub fn map_ram(&mut self, range: PhysRange) {
        let end = range.start.as_u64() + range.size;
        if end & !(PAGE_SIZE as u64 - 1) > linear_end() {
            self.map_window();
        }
        let size = linear_end().min(end).saturating_sub(range.start.as_u64());
        let low = PhysRange { size, ..range };
        self.tables.map_ram(&self.map, low, &kernel_map::image(), true);
    }

    /// The tables through which memory is reached that the linear map has no room for.
    #[unsafe(link_section = ".init.text")]
    fn map_window(&mut self) {
        if !self.window.is_null() {
            return;
        }
        self.window = self.tables.pages(window::TABLES);
        for n in 0..window::TABLES {
            let table = self.window.wrapping_byte_add(n * PAGE_SIZE);
            let virt = WINDOW.0 + (n << (PAGE_SHIFT + TABLE_SHIFT));
            self.tables.set_table(&self.map, virt, table);
        }
        window::init(self.window);
    }

    /// Device page `slot` at `phys`; returns where.
    #[unsafe(link_section = ".init.text")]
    pub fn map_fixed(&mut self, slot: usize, phys: u64) -> usize {
        let virt = FIXED + slot * PAGE_SIZE;
        let page = phys & !(PAGE_SIZE as u64 - 1);
        let prot = Prot::READ | Prot::WRITE;
        let entry = Entry::kernel_leaf(PhysAddr::new(page), prot, MemoryKind::Device, 0);
        self.tables.set(&self.map, virt, entry);
        virt + (phys - page) as usize
    }

    /// Makes the map live, for good. Returns what the kernel occupies: the image without the unused end of
    /// the pool.
    #[unsafe(link_section = ".init.text")]
    pub fn activate(self) -> PhysRange {
        let (live, for_secondaries) = self.tables.finish();
        START.table.store(for_secondaries as usize, Ordering::Relaxed);
        let replace = image_to_phys(replace_kernel_table as *const () as usize) as usize;
        // SAFETY: the identity map of early boot is current, so the function can be called at its physical
        // address; the new map has this code, this stack and all data at the same addresses as the old one.
        unsafe { core::mem::transmute::<usize, unsafe extern "C" fn(u32)>(replace)(live) }
        kmap_format::live();
        mmu::switch_to_kernel();
        mmu::flush_kernel(0, usize::MAX);
        PhysRange {
            start: PhysAddr::new(image_to_phys(IMAGE_BASE)),
            size: (self.tables.next - IMAGE_BASE) as u64,
        }
    }
}

/// `TTBCR`: no walks through `TTBR1`.
const EPD1: u32 = 1 << 23;

/// Forgets the old translations and branch predictions (TLBIALL, BPIALL); nothing that follows uses them.
macro_rules! forget_all {
    () => {
        "isb
        mcr p15, 0, {zero}, c8, c7, 0
        mcr p15, 0, {zero}, c7, c5, 6
        dsb
        isb"
    };
}

/// Makes `table` (physical) the kernel's. Called at its physical address, through the identity map: no two
/// translations of one address may meet in the TLB, so the old ones go first. In between nothing is at its
/// link address, the stack neither: one block of instructions, its values in registers.
///
/// # Safety
/// The table has all that the old one has.
#[unsafe(link_section = ".head.text.replace")]
unsafe extern "C" fn replace_kernel_table(table: u32) {
    // SAFETY: as the caller promises.
    unsafe {
        if mmu::SHORT {
            asm!(
                "mcr p15, 0, {table}, c2, c0, 0", // TTBR0
                forget_all!(),
                table = in(reg) table, zero = in(reg) 0, options(nostack, preserves_flags)
            );
        } else {
            asm!(
                "mcr p15, 0, {alone}, c2, c0, 2", // TTBCR: no walks through TTBR1
                forget_all!(),
                "mcrr p15, 1, {table}, {zero}, c2", // TTBR1
                "isb",
                "mcr p15, 0, {both}, c2, c0, 2", // TTBCR
                "isb",
                alone = in(reg) sysreg::TTBCR | EPD1, both = in(reg) sysreg::TTBCR,
                table = in(reg) table, zero = in(reg) 0, options(nostack, preserves_flags)
            );
        }
    }
}
