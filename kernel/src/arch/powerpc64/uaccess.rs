//! Copies to and from user memory that may fault. The window (`AMR`) is open only inside these. Ranges were checked against
//! `USER_END` by the caller (`mm::user`). A page that is not there is faulted in; an unresolvable fault ends the copy.
//!
//! The moves are in `copy`.

use super::copy::{AMR_SHUT, Copy, Fill, PIECE, copy_vectors};
use super::exception::set_window;
use super::spr;
use crate::rseq::{AREA_AT, TOLD};
use core::arch::asm;
use core::mem::MaybeUninit;
use core::sync::atomic::{Ordering, fence};
use limen_memory::Moves;

/// What moves to and from user memory, with the window open.
const MOVES: Copy<1> = Copy;

unsafe extern "C" {
    /// Where instructions that may fault begin and end, and where to go on then, counted from the entry.
    static __ex_table_start: [i32; 3];
    static __ex_table_end: [i32; 3];
}

/// Where to go on if the instruction at `ip` faults and the fault cannot be resolved. `None`: it may not fault.
pub fn fixup(ip: usize) -> Option<usize> {
    let (start, end) = (&raw const __ex_table_start, &raw const __ex_table_end);
    // SAFETY: the section, an array of these.
    let entries = unsafe { core::slice::from_raw_parts(start, end.offset_from_unsigned(start)) };
    entries.iter().find_map(|entry| {
        let address = |n: usize| (entry.as_ptr() as usize).wrapping_add_signed(entry[n] as isize);
        (address(0)..address(1)).contains(&ip).then(|| address(2))
    })
}

// Single words are read and written in functions of their own rather than in place: every place would have an entry in the table that is searched.

/// The instructions between two labels may fault and then continue at a third. The table is searched from the start: where its entry is to be, if it
/// matters, comes last.
macro_rules! may_fault {
    ($from:literal, $until:literal, $to:literal $(, $place:literal)?) => {
        concat!(
            ".pushsection __ex_table", $($place,)? ", \"a\"\n.balign 4\n9: .long ",
            $from, " - 9b, ", $until, " - 9b, ", $to, " - 9b\n.popsection"
        )
    };
}
pub(super) use may_fault;

/// The instructions given, with the window open: `false` if one of them faults, which is then the last. Used inside `unsafe` blocks, which say why the
/// addresses are right.
macro_rules! user_asm {
    ([$($line:expr),+], $($operand:tt)+) => {{
        let mut fault = 1usize;
        $crate::arch::imp::exception::set_window(0);
        core::arch::asm!(
            "2:",
            $($line,)+
            "li {fault}, 0",
            "3:",
            $crate::arch::imp::uaccess::may_fault!("2b", "3b", "3b"),
            fault = inout(reg) fault,
            $($operand)+,
            options(nostack)
        );
        $crate::arch::imp::exception::set_window($crate::arch::imp::copy::AMR_SHUT);
        fault == 0
    }};
}
pub(super) use user_asm;

/// How many pieces are copied with interrupts off.
const MOST: usize = 8;

/// Does `work` with the window open. It is inlined: loops over accesses that may fault, and what they keep in registers and on the kernel's stack.
#[inline(always)]
fn while_open<T>(work: impl FnOnce() -> T) -> T {
    set_window(0);
    let result = work();
    set_window(AMR_SHUT);
    result
}

#[inline(never)]
unsafe fn copy_small(to: usize, from: usize, len: usize) -> usize {
    // SAFETY: as the caller promises; faults on the user side are in the exception table.
    while_open(|| unsafe { limen_memory::copy(&MOVES, to, from, len) })
}

/// Copies between user and kernel memory; returns how many bytes were *not* copied.
///
/// # Safety
/// As for [`copy_from_user`] or [`copy_to_user`].
#[inline(always)]
unsafe fn copy(to: usize, from: usize, len: usize) -> usize {
    // SAFETY: as the caller promises; faults on the user side are in the exception table.
    unsafe {
        if len < PIECE {
            copy_small(to, from, len)
        } else {
            copy_large(to, from, len)
        }
    }
}

/// [`copy`] with vector registers. Pages that are not there are brought in by the other loop, which may sleep.
#[inline(never)]
unsafe fn copy_large(mut to: usize, mut from: usize, mut len: usize) -> usize {
    while len >= PIECE {
        let pieces = (len / PIECE).min(MOST);
        // SAFETY: as the caller promises: not more than all that is left.
        let left = unsafe { copy_vectors(to, from, pieces, 0) };
        let done = (pieces - left) * PIECE;
        (to, from, len) = (to + done, from + done, len - done);
        if left != 0 {
            // SAFETY: as above.
            let left = unsafe { copy_small(to, from, PIECE) };
            let done = PIECE - left;
            (to, from, len) = (to + done, from + done, len - done);
            if left != 0 {
                return len;
            }
        }
    }
    if len == 0 {
        return 0;
    }
    // SAFETY: as above.
    unsafe { copy_small(to, from, len) }
}

