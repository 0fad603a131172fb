//! Copies to and from user memory that may fault. The window (PAN) is open only inside these. Ranges were
//! checked against `USER_END` by the caller (`mm::user`). A page that is not there is faulted in; an
//! unresolvable fault ends the copy.
//!
//! The moves are in `copy`. While the window is open nothing is called.

use super::copy::{Copy, Fill, window};
pub use super::extable::fixup;
use super::extable::may_fault;
use super::large_copy;
use super::switch::vectors;
use core::arch::asm;
use limen_memory::{Moves, copy_string};
use limen_rseq::field;

/// What moves to and from user memory, with the window open.
const MOVES: Copy<1> = Copy;

/// Does `work` with the window open. It is inlined: loops over accesses that may fault, and what they keep in
/// registers and on the kernel's stack.
#[inline(always)]
fn while_open<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: what is accessed meanwhile is the caller's promise.
    unsafe { asm!(window!("yield"), options(nostack, preserves_flags)) };
    let result = work();
    // SAFETY: shuts it.
    unsafe { asm!(window!("nop"), options(nostack, preserves_flags)) };
    result
}

/// The instructions given, with the window open: `false` if one of them faults, which is then the last. Used
/// inside `unsafe` blocks, which say why the addresses are right.
macro_rules! user_asm {
    ([$($line:expr),+], $($operand:tt)+) => {{
        let mut fault = 1u32;
        asm!(
            window!("yield"),
            "2:",
            $($line,)+
            "mov {fault:w}, wzr",
            "3:",
            window!("nop"),
            may_fault!("2b", "3b", "3b"),
            fault = inout(reg) fault,
            $($operand)+,
            options(nostack)
        );
        fault == 0
    }};
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
    // SAFETY: as the caller promises.
    unsafe { large_copy::copy(to, from, len, |to, from, len| copy_small(to, from, len)) }
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
    // SAFETY: the range is the user's, as the caller promises; nothing is read.
    while_open(|| unsafe { limen_memory::copy(&Fill::<1>(0), to, to, len) })
}

/// Writes the vector registers to 512 bytes of user memory; `false` after a fault.
///
/// # Safety
/// `to..to+512` lies below `USER_END`.
pub unsafe fn save_fp(to: usize) -> bool {
    // SAFETY: the caller promises room for all registers; a switch in between saves and restores them.
    unsafe { user_asm!([vectors!("st1")], at = inout(reg) to => _) }
}

/// Sets the running user thread's vector registers from user memory; `false` after a fault, with some of them
/// set.
///
/// # Safety
/// `from..from+512` lies below `USER_END`.
pub unsafe fn load_fp(from: usize) -> bool {
    // SAFETY: the caller promises that all registers lie there; a switch in between saves and restores
    // them.
    unsafe { user_asm!([vectors!("ld1")], at = inout(reg) from => _) }
}

/// Reading and writing `$bits` bits; `$size` is how assembly calls registers of that size. The accesses are
/// made as user mode would make them, so the window stays closed.
macro_rules! word {
    ($get:ident, $put:ident, $type:ty, $bits:literal, $size:literal) => {
        #[doc = concat!("Reads ", $bits, " bits at any address, at once if it is naturally aligned.")]
        /// `None` on a fault.
        ///
        /// # Safety
        /// All of it lies below `USER_END`.
        #[inline(always)]
        pub unsafe fn $get(addr: usize) -> Option<$type> {
            let value: $type;
            let mut fault = 0u32;
            // SAFETY: the caller's promise; a fault says so.
            unsafe {
                asm!(
                    concat!("2: ldtr {value:", $size, "}, [{addr}]"),
                    "3:",
                    ".pushsection .text.uaccess, \"ax\"",
                    "4: mov {fault:w}, #1",
                    "b 3b",
                    ".popsection",
                    may_fault!("2b", "4b"),
                    value = out(reg) value,
                    addr = in(reg) addr,
                    fault = inout(reg) fault,
                    options(nostack, preserves_flags),
                );
            }
            (fault == 0).then_some(value)
        }

        #[doc = concat!("Writes ", $bits, " bits at any address, at once if it is naturally aligned.")]
        /// `false` on a fault.
        ///
        /// # Safety
        /// All of it lies below `USER_END`.
        #[inline(always)]
        pub unsafe fn $put(addr: usize, value: $type) -> bool {
            // SAFETY: the caller's promise; a fault is told by the result.
            unsafe {
                asm!(
                    concat!("2: sttr {value:", $size, "}, [{addr}]"),
                    may_fault!("2b", "{no}"),
                    value = in(reg) value,
                    addr = in(reg) addr,
                    no = label { return false },
                    options(nostack, preserves_flags),
                );
            }
            true
        }
    };
}

word!(get_u32, put_u32, u32, "32", "w");
word!(get_u64, put_u64, u64, "64", "x");

/// Reads two words of 64 bits at any address; `None` on a fault.
///
/// # Safety
/// `addr..addr+16` lies below `USER_END`.
#[inline(always)]
pub unsafe fn get_pair(addr: usize) -> Option<[u64; 2]> {
    // SAFETY: the caller's promise.
    unsafe { Some([get_u64(addr)?, get_u64(addr + 8)?]) }
}

/// Writes two words of 64 bits at any address; `false` on a fault, with one of them written perhaps.
///
/// # Safety
/// `addr..addr+16` lies below `USER_END`.
#[inline(always)]
pub unsafe fn put_pair(addr: usize, [first, second]: [u64; 2]) -> bool {
    // SAFETY: the caller's promise.
    unsafe { put_u64(addr, first) && put_u64(addr + 8, second) }
}

