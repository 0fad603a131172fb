//! Copies to and from user memory that may fault. The window (SMAP) is open only inside these. Ranges were
//! checked against `USER_END` by the caller (`mm::user`). A page that is not there is faulted in; an
//! unresolvable fault ends the copy.
//!
//! The instructions that open and close the window are 3-byte no-operations until [`init`] finds that the
//! processor has SMAP (`.smap_sites`).

use super::cpu::{self, Features};
pub use super::extable::fixup;
use super::extable::{self, may_fault};
use crate::arch::windows;
use core::arch::{asm, naked_asm};
use limen_memory::copy_string;
use limen_rseq::field;

unsafe extern "C" {
    static __smap_sites_start: [usize; 2];
    static __smap_sites_end: [usize; 2];
}

/// Sorts the exception table and puts the window instructions in place.
///
/// # Safety
/// Boot CPU, once, while the image is still writable.
pub unsafe fn init() {
    extable::sort();
    // SAFETY: the linker script delimits the table; nobody else uses it yet; each site is three bytes of
    // text.
    unsafe {
        if cpu::has(Features::SMAP) {
            let start = &raw const __smap_sites_start;
            let len = (&raw const __smap_sites_end).offset_from(start) as usize;
            for site in core::slice::from_raw_parts(start, len) {
                (site[0] as *mut [u8; 3]).write([0x0f, 0x01, site[1] as u8]);
            }
        }
    }
}

/// The last byte of `stac`, which opens the window, and of `clac`, which closes it.
const STAC: u8 = 0xcb;
const CLAC: u8 = 0xca;

/// Opens or closes the window.
#[inline(always)]
fn window<const LAST_BYTE: u8>() {
    // SAFETY: only the access flag changes.
    unsafe {
        asm!(
            "2: .byte 0x0f, 0x1f, 0x00",
            ".pushsection .smap_sites, \"a\"",
            ".quad 2b, {last_byte}",
            ".popsection",
            last_byte = const LAST_BYTE,
            options(nomem, nostack)
        );
    }
}

/// Opens the window. What is called until it is closed is inlined.
#[inline(always)]
pub(super) fn open_window() {
    windows::opens();
    window::<STAC>();
}

/// Closes the window: also on every entry, since user space or an interrupted copy may have left it open.
#[inline(always)]
pub fn close_window() {
    window::<CLAC>();
}

/// An instruction that may fault, with the window open. If it does, `$fault` is 1 afterwards, and what it
/// was to load is unknown.
macro_rules! try_asm {
    ($fault:ident, $instruction:expr, $($operand:tt)+) => {
        core::arch::asm!(
            concat!("2: ", $instruction),
            "3:",
            ".pushsection .text.x86_uaccess, \"ax\"",
            "4: mov {fault:e}, 1",
            "jmp 3b",
            ".popsection",
            $crate::arch::imp::extable::may_fault!("2b", "3b", "4b"),
            fault = inout(reg) $fault,
            $($operand)+,
            options(nostack)
        )
    };
}
pub(super) use try_asm;

/// Loads `$value`, which has the size `$size` (as assembly calls registers of that size), from user memory at
/// `$from + $offset`, with the window open. `$fault` is as in [`try_asm`].
macro_rules! load {
    ($size:literal, $value:ident, $from:expr, $offset:expr, $fault:ident) => {
        try_asm!(
            $fault, concat!("mov {value:", $size, "}, [{from} + {offset}]"),
            value = out(reg) $value, from = in(reg) $from, offset = const $offset
        )
    };
}

/// Stores `$value` to user memory at `$to + $offset`, with the window open. If that faults, closes the window
/// and returns `$failed`.
macro_rules! store {
    ($size:literal, $to:expr, $offset:expr, $value:expr, $failed:expr) => {
        asm!(
            concat!("2: mov [{to} + {offset}], {value:", $size, "}"),
            "3:",
            may_fault!("2b", "3b", "{failed}"),
            to = in(reg) $to,
            offset = const $offset,
            value = in(reg) $value,
            failed = label {
                close_window();
                return $failed
            },
            options(nostack, preserves_flags)
        )
    };
}

/// Does `$words` (a string instruction) for the words of a range of `$len` bytes, and `$bytes` for what is
/// left; returns for how many bytes it did not. After a fault in a word the bytes before it are done one by
/// one.
macro_rules! repeat {
    ($words:literal, $bytes:literal, $len:expr, $($operand:tt)+) => {{
        let left: usize;
        open_window();
        asm!(
            concat!("7: rep ", $words),
            "8: mov ecx, edx",
            concat!("2: rep ", $bytes),
            "3:",
            ".pushsection .text.x86_uaccess, \"ax\"",
            "4: lea rcx, [rdx + rcx * 8]",
            "jmp 2b",
            ".popsection",
            may_fault!("7b", "8b", "4b"),
            may_fault!("2b", "3b", "3b"),
            inout("rcx") $len / 8 => left,
            in("rdx") $len % 8,
            $($operand)+,
            options(nostack)
        );
        close_window();
        left
    }};
}

