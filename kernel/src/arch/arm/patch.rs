//! Changing code at run time.

use crate::arch::stub_calls::Call;

/// `bl`.
pub const CALL: Call = Call {
    size: 4,
    word: 0,
    distance: (1 << 24) - 1,
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
        super::sysreg::write!(DCCMVAU, at as u32);
    }
}

/// Text has been written that this CPU may execute next.
pub fn text_has_changed() {
    super::mmu::drop_instructions();
}

/// Forgets whatever this CPU has fetched ahead: what it executes next is what memory holds now
/// (`membarrier`'s `SYNC_CORE`).
pub fn synchronize() {
    super::sysreg::isb();
}
