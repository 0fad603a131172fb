//! Copies to and from user memory that may fault. The window (SMAP) is open only inside these. Ranges were
//! checked against `USER_END` by the caller (`mm::user`). A page that is not there is faulted in; an
//! unresolvable fault ends the copy.
//!
//! The instructions that open and close the window are 3-byte no-operations until [`init`] finds that the
//! processor has SMAP (`.smap_sites`).

use super::cpu::{self, Features};
pub use super::extable::fixup;
use super::extable::{self, may_fault};
use core::arch::asm;
use limen_memory::copy_string;
use limen_rseq::field;

/// Opens the window.
macro_rules! open {
    () => {
        "661: .byte 0x0f, 0x1f, 0x00
        .pushsection .smap_sites, \"a\"
        .quad 661b, 0xcb
        .popsection"
    };
}
/// Closes it.
macro_rules! close {
    () => {
        "662: .byte 0x0f, 0x1f, 0x00
        .pushsection .smap_sites, \"a\"
        .quad 662b, 0xca
        .popsection"
    };
}
pub(super) use {close, open};

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

/// Closes the window: on every entry, since user space or an interrupted copy may have left it open.
#[inline(always)]
pub fn close_window() {
    // SAFETY: only the access flag changes.
    unsafe { asm!(close!(), options(nomem, nostack)) }
}