/// Copies between user and kernel memory; returns how many bytes were *not* copied.
///
/// # Safety
/// As for [`copy_from_user`] or [`copy_to_user`].
#[inline(never)]
unsafe fn copy(to: usize, from: usize, len: usize) -> usize {
    // SAFETY: the caller's promise.
    unsafe { repeat!("movsq", "movsb", len, inout("rdi") to => _, inout("rsi") from => _) }
}

/// Copies `len` bytes from user `from` to kernel `to`; returns how many were *not* copied.
///
/// # Safety
/// `to` is valid for `len` bytes; `from..from+len` lies below `USER_END`.
#[inline(always)]
pub unsafe fn copy_from_user(to: *mut u8, from: usize, len: usize) -> usize {
    // SAFETY: the caller's promise; faults on the user side end the copy.
    unsafe { copy(to as usize, from, len) }
}

/// Copies `len` bytes from kernel `from` to user `to`; returns how many were *not* copied.
///
/// # Safety
/// `from` is valid for `len` bytes; `to..to+len` lies below `USER_END`.
#[inline(always)]
pub unsafe fn copy_to_user(to: usize, from: *const u8, len: usize) -> usize {
    // SAFETY: the caller's promise; faults on the user side end the copy.
    unsafe { copy(to, from as usize, len) }
}

/// Zeroes user memory; returns how many bytes were *not* cleared.
///
/// # Safety
/// `to..to+len` lies below `USER_END`.
#[inline(always)]
pub unsafe fn clear_user(to: usize, len: usize) -> usize {
    // SAFETY: the caller's promise.
    unsafe { repeat!("stosq", "stosb", len, inout("rdi") to => _, in("rax") 0) }
}

/// Reading and writing `$bits` bits; `$size` is how assembly calls registers of that size.
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
            open_window();
            // SAFETY: the caller's promise.
            unsafe { load!($size, value, addr, 0, fault) };
            close_window();
            (fault == 0).then_some(value)
        }

        #[doc = concat!("Writes ", $bits, " bits at any address, at once if it is naturally aligned.")]
        /// `false` on a fault.
        ///
        /// # Safety
        /// All of it lies below `USER_END`.
        #[inline(always)]
        pub unsafe fn $put(addr: usize, value: $type) -> bool {
            open_window();
            // SAFETY: the caller's promise.
            unsafe { store!($size, addr, 0, value, false) };
            close_window();
            true
        }
    };
}

word!(get_u32, put_u32, u32, "32", "e");
word!(get_u64, put_u64, u64, "64", "r");

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
pub unsafe fn put_u16s(mut to: usize, mut from: *const u8, mut count: usize) -> bool {
    open_window();
    while count != 0 {
        // SAFETY: the caller's promise.
        unsafe {
            let word = from.cast::<u16>().read_unaligned();
            store!("x", to, 0, word, false);
            from = from.add(8);
        }
        to += 8;
        count -= 1;
    }
    close_window();
    true
}

/// [`get_u32`] of a naturally aligned user word.
///
/// # Safety
/// `addr..addr+4` lies below `USER_END`.
#[inline(always)]
pub unsafe fn load_u32(addr: usize) -> Option<u32> {
    // SAFETY: the caller's promise.
    unsafe { get_u32(addr) }
}

/// Compare-and-exchange of a naturally aligned user word: the value found, `None` on a fault.
///
/// # Safety
/// `addr..addr+4` lies below `USER_END`.
#[inline(always)]
pub unsafe fn cmpxchg_u32(addr: usize, expected: u32, new: u32) -> Option<u32> {
    let mut found = expected;
    let mut fault = 0u32;
    open_window();
    // SAFETY: the caller's promise.
    unsafe {
        try_asm!(
            fault, "lock cmpxchg [{addr}], {new:e}",
            new = in(reg) new, addr = in(reg) addr, inout("eax") found
        );
    }
    close_window();
    (fault == 0).then_some(found)
}

