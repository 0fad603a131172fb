//! What is done with cache instructions: code becomes visible to instruction fetch, pages become zero.

use super::layout::{PAGE_SHIFT, phys_to_virt};
use crate::mm::PhysAddr;
use core::arch::asm;

/// Makes newly written code around `at` visible to instruction fetch, whoever runs this. Instruction caches
/// of all processors that have radix trees snoop: one invalidation orders them.
#[inline(always)]
pub(super) fn order_instructions(at: *const u8) {
    // SAFETY: barriers, and dropping an instruction cache line.
    unsafe { asm!("sync", "icbi 0, {}", "sync", "isync", in(reg) at, options(nostack, preserves_flags)) }
}

/// Bytes that `dcbz` clears, on every processor that has radix trees.
const LINE: usize = 128;

/// Zeroes the page at `phys`.
#[inline(always)]
pub fn clear_page(phys: PhysAddr) {
    const STEP: usize = 8 * LINE;
    let page = phys_to_virt(phys);
    for at in (0..1 << PAGE_SHIFT).step_by(STEP) {
        for line in 0..STEP / LINE {
            // SAFETY: the caller owns the page; the linear map makes all RAM writable.
            unsafe {
                asm!(
                    "dcbz {}, {}", in(reg_nonzero) page.add(at), in(reg) line * LINE,
                    options(nostack, preserves_flags),
                )
            }
        }
    }
}
