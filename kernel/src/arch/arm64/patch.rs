//! Changing code at run time.

use crate::arch::stub_calls::Call;

/// `bl`.
pub const CALL: Call = Call {
    size: 4,
    word: 0,
    distance: (1 << 26) - 1,
    unit: 2,
};

/// Writes a word of text, back to where instructions are fetched from.
///
/// # Safety
/// It can be written, and nobody executes it.
pub unsafe fn write(at: *mut u32, word: u32) {
    // SAFETY: the caller's promise; then its cache line is written back.
    unsafe {
        at.write_volatile(word);
        core::arch::asm!("dc cvau, {}", in(reg) at, options(nostack, preserves_flags));
    }
}

/// Text has been written that this CPU may execute next.
pub fn text_has_changed() {
    // SAFETY: barriers and cache maintenance.
    unsafe {
        core::arch::asm!(
            "dsb ish",
            "ic iallu",
            "dsb ish",
            "isb",
            options(nostack, preserves_flags)
        )
    }
}

/// Forgets whatever this CPU has fetched ahead: what it executes next is what memory holds now
/// (`membarrier`'s `SYNC_CORE`).
pub fn synchronize() {
    // SAFETY: a barrier only.
    unsafe { core::arch::asm!("isb", options(nostack, preserves_flags)) };
}
