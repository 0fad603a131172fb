//! The kernel's own map, built once at boot before anything else runs on it. RAM that fits is mapped at a
//! constant distance with the largest blocks, the image within it (text executable and read-only, constants
//! read-only); the kernel helpers' page at the top; a few device pages. Nothing is writable and executable.

use super::cpus::START;
use super::image::{__boot_stack_guard, __rodata_end, __table_pool_start, __text_end, address};
use super::kernel_tables::Tables;
use super::layout::{IMAGE_BASE, LINEAR_BASE, PAGE_SHIFT, WINDOW, phys_to_virt, set_phys_base};
use super::mmu::{self, BLOCK_SHIFT, Entry, KERNEL_ROOT, MemoryKind, TABLE_SHIFT, linear_end};
use super::{kmap_format, kuser, sysreg, window};
use crate::mm::PhysRange;
use crate::mm::{PAGE_SIZE, PhysAddr, Prot};
use core::arch::asm;
use core::sync::atomic::Ordering;

pub use super::layout::image_to_phys;

/// Where device pages needed before `mm` is up are mapped.
pub(super) const FIXED: usize = 0xffe0_0000;
/// Where the devicetree is mapped until the final map is live, in the early tables.
const EARLY_DEVICETREE: usize = 0xf000_0000;

/// Notes where the image is. First of all.
pub fn init(image_phys: u64) {
    set_phys_base(image_phys as usize - (IMAGE_BASE - LINEAR_BASE));
}

/// Makes the devicetree at `phys` readable through the early tables; up to 2 MiB from there, which is the
/// most that is looked at.
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
    /// The first of the window's tables; null until there are any.
    window: *mut Entry,
}

impl Builder {
    /// An empty map.
    pub fn new() -> Self {
        // The pool's first page is the early table, which is live.
        let mut tables = Tables::new(&raw const __table_pool_start as usize + PAGE_SIZE);
        tables.root = tables.table();
        KERNEL_ROOT.store(image_to_phys(tables.root as usize) as usize, Ordering::Relaxed);
        tables.begin();
        Self {
            tables,
            window: core::ptr::null_mut(),
        }
    }

    /// The image is part of the linear map; here only what lies outside comes: the kernel helpers' page.
    pub fn map_image(&mut self) {
        let entry = Entry::user_page(
            PhysAddr::new(image_to_phys(kuser::page())),
            Prot::READ | Prot::EXEC,
        );
        self.tables.set(kuser::ADDRESS, 0, entry);
    }

    /// A range of RAM in the linear map.
    pub fn map_ram(&mut self, range: PhysRange) {
        let start = range.start.as_u64().next_multiple_of(PAGE_SIZE as u64);
        let end = (range.start.as_u64() + range.size) & !(PAGE_SIZE as u64 - 1);
        if end > linear_end() {
            self.map_window();
        }
        let end = end.min(linear_end());
        // SAFETY: linker symbols; only their addresses are used.
        let [text_end, rodata_end, guard] =
            unsafe { [&__text_end, &__rodata_end, &__boot_stack_guard] }.map(|s| image_to_phys(address(s)));
        let image = image_to_phys(IMAGE_BASE);
        let mut part = |from: u64, to: u64, prot| {
            let (from, to) = (from.max(start), to.min(end));
            if from < to {
                let virt = phys_to_virt(PhysAddr::new(from)) as usize;
                self.tables.map(virt, from, to - from, prot, MemoryKind::Normal);
            }
        };
        part(0, image, Prot::READ | Prot::WRITE);
        part(image, text_end, Prot::READ | Prot::EXEC);
        part(text_end, rodata_end, Prot::READ);
        part(rodata_end, guard, Prot::READ | Prot::WRITE);
        part(guard + PAGE_SIZE as u64, u64::MAX, Prot::READ | Prot::WRITE);
    }

    /// The tables through which memory is reached that the linear map has no room for.
    fn map_window(&mut self) {
        if !self.window.is_null() {
            return;
        }
        // One behind the other: what is above them exists (`map_image`).
        for n in 0..window::TABLES {
            let table = self.tables.table();
            if n == 0 {
                self.window = table;
            }
            self.tables
                .set_table(WINDOW.0 + (n << (PAGE_SHIFT + TABLE_SHIFT)), table);
        }
        window::init(self.window);
    }

    /// Device page `slot` at `phys`; returns where.
    pub fn map_fixed(&mut self, slot: usize, phys: u64) -> usize {
        let virt = FIXED + slot * PAGE_SIZE;
        let page = phys & !(PAGE_SIZE as u64 - 1);
        self.tables.map(
            virt,
            page,
            PAGE_SIZE as u64,
            Prot::READ | Prot::WRITE,
            MemoryKind::Device,
        );
        virt + (phys - page) as usize
    }

    /// Makes the map live, for good. Returns what the kernel occupies: the image without the unused end of
    /// the pool.
    pub fn activate(self) -> PhysRange {
        let (live, for_secondaries) = self.tables.finish();
        START.table.store(for_secondaries as usize, Ordering::Relaxed);
        let replace = image_to_phys(replace_kernel_table as *const () as usize) as usize;
        // SAFETY: the identity map of early boot is current, so the function can be called at its physical
        // address; the new map has this code, this stack and all data at the same addresses as the old one.
        unsafe { core::mem::transmute::<usize, unsafe extern "C" fn(u32)>(replace)(live) }
        kmap_format::live(&self.tables);
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
