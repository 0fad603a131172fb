//! The address layout, TLB maintenance, pages' contents. What table entries look like, how the kernel reaches
//! its tables and how it closes user space is `format`: `long` or `short`.
//!
//! While the kernel runs, user space is closed ([`close_user`]). The entry functions close and open it, the
//! copy loops open it for a moment.

use super::{asid, sysreg};
use crate::mm::PhysAddr;
use core::arch::asm;
use core::sync::atomic::{AtomicUsize, Ordering};

pub(super) use super::format::window_register;
pub use super::format::*;
pub use super::window::{HIGH_MEMORY, View, linear_end};

/// log2 of the page size.
pub const PAGE_SHIFT: usize = 12;
/// One past the largest user address (a multiple of the page size): 16 MiB below the kernel, as on Linux.
pub const USER_END: usize = 0xbf00_0000;
/// Permissions that a load is allowed by: any.
pub const READABLE: crate::mm::Prot = crate::mm::Prot::all();
/// What user mode can read and execute in the kernel's part, as `/proc/PID/maps` shows it: start, end, name.
/// Here the kernel helpers.
pub const GATE: Option<(usize, usize, &str)> = Some((0xffff_0000, 0xffff_1000, "[vectors]"));
/// Where the linear map of RAM starts.
pub const LINEAR_BASE: usize = 0xc000_0000;
/// Its most bytes. What lies behind is reached through [`View`].
pub(super) const LINEAR_SIZE: u64 = 0x2f80_0000;
/// Kernel virtual range for dynamic mappings (stacks, device registers), as `(start, end)`.
pub const VMAP: (usize, usize) = (0xf000_0000, 0xff00_0000);
/// Where pages beyond the linear map are mapped for a while (`window`).
pub(super) const WINDOW: (usize, usize) = (0xff00_0000, 0xff80_0000);
/// Where the kernel image is linked.
pub const IMAGE_BASE: usize = 0xc001_0000;
/// Physical address of what is at [`LINEAR_BASE`].
static PHYS_BASE: AtomicUsize = AtomicUsize::new(0);

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

/// RAM mapped at [`LINEAR_BASE`] starts at `base`, a multiple of 2 MiB. First of all.
pub(super) fn set_phys_base(base: usize) {
    PHYS_BASE.store(base, Ordering::Relaxed);
}

/// The physical address of what is at [`LINEAR_BASE`].
#[inline(always)]
pub(super) fn linear_start() -> u64 {
    PHYS_BASE.load(Ordering::Relaxed) as u64
}

/// What of a range of RAM can be used: start and size. What lies below the image cannot.
pub fn usable_part(start: u64, size: u64) -> Option<(u64, u64)> {
    let (from, to) = (start.max(linear_start()), (start + size).min(PHYS_END));
    (from < to).then(|| (from, to - from))
}

/// The kernel's linear map: the address where `phys` can be read and written. RAM below [`linear_end`] only.
#[inline(always)]
pub fn phys_to_virt(phys: PhysAddr) -> *mut u8 {
    phys.as_usize()
        .wrapping_sub(PHYS_BASE.load(Ordering::Relaxed))
        .wrapping_add(LINEAR_BASE) as *mut u8
}

/// The inverse of [`phys_to_virt`].
#[inline(always)]
pub fn virt_to_phys(virt: *const u8) -> PhysAddr {
    PhysAddr::new((virt as usize - LINEAR_BASE).wrapping_add(PHYS_BASE.load(Ordering::Relaxed)) as u64)
}

/// The root of the kernel's own table (for the [`VMAP`] range; the same entry format).
pub fn kernel_root() -> PhysAddr {
    super::kmap::root()
}

/// More pages than this are not invalidated one by one.
const FLUSH_ALL_ABOVE: usize = 512;

