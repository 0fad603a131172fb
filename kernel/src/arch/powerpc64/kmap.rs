//! The kernel's own map, built once at boot, with translation still off: the linear map of all RAM with the
//! largest pages (never executable but for the vectors and the image's text; those and the image's constants
//! read-only). The image lies in it. Nothing is writable and executable.

use super::cache::order_instructions;
use super::hcall;
use super::kernel_tables::Tables;
use super::layout::{LINEAR_BASE, kernel_root, phys_to_virt, to_phys};
use super::pid::{self, ROOT_SIZE};
use super::radix::MemoryKind;
use super::spr::{self, MSR_RELOCATE};
use crate::mm::PhysRange;
use crate::mm::{PAGE_SIZE, Prot};

unsafe extern "C" {
    static __image_start: u8;
    static __text_end: u8;
    static __rodata_end: u8;
    static __vectors_load: u8;
    static __vectors_size: u8;
    static __boot_stack_guard: u8;
    static __table_pool_start: u8;
}

/// What the vectors occupy at the start of memory, and nothing else.
const VECTORS: u64 = 0x8000u64.next_multiple_of(PAGE_SIZE as u64);

fn address(symbol: &'static u8) -> usize {
    core::ptr::from_ref(symbol) as usize
}

/// Copies the vectors to where the processor looks for them. Firmware, whose they were, is not called again.
pub fn install_vectors() {
    // SAFETY: the linker script places the vectors' bytes; the start of memory is the kernel's now.
    unsafe {
        let (from, size) = (address(&__vectors_load), address(&__vectors_size));
        core::ptr::copy_nonoverlapping(from as *const u8, LINEAR_BASE as *mut u8, size);
    }
    order_instructions(LINEAR_BASE as *const u8);
}

/// The map under construction.
pub struct Builder(Tables);

impl Builder {
    /// An empty map; the tables come from the image's pool.
    pub fn new() -> Self {
        let mut tables = Tables::new(&raw const __table_pool_start as usize);
        tables.root = phys_to_virt(kernel_root()).cast();
        // SAFETY: the linker script places the root; nobody else uses it.
        unsafe { tables.root.cast::<u8>().write_bytes(0, ROOT_SIZE) };
        Self(tables)
    }

    /// A range of RAM.
    pub fn map_ram(&mut self, range: PhysRange) {
        let start = range.start.as_u64().next_multiple_of(PAGE_SIZE as u64);
        let end = (range.start.as_u64() + range.size) & !(PAGE_SIZE as u64 - 1);
        // SAFETY: linker symbols; only their addresses are used.
        let (image, text, rodata, guard) = unsafe {
            (
                to_phys(address(&__image_start)),
                to_phys(address(&__text_end)),
                to_phys(address(&__rodata_end)),
                to_phys(address(&__boot_stack_guard)),
            )
        };
        let (execute, read, write) = (Prot::READ | Prot::EXEC, Prot::READ, Prot::READ | Prot::WRITE);
        let mut part = |from: u64, to: u64, prot| {
            let (from, to) = (from.max(start), to.min(end));
            if from < to {
                self.0
                    .map(from as usize, from, to - from, prot, MemoryKind::Normal);
            }
        };
        part(0, VECTORS, execute);
        part(VECTORS, image, write);
        part(image, text, execute);
        part(text, rodata, read);
        part(rodata, guard, write);
        part(guard + PAGE_SIZE as u64, u64::MAX, write);
    }
}

/// Tells the hypervisor where the tables are and turns translation on, for good. The vectors are in place.
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