/// Copies `len` bytes from user `from` to kernel `to`; returns how many were *not* copied.
///
/// # Safety
/// `to` is valid for `len` bytes; `from..from+len` lies below `USER_END`.
#[inline(always)]
pub unsafe fn copy_from_user(to: *mut u8, from: usize, len: usize) -> usize {
    // SAFETY: as the caller promises.
    unsafe { copy(to as usize, from, len) }
}

/// Copies `len` bytes from kernel `from` to user `to`; returns how many were *not* copied.
///
/// # Safety
/// `from` is valid for `len` bytes; `to..to+len` lies below `USER_END`.
#[inline(always)]
pub unsafe fn copy_to_user(to: usize, from: *const u8, len: usize) -> usize {
    // SAFETY: as the caller promises.
    unsafe { copy(to, from as usize, len) }
}

/// Zeroes user memory; returns how many bytes were *not* cleared.
///
/// # Safety
/// `to..to+len` lies below `USER_END`.
#[inline(never)]
pub unsafe fn clear_user(to: usize, len: usize) -> usize {
    // SAFETY: as above; nothing is read.
    while_open(|| unsafe { limen_memory::copy(&Fill::<1>(0), to, to, len) })
}

/// A function that reads a word, and one that writes one.
macro_rules! words {
    ($get:ident, $put:ident, $word:ty, $load:literal, $store:literal) => {
        /// Reads a word at any address; `None` on a fault.
        ///
        /// # Safety
        /// It lies below `USER_END`.
        #[inline(never)]
        pub unsafe fn $get(addr: usize) -> Option<$word> {
            let mut value: $word = 0;
            // SAFETY: the caller's promise.
            let done = unsafe { user_asm!([concat!($load, " {value}, 0, {addr}")], addr = in(reg) addr, value = inout(reg) value) };
            done.then_some(value)
        }

        /// Writes a word at any address; `false` on a fault.
        ///
        /// # Safety
        /// It lies below `USER_END`.
        #[inline(never)]
        pub unsafe fn $put(addr: usize, value: $word) -> bool {
            // SAFETY: the caller's promise.
            unsafe { user_asm!([concat!($store, " {value}, 0, {addr}")], addr = in(reg) addr, value = in(reg) value) }
        }
    };
}
words!(get_u32, put_u32, u32, "lwzx", "stwx");
words!(get_u64, put_u64, u64, "ldx", "stdx");

/// Reads two words of 64 bits at any address; `None` on a fault.
///
/// # Safety
/// `addr..addr+16` lies below `USER_END`.
#[inline(never)]
pub unsafe fn get_pair(addr: usize) -> Option<[u64; 2]> {
    let mut pair = MaybeUninit::<[u64; 2]>::uninit();
    let to = pair.as_mut_ptr() as usize;
    // SAFETY: the caller's promise; what was moved is there.
    unsafe {
        let done = while_open(|| MOVES.word::<0>(to, addr) && MOVES.word::<1>(to, addr));
        done.then(|| pair.assume_init())
    }
}

/// Writes two words of 64 bits at any address; `false` on a fault, with one of them written perhaps.
///
/// # Safety
/// `addr..addr+16` lies below `USER_END`.
#[inline(never)]
pub unsafe fn put_pair(addr: usize, [a, b]: [u64; 2]) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        user_asm!(["std {a}, 0({addr})", "std {b}, 8({addr})"], addr = in(reg_nonzero) addr, a = in(reg) a, b = in(reg) b)
    }
}

/// Stores `count` words of 16 bits, at least one, to user `to` and every 8 bytes behind it, from kernel `from` and every 8 bytes behind that:
/// the results of `poll`. `false` after a fault, with some of them stored.
///
/// # Safety
/// `from` is readable for `8 * count - 6` bytes; `to..to + 8 * count` lies below `USER_END`.
pub unsafe fn put_u16s(mut to: usize, from: *const u8, count: usize) -> bool {
    let mut from = from as usize;
    set_window(0);
    for _ in 0..count {
        // SAFETY: the caller's promise.
        if unsafe { !MOVES.part::<2>(to, from) } {
            return shut_after_fault();
        }
        (to, from) = (to + 8, from + 8);
    }
    set_window(AMR_SHUT);
    true
}

