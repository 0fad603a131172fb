//! The chains of locks that have been checked. This is only a cache: a chain that is not in it is checked
//! again.

use core::sync::atomic::{AtomicU64, Ordering};

/// A table of chain keys with two places for each; read without a lock.
pub(crate) struct ChainCache<const N: usize> {
    keys: [AtomicU64; N],
}

impl<const N: usize> ChainCache<N> {
    pub(crate) const fn new() -> Self {
        assert!(N.is_power_of_two() && N >= 2);
        Self {
            keys: [const { AtomicU64::new(0) }; N],
        }
    }
    #[inline]
    fn places(key: u64) -> [usize; 2] {
        let first = (key >> 20) as usize & (N - 1);
        [first, first ^ 1]
    }
    #[inline]
    pub(crate) fn has(&self, key: u64) -> bool {
        Self::places(key)
            .into_iter()
            .any(|p| self.keys[p].load(Ordering::Relaxed) == key)
    }
    /// If two chains collide, the newer one takes the first place.
    pub(crate) fn add(&self, key: u64) {
        let [first, second] = Self::places(key);
        let old = self.keys[first].swap(key, Ordering::Relaxed);
        self.keys[second].store(old, Ordering::Relaxed);
    }
}
