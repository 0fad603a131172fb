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
            // `b`.
            put_branch(without_provenance_mut(from), 18 << 26, target);
            entry = entry.add(1);
        }
    }
}

/// Bytes of a call.
pub const CALL: usize = 4;
/// The bits of a branch that hold its distance in bytes.
const DISTANCE: u32 = 0x3ff_fffc;

/// Writes a branch to `target`; `instruction` is the rest of it.
///
/// # Safety
/// There is an instruction at `at`, which can be written and nobody executes.
unsafe fn put_branch(at: *mut u32, instruction: u32, target: usize) {
    let distance = target.wrapping_sub(at as usize) as u32;
    // SAFETY: the caller's promise.
    unsafe {
        at.write_volatile(instruction & !DISTANCE | distance & DISTANCE);
        asm!(
            "dcbst 0, {at}", "sync", "icbi 0, {at}", "sync", "isync", at = in(reg) at,
            options(nostack, preserves_flags),
        );
    }
}

/// Where a call goes.
///
/// # Safety
/// There is a `bl` at `at`.
pub unsafe fn target(at: *const u8) -> usize {
    // SAFETY: the caller's promise.
    let distance = unsafe { at.cast::<u32>().read() } & DISTANCE;
    (at as usize).wrapping_add_signed((distance << 6) as i32 as isize >> 6)
}

/// Makes the call at `at` one of `target`.
///
/// # Safety
/// There is a `bl` at `at`, which can be written and nobody executes.
pub unsafe fn put_call(at: *mut u8, target: usize) {
    let at = at.cast::<u32>();
    // SAFETY: the caller's promise.
    unsafe { put_branch(at, at.read(), target) };
}

/// Text has been written that this CPU may execute next: each line was made known as it was written.
pub fn text_has_changed() {}

/// Forgets whatever this CPU has fetched ahead: what it executes next is what memory holds now
/// (`membarrier`'s `SYNC_CORE`).
pub fn synchronize() {
    // SAFETY: a barrier only.
    unsafe { asm!("isync", options(nostack, preserves_flags)) };
}
