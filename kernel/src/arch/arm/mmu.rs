//! What `arch/contract.rs` asks of the memory management unit: here the door to user space and pages'
//! contents; the rest is re-exported. What table entries look like, how the kernel reaches its tables and
//! which register closes user space is `format`: `long` or `short`. The address layout is `layout`, TLB
//! maintenance `tlb`, memory without an address `window`.
//!
//! While the kernel runs, user space is closed ([`close_user`]). The entry functions close and open it, the
//! copy loops open it for a moment.

use super::sysreg;
use crate::mm::PhysAddr;
use core::arch::asm;
use core::sync::atomic::{AtomicUsize, Ordering};

pub(super) use super::format::window_register;
pub use super::format::*;
pub use super::layout::*;
pub use super::tlb::*;
pub use super::window::{HIGH_MEMORY, View, linear_end};

/// Writes the register that opens and closes user space, where that can be left out (`cpu::options`).
macro_rules! write_window {
    ($value:expr) => {
        asm!(
            ".pushsection __pan_sites, \"a\"",
            ".balign 4",
            ".long 9995f - .",
            ".popsection",
            concat!("9995: mcr p15, 0, {}, ", window_register!()),
            in(reg) $value, options(nostack, preserves_flags)
        )
    };
}

/// Closes user space to the kernel. Takes effect at the next barrier at the latest.
#[inline(always)]
pub fn close_user() {
    // SAFETY: the kernel has no business there outside the copy loops.
    unsafe { write_window!(CLOSED) }
}

/// Opens user space; takes effect with the return to it.
#[inline(always)]
pub fn open_user() {
    // SAFETY: the caller is about to return to user mode, or to a copy loop that was interrupted.
    unsafe { write_window!(OPEN) }
}

/// Whether it is open: an interrupt arrived inside a copy loop.
#[inline(always)]
pub fn user_is_open() -> bool {
    let value: u32;
    // SAFETY: only reads the register.
    unsafe {
        asm!(
            concat!("mrc p15, 0, {}, ", window_register!()), out(reg) value,
            options(nomem, nostack, preserves_flags),
        );
    }
    value == OPEN
}

/// Fills a fresh, zeroed user root table with what every address space shares with the kernel: nothing, the
/// kernel has its own part, or the processor's root has it.
pub fn init_user_root(root: PhysAddr) {
    let _ = root;
}

/// What of a range of RAM can be used: start and size. What lies below the image cannot.
pub fn usable_part(start: u64, size: u64) -> Option<(u64, u64)> {
    let (from, to) = (start.max(linear_start()), (start + size).min(PHYS_END));
    (from < to).then(|| (from, to - from))
}

/// Physical address of the root of the kernel's own table, for walks in software.
pub(super) static KERNEL_ROOT: AtomicUsize = AtomicUsize::new(0);

/// The root of the kernel's own table (for the [`VMAP`] range; the same entry format).
#[inline(always)]
pub fn kernel_root() -> PhysAddr {
    PhysAddr::new(KERNEL_ROOT.load(Ordering::Relaxed) as u64)
}

/// Leaves user address spaces: only kernel mappings are valid on this CPU afterwards (idle, kernel threads
/// that outlive their last user). Interrupts are off.
pub fn switch_to_kernel() {
    close_user();
    load_nobody();
}

/// The smallest data cache line of the machine, in bytes.
#[inline(always)]
pub(super) fn line() -> usize {
    4 << (sysreg::read!(CTR) >> 16 & 0xf)
}

/// Makes newly written code in the page at `phys` visible to instruction fetch, before it is mapped
/// executable.
pub fn sync_instructions(phys: PhysAddr) {
    let view = View::new(phys);
    let start = view.as_ptr() as usize;
    clean_to_unification(start, start + (1 << PAGE_SHIFT));
    drop_instructions();
}

/// Makes all CPUs fetch instructions anew.
pub(super) fn drop_instructions() {
    sysreg::barrier_inner();
    // SAFETY: dropping instruction caches changes no memory contents. By address would miss aliases in caches
    // indexed by virtual address.
    unsafe {
        sysreg::write!(ICIALLUIS, 0u32);
        sysreg::write!(BPIALLIS, 0u32);
    }
    sysreg::barrier_inner();
    sysreg::isb();
}

/// Cleans data to where instruction fetch sees it. Kernel addresses.
fn clean_to_unification(start: usize, end: usize) {
    let line = line();
    let mut addr = start & !(line - 1);
    // SAFETY: cleaning changes no memory contents.
    unsafe {
        while addr < end {
            sysreg::write!(DCCMVAU, addr as u32);
            addr += line;
        }
    }
    sysreg::barrier_inner();
}

/// Zeroes the page at `phys`.
#[inline(always)]
pub fn clear_page(phys: PhysAddr) {
    let view = View::new(phys);
    // SAFETY: the caller owns the page; the view makes it writable.
    unsafe { view.as_ptr().write_bytes(0, 1 << PAGE_SHIFT) }
}

/// Copies the page at `from` to the page at `to`.
#[inline(always)]
pub fn copy_page(to: PhysAddr, from: PhysAddr) {
    let (to, from) = (View::new(to), View::new(from));
    // SAFETY: the caller owns both pages, which differ.
    unsafe {
        to.as_ptr()
            .copy_from_nonoverlapping(from.as_ptr(), 1 << PAGE_SHIFT)
    }
}
