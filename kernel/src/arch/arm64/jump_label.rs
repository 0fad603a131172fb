//! Places that are changed with a key (`arch/jump_table.rs`): `nop`, or `b`. These two may be exchanged while
//! other CPUs execute them, as at the sites of functions (`sites.rs`).

use crate::arch::jump_table::Jump;
use crate::mm::text::Writable;
use core::sync::atomic::Ordering::Release;

/// Assembler text of a place.
macro_rules! nop {
    () => {
        "nop"
    };
}
pub(in crate::arch) use nop;

/// Bytes of a place.
pub const SIZE: usize = 4;
const NOP: u32 = 0xd503_201f;
const B: u32 = 0x1400_0000;

/// How often all CPUs synchronise while a place is changed.
pub const PHASES: usize = 1;

/// What a place holds when its key is on, or off.
pub(super) fn word(jump: &Jump, on: bool) -> u32 {
    let distance = jump.target.wrapping_sub(jump.site) as u32;
    if on { B | distance >> 2 & 0x3ff_ffff } else { NOP }
}

/// Stores that.
///
/// # Safety
/// Nobody else changes the place.
pub unsafe fn store(text: &Writable, jump: &Jump, on: bool, _phase: usize) {
    // SAFETY: as the caller promises, and as the head of this file says.
    unsafe { text.word(jump.site) }.store(word(jump, on), Release);
}
