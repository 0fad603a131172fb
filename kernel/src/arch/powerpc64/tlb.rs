//! TLB maintenance: what page tables no longer say, or say only now, and the processors must know.

use super::devicetree;
use crate::mm::{PAGE_SHIFT, PAGE_SIZE};
use core::arch::asm;
use core::sync::atomic::{AtomicUsize, Ordering};

/// What the processor calls the page size in an invalidation, in place.
static PAGE_SIZE_CODE: AtomicUsize = AtomicUsize::new(0);

#[inline(always)]
fn page_size_code() -> usize {
    PAGE_SIZE_CODE.load(Ordering::Relaxed)
}

/// Asks the devicetree for that. Boot.
///
/// # Panics
/// The processor has no pages of this size.
pub(super) fn init() {
    // Three bits of code, and log2 of the size; the smallest first.
    let codes = devicetree::of_type("cpu")
        .next()
        .and_then(|cpu| cpu.property("ibm,processor-radix-AP-encodings"))
        .map_or(&[][..], |codes| codes.value);
    let mut codes = (0..).map_while(|n| devicetree::cell(codes, n));
    let Some(code) = codes.find(|code| (code & 0x1fff_ffff) as usize == PAGE_SHIFT) else {
        panic!(
            "radix trees with pages of {} KiB need another processor",
            PAGE_SIZE / 1024
        )
    };
    PAGE_SIZE_CODE.store((code >> 29 << 5) as usize, Ordering::Relaxed);
}

/// More pages than this are not invalidated one by one.
const FLUSH_ALL_ABOVE: usize = 32;

/// What one invalidation is to forget.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// Translations of one page.
    Page,
    /// All translations of an identifier.
    Identifier,
    /// Those, and what was cached of tables and process entries.
    Everything,
}

/// Forgets on every CPU.
///
/// # Safety
/// To be put between [`before`] and [`after`].
#[inline(always)]
pub(super) unsafe fn tlbie(what: What, pid: usize, addr: usize) {
    let rs = pid << 32;
    // Bits 52 and 53 choose the scope: 0 an address, 1 an identifier.
    let rb = if what == What::Page {
        addr & !(PAGE_SIZE - 1) | page_size_code()
    } else {
        1 << 10
    };
    // SAFETY: forgetting translations is always allowed. `tlbie r5, r6, RIC, 1, 1`, spelled as a word for
    // assemblers that know only the short form.
    unsafe {
        match what {
            What::Everything => {
                asm!(".long 0x7ccb2a64", in("r5") rb, in("r6") rs, options(nostack, preserves_flags))
            }
            _ => asm!(".long 0x7cc32a64", in("r5") rb, in("r6") rs, options(nostack, preserves_flags)),
        }
    }
}

/// Orders what follows after earlier stores to tables.
#[inline(always)]
pub(super) fn before() {
    // SAFETY: a barrier.
    unsafe { asm!("ptesync", options(nostack, preserves_flags)) }
}

/// Waits for all CPUs to have forgotten.
#[inline(always)]
pub(super) fn after() {
    // SAFETY: barriers.
    unsafe { asm!("eieio", "tlbsync", "ptesync", options(nostack, preserves_flags)) }
}

/// Forgets everything of an identifier on every CPU.
pub(super) fn flush_pid(pid: usize) {
    before();
    // SAFETY: between the barriers.
    unsafe { tlbie(What::Everything, pid, 0) };
    after();
}

/// Forgets the pages of a range one by one, or all of the identifier.
///
/// # Safety
/// As for [`tlbie`].
#[inline(always)]
pub(super) unsafe fn tlbie_range(pid: usize, start: usize, end: usize) {
    // SAFETY: as the caller promises.
    unsafe {
        if (end - start) >> PAGE_SHIFT > FLUSH_ALL_ABOVE {
            return tlbie(What::Identifier, pid, 0);
        }
        let mut addr = start;
        while addr < end {
            tlbie(What::Page, pid, addr);
            addr += 1 << PAGE_SHIFT;
        }
    }
}
