//! Changing code at run time.

use crate::arch::stub_calls::Call;

/// `call`, and how far the target is from its end.
pub const CALL: Call = Call {
    size: 5,
    word: 1,
    distance: u32::MAX,
    unit: 0,
};

/// Writes a word of text.
///
/// # Safety
/// It can be written, and nobody executes it.
pub unsafe fn write(at: *mut u32, word: u32) {
    // SAFETY: the caller's promise.
    unsafe { at.write_unaligned(word) }
}

/// Text has been written that this CPU may execute next.
pub fn text_has_changed() {
    synchronize();
}

/// Forgets whatever this CPU has fetched ahead: what it executes next is what memory holds now
/// (`membarrier`'s `SYNC_CORE`).
pub fn synchronize() {
    // The only such instruction that every processor has and that may be executed at any time.
    core::hint::black_box(core::arch::x86_64::__cpuid(0));
}
