//! Copies to and from user memory that may fault. User space (`mmu::close_user`) is open only inside these. Ranges were checked against
//! `USER_END` by the caller (`mm::user`). A page that is not there is faulted in; an unresolvable fault ends the copy.
//!
//! The loops are in `copy`.

pub use super::extable::fixup;
use super::mmu::{self, window_register};
use crate::rseq::{AREA_AT, TOLD};
use core::arch::asm;

unsafe extern "C" {
    fn copy_from_user_asm(to: *mut u8, from: usize, len: usize) -> usize;
    fn copy_to_user_asm(to: usize, from: *const u8, len: usize) -> usize;
    fn clear_user_asm(to: usize, len: usize) -> usize;
    fn copy_string_asm(to: *mut u8, from: usize, max: usize) -> isize;
    fn load_u32_asm(addr: usize) -> i64;
    fn cmpxchg_u32_asm(addr: usize, expected: u32, new: u32) -> i64;
    fn exchange_rseq_asm(at: usize, ids: &[u64; 2], found: &mut [u64; 3]) -> usize;
    fn save_fp_user_asm(to: usize) -> usize;
    fn load_fp_user_asm(from: usize) -> usize;
    fn clean_user_asm(start: usize, end: usize, line: usize) -> usize;
}

/// Copies `len` bytes from user `from` to kernel `to`; returns how many were *not* copied.
///
/// # Safety
/// `to` is valid for `len` bytes; `from..from+len` lies below `USER_END`.
#[inline(always)]
pub unsafe fn copy_from_user(to: *mut u8, from: usize, len: usize) -> usize {
    // SAFETY: as the caller promises; faults on the user side are in the exception table.
    unsafe { copy_from_user_asm(to, from, len) }
}

/// Copies `len` bytes from kernel `from` to user `to`; returns how many were *not* copied.
///
/// # Safety
/// `from` is valid for `len` bytes; `to..to+len` lies below `USER_END`.
#[inline(always)]
pub unsafe fn copy_to_user(to: usize, from: *const u8, len: usize) -> usize {
    // SAFETY: as above.
    unsafe { copy_to_user_asm(to, from, len) }
}

/// Zeroes user memory; returns how many bytes were *not* cleared.
///
/// # Safety
/// `to..to+len` lies below `USER_END`.
pub unsafe fn clear_user(to: usize, len: usize) -> usize {
    // SAFETY: as above.
    unsafe { clear_user_asm(to, len) }
}

/// Writes the floating-point record of a signal frame, all behind its mark, with the mark that ends the records: [`FP_RECORD`] bytes. `false` after
/// a fault.
///
/// # Safety
/// `to..to+FP_RECORD` lies below `USER_END`.
pub unsafe fn save_fp(to: usize) -> bool {
    // SAFETY: as above; a switch in between saves and restores the registers.
    unsafe { save_fp_user_asm(to) == 0 }
}

/// Sets the running user thread's floating-point registers from such a record; `false` after a fault, with some of them set.
///
/// # Safety
/// `from..from+FP_RECORD` lies below `USER_END`.
pub unsafe fn load_fp(from: usize) -> bool {
    // SAFETY: as above.
    unsafe { load_fp_user_asm(from) == 0 }
}

/// `d0` to `d31`, `FPSCR`, `FPEXC`, `FPINST`, `FPINST2`, each pair of words complete, and the end mark.
pub const FP_RECORD: usize = 256 + 6 * 4 + 4;

/// The next instruction, after label 2, may fault and then continues at label 3.
macro_rules! may_fault {
    ($access:literal) => {
        concat!(
            ".pushsection __ex_table, \"a\"\n.balign 4\n.long 2f - ., 3f - .\n.popsection\n2:",
            $access
        )
    };
}

