//! Copying and filling memory: the order in which chunks, words and bytes are moved, and how many bytes
//! remain when a move faults.
//!
//! The caller provides the moves ([`Moves`]): instructions of an architecture that move several words at a
//! time, and that may fault. This crate only handles addresses, except that strings are read at the place to
//! which they were copied.

#![cfg_attr(not(test), no_std)]

/// Moves of each size, from one address to another. A move that fails may have moved some of its bytes.
///
/// A move does all of its loads before its stores.
pub trait Moves {
    /// The size of a word in bytes, a power of two.
    const WORD: usize;
    /// The size of a chunk in bytes, a power of two and at least four words.
    const CHUNK: usize;
    /// The alignment of chunks' addresses.
    const ALIGN: usize = Self::WORD;
    /// Whether there are moves of four and two bytes, if a word has eight. Then single bytes are moved only
    /// behind a move that failed.
    const PARTS: bool = false;

    /// Moves `count` chunks, at least one, from the first on, between addresses that are multiples of
    /// [`Self::ALIGN`]. Ends at the first one that fails. Returns the target and source addresses behind the
    /// chunks that were moved, and whether that was all of them.
    ///
    /// # Safety
    /// The caller may read and write there, or the move fails without harm.
    unsafe fn chunks(&self, to: usize, from: usize, count: usize) -> (usize, usize, bool);

    /// Moves the word that is `AT` words behind the addresses, which may be any. `false`: it failed.
    ///
    /// # Safety
    /// As for chunks.
    unsafe fn word<const AT: usize>(&self, to: usize, from: usize) -> bool;

    /// Moves four or two bytes between any addresses, if there are such moves. `false`: it failed.
    ///
    /// # Safety
    /// As for chunks.
    unsafe fn part<const BYTES: usize>(&self, to: usize, from: usize) -> bool {
        let _ = (to, from);
        false
    }

    /// Moves a byte. `false`: it failed.
    ///
    /// # Safety
    /// As for chunks.
    unsafe fn byte(&self, to: usize, from: usize) -> bool;
}

/// Moves `len` bytes from the first on, up to the first byte that cannot be moved. Returns how many were
/// *not* moved. The target must not begin inside the source.
///
/// # Safety
/// As for [`Moves::chunks`], for `len` bytes.
#[inline(always)]
pub unsafe fn copy<M: Moves>(moves: &M, mut to: usize, mut from: usize, len: usize) -> usize {
    let end = to.wrapping_add(len);
    // SAFETY: as the caller promises. What is moved to `to` and behind it ends at `end`.
    unsafe {
        'wide: {
            // Moves the part for which a bit of the length stands.
            macro_rules! part {
                ($bytes:expr, $moved:expr) => {
                    if len & $bytes != 0 {
                        if !$moved {
                            break 'wide;
                        }
                        (to, from) = (to.wrapping_add($bytes), from.wrapping_add($bytes));
                    }
                };
            }
            if len >= M::WORD {
                if len >= 4 * M::WORD {
                    if len >= M::CHUNK && (to | from).is_multiple_of(M::ALIGN) {
                        let all;
                        (to, from, all) = moves.chunks(to, from, len / M::CHUNK);
                        if !all {
                            break 'wide;
                        }
                    }
                    // Larger chunks leave a larger rest.
                    let rest = M::CHUNK > 4 * M::WORD || M::ALIGN > 1;
                    while rest && end.wrapping_sub(to) >= 4 * M::WORD {
                        let first = moves.word::<0>(to, from) && moves.word::<1>(to, from);
                        if !(first && moves.word::<2>(to, from) && moves.word::<3>(to, from)) {
                            break 'wide;
                        }
                        (to, from) = (to.wrapping_add(4 * M::WORD), from.wrapping_add(4 * M::WORD));
                    }
                }
                part!(
                    2 * M::WORD,
                    moves.word::<0>(to, from) && moves.word::<1>(to, from)
                );
                part!(M::WORD, moves.word::<0>(to, from));
            }
            if M::PARTS {
                part!(4, moves.part::<4>(to, from));
                part!(2, moves.part::<2>(to, from));
                if len & 1 == 0 || moves.byte(to, from) {
                    return 0;
                }
            }
        }
        // The rest; or, behind a wide move that failed, up to exactly the byte that cannot be moved.
        while to != end && moves.byte(to, from) {
            (to, from) = (to.wrapping_add(1), from.wrapping_add(1));
        }
    }
    end.wrapping_sub(to)
}