/// What a loop ends with when an access faults: by itself, or every turn would set the result.
#[cold]
#[inline(never)]
fn shut_after_fault() -> bool {
    set_window(AMR_SHUT);
    false
}

/// Reads a naturally aligned user word atomically; `None` on a fault.
///
/// # Safety
/// `addr..addr+4` lies below `USER_END`.
pub unsafe fn load_u32(addr: usize) -> Option<u32> {
    // SAFETY: the caller's promise.
    let value = unsafe { get_u32(addr) };
    fence(Ordering::Acquire);
    value
}

/// Compare-and-exchange of a naturally aligned user word: the value found, `None` on a fault.
///
/// # Safety
/// `addr..addr+4` lies below `USER_END`.
pub unsafe fn cmpxchg_u32(addr: usize, expected: u32, new: u32) -> Option<u32> {
    let mut found = 0u32;
    fence(Ordering::SeqCst);
    // SAFETY: the caller's promise.
    let done = unsafe {
        user_asm!(
            [
                "lwarx {found}, 0, {addr}",
                "cmplw {found}, {expected}",
                "bne 4f",
                "stwcx. {new}, 0, {addr}",
                "bne 2b",
                "4:"
            ],
            addr = in(reg) addr, expected = in(reg) expected, new = in(reg) new, found = inout(reg) found, out("cr0") _
        )
    };
    fence(Ordering::SeqCst);
    done.then_some(found)
}

/// Loads the identifiers and `rseq_cs` of the `struct rseq` at `at`, and stores `ids` if those found differ, all in one window. Returns the
/// identifiers found, as two words, and `rseq_cs`; `None` on a fault, after which the first word may have been stored.
///
/// # Safety
/// `at..at+32` lies below `USER_END`.
#[inline(never)]
pub unsafe fn exchange_rseq(at: usize, ids: [u64; 2]) -> Option<[u64; 3]> {
    let mut found = [0u64; 3];
    let (to, new) = (&raw mut found as usize, &raw const ids as usize);
    // SAFETY: the caller's promise; both arrays are ours.
    let done = while_open(|| unsafe {
        MOVES.word::<0>(to, at)
            && MOVES.word::<0>(to + 8, at + 20)
            && MOVES.word::<0>(to + 16, at + 8)
            && (found[..2] == ids || MOVES.word::<0>(at, new) && MOVES.word::<0>(at + 20, new + 8))
    });
    done.then_some(found)
}

/// Whether the legacy area of restartable sequences whose address is [`AREA_AT`] behind `near` says what the four words [`TOLD`] behind `near` say
/// (`cpu_id_start`, `cpu_id`, `node_id`, `mm_cid`), and no critical section (`rseq_cs` is 0). `false` on a fault as well.
/// The window closes with the next context-synchronising instruction, which the next window or the way
/// out has.
///
/// # Safety
/// Both can be read, the area lies below `USER_END`, and nobody writes the words meanwhile.
#[inline(always)]
pub unsafe fn rseq_says(near: *const u8) -> bool {
    let (first, second, section): (u64, u64, usize);
    // SAFETY: the caller's promise. After a fault the area's address stands for what should have been found in it.
    unsafe {
        let area = near.add(AREA_AT).cast::<usize>().read();
        let [x, y] = near.add(TOLD).cast::<[u64; 2]>().read_unaligned();
        set_window(0);
        asm!(
            "2: ld {first}, 0({at})",
            "ld {second}, 20({at})",
            "ld {at}, 8({at})",
            "3:",
            may_fault!("2b", "3b", "3b", ".last"),
            at = inout(reg_nonzero) area => section, first = out(reg) first, second = out(reg) second,
            options(nostack, readonly, preserves_flags)
        );
        spr::write!(spr::AMR, AMR_SHUT);
        (first ^ x) | (second ^ y) | section as u64 == 0
    }
}

/// Copies a string up to and including its NUL, at most `max` bytes: the length without the NUL (`max` if there was none), `None` on a fault.
///
/// # Safety
/// `to` is valid for `max` bytes; `from..from+max` lies below `USER_END`.
#[inline(never)]
pub unsafe fn copy_string_from_user(to: *mut u8, from: usize, max: usize) -> Option<usize> {
    // SAFETY: what is asked for lies inside what the caller promises; so below.
    let word = |to, from| unsafe { MOVES.word::<0>(to, from) };
    // SAFETY: as above.
    let byte = |to, from| unsafe { MOVES.byte(to, from) };
    // SAFETY: as above.
    while_open(|| unsafe { limen_memory::copy_string(word, byte, (to, from, max)) })
}
