//! TLB maintenance: what page tables no longer say, or say only now, and the processor must know.

use super::asid::{self, MmContext};
use super::format::forget_tables;
use super::layout::PAGE_SHIFT;
use super::sysreg;

/// So many pages, a whole table's with the smallest pages, are not invalidated one by one.
const FLUSH_ALL_FROM: usize = 512;

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
    // the tables.
    unsafe {
        if (end - start) >> PAGE_SHIFT >= FLUSH_ALL_FROM {
            sysreg::write!(TLBIASIDIS, asid as u32);
        } else {
            let mut addr = start;
            while addr < end {
                sysreg::write!(TLBIMVAIS, (addr | asid) as u32);
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
        // SAFETY: as for `flush_user`. On this CPU only.
        unsafe { sysreg::write!(TLBIMVA, (addr | asid as usize) as u32) }
        sysreg::barrier_inner();
    }
}

/// Forgets cached translations of a kernel range on every CPU.
pub fn flush_kernel(start: usize, end: usize) {
    flush_kernel_by(start, end, PAGE_SHIFT);
}

/// The same, where every leaf has at least `1 << shift` bytes. In any context.
pub(super) fn flush_kernel_by(start: usize, end: usize, shift: usize) {
    sysreg::store_barrier();
    // SAFETY: as for `flush_user`.
    unsafe {
        if (end - start) >> shift >= FLUSH_ALL_FROM {
            sysreg::write!(TLBIALLIS, 0u32);
        } else {
            let mut addr = start;
            while addr < end {
                sysreg::write!(TLBIMVAAIS, addr as u32);
                addr += 1 << shift;
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