/// Moves `len` bytes from the last on, where no move fails. The source must not begin inside the target.
///
/// # Safety
/// As for [`copy`].
#[inline(always)]
pub unsafe fn copy_backwards<M: Moves>(moves: &M, to: usize, from: usize, len: usize) {
    let mut left = len;
    // SAFETY: as the caller promises: the first `left` bytes are part of the ranges.
    unsafe {
        if M::ALIGN == 1 {
            // Chunks would have to be moved one by one.
            while let Some(rest) = left.checked_sub(4 * M::WORD) {
                left = rest;
                let (to, from) = (to + left, from + left);
                let last = moves.word::<3>(to, from) && moves.word::<2>(to, from);
                let _ = last && moves.word::<1>(to, from) && moves.word::<0>(to, from);
            }
        } else if ((to + len) | (from + len)).is_multiple_of(M::ALIGN) {
            while let Some(rest) = left.checked_sub(M::CHUNK) {
                left = rest;
                moves.chunks(to + left, from + left, 1);
            }
        }
        while let Some(rest) = left.checked_sub(M::WORD) {
            left = rest;
            moves.word::<0>(to + left, from + left);
        }
        while left > 0 {
            left -= 1;
            moves.byte(to + left, from + left);
        }
    }
}

/// Copies a string up to and including its NUL, at most `max` bytes, with moves of a `usize` and of a byte
/// (like [`Moves::word`] and [`Moves::byte`]), in little-endian order. Returns the length without the NUL, or
/// `max` if there is no NUL. `None`: a byte cannot be moved. The rest of the `max` bytes may have been
/// overwritten.
///
/// # Safety
/// As for [`copy`], for `max` bytes. What was moved to `to` can be read there.
#[inline(always)]
pub unsafe fn copy_string(
    word: impl Fn(usize, usize) -> bool,
    byte: impl Fn(usize, usize) -> bool,
    (to, from, max): (*mut u8, usize, usize),
) -> Option<usize> {
    const WORD: usize = size_of::<usize>();
    const ONES: usize = usize::MAX / 255;
    let mut at = 0;
    // SAFETY: as the caller promises: `at`, or `at` and a word, is at most `max`.
    unsafe {
        while max - at >= WORD && word(to as usize + at, from + at) {
            let bytes = to.add(at).cast::<usize>().read_unaligned();
            // The lowest set bit marks the first zero byte.
            let zeroes = bytes.wrapping_sub(ONES) & !bytes & ONES << 7;
            if zeroes != 0 {
                return Some(at + zeroes.trailing_zeros() as usize / 8);
            }
            at += WORD;
        }
        while at < max {
            if !byte(to as usize + at, from + at) {
                return None;
            }
            if to.add(at).read() == 0 {
                break;
            }
            at += 1;
        }
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    const CHUNK: usize = 32;

    /// Bytes, of which those from `end` on cannot be loaded (or, if `store`, stored). A word has `WORD`
    /// bytes; if these are eight, chunks may be at any address.
    struct Memory<const WORD: usize> {
        bytes: RefCell<Vec<u8>>,
        end: usize,
        store: bool,
    }

    impl<const WORD: usize> Memory<WORD> {
        fn new(end: usize, store: bool) -> Self {
            let bytes = (0..SIZE).map(|n| (n * 7 + n / 256) as u8).collect();
            Self {
                bytes: RefCell::new(bytes),
                end,
                store,
            }
        }
        /// Moves `n` bytes; if the move fails, only some of them.
        fn all(&self, to: usize, from: usize, n: usize) -> bool {
            let mut bytes = self.bytes.borrow_mut();
            let side = if self.store { to } else { from };
            let there = self.end.saturating_sub(side).min(n);
            let some = if there < n { there / 2 } else { n };
            bytes.copy_within(from..from + some, to);
            there == n
        }
    }

    impl<const WORD: usize> Moves for Memory<WORD> {
        const WORD: usize = WORD;
        const CHUNK: usize = CHUNK;
        const ALIGN: usize = if WORD == 8 { 1 } else { WORD };
        const PARTS: bool = WORD == 8;
        unsafe fn chunks(&self, to: usize, from: usize, count: usize) -> (usize, usize, bool) {
            assert!(count > 0 && (to | from).is_multiple_of(Self::ALIGN));
            let moved = (0..count).take_while(|n| self.all(to + n * CHUNK, from + n * CHUNK, CHUNK));
            let moved = moved.count();
            (to + moved * CHUNK, from + moved * CHUNK, moved == count)
        }
        unsafe fn word<const AT: usize>(&self, to: usize, from: usize) -> bool {
            self.all(to + AT * WORD, from + AT * WORD, WORD)
        }
        unsafe fn part<const BYTES: usize>(&self, to: usize, from: usize) -> bool {
            self.all(to, from, BYTES)
        }
        unsafe fn byte(&self, to: usize, from: usize) -> bool {
            self.all(to, from, 1)
        }
    }

    const SIZE: usize = 1024;
    const TO: usize = 512;

    #[test]
    fn every_length_at_every_alignment() {
        every_length_at_every_alignment_by::<4>();
        every_length_at_every_alignment_by::<8>();
    }

    fn every_length_at_every_alignment_by<const WORD: usize>() {
        for len in 0..3 * CHUNK + 5 {
            for (to, from) in (0..8).flat_map(|to| (0..8).map(move |from| (TO + to, from))) {
                for backwards in [false, true] {
                    let memory = Memory::<WORD>::new(SIZE, false);
                    let mut expected = memory.bytes.borrow().clone();
                    expected.copy_within(from..from + len, to);
                    // SAFETY: both lie inside.
                    unsafe {
                        if backwards {
                            copy_backwards(&memory, to, from, len);
                        } else {
                            assert_eq!(copy(&memory, to, from, len), 0);
                        }
                    }
                    assert!(*memory.bytes.borrow() == expected, "{len} from {from} to {to}");
                }
            }
        }
    }

    #[test]
    fn parts_of_itself() {
        parts_of_itself_by::<4>();
        parts_of_itself_by::<8>();
    }

    fn parts_of_itself_by<const WORD: usize>() {
        for len in 0..3 * CHUNK + 5 {
            for (start, distance) in (0..4).flat_map(|start| (0..40).map(move |by| (start, by))) {
                let (low, high) = (64 + start, 64 + start + distance);
                let memory = Memory::<WORD>::new(SIZE, false);
                let mut expected = memory.bytes.borrow().clone();
                expected.copy_within(high..high + len, low);
                // SAFETY: both lie inside.
                unsafe { copy(&memory, low, high, len) };
                assert!(*memory.bytes.borrow() == expected, "{len} down by {distance}");
                expected.copy_within(low..low + len, high);
                // SAFETY: both lie inside, whichever way the copy goes.
                unsafe { copy_backwards(&memory, high, low, len) };
                assert!(*memory.bytes.borrow() == expected, "{len} up by {distance}");
            }
        }
    }

    #[test]
    fn up_to_the_very_byte() {
        up_to_the_very_byte_by::<4>();
        up_to_the_very_byte_by::<8>();
    }

    fn up_to_the_very_byte_by<const WORD: usize>() {
        for len in 0..2 * CHUNK + 5 {
            for (to, from) in (0..4).flat_map(|to| (0..4).map(move |from| (TO + to, from))) {
                for (there, store) in (0..len + 2).flat_map(|there| [(there, false), (there, true)]) {
                    let memory = Memory::<WORD>::new(if store { to } else { from } + there, store);
                    let mut expected = memory.bytes.borrow().clone();
                    let done = there.min(len);
                    expected.copy_within(from..from + done, to);
                    // SAFETY: both lie inside, or fail.
                    assert_eq!(unsafe { copy(&memory, to, from, len) }, len - done);
                    assert!(
                        *memory.bytes.borrow() == expected,
                        "{done} of {len} from {from} to {to}"
                    );
                }
            }
        }
    }

    #[test]
    fn strings() {
        for (start, len, max) in
            (0..8).flat_map(|s| (0..40).flat_map(move |l| (0..42).map(move |m| (s, l, m))))
        {
            let mut from: Vec<u8> = (0..64).map(|n| 0x80 | n ^ 0x2a).collect();
            from[start + len] = 0;
            for there in 0..start + len + 3 {
                let mut to = [1u8; 64];
                let base = from.as_ptr() as usize;
                // What lies from `there` on cannot be loaded.
                let moves = |to: usize, from: usize, n: usize| {
                    let can = from + n <= base + there;
                    if can {
                        // SAFETY: the arrays above.
                        unsafe { core::ptr::copy(from as *const u8, to as *mut u8, n) };
                    }
                    can
                };
                let word = |to, from| moves(to, from, size_of::<usize>());
                let byte = |to, from| moves(to, from, 1);
                // SAFETY: both arrays are longer than `max`.
                let copied = unsafe { copy_string(word, byte, (to.as_mut_ptr(), base + start, max)) };
                let needed = if len < max { len + 1 } else { max };
                let expected = (start + needed <= there || needed == 0).then_some(len.min(max));
                assert_eq!(copied, expected, "{len} at {start}, at most {max}, {there} there");
                if copied.is_some() {
                    assert_eq!(to[..needed], from[start..start + needed]);
                }
                assert!(to[max..].iter().all(|byte| *byte == 1));
            }
        }
    }
}
