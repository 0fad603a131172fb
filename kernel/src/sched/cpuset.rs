//! Sets of CPUs.

use crate::sync::MAX_CPUS;
use core::fmt;

const _: () = assert!(MAX_CPUS <= 64, "a CpuSet is one word");

/// A set of CPU numbers below [`MAX_CPUS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CpuSet(u64);

impl CpuSet {
    /// No CPU.
    pub const EMPTY: Self = Self(0);
    /// Every CPU there could be.
    pub const ALL: Self = Self(u64::MAX);

    /// From a list as Linux's command line has it: `1-3,5`, `all`, `N` for the last CPU, `0-31:2/8` for two
    /// of each eight. `None`: it is none, or names a number that cannot be a CPU. `count` CPUs exist.
    pub fn from_list(list: &str, count: usize) -> Option<Self> {
        let number = |word: &str| match word {
            "N" => Some(count.saturating_sub(1)),
            _ => word.parse().ok().filter(|n| *n < MAX_CPUS),
        };
        if list == "all" {
            return Some(Self(u64::MAX >> (64 - count.clamp(1, 64))));
        }
        let mut set = Self::EMPTY;
        for part in list.split(',') {
            let (range, used, group) = match part.split_once(':') {
                None => (part, 1, 1),
                Some((range, share)) => {
                    let (used, group) = share.split_once('/')?;
                    (range, used.parse::<usize>().ok()?, group.parse::<usize>().ok()?)
                }
            };
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last) = (number(first)?, number(last)?);
            if first > last || used == 0 || used > group {
                return None;
            }
            for n in (first..=last).filter(|n| (n - first) % group < used) {
                set = set.with(n);
            }
        }
        Some(set)
    }

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

/// As a list: `0-3,5`.
impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left = self.0;
        let mut comma = "";
        while left != 0 {
            let first = left.trailing_zeros();
            let length = (left >> first).trailing_ones();
            let last = first + length - 1;
            match length {
                1 => write!(f, "{comma}{first}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
            left &= !(u64::MAX >> (64 - length) << first);
            comma = ",";
        }
        Ok(())
    }
}
