//! What `arch/contract.rs` asks of the memory management unit: here address spaces, flushing and pages'
//! contents; the rest is re-exported. Page table entries are in `radix`, the address layout is in `layout`,
//! the kernel's own map is built in `kmap`; `pid` hands out the identifiers of address spaces.

use super::cache::order_instructions;
use super::copy::{PIECE, copy_vectors};
use super::pid;
use super::spr;
use super::tlb::{What, after, before, tlbie, tlbie_range};
use crate::mm::PhysAddr;
use core::arch::asm;
use core::sync::atomic::AtomicU64;

pub use super::cache::clear_page;
pub use super::layout::*;
pub use super::pid::MmContext;
pub use super::radix::*;
pub use crate::arch::linear::{HIGH_MEMORY, View, linear_end, load_part, load_slot, store_slot};

/// Writes an entry in memory at once, but in any order: a barrier follows the last of several. The compiler
/// would turn the bytes of each entry round in registers.
#[inline(always)]
pub fn store_unordered(slot: &AtomicU64, value: u64) {
    // SAFETY: the slot is an atomic; the store is of one aligned double word.
    unsafe {
        asm!("stdbrx {}, 0, {}", in(reg) u64::from_be(value), in(reg_nonzero) slot,
            options(nostack, preserves_flags));
    }
}

/// Fills a fresh, zeroed user root table with what every address space shares with the kernel: nothing, the
/// kernel has its own tree.
pub fn init_user_root(root: PhysAddr) {
    let _ = root;
}

/// Makes `root` the current user address space of this CPU. Interrupts are off.
#[inline]
pub fn switch_to(root: PhysAddr, context: &MmContext) {
    set_pid(pid::activate(root, context));
}

/// Leaves user address spaces: only kernel mappings are valid on this CPU afterwards (idle, kernel threads
/// that outlive their last user). Interrupts are off.
pub fn switch_to_kernel() {
    set_pid(pid::NOBODY);
}

#[inline(always)]
fn set_pid(pid: usize) {
    if spr::read!(spr::PIDR) != pid {
        // SAFETY: the identifier's tree is that of an address space that the caller keeps alive while it is
        // current, or empty.
        unsafe { spr::write!(spr::PIDR, pid) }
        spr::isync();
    }
}

/// Forgets cached translations of `[start, end)` of an address space on every CPU that may hold them.
/// `tables_freed`: table pages were removed, too. On return no CPU uses the old translations. Interrupts on,
/// no spinlock taken with interrupts off is held.
pub fn flush_user(context: &MmContext, start: usize, end: usize, tables_freed: bool) {
    before();
    // An address space that never ran has nothing cached.
    let Some(pid) = pid::current(context) else {
        return;
    };
    // SAFETY: between the barriers.
    unsafe {
        if tables_freed {
            tlbie(What::Everything, pid, 0);
        } else {
            tlbie_range(pid, start, end);
        }
    }
    after();
}

/// After an entry became valid, or gained permission and `was_valid`: whatever the processor needs before the
/// access is retried. It looks at the tables again before it reports a fault; should the store still be on
/// its way, the fault comes once more, which the fault handler resolves by doing nothing.
#[inline(always)]
pub fn update_user(context: &MmContext, addr: usize, was_valid: bool) {
    let _ = (context, addr, was_valid);
}

/// Forgets cached translations of a kernel range on every CPU.
pub fn flush_kernel(start: usize, end: usize) {
    before();
    // SAFETY: between the barriers.
    unsafe { tlbie_range(0, start, end) };
    after();
}

/// After invalid kernel entries of a range became valid: whatever the processor needs before they are used
/// (often nothing).
#[inline(always)]
pub fn update_kernel(start: usize, end: usize) {
    let _ = (start, end);
    before();
    spr::isync();
}

/// Makes newly written code in the page at `phys` visible to instruction fetch, before it is mapped
/// executable.
pub fn sync_instructions(phys: PhysAddr) {
    order_instructions(phys_to_virt(phys));
}

/// Copies the page at `from` to the page at `to`.
#[inline(always)]
pub fn copy_page(to: PhysAddr, from: PhysAddr) {
    let (to, from) = (phys_to_virt(to) as usize, phys_to_virt(from) as usize);
    // SAFETY: the caller owns both pages, which differ; the linear map covers all RAM.
    unsafe { copy_vectors::<0>(to, from, (1 << PAGE_SHIFT) / PIECE) };
}