/// Opens user space for a few instructions, and says whether none of them faulted. In brackets: another option of `asm!`.
macro_rules! in_window {
    ([$($option:ident)?], $($access:expr),+; $($operand:tt)*) => {{
        let fault: u32;
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

/// Reads 32 bits at any address; `None` on a fault.
///
/// # Safety
/// `addr..addr+4` lies below `USER_END`.
#[inline(always)]
pub unsafe fn get_u32(addr: usize) -> Option<u32> {
    let value: u32;
    in_window!([preserves_flags], may_fault!("ldr {value}, [{addr}]"); value = out(reg) value, addr = in(reg) addr,)
        .then_some(value)
}

/// Writes 32 bits at any address; `false` on a fault.
///
/// # Safety
/// `addr..addr+4` lies below `USER_END`.
#[inline(always)]
pub unsafe fn put_u32(addr: usize, value: u32) -> bool {
    in_window!([preserves_flags], may_fault!("str {value}, [{addr}]"); value = in(reg) value, addr = in(reg) addr,)
}

/// Reads 64 bits at any address; `None` on a fault.
///
/// # Safety
/// `addr..addr+8` lies below `USER_END`.
#[inline(always)]
pub unsafe fn get_u64(addr: usize) -> Option<u64> {
    let (low, high): (u32, u32);
    // Two words: a double word may not lie anywhere.
    in_window!(
        [preserves_flags], may_fault!("ldr {low}, [{addr}]"), may_fault!("ldr {high}, [{addr}, #4]");
        low = out(reg) low, high = out(reg) high, addr = in(reg) addr,
    )
    .then_some(u64::from(low) | u64::from(high) << 32)
}

/// Writes 64 bits at any address; `false` on a fault.
///
/// # Safety
/// `addr..addr+8` lies below `USER_END`.
#[inline(always)]
pub unsafe fn put_u64(addr: usize, value: u64) -> bool {
    in_window!(
        [preserves_flags], may_fault!("str {low}, [{addr}]"), may_fault!("str {high}, [{addr}, #4]");
        low = in(reg) value as u32, high = in(reg) (value >> 32) as u32, addr = in(reg) addr,
    )
}

/// Stores `count` words of 16 bits, at least one, to user `to` and every 8 bytes behind it, from kernel `from` and every 8 bytes behind that:
/// the results of `poll`. `false` after a fault, with some of them stored.
///
/// # Safety
/// `from` is readable for `8 * count - 6` bytes; `to..to + 8 * count` lies below `USER_END`.
pub unsafe fn put_u16s(to: usize, from: *const u8, count: usize) -> bool {
    in_window!(
        [], "8: ldrh {word}, [{from}], #8", may_fault!("strh {word}, [{to}], #8"), "subs {count}, {count}, #1", "bne 8b";
        word = out(reg) _, from = inout(reg) from => _, to = inout(reg) to => _, count = inout(reg) count => _,
    )
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
    let fault = unsafe { exchange_rseq_asm(at, &ids, &mut found) };
    (fault == 0).then_some(found)
}

// One instruction loads the address and the first word.
const _: () = assert!(TOLD == AREA_AT + 4 && TOLD + 8 < 256);

/// Whether the legacy area of restartable sequences whose address is [`AREA_AT`] behind `near` says what the four words [`TOLD`] behind `near` say
/// (`cpu_id_start`, `cpu_id`, `node_id`, `mm_cid`), and no critical section (`rseq_cs` is 0). `false` on a fault as well.
/// The window closes for good with the next barrier, which the next window or the way out has.
///
/// # Safety
/// Both can be read, the area lies below `USER_END`, and nobody writes the words meanwhile.
#[inline(always)]
pub unsafe fn rseq_says(near: *const u8) -> bool {
    // SAFETY: the caller's promise; a fault is as a difference. Both states of the window are loaded by one instruction, from behind the last branch; the
    // flags keep what the first words say.
    unsafe {
        asm!(
            ".pushsection __pan_sites, \"a\"\n.balign 4\n.long 4f - ., 5f - ., 6f - .\n.popsection",
            "ldrd r0, r1, [{near}, #{area}]",
            "ldrd r2, r3, 7f",
            concat!("4: mcr p15, 0, r2, ", window_register!()),
            "isb",
            may_fault!("ldm r0, {{r2, r4, r7, r12}}"),
            "cmp r2, r1",
            "cmpeq r4, r1",
            may_fault!("ldrd r0, r1, [r0, #20]"),
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

/// Copies a string up to and including its NUL, at most `max` bytes: the length without the NUL (`max` if there was none), `None` on a fault.
///
/// # Safety
/// `to` is valid for `max` bytes; `from..from+max` lies below `USER_END`.
pub unsafe fn copy_string_from_user(to: *mut u8, from: usize, max: usize) -> Option<usize> {
    // SAFETY: as above.
    let n = unsafe { copy_string_asm(to, from, max) };
    usize::try_from(n).ok()
}

/// Cleans data caches of user memory up to where instruction fetch sees it. The pages are brought in; `EFAULT` if they are not there.
///
/// The range, within one page, lies below `USER_END`.
pub fn clean_user(start: usize, end: usize) -> Result<(), limen_linux_abi::Errno> {
    let line = mmu::line();
    // SAFETY: cleaning changes no memory contents; faults are in the exception table.
    match unsafe { clean_user_asm(start & !(line - 1), end, line) } {
        0 => Ok(()),
        _ => Err(limen_linux_abi::Errno::EFAULT),
    }
}
