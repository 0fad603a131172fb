//! Changing code: once, at boot, for the processor it is; and what a CPU does when others may have changed
//! any.

use super::cpu;
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
            // `b`, with a distance in bytes.
            let branch = 18 << 26 | (target.wrapping_sub(from) & 0x3ff_fffc) as u32;
            without_provenance_mut::<u32>(from).write_volatile(branch);
            asm!(
                "dcbst 0, {at}", "sync", "icbi 0, {at}", "sync", "isync", at = in(reg) from,
                options(nostack, preserves_flags),
            );
            entry = entry.add(1);
        }
    }
}

/// Forgets whatever this CPU has fetched ahead: what it executes next is what memory holds now
/// (`membarrier`'s `SYNC_CORE`).
pub fn synchronize() {
    // SAFETY: a barrier only.
    unsafe { asm!("isync", options(nostack, preserves_flags)) };
}
