//! Copies of many bytes to and from user memory, for architectures that lend vector registers to them: in
//! pieces, with interrupts off, so that whoever the registers belong to does not notice. A fault ends that,
//! since nothing can sleep then, and the architecture's loop for few bytes goes on.

use super::copy::{PIECE, copy_vectors};

/// How many pieces are copied with interrupts off.
const MOST: usize = 4096 / PIECE;

/// Copies `len` bytes; returns how many were *not* copied. `small` does the same for few bytes, and brings in
/// pages that are not there.
///
/// # Safety
/// One side is valid for `len` bytes, the other lies below `USER_END`.
#[inline(always)]
pub unsafe fn copy(
    to: usize,
    from: usize,
    len: usize,
    small: impl Fn(usize, usize, usize) -> usize,
) -> usize {
    if len < PIECE {
        small(to, from, len)
    } else {
        // SAFETY: as the caller promises.
        unsafe { large(to, from, len, small) }
    }
}

/// A piece or more. Usually one call of [`pieces`] does it all, so what the rest needs is a function of its
/// own.
#[inline(never)]
unsafe fn large(to: usize, from: usize, len: usize, small: impl Fn(usize, usize, usize) -> usize) -> usize {
    // SAFETY: as the caller promises.
    let (to, from, left, faulted) = unsafe { pieces(to, from, len) };
    if left == 0 {
        return 0;
    }
    // SAFETY: as the caller promises.
    unsafe { rest(to, from, left, faulted, small) }
}

/// Goes on behind what was copied, after a fault with the loop for few bytes.
#[inline(never)]
unsafe fn rest(
    mut to: usize,
    mut from: usize,
    mut len: usize,
    mut faulted: bool,
    small: impl Fn(usize, usize, usize) -> usize,
) -> usize {
    while len != 0 {
        if faulted || len < PIECE {
            let wanted = len.min(PIECE);
            let missing = small(to, from, wanted);
            if missing != 0 {
                return len - wanted + missing;
            }
            (to, from, len, faulted) = (to + wanted, from + wanted, len - wanted, false);
        } else {
            // SAFETY: as the caller promises.
            (to, from, len, faulted) = unsafe { pieces(to, from, len) };
        }
    }
    0
}

/// Copies the first pieces of `len` bytes, which are one or more; where the rest goes, where it comes from,
/// its bytes, and whether a fault ended it.
#[inline(always)]
unsafe fn pieces(to: usize, from: usize, len: usize) -> (usize, usize, usize, bool) {
    let pieces = (len / PIECE).min(MOST);
    // SAFETY: as the caller promises: not more than all.
    let (to, from, left) = unsafe { copy_vectors::<1>(to, from, pieces) };
    (to, from, len - (pieces - left) * PIECE, left != 0)
}
