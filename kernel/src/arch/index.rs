//! Indices that user space chooses. They are compared before they are used, but a processor that guesses the
//! outcome wrong reads ahead with whatever it was given, and what it did then can be measured. The index is
//! therefore cut off as well, by arithmetic, which is not guessed.

use super::cpu;
use core::arch::asm;

/// Keeps an index that was found to be less than `LEN`, a power of two, below it. One instruction.
#[inline(always)]
pub fn within<const LEN: usize>(index: usize) -> usize {
    const { assert!(LEN.is_power_of_two()) };
    let mut unknown = index;
    // SAFETY: nothing; the compiler no longer knows that the index is less, and does not leave out what
    // follows.
    unsafe { asm!("/* {} */", inout(reg) unknown, options(pure, nomem, nostack, preserves_flags)) };
    unknown & (LEN - 1)
}

/// Keeps an index that was found to be less than `len` below it: it is 0 if it is not.
#[inline(always)]
pub fn below(index: usize, len: usize) -> usize {
    index & cpu::index_mask(index, len)
}

/// The element at `index`, which is found out as above.
#[inline(always)]
pub fn get<T>(slice: &[T], index: usize) -> Option<&T> {
    // SAFETY: the index is less than the length, and stays as it is then.
    (index < slice.len()).then(|| unsafe { slice.get_unchecked(below(index, slice.len())) })
}

/// As [`get`], to be changed.
#[inline(always)]
pub fn get_mut<T>(slice: &mut [T], index: usize) -> Option<&mut T> {
    let len = slice.len();
    // SAFETY: the index is less than the length, and stays less when speculated.
    (index < len).then(|| unsafe { slice.get_unchecked_mut(below(index, len)) })
}

/// The self-tests of what has no room of its own (see `boot::selftest`).
pub const TESTS: &[crate::selftest::Test] = &[("indices stay in their table", stay)];

fn stay() -> Result<(), &'static str> {
    for len in [1, 2, 63, 64, 1000, usize::MAX] {
        for index in [
            0,
            1,
            2,
            62,
            63,
            64,
            65,
            999,
            1000,
            1001,
            usize::MAX / 2,
            usize::MAX - 1,
            usize::MAX,
        ] {
            crate::check!(below(index, len) == if index < len { index } else { 0 });
        }
    }
    let mut five = [0, 1, 2, 3, 4];
    crate::check!((0..9).all(|index| get(&five, index) == five.get(index)));
    crate::check!(get_mut(&mut five, 4) == Some(&mut 4) && get_mut(&mut five, 5).is_none());
    crate::check!((0..200).all(|index| within::<64>(index) == index % 64));
    Ok(())
}
