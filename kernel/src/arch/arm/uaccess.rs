//! Copies to and from user memory that may fault. User space (`mmu::close_user`) is open only inside these.
//! Ranges were checked against `USER_END` by the caller (`mm::user`). A page that is not there is faulted in;
//! an unresolvable fault ends the copy.
//!
//! What the copies are made of is in `copy`. While the window is open nothing is called.

use super::copy::{CHUNK, FromUser, LONG_FILL, ToUser, ZeroUser, copy_long, faulting, fill_long};
pub use super::extable::fixup;
use super::extable::may_fault;
use super::mmu::{self, window_register};
use super::switch::{FPEXC_EN, fpscr};
use super::sysreg;
use crate::arch::windows;
use core::arch::{asm, naked_asm};
use core::hint::assert_unchecked;
use core::mem::transmute;
use core::sync::atomic::{Ordering, fence};
use limen_linux_abi::Errno;
use limen_memory::{Moves, copy};
use limen_rseq::field;

/// Does `work` with user space open. It is inlined: loops over accesses that may fault, and what they keep in
/// registers and on the kernel's stack.
#[inline(always)]
fn while_open<T>(work: impl FnOnce() -> T) -> T {
    windows::opens();
    mmu::open_user();
    sysreg::isb();
    let result = work();
    mmu::close_user();
    sysreg::isb();
    result
}

/// Copies less than a chunk.
#[inline(never)]
unsafe fn copy_few<M: Moves>(to: usize, from: usize, len: usize, moves: M) -> usize {
    // SAFETY: as the caller promises; faults on the user's side are in the exception table.
    while_open(|| unsafe {
        assert_unchecked(len < M::CHUNK);
        copy(&moves, to, from, len)
    })
}

/// Copies a chunk or more.
#[inline(never)]
unsafe fn copy_many<M: Moves>(to: usize, from: usize, len: usize, moves: M) -> usize {
    // SAFETY: both ranges are as the caller promises; faults on the user's side are in the exception
    // table.
    while_open(|| unsafe { copy_long(&moves, to, from, len) })
}

/// Copies `len` bytes from user `from` to kernel `to`; returns how many were *not* copied.
///
/// # Safety
/// `to` is valid for `len` bytes; `from..from+len` lies below `USER_END`.
#[inline(always)]
pub unsafe fn copy_from_user(to: *mut u8, from: usize, len: usize) -> usize {
    // SAFETY: as the caller promises.
    let mut left = unsafe {
        if len < CHUNK {
            copy_few(to as usize, from, len, FromUser)
        } else {
            copy_many(to as usize, from, len, FromUser)
        }
    };
    // SAFETY: does nothing. The compiler does not know that, and does not make what callers do next twice,
    // once for each kind of copy.
    unsafe { asm!("", inout("r0") left, options(pure, nomem, nostack, preserves_flags)) }
    left
}

/// Copies `len` bytes from kernel `from` to user `to`; returns how many were *not* copied.
///
/// # Safety
/// `from` is valid for `len` bytes; `to..to+len` lies below `USER_END`.
#[inline(always)]
pub unsafe fn copy_to_user(to: usize, from: *const u8, len: usize) -> usize {
    // SAFETY: as the caller promises.
    unsafe {
        if len < CHUNK {
            copy_few(to, from as usize, len, ToUser)
        } else {
            copy_many(to, from as usize, len, ToUser)
        }
    }
}

/// Zeroes user memory; returns how many bytes were *not* cleared.
///
/// # Safety
/// `to..to+len` lies below `USER_END`.
#[inline(always)]
pub unsafe fn clear_user(to: usize, len: usize) -> usize {
    // SAFETY: as the caller promises.
    unsafe {
        if len < LONG_FILL {
            copy_few(to, 0, len, ZeroUser::<LONG_FILL>)
        } else {
            clear_many(to, len)
        }
    }
}

#[inline(never)]
unsafe fn clear_many(to: usize, len: usize) -> usize {
    // SAFETY: the range is the user's, as the caller promises.
    while_open(|| unsafe { fill_long(&ZeroUser::<CHUNK>, 0, to, len) })
}

/// `d0` to `d31`, `FPSCR`, `FPEXC`, `FPINST`, `FPINST2`, each pair of words complete, and the mark that ends
/// the records.
pub const FP_RECORD: usize = 256 + 6 * 4 + 4;

