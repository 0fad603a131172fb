//! Clearing and copying whole pages with vector registers: half or a quarter of the instructions that string
//! instructions take.
//!
//! The registers belong to user space (see `fpu`), so each function saves the ones it uses on its stack and
//! puts them back. Preemption is off meanwhile: a thread must not be switched out with borrowed registers.
//! Interrupts may come, and may do the same on top.

use super::fpu;
use crate::sched::preempt;
use core::arch::asm;

/// Whether 256-bit registers are turned on and are the whole of the vector registers: of longer ones
/// (AVX-512) an instruction that writes 256 bits clears the rest, which would not be put back. Instructions
/// older than AVX leave alone what is beyond their 128 bits.
#[inline(always)]
fn wide() -> bool {
    fpu::components() & (fpu::AVX | fpu::AVX512) == fpu::AVX
}

/// Zeroes the page at `$at` by a register of `$bytes` bytes: `$v` is what its instructions begin with,
/// `$zero` the operands of the one that zeroes it.
macro_rules! clear_by {
    ($at:ident, $register:literal, $bytes:literal, $v:literal, $zero:literal) => {{
        let mut saved = [0u8; $bytes];
        asm!(
            concat!($v, "movups [{saved}], ", $register),
            concat!($v, "xorps ", $zero),
            "2:",
            ".irp n, 0, 1, 2, 3, 4, 5, 6, 7",
            concat!($v, "movaps [{at} + {bytes} * \\n], ", $register),
            ".endr",
            "add {at}, 8 * {bytes}",
            "test {at}, 4095",
            "jnz 2b",
            concat!($v, "movups ", $register, ", [{saved}]"),
            saved = in(reg) &raw mut saved,
            at = inout(reg) $at => _,
            bytes = const $bytes,
            options(nostack),
        );
    }};
}

/// Zeroes a page.
///
/// # Safety
/// `at` is a whole, aligned, writable page of the caller's.
pub unsafe fn clear(at: *mut u8) {
    preempt::disable();
    // SAFETY: the caller's promise; the register is put back.
    unsafe {
        if wide() {
            clear_by!(at, "ymm0", 32, "v", "ymm0, ymm0, ymm0");
        } else {
            clear_by!(at, "xmm0", 16, "", "xmm0, xmm0");
        }
    }
    preempt::enable();
}

/// Copies a page.
///
/// # Safety
/// Both are whole, aligned, different pages of the caller's, `to` writable.
pub unsafe fn copy(to: *mut u8, from: *const u8) {
    if !wide() {
        // 128-bit registers would need a load and a store for 16 bytes, as many as this.
        // SAFETY: the caller's promise.
        unsafe {
            asm!(
                "rep movsq", inout("rcx") 512usize => _, inout("rdi") to => _, inout("rsi") from => _,
                options(nostack, preserves_flags),
            )
        };
        return;
    }
    preempt::disable();
    let mut saved = [0u64; 8];
    // SAFETY: the caller's promise; the registers are put back.
    unsafe {
        asm!(
            "vmovups [{saved}], ymm0",
            "vmovups [{saved} + 32], ymm1",
            "2:",
            ".irp n, 0, 64, 128, 192",
            "vmovaps ymm0, [{from} + \\n]",
            "vmovaps ymm1, [{from} + \\n + 32]",
            "vmovaps [{to} + \\n], ymm0",
            "vmovaps [{to} + \\n + 32], ymm1",
            ".endr",
            "add {from}, 256",
            "add {to}, 256",
            "test {from}, 4095",
            "jnz 2b",
            "vmovups ymm0, [{saved}]",
            "vmovups ymm1, [{saved} + 32]",
            saved = in(reg) &raw mut saved,
            from = inout(reg) from => _,
            to = inout(reg) to => _,
            options(nostack),
        );
    }
    preempt::enable();
}
