//! Copies to and from user memory that may fault, for architectures with the moves `Copy` and `Fill`. The
//! window to user memory is open only inside these. Ranges were checked against `USER_END` by the caller
//! (`mm::user`). A page that is not there is faulted in; an unresolvable fault ends the copy.

use super::copy::{Copy, Fill};
use super::large_copy;
use super::window::while_open;
use limen_memory::{Moves, copy_string};

/// What moves to and from user memory, with the window open.
const MOVES: Copy<1> = Copy;

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