/// Opens user space for a few instructions, and says whether none of them faulted. In brackets: another
/// option of `asm!`.
macro_rules! user_asm {
    ([$($option:ident)?], $($access:expr),+; $($operand:tt)*) => {{
        let fault: u32;
        windows::opens();
        // SAFETY: the caller's promise. A fault skips the step that clears `fault`.
        unsafe {
            asm!(
                ".pushsection __pan_sites, \"a\"\n.balign 4\n.long 4f - ., 5f - .\n.popsection",
                concat!("4: mcr p15, 0, {fault}, ", window_register!()),
                "isb",
                $($access,)+
                "mov {fault}, #0",
                concat!("3:5: mcr p15, 0, {closed}, ", window_register!()),
                "isb",
                fault = inout(reg) mmu::OPEN => fault,
                closed = in(reg) mmu::CLOSED,
                $($operand)*
                options(nostack $(, $option)?),
            )
        }
        fault == 0
    }};
}

/// Writes the floating-point record of a signal frame: its mark, and [`FP_RECORD`] bytes. `false` after a
/// fault.
///
/// # Safety
/// `to..to+8+FP_RECORD` lies below `USER_END`.
#[inline(never)]
pub unsafe fn save_fp(to: usize, mark: u64) -> bool {
    let status = fpscr();
    // In between a switch saves and restores the registers.
    user_asm!(
        [preserves_flags],
        faulting!("stm {to}!, {{r8, r10}}", "3f"),
        faulting!("vstm {to}!, {{d0-d15}}", "3f"),
        faulting!("vstm {to}!, {{d16-d31}}", "3f"),
        faulting!("stm {to}, {{r0, r1, r2, r3, r4, r5, r7}}", "3f");
        to = inout(reg) to => _, in("r0") status, in("r1") 0, in("r2") FPEXC_EN, in("r3") 0, in("r4") 0,
        in("r5") 0, in("r7") 0,
        in("r8") mark as u32, in("r10") (mark >> 32) as u32,
    )
}

/// Sets the running user thread's floating-point registers from such a record, behind its mark; `false` after
/// a fault, with some of them set.
///
/// # Safety
/// `from..from+FP_RECORD` lies below `USER_END`.
#[inline(never)]
pub unsafe fn load_fp(from: usize) -> bool {
    user_asm!(
        [preserves_flags],
        faulting!("vldm {from}!, {{d0-d15}}", "3f"),
        faulting!("vldm {from}!, {{d16-d31}}", "3f"),
        faulting!("ldr {word}, [{from}]", "3f"),
        "vmsr fpscr, {word}";
        from = inout(reg) from => _, word = out(reg) _,
    )
}

/// A function that reads, and one that writes, a value that is words of 32 bits: more than a word at a time
/// may not lie anywhere.
macro_rules! words {
    ($get:ident, $put:ident, $type:ty, $bits:literal: $($word:ident $load:literal $store:literal),+) => {
        #[doc = concat!("Reads ", $bits, " at any address; `None` on a fault.")]
        ///
        /// # Safety
        /// All of it lies below `USER_END`.
        #[inline(always)]
        pub unsafe fn $get(addr: usize) -> Option<$type> {
            $(let $word: u32;)+
            let done = user_asm!([preserves_flags],
                $(faulting!($load, "3f")),+; $($word = out(reg) $word,)+ addr = in(reg) addr,);
            // SAFETY: any bits are a value.
            done.then(|| unsafe { transmute([$($word),+]) })
        }

        #[doc = concat!("Writes ", $bits, " at any address; `false` on a fault.")]
        ///
        /// # Safety
        /// All of it lies below `USER_END`.
        #[inline(always)]
        pub unsafe fn $put(addr: usize, value: $type) -> bool {
            // SAFETY: any bits are words.
            let [$($word),+]: [u32; size_of::<$type>() / 4] = unsafe { transmute(value) };
            user_asm!([preserves_flags],
                $(faulting!($store, "3f")),+; $($word = in(reg) $word,)+ addr = in(reg) addr,)
        }
    };
}
words!(get_u32, put_u32, u32, "32 bits": a "ldr {a}, [{addr}]" "str {a}, [{addr}]");
words!(get_u64, put_u64, u64, "64 bits":
    a "ldr {a}, [{addr}]" "str {a}, [{addr}]", b "ldr {b}, [{addr}, #4]" "str {b}, [{addr}, #4]");
words!(get_pair, put_pair, [u64; 2], "two words of 64 bits":
    a "ldr {a}, [{addr}]" "str {a}, [{addr}]", b "ldr {b}, [{addr}, #4]" "str {b}, [{addr}, #4]",
    c "ldr {c}, [{addr}, #8]" "str {c}, [{addr}, #8]", d "ldr {d}, [{addr}, #12]" "str {d}, [{addr}, #12]");

