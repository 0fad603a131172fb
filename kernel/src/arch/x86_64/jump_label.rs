//! Places that are changed with a key (`arch/jump_table.rs`): a `nop` of five bytes, or `jmp`. They are
//! changed as the sites of functions are (`sites.rs`), but by bytes, since they lie anywhere: a breakpoint
//! first; then what is behind it, which no CPU executes by then; then the first byte. A CPU that meets the
//! breakpoint goes on behind it, as if the key were off.

use crate::arch::jump_table::Jump;
use crate::mm::text::Writable;
use core::sync::atomic::Ordering::Release;

/// Assembler text of a place.
macro_rules! nop {
    () => {
        ".byte 0x0f, 0x1f, 0x44, 0, 8"
    };
}
pub(in crate::arch) use nop;

/// Bytes of a place.
pub const SIZE: usize = 5;
const NOP: [u8; SIZE] = [0x0f, 0x1f, 0x44, 0, 8];
const JMP: u8 = 0xe9;
const INT3: u8 = 0xcc;

/// How often all CPUs serialise while a place is changed.
pub const PHASES: usize = 3;

/// What a place holds when its key is on, or off.
fn code(jump: &Jump, on: bool) -> [u8; SIZE] {
    if !on {
        return NOP;
    }
    let distance = jump.target.wrapping_sub(jump.site + SIZE) as u32;
    let [a, b, c, d] = distance.to_le_bytes();
    [JMP, a, b, c, d]
}

/// Stores what phase `phase` of the change of a place stores.
///
/// # Safety
/// All CPUs have serialised since the phase before; nobody else changes the place.
pub unsafe fn store(text: &Writable, jump: &Jump, on: bool, phase: usize) {
    let code = code(jump, on);
    // SAFETY: as the caller promises, and as the head of this file says.
    let put = |n: usize, byte: u8| unsafe { text.byte(jump.site + n) }.store(byte, Release);
    match phase {
        0 => put(0, INT3),
        1 => (1..SIZE).for_each(|n| put(n, code[n])),
        _ => put(0, code[0]),
    }
}
