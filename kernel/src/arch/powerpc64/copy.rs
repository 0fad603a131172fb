//! What moves memory: the moves that the kernel's own copies (`memory_functions`) and the copies to and from
//! user memory (`user_copies`), which may fault, are made of. The order of moves is `limen_memory`'s.

use super::extable::may_fault;
use super::moves::{access, moves};
use super::patch::from_31;
use super::spr;
use super::switch::with_registers;
use super::window::AMR_SHUT;
use crate::sched::cpu::CpuLocal;
use core::arch::asm;
use core::mem::offset_of;
use limen_memory::Moves;

/// Runs the instructions given once for each chunk. The last of them that may fault advances the target, so a
/// fault leaves it at the beginning of its chunk. To the instructions the target, and a source, is 8 bytes
/// before that (`stdu` adds first). Gives the target then, and whether all chunks are done.
macro_rules! for_chunks {
    ([$($line:expr),+], $to:ident, $count:ident, $($operand:tt)+) => {{
        let (end, left): (usize, usize);
        // SAFETY: both ranges are as the caller promises; faults on the user's side are in the
        // exception table.
        unsafe {
            asm!(
                "mtctr {count}",
                "2:",
                $($line,)+
                "bdnz 2b",
                "3: .if {user}",
                "mfctr {count}",
                may_fault!("2b", "3b", "3b"),
                ".endif",
                $($operand)+, to = inout(reg_nonzero) $to.wrapping_sub(8) => end,
                    count = inout(reg) $count => left, user = const USER, out("ctr") _,
                options(nostack, preserves_flags)
            );
        }
        (end.wrapping_add(8), USER == 0 || left == 0)
    }};
}

/// The instruction that loads so many bytes.
macro_rules! load {
    (8) => {
        "ld"
    };
    (4) => {
        "lwz"
    };
    (2) => {
        "lhz"
    };
    (1) => {
        "lbz"
    };
}

/// The instruction that stores so many bytes.
macro_rules! store {
    (8) => {
        "std"
    };
    (4) => {
        "stw"
    };
    (2) => {
        "sth"
    };
    (1) => {
        "stb"
    };
}

/// Moves within the kernel, or, if `USER` is 1, to or from user memory with the window open.
pub(super) struct Copy<const USER: usize>;

/// Moves so many bytes.
macro_rules! copy_some {
    ($self:ident, $bytes:tt, $at:expr, $to:ident, $from:ident) => {
        access!(
            [
                concat!(load!($bytes), " {value}, {at}({from})"),
                concat!(store!($bytes), " {value}, {at}({to})")
            ],
            to = in(reg_nonzero) $to, from = in(reg_nonzero) $from, value = out(reg) _, at = const $at
        )
    };
}

impl<const USER: usize> Moves for Copy<USER> {
    moves!(copy_some, 32);

    #[inline(always)]
    unsafe fn chunks(&self, to: usize, from: usize, count: usize) -> (usize, usize, bool) {
        let next: usize;
        let (end, all) = for_chunks!(
            [
                each!("ld 7 + n, 8 * n + 8({from})"; 3),
                "ldu 0, 32({from})",
                each!("std 7 + n, 8 * n + 8({to})"; 3),
                "stdu 0, 32({to})"
            ],
            to, count, from = inout(reg_nonzero) from.wrapping_sub(8) => next, out("r0") _, out("r7") _,
                out("r8") _, out("r9") _
        );
        if USER == 0 {
            return (end, next.wrapping_add(8), true);
        }
        (end, from.wrapping_add(end.wrapping_sub(to)), all)
    }
}

/// The same, but what is stored everywhere is this word, or the lower part of it.
pub(super) struct Fill<const USER: usize>(pub u64);

/// Stores so many bytes.
macro_rules! fill_some {
    ($self:ident, $bytes:tt, $at:expr, $to:ident, $from:ident) => {{
        let _ = $from;
        access!(
            [concat!(store!($bytes), " {value}, {at}({to})")],
            to = in(reg_nonzero) $to, value = in(reg) $self.0, at = const $at
        )
    }};
}

impl<const USER: usize> Moves for Fill<USER> {
    moves!(fill_some, 32);

    #[inline(always)]
    unsafe fn chunks(&self, to: usize, from: usize, count: usize) -> (usize, usize, bool) {
        let (end, all) = for_chunks!(
            [each!("std {value}, 8 * n + 8({to})"; 3), "stdu {value}, 32({to})"],
            to, count, value = in(reg) self.0
        );
        (end, from, all)
    }
}

/// Bytes that [`copy_vectors`] copies at a time.
pub(super) const PIECE: usize = 1024;

/// Copies `pieces` times [`PIECE`] bytes, at least once, with vector registers, interrupts off, and gives
/// back where the rest goes, where it comes from and how many pieces that are: a fault ends it. The window to
/// user memory is open meanwhile if `USER` is 1. Whoever the registers belong to finds them as they were:
/// nothing else runs here before they are given back, for a fault with interrupts off goes straight to its
/// place in the table. It shuts the window, and the machine state that is given back behind it synchronises
/// that.
///
/// # Safety
/// Both sides are valid, or with the window open one lies below `USER_END`.
#[inline(always)]
pub(super) unsafe fn copy_vectors<const USER: usize>(
    mut to: usize,
    mut from: usize,
    pieces: usize,
) -> (usize, usize, usize) {
    // SAFETY: as the caller promises.
    let left = with_registers(|| unsafe {
        let left: usize;
        asm!(
            each!("stxv n, 16 * n + {lent}(13)"; 4),
            "mtctr {pieces}",
            "mtspr {register}, {amr}",
            "isync",
            "4: nop",
            "2: .set at, 0",
            ".rept {piece} / 64",
            each!("lxv n, 16 * n + at({from})"; 4),
            each!("stxv n, 16 * n + at({to})"; 4),
            ".set at, at + 64",
            ".endr",
            "addi {from}, {from}, {piece}",
            "addi {to}, {to}, {piece}",
            "bdnz 2b",
            "3: mtspr {register}, {shut}",
            "mfctr {left}",
            each!("lxv n, 16 * n + {lent}(13)"; 4),
            may_fault!("2b", "3b", "3b"),
            // The same by pairs of registers: `lxvp` and `stxvp`, which the assembler would have to be told
            // of.
            ".pushsection .text.pairs, \"ax\", @progbits",
            "5: .set at, 0",
            ".rept {piece} / 64",
            each!(".long 6 << 26 | n << 22 | {from} << 16 | (32 * n + at)"; 2),
            each!(".long 6 << 26 | n << 22 | {to} << 16 | (32 * n + at) | 1"; 2),
            ".set at, at + 64",
            ".endr",
            "addi {from}, {from}, {piece}",
            "addi {to}, {to}, {piece}",
            "bdnz 5b",
            "6: b 3b",
            ".popsection",
            may_fault!("5b", "6b", "3b"),
            from_31!("4b", "5b"),
            pieces = in(reg) pieces, left = lateout(reg) left, amr = in(reg) AMR_SHUT * (1 - USER),
            register = const spr::AMR,
            shut = in(reg) AMR_SHUT, lent = const offset_of!(CpuLocal, lent),
            to = inout(reg_nonzero) to, from = inout(reg_nonzero) from, piece = const PIECE, out("ctr") _,
            options(nostack, preserves_flags)
        );
        left
    });
    (to, from, left)
}