/// Stores `count` words of 16 bits, at least one, to user `to` and every 8 bytes behind it, from kernel
/// `from` and every 8 bytes behind that: the results of `poll`. `false` after a fault, with some of them
/// stored.
///
/// # Safety
/// `from` is readable for `8 * count - 6` bytes; `to..to + 8 * count` lies below `USER_END`.
pub unsafe fn put_u16s(to: usize, from: *const u8, count: usize) -> bool {
    user_asm!(
        [], "8: ldrh {word}, [{from}], #8", faulting!("strh {word}, [{to}], #8", "3f"),
            "subs {count}, {count}, #1", "bne 8b";
        word = out(reg) _, from = inout(reg) from => _, to = inout(reg) to => _,
        count = inout(reg) count => _,
    )
}

/// Reads a naturally aligned user word atomically; `None` on a fault.
///
/// # Safety
/// `addr..addr+4` lies below `USER_END`.
#[inline(never)]
pub unsafe fn load_u32(addr: usize) -> Option<u32> {
    // SAFETY: any bits are a word; a fault is told by the result.
    let value = unsafe { get_u32(addr) };
    fence(Ordering::Acquire);
    value
}

/// Compare-and-exchange of a naturally aligned user word: the value found, `None` on a fault.
///
/// # Safety
/// `addr..addr+4` lies below `USER_END`.
#[inline(never)]
pub unsafe fn cmpxchg_u32(addr: usize, expected: u32, new: u32) -> Option<u32> {
    let found: u32;
    fence(Ordering::SeqCst);
    let done = user_asm!(
        [],
        "8:",
        faulting!("ldrex {found}, [{addr}]", "3f"),
        "teq {found}, {expected}",
        "bne 4f",
        faulting!("strex {failed}, {new}, [{addr}]", "3f"),
        "teq {failed}, #1",
        "beq 8b",
        "4:";
        addr = in(reg) addr, expected = in(reg) expected, new = in(reg) new, found = out(reg) found,
        failed = out(reg) _,
    );
    fence(Ordering::SeqCst);
    done.then_some(found)
}

/// Loads the identifiers and `rseq_cs` of the `struct rseq` at `at`, and stores `ids` if those found differ,
/// all in one window. Returns the identifiers found, as two words, and `rseq_cs`; `None` on a fault, after
/// which the first identifiers may have been stored.
///
/// # Safety
/// `at..at+32` lies below `USER_END`.
#[inline(never)]
pub unsafe fn exchange_rseq(at: usize, ids: [u64; 2]) -> Option<[u64; 3]> {
    let words = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let (a, b, c, d, e, f): (u32, u32, u32, u32, u32, u32);
    let done = user_asm!(
        [],
        faulting!("ldm {at}, {{r0, r1, r2, r3}}", "3f"),
        faulting!("ldrd r4, r5, [{at}, #{node}]", "3f"),
        "ldr {new}, [{ids}]",
        "cmp {new}, r0",
        "ldreq {new}, [{ids}, #4]",
        "cmpeq {new}, r1",
        "ldreq {new}, [{ids}, #8]",
        "cmpeq {new}, r4",
        "ldreq {new}, [{ids}, #12]",
        "cmpeq {new}, r5",
        "beq 6f",
        "ldr {new}, [{ids}]",
        faulting!("str {new}, [{at}]", "3f"),
        "ldr {new}, [{ids}, #4]",
        faulting!("str {new}, [{at}, #4]", "3f"),
        "ldr {new}, [{ids}, #8]",
        faulting!("str {new}, [{at}, #{node}]", "3f"),
        "ldr {new}, [{ids}, #12]",
        faulting!("str {new}, [{at}, #{cid}]", "3f"),
        "6:";
        at = in(reg) at, ids = in(reg) &raw const ids, new = out(reg) _,
        node = const field::NODE_ID, cid = const field::MM_CID,
        out("r0") a, out("r1") b, out("r2") c, out("r3") d, out("r4") e, out("r5") f,
    );
    done.then_some([words(a, b), words(e, f), words(c, d)])
}

