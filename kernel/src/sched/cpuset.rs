//! Sets of CPUs.

use crate::sync::MAX_CPUS;

const _: () = assert!(MAX_CPUS <= 64, "a CpuSet is one word");

/// A set of CPU numbers below [`MAX_CPUS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CpuSet(u64);

impl CpuSet {
    /// No CPU.
    pub const EMPTY: Self = Self(0);
    /// Every CPU there could be.
    pub const ALL: Self = Self(u64::MAX);

    /// From a word, bit `n` for CPU `n`.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
    /// As a word.
    pub const fn bits(self) -> u64 {
        self.0
    }
    /// One CPU.
    pub const fn single(cpu: usize) -> Self {
        Self(1 << cpu)
    }
    /// Whether `cpu` is in it.
    pub const fn contains(self, cpu: usize) -> bool {
        cpu < MAX_CPUS && self.0 & (1 << cpu) != 0
    }
    /// Whether none is in it.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
    /// How many are in it.
    pub const fn count(self) -> usize {
        self.0.count_ones() as usize
    }
    /// The CPUs that are in both sets.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
    /// With `cpu`.
    #[must_use]
    pub const fn with(self, cpu: usize) -> Self {
        Self(self.0 | 1 << cpu)
    }
    /// Without `cpu`.
    #[must_use]
    pub const fn without(self, cpu: usize) -> Self {
        Self(self.0 & !(1 << cpu))
    }
    /// The lowest.
    pub const fn first(self) -> Option<usize> {
        if self.0 == 0 {
            None
        } else {
            Some(self.0.trailing_zeros() as usize)
        }
    }
    /// The numbers, ascending.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut left = self.0;
        core::iter::from_fn(move || {
            if left == 0 {
                return None;
            }
            let n = left.trailing_zeros() as usize;
            left &= left - 1;
            Some(n)
        })
    }
}
