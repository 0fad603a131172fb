//! Copies to and from user memory that may fault. User space (`mmu::close_user`) is open only inside these. Ranges were checked against
//! `USER_END` by the caller (`mm::user`). A page that is not there is faulted in; an unresolvable fault ends the copy.
//!
//! The loops are in `copy`.

use core::sync::atomic::AtomicU32;

unsafe extern "C" {
    fn copy_from_user_asm(to: *mut u8, from: usize, len: usize) -> usize;
    fn copy_to_user_asm(to: usize, from: *const u8, len: usize) -> usize;
    fn clear_user_asm(to: usize, len: usize) -> usize;
    fn copy_string_asm(to: *mut u8, from: usize, max: usize) -> isize;
    fn load_u32_asm(addr: usize) -> i64;
    fn cmpxchg_u32_asm(addr: usize, expected: u32, new: u32) -> i64;
    fn exchange_rseq_asm(at: usize, ids: &[u64; 2], found: &mut [u64; 3]) -> usize;
    fn clean_user_asm(start: usize, end: usize, line: usize) -> usize;
    fn rseq_says_asm(at: usize, ids: *const [AtomicU32; 4]) -> bool;
    static __ex_table_start: [i32; 0];
    static __ex_table_end: [i32; 0];
}

/// Where to go on if the instruction at `ip` faults and the fault cannot be resolved. `None`: it may not fault.
pub fn fixup(ip: usize) -> Option<usize> {
    let mut entry = (&raw const __ex_table_start).cast::<i32>();
    let end = (&raw const __ex_table_end).cast::<i32>();
    while entry < end {
        // SAFETY: the section is an array of pairs of offsets, each relative to itself.
        let (at, to) = unsafe {
            let second = entry.add(1);
            (
                (entry as usize).wrapping_add_signed(entry.read() as isize),
                (second as usize).wrapping_add_signed(second.read() as isize),
            )
        };
        if at == ip {
            return Some(to);
        }
        // SAFETY: still within the section or one past.
        entry = unsafe { entry.add(2) };
    }
    None
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

/// Reads 32 bits at any address; `None` on a fault.
///
/// # Safety
/// `addr..addr+4` lies below `USER_END`.
#[inline(always)]
pub unsafe fn get_u32(addr: usize) -> Option<u32> {
    let mut value = 0u32;
    // SAFETY: the caller's promise; `value` has room.
    let left = unsafe { copy_from_user((&raw mut value).cast(), addr, size_of::<u32>()) };
    (left == 0).then_some(value)
}

/// Writes 32 bits at any address; `false` on a fault.
///
/// # Safety
/// `addr..addr+4` lies below `USER_END`.
#[inline(always)]
pub unsafe fn put_u32(addr: usize, value: u32) -> bool {
    // SAFETY: the caller's promise; `value` is readable.
    unsafe { copy_to_user(addr, (&raw const value).cast(), size_of::<u32>()) == 0 }
}

/// Reads 64 bits at any address; `None` on a fault.
///
/// # Safety
/// `addr..addr+8` lies below `USER_END`.
#[inline(always)]
pub unsafe fn get_u64(addr: usize) -> Option<u64> {
    let mut value = 0u64;
    // SAFETY: the caller's promise; `value` has room.
    let left = unsafe { copy_from_user((&raw mut value).cast(), addr, size_of::<u64>()) };
    (left == 0).then_some(value)
}

/// Writes 64 bits at any address; `false` on a fault.
///
/// # Safety
/// `addr..addr+8` lies below `USER_END`.
#[inline(always)]
pub unsafe fn put_u64(addr: usize, value: u64) -> bool {
    // SAFETY: the caller's promise; `value` is readable.
    unsafe { copy_to_user(addr, (&raw const value).cast(), size_of::<u64>()) == 0 }
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

/// Whether the `struct rseq` at `at` says `ids` (`cpu_id_start`, `cpu_id`, `node_id`, `mm_cid`) and no critical section (`rseq_cs` is 0). `false` on a
/// fault as well.
///
/// # Safety
/// `at..at+32` lies below `USER_END`. `ids` is readable, and nobody writes it meanwhile.
#[inline(always)]
pub unsafe fn rseq_says(at: usize, ids: *const [AtomicU32; 4]) -> bool {
    // SAFETY: the caller's promise; a fault is as a difference.
    unsafe { rseq_says_asm(at, ids) }
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
    let line = super::mmu::line();
    // SAFETY: cleaning changes no memory contents; faults are in the exception table.
    match unsafe { clean_user_asm(start & !(line - 1), end, line) } {
        0 => Ok(()),
        _ => Err(limen_linux_abi::Errno::EFAULT),
    }
}