/// Whether the legacy area of restartable sequences whose address is `AREA_AT` behind `near` says what the
/// four words `TOLD` behind `near` say (`cpu_id_start`, `cpu_id`, `node_id`, `mm_cid`), and no critical
/// section (`rseq_cs` is 0). `false` on a fault as well. The window closes for good with the next barrier,
/// which the next window or the way out has.
///
/// # Safety
/// Both can be read, and the area lies below `USER_END`. The words may be written meanwhile.
#[inline(always)]
pub unsafe fn rseq_as_told<const AREA_AT: usize, const TOLD: usize>(near: *const u8) -> bool {
    // One instruction loads the address and the first word; one the first four words of the area.
    const { assert!(field::CPU_ID_START == 0 && field::RSEQ_CS == 8) };
    const { assert!(TOLD == AREA_AT + 4 && TOLD + 8 < 256) };
    windows::opens();
    // SAFETY: the caller's promise; a fault is as a difference. Both states of the window are loaded by one
    // instruction, from behind the last branch; the flags keep what the first words say.
    unsafe {
        asm!(
            ".pushsection __pan_sites, \"a\"\n.balign 4\n.long 4f - ., 5f - ., 6f - .\n.popsection",
            "ldrd r0, r1, [{near}, #{area}]",
            "ldrd r2, r3, 7f",
            concat!("4: mcr p15, 0, r2, ", window_register!()),
            "isb",
            faulting!("ldm r0, {{r2, r4, r7, r12}}", "3f"),
            "cmp r2, r1",
            "cmpeq r4, r1",
            faulting!("ldrd r0, r1, [r0, #{node}]", "3f"),
            concat!("5: mcr p15, 0, r3, ", window_register!()),
            "ldrd r2, r3, [{near}, #{told} + 8]",
            "orrseq r7, r7, r12",
            "cmpeq r0, r2",
            "cmpeq r1, r3",
            "beq {yes}",
            "b {no}",
            "7: .long {open}, {closed}",
            ".pushsection .text.uaccess, \"ax\"",
            concat!("3:6: mcr p15, 0, r3, ", window_register!()),
            "isb",
            "b {no}",
            ".popsection",
            near = in(reg) near,
            area = const AREA_AT,
            told = const TOLD,
            node = const field::NODE_ID,
            out("r0") _,
            out("r1") _,
            out("r2") _,
            out("r3") _,
            out("r4") _,
            out("r7") _,
            out("r12") _,
            open = const mmu::OPEN,
            closed = const mmu::CLOSED,
            yes = label { return true },
            no = label {},
            options(noreturn, nostack, readonly),
        );
    }
    false
}

/// The top bits of a word's bytes of which the lowest set one says which byte is the first that is zero.
fn zero_bytes(word: u32) -> u32 {
    word.wrapping_sub(0x0101_0101) & !word & 0x8080_8080
}

/// Copies a string up to and including its NUL, at most `max` bytes: the length without the NUL (`max` if
/// there was none), `None` on a fault.
///
/// # Safety
/// `to` is valid for `max` bytes; `from..from+max` lies below `USER_END`.
#[inline(never)]
pub unsafe fn copy_string_from_user(to: *mut u8, from: usize, max: usize) -> Option<usize> {
    while_open(|| {
        let (start, mut to, mut from) = (to as usize, to as usize, from);
        let end = start + max;
        while end - to >= 4 {
            // SAFETY: as the caller promises: there are four bytes at least.
            let word = unsafe {
                if !FromUser.word::<0>(to, from) {
                    break;
                }
                (to as *const u32).read_unaligned()
            };
            let zero = zero_bytes(word);
            if zero != 0 {
                return Some(to - start + zero.trailing_zeros() as usize / 8);
            }
            (to, from) = (to + 4, from + 4);
        }
        while to < end {
            // SAFETY: the caller promises that what is left lies inside the ranges.
            unsafe {
                if !FromUser.byte(to, from) {
                    return None;
                }
                if (to as *const u8).read() == 0 {
                    break;
                }
            }
            (to, from) = (to + 1, from + 1);
        }
        Some(to - start)
    })
}

/// Cleans data caches of user memory up to where instruction fetch sees it. The pages are brought in;
/// `EFAULT` if they are not there.
///
/// The range, within one page, lies below `USER_END`.
pub fn clean_user(start: usize, end: usize) -> Result<(), Errno> {
    let line = mmu::line();
    while_open(|| {
        for addr in (start & !(line - 1)..end).step_by(line) {
            // SAFETY: cleaning (DCCMVAU) changes no memory contents; faults are in the exception table.
            unsafe {
                asm!(
                    faulting!("mcr p15, 0, {addr}, c7, c11, 1", "{fault}"),
                    addr = in(reg) addr, fault = label { return Err(Errno::EFAULT) },
                    options(nostack, preserves_flags)
                );
            }
        }
        Ok(())
    })
}

/// For `nofault`: reads a word to where it says. 0 if that faults, at the first instruction.
///
/// # Safety
/// The word is no device's; where it goes is the caller's.
#[unsafe(naked)]
pub unsafe extern "C" fn nofault_load(addr: usize, to: *mut u32) -> usize {
    naked_asm!(
        "2: ldr r2, [r0]",
        "str r2, [r1]",
        "mov r0, #1",
        "bx lr",
        "4: mov r0, #0",
        "bx lr",
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
        "2: str r1, [r0]",
        "mov r0, #1",
        "bx lr",
        "4: mov r0, #0",
        "bx lr",
        may_fault!("2b", "4b")
    )
}
