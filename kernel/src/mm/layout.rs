//! Where things go in a new address space: top-down, the stack highest, mappings below its limit.

use super::{PAGE_SIZE, space::STACK_GAP};
use crate::arch::mmu::USER_END;

/// Bits of randomness of where mappings begin, in pages.
const MMAP_RANDOM_BITS: u32 = if usize::BITS == 64 { 28 } else { 8 };
/// Bits of randomness of the stack's top, in pages.
const STACK_RANDOM_BITS: u32 = if usize::BITS == 64 { 22 } else { 11 };

/// The highest mapping's end for a stack limit of `stack_limit` bytes; `random` are arbitrary bits (0: not randomised).
pub fn mmap_base(stack_limit: u64, random: u64) -> usize {
    let random_pages = (random as usize) & ((1 << MMAP_RANDOM_BITS) - 1);
    // The stack's own randomness and guard must fit above.
    let pad = STACK_GAP + (PAGE_SIZE << STACK_RANDOM_BITS);
    let gap = usize::try_from(stack_limit)
        .unwrap_or(usize::MAX)
        .saturating_add(pad);
    let gap = gap.clamp(128 << 20, USER_END / 6 * 5);
    (USER_END - gap).saturating_sub(random_pages * PAGE_SIZE) & !(PAGE_SIZE - 1)
}

/// The stack's top; `random` are arbitrary bits (0: not randomised).
pub fn stack_top(random: u64) -> usize {
    USER_END - ((random as usize) & ((1 << STACK_RANDOM_BITS) - 1)) * PAGE_SIZE
}

/// Before exec has decided.
pub(super) fn default_mmap_base() -> usize {
    mmap_base(8 << 20, 0)
}