/// Stores `count` words of 16 bits, at least one, to user `to` and every 8 bytes behind it, from kernel
/// `from` and every 8 bytes behind that: the results of `poll`. `false` after a fault, with some of them
/// stored.
///
/// # Safety
/// `from` is readable for `8 * count - 6` bytes; `to..to + 8 * count` lies below `USER_END`.
pub unsafe fn put_u16s(to: usize, from: *const u8, mut count: usize) -> bool {
    // SAFETY: the caller's promise; a fault leaves some to do.
    unsafe {
        asm!(
            "5: ldrh {word:w}, [{from}], #8",
            "2: sttrh {word:w}, [{to}]",
            "add {to}, {to}, #8",
            "subs {count}, {count}, #1",
            "b.ne 5b",
            "3:",
            may_fault!("2b", "3b"),
            word = out(reg) _,
            from = inout(reg) from => _,
            to = inout(reg) to => _,
            count = inout(reg) count,
            options(nostack),
        );
    }
    count == 0
}

/// Reads a naturally aligned user word atomically; `None` on a fault.
///
/// # Safety
/// `addr..addr+4` lies below `USER_END`.
pub unsafe fn load_u32(addr: usize) -> Option<u32> {
    let value: u32;
    // SAFETY: the caller's promise; a fault leaves some to do.
    let done =
        unsafe { user_asm!(["ldar {value:w}, [{addr}]"], addr = in(reg) addr, value = out(reg) value) };
    done.then_some(value)
}

/// Compare-and-exchange of a naturally aligned user word: the value found, `None` on a fault.
///
/// # Safety
/// `addr..addr+4` lies below `USER_END`.
pub unsafe fn cmpxchg_u32(addr: usize, expected: u32, new: u32) -> Option<u32> {
    let found: u32;
    // SAFETY: the caller's promise; a fault leaves some to do.
    let done = unsafe {
        user_asm!(
            [
                "4: ldaxr {found:w}, [{addr}]",
                "cmp {found:w}, {expected:w}",
                "b.ne 5f",
                "stlxr {failed:w}, {new:w}, [{addr}]",
                "cbnz {failed:w}, 4b",
                "5: dmb ish"
            ],
            addr = in(reg) addr, expected = in(reg) expected, new = in(reg) new, found = out(reg) found,
            failed = out(reg) _
        )
    };
    done.then_some(found)
}

/// Loads the identifiers and `rseq_cs` of the `struct rseq` at `at`, and stores `ids` if those found differ.
/// Returns the identifiers found, as two words, and `rseq_cs`; `None` on a fault, after which the first word
/// may have been stored.
///
/// # Safety
/// `at..at+32` lies below `USER_END`.
pub unsafe fn exchange_rseq(at: usize, ids: [u64; 2]) -> Option<[u64; 3]> {
    let (first, second) = (at, at + field::NODE_ID);
    // SAFETY: the caller's promise; a fault leaves some to do.
    unsafe {
        let found = [get_u64(first)?, get_u64(second)?];
        let section = get_u64(at + field::RSEQ_CS)?;
        let stored = found == ids || put_u64(first, ids[0]) && put_u64(second, ids[1]);
        stored.then_some([found[0], found[1], section])
    }
}

/// Whether the legacy area of restartable sequences whose address is `AREA_AT` behind `near` says what the
/// four words `TOLD` behind `near` say (`cpu_id_start`, `cpu_id`, `node_id`, `mm_cid`), and no critical
/// section (`rseq_cs` is 0). `false` on a fault as well.
///
/// # Safety
/// Both can be read, the area lies below `USER_END`, and nobody writes the words meanwhile.
#[inline(always)]
pub unsafe fn rseq_as_told<const AREA_AT: usize, const TOLD: usize>(near: *const u8) -> bool {
    // SAFETY: the caller's promise; a fault is as a difference. The accesses are made as user mode would make
    // them.
    unsafe {
        asm!(
            "ldr {at}, [{near}, #{area}]",
            "ldp {first}, {second}, [{near}, #{told}]",
            "2: ldtr {a}, [{at}]",
            "3: ldtr {b}, [{at}, #{node}]",
            "4: ldtr {c}, [{at}, #{section}]",
            "cmp {a}, {first}",
            "ccmp {b}, {second}, #0, eq",
            "ccmp {c}, #0, #0, eq",
            "b.ne {no}",
            may_fault!("2b", "{no}"),
            may_fault!("3b", "{no}"),
            may_fault!("4b", "{no}"),
            near = in(reg) near,
            area = const AREA_AT,
            told = const TOLD,
            node = const field::NODE_ID,
            section = const field::RSEQ_CS,
            at = out(reg) _,
            first = out(reg) _,
            second = out(reg) _,
            a = out(reg) _,
            b = out(reg) _,
            c = out(reg) _,
            no = label { return false },
            options(nostack, readonly),
        );
    }
    true
}

/// Copies a string up to and including its NUL, at most `max` bytes: the length without the NUL (`max` if
/// there was none), `None` on a fault.
///
/// # Safety
/// `to` is valid for `max` bytes; `from..from+max` lies below `USER_END`.
#[inline(never)]
pub unsafe fn copy_string_from_user(to: *mut u8, from: usize, max: usize) -> Option<usize> {
    // SAFETY: what is asked for lies inside what the caller promises; so below.
    let word = |to, from| unsafe { MOVES.word::<0>(to, from) };
    // SAFETY: a byte that is asked for lies inside what the caller promises.
    let byte = |to, from| unsafe { MOVES.byte(to, from) };
    // SAFETY: both lie inside what the caller promises.
    while_open(|| unsafe { copy_string(word, byte, (to, from, max)) })
}