/// Copies between user and kernel memory; returns how many bytes were *not* copied.
///
/// # Safety
/// As for [`copy_from_user`] or [`copy_to_user`].
#[inline(never)]
unsafe fn copy(to: usize, from: usize, len: usize) -> usize {
    let left;
    // SAFETY: the caller's promise; after a fault in a word the bytes before it are done one by one.
    unsafe {
        asm!(
            open!(),
            "7: rep movsq",
            "8: mov ecx, edx",
            "2: rep movsb",
            "3:",
            close!(),
            ".pushsection .text.x86_uaccess, \"ax\"",
            "4: lea rcx, [rdx + rcx * 8]",
            "jmp 2b",
            ".popsection",
            may_fault!("7b", "8b", "4b"),
            may_fault!("2b", "3b", "3b"),
            inout("rdi") to => _,
            inout("rsi") from => _,
            inout("rcx") len / 8 => left,
            in("rdx") len % 8,
            options(nostack),
        );
    }
    left
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
    let left;
    // SAFETY: the caller's promise; after a fault in a word the bytes before it are done one by one.
    unsafe {
        asm!(
            open!(),
            "7: rep stosq",
            "8: mov ecx, edx",
            "2: rep stosb",
            "3:",
            close!(),
            ".pushsection .text.x86_uaccess, \"ax\"",
            "4: lea rcx, [rdx + rcx * 8]",
            "jmp 2b",
            ".popsection",
            may_fault!("7b", "8b", "4b"),
            may_fault!("2b", "3b", "3b"),
            inout("rdi") to => _,
            inout("rcx") len / 8 => left,
            in("rdx") len % 8,
            in("rax") 0,
            options(nostack),
        );
    }
    left
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
            // SAFETY: the caller's promise; a fault says so.
            unsafe {
                asm!(
                    open!(),
                    concat!("2: mov {value:", $size, "}, [{addr}]"),
                    "3:",
                    close!(),
                    ".pushsection .text.x86_uaccess, \"ax\"",
                    "4: mov {fault:e}, 1",
                    "jmp 3b",
                    ".popsection",
                    may_fault!("2b", "3b", "4b"),
                    value = out(reg) value,
                    addr = in(reg) addr,
                    fault = inout(reg) fault,
                    options(nostack),
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
                    open!(),
                    concat!("2: mov [{addr}], {value:", $size, "}"),
                    "3:",
                    close!(),
                    ".pushsection .text.x86_uaccess, \"ax\"",
                    "4:",
                    close!(),
                    "jmp {no}",
                    ".popsection",
                    may_fault!("2b", "3b", "4b"),
                    value = in(reg) value,
                    addr = in(reg) addr,
                    no = label { return false },
                    options(nostack),
                );
            }
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
pub unsafe fn put_u16s(to: usize, from: *const u8, mut count: usize) -> bool {
    // SAFETY: the caller's promise; a fault leaves some to do.
    unsafe {
        asm!(
            open!(),
            "5: movzx {word:e}, word ptr [{from}]",
            "2: mov [{to}], {word:x}",
            "4: add {from}, 8",
            "add {to}, 8",
            "dec {count}",
            "jnz 5b",
            "3:",
            close!(),
            may_fault!("2b", "4b", "3b"),
            word = out(reg) _,
            from = inout(reg) from => _,
            to = inout(reg) to => _,
            count = inout(reg) count,
            options(nostack),
        );
    }
    count == 0
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
    let mut fault = 1u32;
    // SAFETY: as `load_u32`.
    unsafe {
        asm!(
            open!(),
            "2: lock cmpxchg [{addr}], {new:e}",
            "mov {fault:e}, 0",
            "3:",
            close!(),
            may_fault!("2b", "3b", "3b"),
            new = in(reg) new,
            addr = in(reg) addr,
            fault = inout(reg) fault,
            inout("eax") found,
            options(nostack),
        );
    }
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
    let mut fault = 1u32;
    // SAFETY: the caller's promise; a fault skips the step that clears `fault`.
    unsafe {
        asm!(
            open!(),
            "2: mov {first}, [{at}]",
            "mov {second}, [{at} + {node}]",
            "mov {section}, [{at} + {rseq_cs}]",
            "cmp {first}, {x}",
            "jne 5f",
            "cmp {second}, {y}",
            "je 7f",
            "5: mov [{at}], {x}",
            "mov [{at} + {node}], {y}",
            "7: xor {fault:e}, {fault:e}",
            "8:",
            close!(),
            may_fault!("2b", "8b", "8b"),
            node = const field::NODE_ID,
            rseq_cs = const field::RSEQ_CS,
            first = out(reg) first,
            second = out(reg) second,
            section = out(reg) section,
            at = in(reg) at,
            x = in(reg) ids[0],
            y = in(reg) ids[1],
            fault = inout(reg) fault,
            options(nostack),
        );
    }
    (fault == 0).then_some([first, second, section])
}

/// Whether the legacy area of restartable sequences whose address is `AREA_AT` behind `near` says what the
/// four words `TOLD` behind `near` say (`cpu_id_start`, `cpu_id`, `node_id`, `mm_cid`), and no critical
/// section (`rseq_cs` is 0). `false` on a fault as well.
///
/// # Safety
/// Both can be read, the area lies below `USER_END`, and nobody writes the words meanwhile.
#[inline(always)]
pub unsafe fn rseq_as_told<const AREA_AT: usize, const TOLD: usize>(near: *const u8) -> bool {
    // SAFETY: the caller's promise; a fault is as a difference.
    unsafe {
        asm!(
            "mov {at}, [{near} + {area}]",
            "mov {first}, [{near} + {told}]",
            "mov {second}, [{near} + {told} + 8]",
            open!(),
            "2: cmp [{at}], {first}",
            "jne 5f",
            "cmp [{at} + {node}], {second}",
            "jne 5f",
            "cmp qword ptr [{at} + {section}], 0",
            "jne 5f",
            "3:",
            close!(),
            ".pushsection .text.x86_uaccess, \"ax\"",
            "5:",
            close!(),
            "jmp {no}",
            ".popsection",
            may_fault!("2b", "3b", "5b"),
            node = const field::NODE_ID,
            section = const field::RSEQ_CS,
            near = in(reg) near,
            area = const AREA_AT,
            told = const TOLD,
            at = out(reg) _,
            first = out(reg) _,
            second = out(reg) _,
            no = label { return false },
            options(nostack, readonly),
        );
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
    // SAFETY: only the access flag changes; so below.
    unsafe { asm!(open!(), options(nostack)) }
    let word = |to: usize, from: usize| access!(reg, to, from);
    let byte = |to: usize, from: usize| access!(reg_byte, to, from);
    // SAFETY: the caller's promise.
    let copied = unsafe { copy_string(word, byte, (to, from, max)) };
    // SAFETY: only the access flag changes.
    unsafe { asm!(close!(), options(nostack)) }
    copied
}