/// Loads the identifiers and `rseq_cs` of the `struct rseq` at `at`, and stores `ids` if those found differ,
/// all in one window. Returns the identifiers found, as two words, and `rseq_cs`; `None` on a fault, after
/// which the first word may have been stored.
///
/// # Safety
/// `at..at+32` lies below `USER_END`.
#[inline(always)]
pub unsafe fn exchange_rseq(at: usize, ids: [u64; 2]) -> Option<[u64; 3]> {
    let (first, second, section): (u64, u64, u64);
    let mut fault = 0u32;
    open_window();
    // SAFETY: the caller's promise.
    unsafe {
        load!("r", first, at, 0, fault);
        load!("r", second, at, field::NODE_ID, fault);
        load!("r", section, at, field::RSEQ_CS, fault);
        if fault == 0 && (first != ids[0] || second != ids[1]) {
            store!("r", at, 0, ids[0], None);
            store!("r", at, field::NODE_ID, ids[1], None);
        }
    }
    close_window();
    (fault == 0).then_some([first, second, section])
}

/// Compares user memory at `$at + $offset` with `$told`, with the window open. If they differ, or there is a
/// fault, closes the window and returns `false`.
macro_rules! compare {
    ($at:expr, $offset:expr, $($told:tt)+) => {
        asm!(
            "2: cmp qword ptr [{at} + {offset}], {told}",
            "3: jne {no}",
            may_fault!("2b", "3b", "{no}"),
            at = in(reg) $at,
            offset = const $offset,
            told = $($told)+,
            no = label {
                close_window();
                return false
            },
            options(nostack, readonly)
        )
    };
}

/// Whether the legacy area of restartable sequences whose address is `AREA_AT` behind `near` says what the
/// four words `TOLD` behind `near` say (`cpu_id_start`, `cpu_id`, `node_id`, `mm_cid`), and no critical
/// section (`rseq_cs` is 0). `false` on a fault as well.
///
/// # Safety
/// Both can be read, and the area lies below `USER_END`. The words may be written meanwhile.
#[inline(always)]
pub unsafe fn rseq_as_told<const AREA_AT: usize, const TOLD: usize>(near: *const u8) -> bool {
    let (at, first, second): (usize, u64, u64);
    // SAFETY: the caller's promise. The loads are the processor's, so the words may be written meanwhile.
    unsafe {
        asm!(
            "mov {at}, qword ptr [{near} + {area}]",
            "mov {first}, qword ptr [{near} + {told}]",
            "mov {second}, qword ptr [{near} + {told} + 8]",
            near = in(reg) near,
            area = const AREA_AT,
            told = const TOLD,
            at = out(reg) at,
            first = out(reg) first,
            second = out(reg) second,
            options(nostack, readonly, preserves_flags)
        );
        open_window();
        compare!(at, 0, in(reg) first);
        compare!(at, field::NODE_ID, in(reg) second);
        compare!(at, field::RSEQ_CS, const 0);
        close_window();
    }
    true
}

/// A load into a register of class `$class`, and a store. `false` after a fault.
macro_rules! access {
    ($class:ident, $to:ident, $from:ident) => {{
        // SAFETY: as the caller promises; faults on the user's side are in the exception table.
        unsafe {
            asm!(
                "7: mov {value}, [{from}]",
                "8: mov [{to}], {value}",
                may_fault!("7b", "8b", "{fault}"),
                to = in(reg) $to, from = in(reg) $from, value = out($class) _,
                fault = label { return false }, options(nostack, preserves_flags)
            );
        }
        true
    }};
}

/// Copies a string up to and including its NUL, at most `max` bytes: the length without the NUL (`max` if
/// there was none), `None` on a fault.
///
/// # Safety
/// `to` is valid for `max` bytes; `from..from+max` lies below `USER_END`.
#[inline(never)]
pub unsafe fn copy_string_from_user(to: *mut u8, from: usize, max: usize) -> Option<usize> {
    open_window();
    let word = |to: usize, from: usize| access!(reg, to, from);
    let byte = |to: usize, from: usize| access!(reg_byte, to, from);
    // SAFETY: the caller's promise.
    let copied = unsafe { copy_string(word, byte, (to, from, max)) };
    close_window();
    copied
}

/// For `nofault`: reads a word to where it says. 0 if that faults, at the first instruction.
///
/// # Safety
/// The word is no device's; where it goes is the caller's.
#[unsafe(naked)]
pub unsafe extern "C" fn nofault_load(addr: usize, to: *mut u32) -> usize {
    naked_asm!(
        "2: mov eax, [rdi]",
        "3: mov [rsi], eax",
        "mov eax, 1",
        "ret",
        "4: xor eax, eax",
        "ret",
        may_fault!("2b", "3b", "4b")
    )
}

/// For `nofault`: writes a word. 0 if that faults, at the first instruction.
///
/// # Safety
/// The word is no device's, and nothing that anybody relies on.
#[unsafe(naked)]
pub unsafe extern "C" fn nofault_store(addr: usize, value: u32) -> usize {
    naked_asm!(
        "2: mov [rdi], esi",
        "3: mov eax, 1",
        "ret",
        "4: xor eax, eax",
        "ret",
        may_fault!("2b", "3b", "4b")
    )
}
