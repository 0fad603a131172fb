//! What moves memory: the kernel's `memcpy`, `memmove` and `memset` (the compiler calls them), and the moves that the copies to and from user memory
//! are made of (`uaccess`), which may fault. The order of moves is `limen_memory`'s.

use super::switch::with_registers;
use super::uaccess::may_fault;
use core::arch::asm;
use core::mem::MaybeUninit;
use limen_memory::{Moves, copy, copy_backwards};

/// `AMR` with the window to user memory shut: neither loads nor stores. Key 0, which all pages have, forbids the kernel user pages then.
pub const AMR_SHUT: usize = 3 << 62;

/// A load, or a zero instead, and a store. `false` after a fault.
macro_rules! access {
    ($load:literal, $store:literal, $at:expr, $to:ident, $from:ident) => {{
        // SAFETY: as the caller promises; faults on the user's side are in the exception table.
        unsafe {
            asm!(
                "2: .if {zero}",
                "li {value}, 0",
                ".else",
                concat!($load, " {value}, {at}({from})"),
                ".endif",
                concat!($store, " {value}, {at}({to})"),
                "3: .if {user}",
                may_fault!("2b", "3b", "{fault}", ".first"),
                ".endif",
                to = in(reg_nonzero) $to, from = in(reg_nonzero) $from, value = out(reg) _, at = const $at, zero = const ZERO, user = const USER,
                fault = label { return false }, options(nostack, preserves_flags)
            );
        }
        true
    }};
}

/// Moves within the kernel, or, if `USER` is 1, to or from user memory with the window open; if `ZERO` is 1, zeroes are what is moved.
pub(super) struct Copy<const USER: usize, const ZERO: usize>;

impl<const USER: usize, const ZERO: usize> Moves for Copy<USER, ZERO> {
    const WORD: usize = 8;
    const CHUNK: usize = 32;
    const ALIGN: usize = 1;
    const PARTS: bool = true;

    #[inline(always)]
    unsafe fn chunks(&self, to: usize, from: usize, count: usize) -> (usize, usize, bool) {
        let (end, next, left): (usize, usize, usize);
        // SAFETY: as above. A fault leaves `to` where its chunk begins.
        unsafe {
            asm!(
                "mtctr {count}",
                ".if {zero}",
                each!("li 7 + n, 0"; 3),
                "li 0, 0",
                ".endif",
                "2: .ifeq {zero}",
                each!("ld 7 + n, 8 * n + 8({from})"; 3),
                "ldu 0, 32({from})",
                ".endif",
                each!("std 7 + n, 8 * n + 8({to})"; 3),
                "stdu 0, 32({to})",
                "bdnz 2b",
                "3: .if {user}",
                "mfctr {count}",
                may_fault!("2b", "3b", "3b", ".first"),
                ".endif",
                to = inout(reg_nonzero) to.wrapping_sub(8) => end, from = inout(reg_nonzero) from.wrapping_sub(8) => next,
                count = inout(reg) count => left, zero = const ZERO, user = const USER, out("r0") _, out("r7") _, out("r8") _, out("r9") _, out("ctr") _,
                options(nostack, preserves_flags)
            );
        }
        let end = end.wrapping_add(8);
        if USER == 0 {
            return (end, next.wrapping_add(8), true);
        }
        (end, from.wrapping_add(end.wrapping_sub(to)), left == 0)
    }

    #[inline(always)]
    unsafe fn word<const AT: usize>(&self, to: usize, from: usize) -> bool {
        access!("ld", "std", 8 * AT, to, from)
    }

    #[inline(always)]
    unsafe fn part<const BYTES: usize>(&self, to: usize, from: usize) -> bool {
        match BYTES {
            4 => access!("lwz", "stw", 0, to, from),
            _ => access!("lhz", "sth", 0, to, from),
        }
    }

    #[inline(always)]
    unsafe fn byte(&self, to: usize, from: usize) -> bool {
        access!("lbz", "stb", 0, to, from)
    }
}

/// Bytes that [`copy_vectors`] copies at a time.
pub(super) const PIECE: usize = 512;

/// Copies `pieces` times [`PIECE`] bytes, at least once, with vector registers, interrupts off, and gives back how many were not copied: a fault ends
/// it. `amr` is the authority mask meanwhile. Whoever the registers belong to finds them as they were: nothing else runs here before they are given
/// back, for a fault with interrupts off goes straight to its place in the table.
///
/// # Safety
/// Both sides are valid, or with an open mask one lies below `USER_END`.
#[inline(never)]
pub(super) unsafe fn copy_vectors(to: usize, from: usize, mut pieces: usize, amr: usize) -> usize {
    let mut kept = MaybeUninit::<[u128; 8]>::uninit();
    // SAFETY: as the caller promises.
    with_registers(|| unsafe {
        asm!(
            each!("stxv n, 16 * n({kept})"; 8),
            "mtctr {left}",
            "mtspr 29, {amr}",
            "isync",
            "2: .set at, 0",
            ".rept 4",
            each!("lxv n, 16 * n + at({from})"; 8),
            each!("stxv n, 16 * n + at({to})"; 8),
            ".set at, at + 128",
            ".endr",
            "addi {from}, {from}, {piece}",
            "addi {to}, {to}, {piece}",
            "bdnz 2b",
            "3: mtspr 29, {shut}",
            "isync",
            "mfctr {left}",
            each!("lxv n, 16 * n({kept})"; 8),
            may_fault!("2b", "3b", "3b", ".first"),
            kept = in(reg_nonzero) kept.as_mut_ptr(), left = inout(reg) pieces, amr = in(reg) amr, shut = in(reg) AMR_SHUT,
            to = inout(reg_nonzero) to => _, from = inout(reg_nonzero) from => _, piece = const PIECE, out("ctr") _,
            options(nostack, preserves_flags)
        );
    });
    pieces
}

/// # Safety
/// As the C library's; so are all of these.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: usize, from: usize, len: usize) -> usize {
    // SAFETY: as the caller promises.
    unsafe { copy(&Copy::<0, 0>, to, from, len) };
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: usize, from: usize, len: usize) -> usize {
    // SAFETY: as the caller promises. Only if the target begins inside the source must the copy go backwards.
    unsafe {
        if to.wrapping_sub(from) >= len {
            return memcpy(to, from, len);
        }
        copy_backwards(&Copy::<0, 0>, to, from, len);
    }
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, byte: u32, len: usize) -> *mut u8 {
    let word = u64::from(byte & 0xff) * (u64::MAX / 255);
    let mut at = to;
    // SAFETY: as the caller promises. The compiler does not see the loop, or it would make it a call of this function.
    unsafe {
        if len >= 32 {
            asm!(
                "mtctr {count}",
                "2:",
                each!("std {word}, 8 * n({at})"; 4),
                "addi {at}, {at}, 32",
                "bdnz 2b",
                count = in(reg) len / 32, word = in(reg) word, at = inout(reg_nonzero) at, out("ctr") _, options(nostack, preserves_flags)
            );
        }
        macro_rules! part {
            ($bytes:literal, $type:ty, $part:expr) => {
                if len & $bytes != 0 {
                    at.cast::<$type>().write_unaligned($part);
                    at = at.add($bytes);
                }
            };
        }
        part!(16, [u64; 2], [word; 2]);
        part!(8, u64, word);
        part!(4, u32, word as u32);
        part!(2, u16, word as u16);
        if len & 1 != 0 {
            at.write(byte as u8);
        }
    }
    to
}
