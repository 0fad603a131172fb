//! What moves memory: the kernel's `memcpy`, `memmove` and `memset` (the compiler calls them), and the moves
//! that the copies to and from user memory are made of (`uaccess`), which may fault. The order of moves is
//! `limen_memory`'s.
//!
//! Where PAN exists its two instructions replace the placeholders at boot (`cpu::init_boot`).

use super::extable::may_fault;
use super::irq;
use core::arch::asm;
use core::mem::MaybeUninit;
use limen_memory::{Moves, copy, copy_backwards};

/// A placeholder: `yield` where the window to user memory opens, `nop` where it shuts.
macro_rules! window {
    ($placeholder:literal) => {
        concat!(
            "9998: ",
            $placeholder,
            "\n.pushsection __pan_sites, \"a\"\n.long 9998b - .\n.popsection"
        )
    };
}
pub(super) use window;

/// The instructions given, of which those with user memory may fault: `false` then.
macro_rules! access {
    ([$($line:expr),+], $($operand:tt)+) => {{
        // SAFETY: as the caller promises; faults on the user's side are in the exception table.
        unsafe {
            asm!(
                "2:",
                $($line,)+
                "3: .if {user}",
                may_fault!("2b", "3b", "{fault}"),
                ".endif",
                $($operand)+, user = const USER, fault = label { return false },
                    options(nostack, preserves_flags)
            );
        }
        true
    }};
}

/// The instructions given, once for each chunk; the last that may fault steps the target. Where that is then,
/// and whether no chunk was left: a fault leaves the target where its chunk begins.
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

/// What both kinds of moves are made of, `$move` being one of a size, with so many bytes to a chunk.
macro_rules! moves {
    ($move:ident, $chunk:literal) => {
        const WORD: usize = 8;
        const CHUNK: usize = $chunk;
        const ALIGN: usize = 1;
        const PARTS: bool = true;

        #[inline(always)]
        unsafe fn word<const AT: usize>(&self, to: usize, from: usize) -> bool {
            $move!(self, "ldr {value}", "str {value}", 8 * AT, to, from)
        }

        #[inline(always)]
        unsafe fn part<const BYTES: usize>(&self, to: usize, from: usize) -> bool {
            match BYTES {
                4 => $move!(self, "ldr {value:w}", "str {value:w}", 0, to, from),
                _ => $move!(self, "ldrh {value:w}", "strh {value:w}", 0, to, from),
            }
        }

        #[inline(always)]
        unsafe fn byte(&self, to: usize, from: usize) -> bool {
            $move!(self, "ldrb {value:w}", "strb {value:w}", 0, to, from)
        }
    };
}

/// Moves within the kernel, or, if `USER` is 1, to or from user memory with the window open.
pub(super) struct Copy<const USER: usize>;

macro_rules! load_and_store {
    ($self:ident, $load:literal, $store:literal, $at:expr, $to:ident, $from:ident) => {
        access!(
            [concat!($load, ", [{from}, #{at}]"), concat!($store, ", [{to}, #{at}]")],
            to = in(reg) $to, from = in(reg) $from, value = out(reg) _, at = const $at
        )
    };
}

impl<const USER: usize> Moves for Copy<USER> {
    moves!(load_and_store, 32);

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

macro_rules! store {
    ($self:ident, $load:literal, $store:literal, $at:expr, $to:ident, $from:ident) => {{
        let _ = $from;
        access!(
            [concat!($store, ", [{to}, #{at}]")],
            to = in(reg) $to, value = in(reg) $self.0, at = const $at
        )
    }};
}

impl<const USER: usize> Moves for Fill<USER> {
    moves!(store, 64);

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

/// # Safety
/// As the C library's; so are all of these.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: usize, from: usize, len: usize) -> usize {
    // SAFETY: as the caller promises.
    unsafe { copy(&Copy::<0>, to, from, len) };
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: usize, from: usize, len: usize) -> usize {
    // SAFETY: as the caller promises. Only if the target begins inside the source must the copy go backwards.
    unsafe {
        if to.wrapping_sub(from) >= len {
            return memcpy(to, from, len);
        }
        copy_backwards(&Copy::<0>, to, from, len);
    }
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: usize, byte: u32, len: usize) -> usize {
    let word = u64::from(byte & 0xff) * (u64::MAX / 255);
    // SAFETY: as the caller promises.
    unsafe { copy(&Fill::<0>(word), to, to, len) };
    to
}
