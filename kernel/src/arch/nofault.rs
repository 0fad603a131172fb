//! Accesses to the kernel's own memory that may fault: what is there is not known, or is what is asked. The
//! instructions are each architecture's (`uaccess`); they are the first of their functions, which is
//! how the fault handler knows them.

use super::imp::uaccess::{nofault_load, nofault_store};

/// Reads a word of the kernel's. `None`: it may not be read (Linux: `get_kernel_nofault`). In any context.
///
/// # Safety
/// It is naturally aligned, and no device's.
pub unsafe fn get_kernel_nofault(addr: usize) -> Option<u32> {
    let mut value = 0;
    // SAFETY: as the caller promises; a fault says so.
    unsafe { nofault_load(addr, &raw mut value) != 0 }.then_some(value)
}

/// Writes a word of the kernel's. `false`: it may not be written (Linux: `copy_to_kernel_nofault`). In any
/// context.
///
/// # Safety
/// It is naturally aligned and no device's, and nothing that anybody relies on.
pub unsafe fn put_kernel_nofault(addr: usize, value: u32) -> bool {
    // SAFETY: as the caller promises; a fault says so.
    unsafe { nofault_store(addr, value) != 0 }
}

/// Whether the instruction there is one of these accesses, or one of a module's that may fault: modules have
/// no access to user memory.
pub fn is_nofault(ip: usize) -> bool {
    ip == nofault_load as *const () as usize
        || ip == nofault_store as *const () as usize
        || crate::mm::symbols::fixup_outside(ip).is_some()
}
