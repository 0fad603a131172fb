//! Copies to and from user memory that may fault. The window (PAN) is open only inside these. Ranges were
//! checked against `USER_END` by the caller (`mm::user`). A page that is not there is faulted in; an
//! unresolvable fault ends the copy.
//!
//! Copies of many bytes are in `user_copies`. While the window is open nothing is called.

pub use super::extable::fixup;
pub use super::user_copies::{clear_user, copy_from_user, copy_string_from_user, copy_to_user};

use super::extable::may_fault;
use super::float::vectors;
use super::window::window;
use crate::arch::windows;
use core::arch::{asm, naked_asm};
use limen_rseq::field;

/// The instructions given, with the window open: `false` if one of them faults, which is then the last. Used
/// inside `unsafe` blocks, which say why the addresses are right.
macro_rules! user_asm {
    ([$($line:expr),+], $($operand:tt)+) => {{
        let mut fault = 1u32;
        windows::opens();
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
/// Both can be read, and the area lies below `USER_END`. The words may be written meanwhile.
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

/// For `nofault`: reads a word to where it says. 0 if that faults, at the first instruction.
///
/// # Safety
/// The word is no device's; where it goes is the caller's.
#[unsafe(naked)]
pub unsafe extern "C" fn nofault_load(addr: usize, to: *mut u32) -> usize {
    naked_asm!(
        "2: ldr w2, [x0]",
        "str w2, [x1]",
        "mov x0, #1",
        "ret",
        "4: mov x0, #0",
        "ret",
        may_fault!("2b", "4b")
    )
}

/// For `nofault`: writes a word. 0 if that faults, at the first instruction.
///
/// # Safety
/// The word is no device's, and nothing that anybody relies on.
#[unsafe(naked)]
pub unsafe extern "C" fn nofault_store(addr: usize, value: u32) -> usize {
    naked_asm!(
        "2: str w1, [x0]",
        "mov x0, #1",
        "ret",
        "4: mov x0, #0",
        "ret",
        may_fault!("2b", "4b")
    )
}
