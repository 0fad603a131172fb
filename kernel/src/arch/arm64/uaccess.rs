//! Copies to and from user memory that may fault. The window (PAN) is open only inside these. Ranges were checked against
//! `USER_END` by the caller (`mm::user`). A page that is not there is faulted in; an unresolvable fault ends the copy.
//!
//! The loops are in `copy`.

pub use super::extable::fixup;
use super::extable::may_fault;
use super::large_copy;
use crate::rseq::{AREA_AT, TOLD};
use core::arch::asm;

unsafe extern "C" {
    fn copy_from_user_asm(to: *mut u8, from: usize, len: usize) -> usize;
    fn copy_to_user_asm(to: usize, from: *const u8, len: usize) -> usize;
    fn clear_user_asm(to: usize, len: usize) -> usize;
    fn copy_string_asm(to: *mut u8, from: usize, max: usize) -> isize;
    fn save_fp_user_asm(to: usize) -> usize;
    fn load_fp_user_asm(from: usize) -> usize;
    fn load_u32_asm(addr: usize) -> i64;
    fn cmpxchg_u32_asm(addr: usize, expected: u32, new: u32) -> i64;
    fn exchange_rseq_asm(at: usize, first: u64, second: u64, found: *mut [u64; 3]) -> usize;
}

/// Copies `len` bytes from user `from` to kernel `to`; returns how many were *not* copied.
///
/// # Safety
/// `to` is valid for `len` bytes; `from..from+len` lies below `USER_END`.
#[inline(always)]
pub unsafe fn copy_from_user(to: *mut u8, from: usize, len: usize) -> usize {
    // SAFETY: as the caller promises; faults on the user side are in the exception table.
    unsafe {
        large_copy::copy(to as usize, from, len, |to, from, len| {
            copy_from_user_asm(to as *mut u8, from, len)
        })
    }
}

/// Copies `len` bytes from kernel `from` to user `to`; returns how many were *not* copied.
///
/// # Safety
/// `from` is valid for `len` bytes; `to..to+len` lies below `USER_END`.
#[inline(always)]
pub unsafe fn copy_to_user(to: usize, from: *const u8, len: usize) -> usize {
    // SAFETY: as above.
    unsafe {
        large_copy::copy(to, from as usize, len, |to, from, len| {
            copy_to_user_asm(to, from as *const u8, len)
        })
    }
}

/// Zeroes user memory; returns how many bytes were *not* cleared.
///
/// # Safety
/// `to..to+len` lies below `USER_END`.
pub unsafe fn clear_user(to: usize, len: usize) -> usize {
    // SAFETY: as above.
    unsafe { clear_user_asm(to, len) }
}

/// Writes the vector registers to 512 bytes of user memory; `false` after a fault.
///
/// # Safety
/// `to..to+512` lies below `USER_END`.
pub unsafe fn save_fp(to: usize) -> bool {
    // SAFETY: as above; a switch in between saves and restores the registers.
    unsafe { save_fp_user_asm(to) == 0 }
}

/// Sets the running user thread's vector registers from user memory; `false` after a fault, with some of them set.
///
/// # Safety
/// `from..from+512` lies below `USER_END`.
pub unsafe fn load_fp(from: usize) -> bool {
    // SAFETY: as above.
    unsafe { load_fp_user_asm(from) == 0 }
}

/// Reading and writing `$bits` bits; `$size` is how assembly calls registers of that size. The accesses are made as user mode would make them, so the
/// window stays closed.
macro_rules! word {
    ($get:ident, $put:ident, $type:ty, $bits:literal, $size:literal) => {
        #[doc = concat!("Reads ", $bits, " bits at any address, at once if it is naturally aligned; `None` on a fault.")]
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

        #[doc = concat!("Writes ", $bits, " bits at any address, at once if it is naturally aligned; `false` on a fault.")]
        ///
        /// # Safety
        /// All of it lies below `USER_END`.
        #[inline(always)]
        pub unsafe fn $put(addr: usize, value: $type) -> bool {
            // SAFETY: as above.
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

/// Stores `count` words of 16 bits, at least one, to user `to` and every 8 bytes behind it, from kernel `from` and every 8 bytes behind that:
/// the results of `poll`. `false` after a fault, with some of them stored.
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
    // SAFETY: as above.
    let value = unsafe { load_u32_asm(addr) };
    (value >= 0).then_some(value as u32)
}

/// Compare-and-exchange of a naturally aligned user word: the value found, `None` on a fault.
///
/// # Safety
/// `addr..addr+4` lies below `USER_END`.
pub unsafe fn cmpxchg_u32(addr: usize, expected: u32, new: u32) -> Option<u32> {
    // SAFETY: as above.
    let value = unsafe { cmpxchg_u32_asm(addr, expected, new) };
    (value >= 0).then_some(value as u32)
}

/// Loads the identifiers and `rseq_cs` of the `struct rseq` at `at`, and stores `ids` if those found differ, all in one window. Returns the
/// identifiers found, as two words, and `rseq_cs`; `None` on a fault, after which the first word may have been stored.
///
/// # Safety
/// `at..at+32` lies below `USER_END`.
pub unsafe fn exchange_rseq(at: usize, ids: [u64; 2]) -> Option<[u64; 3]> {
    let mut found = [0; 3];
    // SAFETY: as above; `found` has room for three words.
    let fault = unsafe { exchange_rseq_asm(at, ids[0], ids[1], &raw mut found) };
    (fault == 0).then_some(found)
}

/// Whether the legacy area of restartable sequences whose address is [`AREA_AT`] behind `near` says what the four words [`TOLD`] behind `near` say
/// (`cpu_id_start`, `cpu_id`, `node_id`, `mm_cid`), and no critical section (`rseq_cs` is 0). `false` on a fault as well.
///
/// # Safety
/// Both can be read, the area lies below `USER_END`, and nobody writes the words meanwhile.
#[inline(always)]
pub unsafe fn rseq_says(near: *const u8) -> bool {
    // SAFETY: the caller's promise; a fault is as a difference. The accesses are made as user mode would make them.
    unsafe {
        asm!(
            "ldr {at}, [{near}, #{area}]",
            "ldp {first}, {second}, [{near}, #{told}]",
            "2: ldtr {a}, [{at}]",
            "3: ldtr {b}, [{at}, #20]",
            "4: ldtr {c}, [{at}, #8]",
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

/// Copies a string up to and including its NUL, at most `max` bytes: the length without the NUL (`max` if there was none), `None` on a fault.
///
/// # Safety
/// `to` is valid for `max` bytes; `from..from+max` lies below `USER_END`.
pub unsafe fn copy_string_from_user(to: *mut u8, from: usize, max: usize) -> Option<usize> {
    // SAFETY: as above.
    let n = unsafe { copy_string_asm(to, from, max) };
    usize::try_from(n).ok()
}
