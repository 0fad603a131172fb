//! Copies to and from user memory that may fault. The window (SMAP, PAN) is open only inside these. Ranges were checked against
//! `USER_END` by the caller (`mm::user`). A page that is not there is faulted in; an unresolvable fault ends the copy.

/// Copies `len` bytes from user `from` to kernel `to`; returns how many were *not* copied.
///
/// # Safety
/// `to` is valid for `len` bytes; `from..from+len` lies below `USER_END`.
pub unsafe fn copy_from_user(to: *mut u8, from: usize, len: usize) -> usize {
    let _ = (to, from);
    len
}

/// Copies `len` bytes from kernel `from` to user `to`; returns how many were *not* copied.
///
/// # Safety
/// `from` is valid for `len` bytes; `to..to+len` lies below `USER_END`.
pub unsafe fn copy_to_user(to: usize, from: *const u8, len: usize) -> usize {
    let _ = (to, from);
    len
}

/// Zeroes user memory; returns how many bytes were *not* cleared.
///
/// # Safety
/// `to..to+len` lies below `USER_END`.
pub unsafe fn clear_user(to: usize, len: usize) -> usize {
    let _ = to;
    len
}

/// Reads a naturally aligned user word atomically; `None` on a fault.
///
/// # Safety
/// `addr..addr+4` lies below `USER_END`.
pub unsafe fn load_u32(addr: usize) -> Option<u32> {
    let _ = addr;
    None
}

/// Writes a naturally aligned user word atomically; `false` on a fault.
///
/// # Safety
/// `addr..addr+4` lies below `USER_END`.
pub unsafe fn store_u32(addr: usize, value: u32) -> bool {
    let _ = (addr, value);
    false
}

/// Compare-and-exchange of a naturally aligned user word: the value found, `None` on a fault.
///
/// # Safety
/// `addr..addr+4` lies below `USER_END`.
pub unsafe fn cmpxchg_u32(addr: usize, expected: u32, new: u32) -> Option<u32> {
    let _ = (addr, expected, new);
    None
}

/// Copies a string up to and including its NUL, at most `max` bytes: the length without the NUL (`max` if there was none), `None` on a fault.
///
/// # Safety
/// `to` is valid for `max` bytes; `from..from+max` lies below `USER_END`.
pub unsafe fn copy_string_from_user(to: *mut u8, from: usize, max: usize) -> Option<usize> {
    let _ = (to, from, max);
    None
}
