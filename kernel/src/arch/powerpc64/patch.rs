//! Changing code: once, at boot, for the processor it is; and what a CPU does when others may have changed
//! any.

use super::cpu;
use crate::arch::stub_calls::Call;
use core::arch::asm;
use core::ptr::without_provenance_mut;

/// From version 3.1 of the architecture on, the instruction labelled `$at`, a `nop`, is a branch to label
/// `$to`.
macro_rules! from_31 {
    ($at:literal, $to:literal) => {
        concat!(
            ".pushsection .from_31, \"a\"\n.balign 4\n.long ",
            $at,
            " - ., ",
            $to,
            " - .\n.popsection"
        )
    };
}
pub(super) use from_31;

unsafe extern "C" {
    static __from_31_start: [i32; 2];
    static __from_31_end: [i32; 2];
}

/// Puts those branches in, on the first CPU, before the kernel's own map makes code read-only.
pub fn adapt() {
    let (mut entry, end) = (&raw const __from_31_start, &raw const __from_31_end);
    while cpu::is_31() && entry < end {
        // SAFETY: the linker script gives the table's ends; each offset is one from its own word to an
        // instruction of ours, which nobody executes yet.
        unsafe {
            let [at, to] = *entry;
            let from = (entry as usize).wrapping_add_signed(at as isize);
            let target = (entry as usize + 4).wrapping_add_signed(to as isize);
            // `b`.
            let distance = target.wrapping_sub(from) as u32;
            write(without_provenance_mut(from), 18 << 26 | distance & CALL.distance);
            entry = entry.add(1);
        }
    }
}

/// `bl`, with a distance in bytes.
pub const CALL: Call = Call {
    size: 4,
    word: 0,
    distance: 0x3ff_fffc,
    unit: 0,
};

/// Writes a word of text and makes it known.
///
/// # Safety
/// It can be written, and nobody executes it.
pub unsafe fn write(at: *mut u32, word: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        at.write_volatile(word);
        asm!(
            "dcbst 0, {at}", "sync", "icbi 0, {at}", "sync", "isync", at = in(reg) at,
            options(nostack, preserves_flags),
        );
    }
}

/// Text has been written that this CPU may execute next: each line was made known as it was written.
pub fn text_has_changed() {}

/// Forgets whatever this CPU has fetched ahead: what it executes next is what memory holds now
/// (`membarrier`'s `SYNC_CORE`).
pub fn synchronize() {
    // SAFETY: a barrier only.
    unsafe { asm!("isync", options(nostack, preserves_flags)) };
}
