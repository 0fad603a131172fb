//! Copying and filling memory: in which order chunks, words and bytes are moved, and what is left when some of it turns out not to be there.
//!
//! What moves them is the caller's ([`Moves`]): instructions of an architecture that move several words at a time, and those that may fault. Here is
//! no access to memory, only addresses.

#![cfg_attr(not(test), no_std)]

/// Moves of each size, from an address to another. One that fails may have moved some of its bytes.
///
/// All that a move loads it loads before it stores anything.
pub trait Moves {
    /// Bytes of a word, a power of two.
    const WORD: usize;
    /// Bytes of a chunk, a power of two and at least four words.
    const CHUNK: usize;

    /// Moves `count` chunks, at least one, the first ones first, between addresses that are multiples of [`Self::WORD`]. Ends with the first that
    /// fails; returns where target and source go on behind those that were moved, and whether that is all of them.
    ///
    /// # Safety
    /// They are the caller's to be read and written, or the move fails without harm.
    unsafe fn chunks(&self, to: usize, from: usize, count: usize) -> (usize, usize, bool);

    /// Moves the word `AT` words behind the addresses, which may be any: `true` if that did not fail.
    ///
    /// # Safety
    /// As for chunks.
    unsafe fn word<const AT: usize>(&self, to: usize, from: usize) -> bool;

    /// Moves a byte: `true` if that did not fail.
    ///
    /// # Safety
    /// As for chunks.
    unsafe fn byte(&self, to: usize, from: usize) -> bool;
}

/// Moves `len` bytes, the first ones first, up to the first byte that cannot be moved; returns how many were *not* moved. The target may not begin
/// inside the source.
///
/// # Safety
/// As for [`Moves::chunks`], for `len` bytes.
#[inline(always)]
pub unsafe fn copy<M: Moves>(moves: &M, mut to: usize, mut from: usize, len: usize) -> usize {
    let end = to.wrapping_add(len);
    // SAFETY: as the caller promises: what is moved from `to` on ends at `end`.
    unsafe {
        'wide: {
            if len < M::WORD {
                break 'wide;
            }
            if len >= 4 * M::WORD {
                if len >= M::CHUNK && (to | from).is_multiple_of(M::WORD) {
                    let all;
                    (to, from, all) = moves.chunks(to, from, len / M::CHUNK);
                    if !all {
                        break 'wide;
                    }
                }
                while end.wrapping_sub(to) >= 4 * M::WORD {
                    let first = moves.word::<0>(to, from) && moves.word::<1>(to, from);
                    if !(first && moves.word::<2>(to, from) && moves.word::<3>(to, from)) {
                        break 'wide;
                    }
                    (to, from) = (to.wrapping_add(4 * M::WORD), from.wrapping_add(4 * M::WORD));
                }
            }
            let left = end.wrapping_sub(to);
            if left & (2 * M::WORD) != 0 {
                if !(moves.word::<0>(to, from) && moves.word::<1>(to, from)) {
                    break 'wide;
                }
                (to, from) = (to.wrapping_add(2 * M::WORD), from.wrapping_add(2 * M::WORD));
            }
            if left & M::WORD != 0 {
                if !moves.word::<0>(to, from) {
                    break 'wide;
                }
                (to, from) = (to.wrapping_add(M::WORD), from.wrapping_add(M::WORD));
            }
        }
        // What is left, or, behind a wide move that failed, up to the very byte.
        while to != end && moves.byte(to, from) {
            (to, from) = (to.wrapping_add(1), from.wrapping_add(1));
        }
    }
    end.wrapping_sub(to)
}

/// Moves `len` bytes, the last ones first, where no move fails. The source may not begin inside the target.
///
/// # Safety
/// As for [`copy`].
#[inline(always)]
pub unsafe fn copy_backwards<M: Moves>(moves: &M, to: usize, from: usize, len: usize) {
    let mut left = len;
    // SAFETY: as the caller promises: the first `left` bytes are part of what it speaks of.
    unsafe {
        if ((to + len) | (from + len)).is_multiple_of(M::WORD) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    const WORD: usize = 4;
    const CHUNK: usize = 32;

    /// A memory of bytes by index, of which what lies from `end` on cannot be loaded (or, if `store`, stored).
    struct Memory {
        bytes: RefCell<Vec<u8>>,
        end: usize,
        store: bool,
    }

    impl Memory {
        fn new(end: usize, store: bool) -> Self {
            let bytes = (0..SIZE).map(|n| (n * 7 + n / 256) as u8).collect();
            Self {
                bytes: RefCell::new(bytes),
                end,
                store,
            }
        }
        /// Moves `n` bytes; of a move that fails, some.
        fn all(&self, to: usize, from: usize, n: usize) -> bool {
            let mut bytes = self.bytes.borrow_mut();
            let side = if self.store { to } else { from };
            let there = self.end.saturating_sub(side).min(n);
            let some = if there < n { there / 2 } else { n };
            bytes.copy_within(from..from + some, to);
            there == n
        }
    }

    impl Moves for Memory {
        const WORD: usize = WORD;
        const CHUNK: usize = CHUNK;
        unsafe fn chunks(&self, to: usize, from: usize, count: usize) -> (usize, usize, bool) {
            assert!(count > 0 && to.is_multiple_of(WORD) && from.is_multiple_of(WORD));
            let moved = (0..count).take_while(|n| self.all(to + n * CHUNK, from + n * CHUNK, CHUNK));
            let moved = moved.count();
            (to + moved * CHUNK, from + moved * CHUNK, moved == count)
        }
        unsafe fn word<const AT: usize>(&self, to: usize, from: usize) -> bool {
            self.all(to + AT * WORD, from + AT * WORD, WORD)
        }
        unsafe fn byte(&self, to: usize, from: usize) -> bool {
            self.all(to, from, 1)
        }
    }

    const SIZE: usize = 1024;
    const TO: usize = 512;

    #[test]
    fn every_length_at_every_alignment() {
        for len in 0..3 * CHUNK + 5 {
            for (to, from) in (0..8).flat_map(|to| (0..8).map(move |from| (TO + to, from))) {
                for backwards in [false, true] {
                    let memory = Memory::new(SIZE, false);
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
        for len in 0..3 * CHUNK + 5 {
            for (start, distance) in (0..4).flat_map(|start| (0..40).map(move |by| (start, by))) {
                let (low, high) = (64 + start, 64 + start + distance);
                let memory = Memory::new(SIZE, false);
                let mut expected = memory.bytes.borrow().clone();
                expected.copy_within(high..high + len, low);
                // SAFETY: both lie inside.
                unsafe { copy(&memory, low, high, len) };
                assert!(*memory.bytes.borrow() == expected, "{len} down by {distance}");
                expected.copy_within(low..low + len, high);
                // SAFETY: as above.
                unsafe { copy_backwards(&memory, high, low, len) };
                assert!(*memory.bytes.borrow() == expected, "{len} up by {distance}");
            }
        }
    }

    #[test]
    fn up_to_the_very_byte() {
        for len in 0..2 * CHUNK + 5 {
            for (to, from) in (0..4).flat_map(|to| (0..4).map(move |from| (TO + to, from))) {
                for (there, store) in (0..len + 2).flat_map(|there| [(there, false), (there, true)]) {
                    let memory = Memory::new(if store { to } else { from } + there, store);
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
}
