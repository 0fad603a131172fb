//! Where the parts of a new address space lie: the stack at the top, mappings below its limit, growing
//! downwards.

use super::{PAGE_SHIFT, PAGE_SIZE, space::STACK_GAP};
use crate::arch::mmu::USER_END;

/// How many bits of randomness the place of mappings has, in pages.
const MMAP_RANDOM_BITS: u32 = if usize::BITS == 64 { 40 } else { 20 } - PAGE_SHIFT as u32;
/// How many bits of randomness the stack's top has, in pages.
const STACK_RANDOM_BITS: u32 = if usize::BITS == 64 { 34 } else { 23 } - PAGE_SHIFT as u32;

/// Where mappings end at the top, for a stack limit of `stack_limit` bytes. `random`: any bits; 0 does not
/// randomise.
pub fn mmap_base(stack_limit: u64, random: u64) -> usize {
    let random_pages = (random as usize) & ((1 << MMAP_RANDOM_BITS) - 1);
    // Leaves room above for the stack's own randomness and the gap below it.
    let pad = STACK_GAP + (PAGE_SIZE << STACK_RANDOM_BITS);
    let gap = usize::try_from(stack_limit)
        .unwrap_or(usize::MAX)
        .saturating_add(pad);
    let gap = gap.clamp(128 << 20, USER_END / 6 * 5);
    (USER_END - gap).saturating_sub(random_pages * PAGE_SIZE) & !(PAGE_SIZE - 1)
}

/// The stack's top. `random`: any bits; 0 does not randomise.
pub fn stack_top(random: u64) -> usize {
    USER_END - ((random as usize) & ((1 << STACK_RANDOM_BITS) - 1)) * PAGE_SIZE
}

/// What a new address space has until exec decides.
pub(super) fn default_mmap_base() -> usize {
    mmap_base(8 << 20, 0)
}
