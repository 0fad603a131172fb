//! Changing code at run time.

/// Forgets whatever this CPU has fetched ahead: what it executes next is what memory holds now
/// (`membarrier`'s `SYNC_CORE`).
pub fn synchronize() {
    // SAFETY: a barrier only.
    unsafe { core::arch::asm!("isb", options(nostack, preserves_flags)) };
}
