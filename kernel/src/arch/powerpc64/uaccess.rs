//! Copies to and from user memory that may fault. The window (`AMR`) is open only inside these. Ranges were
//! checked against `USER_END` by the caller (`mm::user`). A page that is not there is faulted in; an
//! unresolvable fault ends the copy.
//!
//! Copies of many bytes are in `user_copies`.

pub use super::extable::fixup;
pub use super::user_copies::{clear_user, copy_from_user, copy_string_from_user, copy_to_user};

use super::copy::Copy;
use super::extable::may_fault;
use super::spr;
use super::window::{AMR_SHUT, open_window, set_window, while_open};
use core::arch::{asm, naked_asm};
use core::sync::atomic::{Ordering, fence};
use limen_memory::Moves;
use limen_rseq::field;

/// What moves to and from user memory, with the window open.
const MOVES: Copy<1> = Copy;

/// The instructions given, with the window open: `false` if one of them faults, which is then the last. Used
/// inside `unsafe` blocks, which say why the addresses are right.
macro_rules! user_asm {
    ([$($line:expr),+], $($operand:tt)+) => {{
        let mut fault = 1usize;
        $crate::arch::imp::window::open_window();
        core::arch::asm!(
            "2:",
            $($line,)+
            "li {fault}, 0",
            "3:",
            $crate::arch::imp::extable::may_fault!("2b", "3b", "3b"),
            fault = inout(reg) fault,
            $($operand)+,
            options(nostack)
        );
        $crate::arch::imp::window::set_window($crate::arch::imp::window::AMR_SHUT);
        fault == 0
    }};
}
pub(super) use user_asm;

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
            let done = unsafe { user_asm!([concat!($load, " {value}, 0, {addr}")], addr = in(reg) addr,
                value = inout(reg) value) };
            done.then_some(value)
        }

        /// Writes a word at any address; `false` on a fault.
        ///
        /// # Safety
        /// It lies below `USER_END`.
        #[inline(never)]
        pub unsafe fn $put(addr: usize, value: $word) -> bool {
            // SAFETY: the caller's promise.
            unsafe { user_asm!([concat!($store, " {value}, 0, {addr}")], addr = in(reg) addr,
                value = in(reg) value) }
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
    let mut pair = [0; 2];
    let to = &raw mut pair as usize;
    // SAFETY: the caller's promise.
    while_open(|| unsafe { MOVES.word::<0>(to, addr) && MOVES.word::<1>(to, addr) }).then_some(pair)
}

/// Writes two words of 64 bits at any address; `false` on a fault, with one of them written perhaps.
///
/// # Safety
/// `addr..addr+16` lies below `USER_END`.
#[inline(never)]
pub unsafe fn put_pair(addr: usize, [a, b]: [u64; 2]) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        user_asm!(["std {a}, 0({addr})", "std {b}, 8({addr})"], addr = in(reg_nonzero) addr, a = in(reg) a,
            b = in(reg) b)
    }
}

/// Stores `count` words of 16 bits, at least one, to user `to` and every 8 bytes behind it, from kernel
/// `from` and every 8 bytes behind that: the results of `poll`. `false` after a fault, with some of them
/// stored.
///
/// # Safety
/// `from` is readable for `8 * count - 6` bytes; `to..to + 8 * count` lies below `USER_END`.
pub unsafe fn put_u16s(mut to: usize, from: *const u8, count: usize) -> bool {
    let mut from = from as usize;
    open_window();
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
    unsafe { get_u32(addr) }.inspect(|_| fence(Ordering::Acquire))
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
            addr = in(reg) addr, expected = in(reg) expected, new = in(reg) new, found = inout(reg) found,
            out("cr0") _
        )
    };
    fence(Ordering::SeqCst);
    done.then_some(found)
}

/// Loads the identifiers and `rseq_cs` of the `struct rseq` at `at`, and stores `ids` if those found differ,
/// all in one window. Returns the identifiers found, as two words, and `rseq_cs`; `None` on a fault, after
/// which the first word may have been stored.
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
            && MOVES.word::<0>(to + 8, at + field::NODE_ID)
            && MOVES.word::<0>(to + 16, at + field::RSEQ_CS)
            && (found[..2] == ids
                || MOVES.word::<0>(at, new) && MOVES.word::<0>(at + field::NODE_ID, new + 8))
    });
    done.then_some(found)
}

/// Whether the legacy area of restartable sequences whose address is `AREA_AT` behind `near` says what the
/// four words `TOLD` behind `near` say (`cpu_id_start`, `cpu_id`, `node_id`, `mm_cid`), and no critical
/// section (`rseq_cs` is 0). `false` on a fault as well. The window closes with the next
/// context-synchronising instruction, which the next window or the way out has.
///
/// # Safety
/// Both can be read, and the area lies below `USER_END`. The words may be written meanwhile.
#[inline(always)]
pub unsafe fn rseq_as_told<const AREA_AT: usize, const TOLD: usize>(near: *const u8) -> bool {
    let (first, second, section): (u64, u64, usize);
    let (area, x, y): (usize, u64, u64);
    // SAFETY: the caller's promise. The first loads are the processor's, so that the words may be written
    // meanwhile. After a fault the area's address stands for what should have been found in it.
    unsafe {
        asm!(
            "ld {area}, {at}({near})",
            "ld {x}, {told}({near})",
            "ld {y}, {told} + 8({near})",
            near = in(reg_nonzero) near, at = const AREA_AT, told = const TOLD,
            area = out(reg) area, x = out(reg) x, y = out(reg) y,
            options(nostack, readonly, preserves_flags)
        );
        open_window();
        asm!(
            "2: ld {first}, 0({at})",
            "ld {second}, {node}({at})",
            "ld {at}, {section}({at})",
            "3:",
            may_fault!("2b", "3b", "3b"),
            at = inout(reg_nonzero) area => section, first = out(reg) first, second = out(reg) second,
            node = const field::NODE_ID, section = const field::RSEQ_CS,
            options(nostack, readonly, preserves_flags)
        );
        spr::write!(spr::AMR, AMR_SHUT);
        (first ^ x) | (second ^ y) | section as u64 == 0
    }
}

/// For `nofault`: reads a word to where it says. 0 if that faults, at the first instruction.
///
/// # Safety
/// The word is no device's; where it goes is the caller's.
#[unsafe(naked)]
pub unsafe extern "C" fn nofault_load(addr: usize, to: *mut u32) -> usize {
    naked_asm!(
        "2: lwz 5, 0(3)",
        "stw 5, 0(4)",
        "li 3, 1",
        "blr",
        "4: li 3, 0",
        "blr",
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
        "2: stw 4, 0(3)",
        "li 3, 1",
        "blr",
        "4: li 3, 0",
        "blr",
        may_fault!("2b", "4b")
    )
}
