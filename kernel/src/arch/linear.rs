//! What `mmu` owes of the way to a page's content, for architectures whose linear map holds all memory: there
//! a page always has an address. And how entries of 64 bits in memory are read and written.

use super::mmu::phys_to_virt;
use crate::mm::PhysAddr;
use core::sync::atomic::{AtomicU64, Ordering};

/// Whether there may be memory that the linear map has no room for. Its frames have the highest numbers.
pub const HIGH_MEMORY: bool = false;

/// Where such memory starts.
pub fn linear_end() -> u64 {
    u64::MAX
}

/// The content of a page, where the kernel can reach it for as long as this lives.
#[derive(Debug)]
pub struct View(*mut u8);

impl View {
    /// Of the page at `phys`.
    #[inline(always)]
    pub fn new(phys: PhysAddr) -> Self {
        Self(phys_to_virt(phys))
    }
    /// Its first byte.
    #[inline(always)]
    pub fn as_ptr(&self) -> *mut u8 {
        self.0
    }
}

/// Reads an entry in memory, before anything that follows.
#[inline(always)]
pub fn load_slot(slot: &AtomicU64) -> u64 {
    slot.load(Ordering::Acquire)
}

/// Part of an entry in memory, which is zero only if the entry is empty: what is looked at to pass over empty
/// ones.
#[inline(always)]
pub fn load_part(slot: &AtomicU64) -> u64 {
    slot.load(Ordering::Relaxed)
}

/// Writes an entry in memory, after everything before.
#[inline(always)]
pub fn store_slot(slot: &AtomicU64, value: u64) {
    slot.store(value, Ordering::Release);
}
