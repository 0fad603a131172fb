//! What moves memory: the moves that the kernel's own copies (`memory_functions`) and the copies to and from
//! user memory (`user_copies`), which may fault, are made of. The order of moves is `limen_memory`'s.

use super::extable::may_fault;
use super::irq;
use super::moves::{access, moves};
use super::window::window;
use crate::arch::windows;
use core::arch::asm;
use core::mem::MaybeUninit;
use limen_memory::Moves;

/// Runs the instructions given once for each chunk. The last of them that may fault advances the target, so a
/// fault leaves it at the beginning of its chunk. Gives the target then, and whether all chunks are done.
macro_rules! for_chunks {
    ([$($line:expr),+], $to:ident, $count:ident, $($operand:tt)+) => {{
        let (end, left): (usize, usize);
        // SAFETY: both ranges are as the caller promises; faults on the user's side are in the
        // exception table.
        unsafe {
            asm!(
                "2:",
                $($line,)+
                "subs {count}, {count}, #1",
                "b.ne 2b",
                "3: .if {user}",
                may_fault!("2b", "3b", "3b"),
                ".endif",
                $($operand)+, to = inout(reg) $to => end, count = inout(reg) $count => left,
                    user = const USER, options(nostack)
            );
        }
        (end, USER == 0 || left == 0)
    }};
}

/// The instruction that loads so many bytes, up to its address.
macro_rules! load {
    (8) => {
        "ldr {value}"
    };
    (4) => {
        "ldr {value:w}"
    };
    (2) => {
        "ldrh {value:w}"
    };
    (1) => {
        "ldrb {value:w}"
    };
}

/// The instruction that stores so many bytes, up to its address.
macro_rules! store {
    (8) => {
        "str {value}"
    };
    (4) => {
        "str {value:w}"
    };
    (2) => {
        "strh {value:w}"
    };
    (1) => {
        "strb {value:w}"
    };
}

/// Moves within the kernel, or, if `USER` is 1, to or from user memory with the window open.
pub(super) struct Copy<const USER: usize>;

/// Moves so many bytes.
macro_rules! copy_some {
    ($self:ident, $bytes:tt, $at:expr, $to:ident, $from:ident) => {
        access!(
            [
                concat!(load!($bytes), ", [{from}, #{at}]"),
                concat!(store!($bytes), ", [{to}, #{at}]")
            ],
            to = in(reg) $to, from = in(reg) $from, value = out(reg) _, at = const $at
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
                "ldp {a}, {b}, [{from}, #16]",
                "ldp {c}, {d}, [{from}], #32",
                "stp {a}, {b}, [{to}, #16]",
                "stp {c}, {d}, [{to}], #32"
            ],
            to, count, from = inout(reg) from => next, a = out(reg) _, b = out(reg) _,
            c = out(reg) _, d = out(reg) _
        );
        if USER == 0 {
            return (end, next, true);
        }
        // What could not be stored was loaded.
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
            [concat!(store!($bytes), ", [{to}, #{at}]")],
            to = in(reg) $to, value = in(reg) $self.0, at = const $at
        )
    }};
}

impl<const USER: usize> Moves for Fill<USER> {
    moves!(fill_some, 64);

    #[inline(always)]
    unsafe fn chunks(&self, to: usize, from: usize, count: usize) -> (usize, usize, bool) {
        let (end, all) = for_chunks!(
            [
                "stp {value}, {value}, [{to}, #48]",
                "stp {value}, {value}, [{to}, #32]",
                "stp {value}, {value}, [{to}, #16]",
                "stp {value}, {value}, [{to}], #64"
            ],
            to, count, value = in(reg) self.0
        );
        (end, from, all)
    }
}

/// Bytes that [`copy_vectors`] copies at a time.
pub(super) const PIECE: usize = 512;

/// Copies `pieces` times [`PIECE`] bytes, at least once, with vector registers, interrupts off, and gives
/// back where the rest goes, where it comes from and how many pieces that are: a fault ends it. The window to
/// user memory is open meanwhile if `USER` is 1. Whoever the registers belong to finds them as they were:
/// nothing else runs here before they are given back, for a fault with interrupts off goes straight to its
/// place in the table.
///
/// # Safety
/// Both sides are valid, or with the window open one lies below `USER_END`.
#[inline(always)]
pub(super) unsafe fn copy_vectors<const USER: usize>(
    mut to: usize,
    mut from: usize,
    mut pieces: usize,
) -> (usize, usize, usize) {
    let mut kept = MaybeUninit::<[u128; 4]>::uninit();
    if USER != 0 {
        windows::opens();
    }
    let flags = irq::raw_save();
    // SAFETY: as the caller promises; the registers are given back.
    unsafe {
        asm!(
            ".arch_extension fp",
            ".arch_extension simd",
            "stp q0, q1, [{kept}]",
            "stp q2, q3, [{kept}, #32]",
            ".if {user}",
            window!("yield"),
            ".endif",
            "2:",
            ".irp at, 0, 64, 128, 192, 256, 320, 384, 448",
            "ldp q0, q1, [{from}, #\\at]",
            "ldp q2, q3, [{from}, #\\at + 32]",
            "stp q0, q1, [{to}, #\\at]",
            "stp q2, q3, [{to}, #\\at + 32]",
            ".endr",
            "add {from}, {from}, #{piece}",
            "add {to}, {to}, #{piece}",
            "subs {left}, {left}, #1",
            "b.ne 2b",
            "3: .if {user}",
            window!("nop"),
            may_fault!("2b", "3b", "3b"),
            ".endif",
            "ldp q0, q1, [{kept}]",
            "ldp q2, q3, [{kept}, #32]",
            kept = in(reg) kept.as_mut_ptr(), left = inout(reg) pieces, to = inout(reg) to,
            from = inout(reg) from,
            piece = const PIECE, user = const USER, options(nostack)
        );
    }
    irq::raw_restore(flags);
    (to, from, pieces)
}
