//! What moves memory: the moves that the kernel's own copies (`memory_functions`) and the copies to and from
//! user memory (`user_copies`), which may fault, are made of. The order of moves is `limen_memory`'s.

use super::extable::may_fault;
use super::irq;
use super::moves::{access, moves};
use super::sve;
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

/// Copies pieces with `q0` to `q3`, which the first instructions keep at `$kept` and the second take from
/// there. Used inside `unsafe` blocks, which say why the addresses are right.
macro_rules! copy_pieces {
    (
        $to:ident => $to_end:tt, $from:ident => $from_end:tt, $pieces:ident, $kept:expr,
        [$($keep:literal),+], [$($give:literal),+]
    ) => {
        asm!(
            ".arch_extension fp",
            ".arch_extension simd",
            $($keep,)+
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
            $($give,)+
            kept = in(reg) $kept, left = inout(reg) $pieces, to = inout(reg) $to => $to_end,
            from = inout(reg) $from => $from_end,
            piece = const PIECE, user = const USER, options(nostack)
        )
    };
}

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
    if sve::is_on() && sve::is_allowed() {
        // SAFETY: as the caller promises.
        let left = unsafe { copy_beside_sve::<USER>(to, from, pieces) };
        let done = (pieces - left) * PIECE;
        (to, from, pieces) = (to.wrapping_add(done), from.wrapping_add(done), left);
    } else {
        // SAFETY: as the caller promises; the registers are given back.
        unsafe {
            copy_pieces!(
                to => to,
                from => from,
                pieces,
                kept.as_mut_ptr(),
                ["stp q0, q1, [{kept}]", "stp q2, q3, [{kept}, #32]"],
                ["ldp q0, q1, [{kept}]", "ldp q2, q3, [{kept}, #32]"]
            );
        }
    }
    irq::raw_restore(flags);
    (to, from, pieces)
}

/// The same while a thread has SVE's registers in this CPU's: those used here are parts of them, and a load
/// zeroes the other parts. Interrupts are off. Returns how many pieces are left.
///
/// # Safety
/// As for [`copy_vectors`].
#[cold]
#[inline(never)]
unsafe fn copy_beside_sve<const USER: usize>(to: usize, from: usize, mut pieces: usize) -> usize {
    let mut kept = MaybeUninit::<[u8; 4 * sve::LONGEST]>::uninit();
    // SAFETY: as the caller promises; the registers are given back.
    unsafe {
        copy_pieces!(
            to => _,
            from => _,
            pieces,
            kept.as_mut_ptr(),
            [
                ".arch_extension sve",
                "str z0, [{kept}]",
                "str z1, [{kept}, #1, mul vl]",
                "str z2, [{kept}, #2, mul vl]",
                "str z3, [{kept}, #3, mul vl]"
            ],
            [
                "ldr z0, [{kept}]",
                "ldr z1, [{kept}, #1, mul vl]",
                "ldr z2, [{kept}, #2, mul vl]",
                "ldr z3, [{kept}, #3, mul vl]"
            ]
        );
    }
    pieces
}
