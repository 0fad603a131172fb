//! The kernel's own map, built once at boot, with translation still off: the linear map of all RAM with the
//! largest pages (never executable but for the vectors and the image's text; those and the image's constants
//! read-only). The image lies in it. Nothing is writable and executable.

use super::cache::order_instructions;
use super::hcall;
use super::kernel_map;
use super::kernel_tables::Tables;
use super::layout::{LINEAR_BASE, kernel_root, phys_to_virt};
use super::pid::{self, ROOT_SIZE};
use super::radix::MemoryKind;
use super::spr::{self, MSR_RELOCATE};
use crate::mm::PAGE_SIZE;
use crate::mm::{PhysAddr, PhysRange, Prot};
use limen_linear_map::Map;

unsafe extern "C" {
    static __vectors_load: u8;
    static __vectors_size: u8;
    static __table_pool_start: u8;
    static __table_pool_end: u8;
}

/// What the vectors occupy at the start of memory, and nothing else.
const VECTORS: u64 = 0x8000u64.next_multiple_of(PAGE_SIZE as u64);

fn address(symbol: &'static u8) -> usize {
    core::ptr::from_ref(symbol) as usize
}

/// Copies the vectors to where the processor looks for them. Firmware, whose they were, is not called again.
#[unsafe(link_section = ".init.text")]
pub fn install_vectors() {
    // SAFETY: the linker script places the vectors' bytes; the start of memory is the kernel's now.
    unsafe {
        let (from, size) = (address(&__vectors_load), address(&__vectors_size));
        core::ptr::copy_nonoverlapping(from as *const u8, LINEAR_BASE as *mut u8, size);
    }
    order_instructions(LINEAR_BASE as *const u8);
}

/// The map under construction.
pub struct Builder {
    tables: Tables,
    map: Map,
}

impl Builder {
    /// The vectors; the tables come from the image's pool.
    #[unsafe(link_section = ".init.text")]
    pub fn new() -> Self {
        let root = phys_to_virt(kernel_root());
        // SAFETY: the linker script places the root; nobody else uses it.
        unsafe { root.write_bytes(0, ROOT_SIZE) };
        let (start, end) = (&raw const __table_pool_start, &raw const __table_pool_end);
        let mut tables = Tables::new(start as usize, end as usize, LINEAR_BASE);
        let map = kernel_map::map();
        tables.map(
            &map,
            LINEAR_BASE,
            0,
            VECTORS,
            Prot::READ | Prot::EXEC,
            MemoryKind::Normal,
        );
        Self { tables, map }
    }

    /// A range of RAM.
    #[unsafe(link_section = ".init.text")]
    pub fn map_ram(&mut self, mut range: PhysRange) {
        let end = range.start.as_u64() + range.size;
        if range.start.as_u64() < VECTORS {
            range = PhysRange {
                start: PhysAddr::new(VECTORS),
                size: end.saturating_sub(VECTORS),
            };
        }
        self.tables.map_ram(&self.map, range, &kernel_map::image(), true);
    }
}

/// Tells the hypervisor where the tables are and turns translation on, for good. The vectors are in place.
#[unsafe(link_section = ".init.text")]
pub fn activate() {
    // For all CPUs: interrupts are little-endian, and arrive with translation on.
    const ENDIAN: usize = 4;
    const TRANSLATION: usize = 3;
    hcall::call(hcall::SET_MODE, 1, ENDIAN, 0, 0);
    hcall::call(hcall::SET_MODE, 3, TRANSLATION, 0, 0);
    // New table of process entries, radix trees, the guest invalidates translations itself.
    const FLAGS: usize = 0x10 | 8 | 4 | 1;
    let (table, size) = pid::process_table();
    let (status, _) = hcall::call(hcall::REGISTER_PROCESS_TABLE, FLAGS, table as usize, 0, size);
    assert!(
        status == hcall::SUCCESS,
        "the hypervisor refuses radix page tables (power9 or later is needed): {status}"
    );
    // Without it the processor ignores the top of addresses: everything is where it was.
    spr::set_msr(spr::msr() | MSR_RELOCATE);
    spr::isync();
}