/// Forgets cached translations of `[start, end)` of an address space on every CPU that may hold them.
/// `tables_freed`: table pages were removed, too. On return no CPU uses the old translations. Interrupts on,
/// no spinlock taken with interrupts off is held.
pub fn flush_user(context: &MmContext, start: usize, end: usize, tables_freed: bool) {
    // Whoever gives the address space an identifier after the question for it sees what was stored to the
    // tables before.
    sysreg::barrier_inner();
    // An address space that never had one has nothing cached.
    let Some(asid) = asid::current(context) else {
        return;
    };
    let asid = asid as usize;
    // v7 has no "last level only".
    if tables_freed {
        forget_tables(asid, start, end);
    }
    // SAFETY: forgetting translations is always allowed; the barriers order it after the stores that changed
    // the tables. TLBIASIDIS and TLBIMVAIS.
    unsafe {
        if (end - start) >> PAGE_SHIFT > FLUSH_ALL_ABOVE {
            sysreg::write!("p15, 0, {}, c8, c3, 2", asid as u32);
        } else {
            let mut addr = start;
            while addr < end {
                sysreg::write!("p15, 0, {}, c8, c3, 1", (addr | asid) as u32);
                addr += 1 << PAGE_SHIFT;
            }
        }
    }
    sysreg::barrier_inner();
}

/// After an entry became valid, or gained permission and `was_valid`: whatever the processor needs before the
/// access is retried. An invalid entry is never cached. One that refused an access may stay so; on other CPUs
/// it then refuses another one, which comes to this, too.
#[inline(always)]
pub fn update_user(context: &MmContext, addr: usize, was_valid: bool) {
    if was_valid && let Some(asid) = asid::current(context) {
        sysreg::store_barrier();
        // SAFETY: as for `flush_user`. TLBIMVA, on this CPU only.
        unsafe { sysreg::write!("p15, 0, {}, c8, c7, 1", (addr | asid as usize) as u32) }
        sysreg::barrier_inner();
    }
}

/// Forgets cached translations of a kernel range on every CPU.
pub fn flush_kernel(start: usize, end: usize) {
    sysreg::store_barrier();
    // SAFETY: as for `flush_user`. TLBIALLIS and TLBIMVAAIS.
    unsafe {
        if (end - start) >> PAGE_SHIFT > FLUSH_ALL_ABOVE {
            sysreg::write!("p15, 0, {}, c8, c3, 0", 0u32);
        } else {
            let mut addr = start;
            while addr < end {
                sysreg::write!("p15, 0, {}, c8, c3, 3", addr as u32);
                addr += 1 << PAGE_SHIFT;
            }
        }
    }
    sysreg::barrier_inner();
    sysreg::isb();
}

/// After invalid kernel entries of a range became valid: whatever the processor needs before they are used
/// (often nothing).
#[inline(always)]
pub fn update_kernel(start: usize, end: usize) {
    let _ = (start, end);
    // The stores to the tables are visible to walks before the next instruction.
    sysreg::store_barrier();
    sysreg::isb();
}

/// The smallest data cache line of the machine, in bytes.
#[inline(always)]
pub(super) fn line() -> usize {
    4 << (sysreg::read!("p15, 0, {}, c0, c0, 1") >> 16 & 0xf)
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
    // indexed by virtual address. ICIALLUIS, BPIALLIS.
    unsafe {
        sysreg::write!("p15, 0, {}, c7, c1, 0", 0u32);
        sysreg::write!("p15, 0, {}, c7, c1, 6", 0u32);
    }
    sysreg::barrier_inner();
    sysreg::isb();
}

/// Cleans data to where instruction fetch sees it. Kernel addresses.
fn clean_to_unification(start: usize, end: usize) {
    let line = line();
    let mut addr = start & !(line - 1);
    // SAFETY: cleaning changes no memory contents. DCCMVAU.
    unsafe {
        while addr < end {
            sysreg::write!("p15, 0, {}, c7, c11, 1", addr as u32);
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
