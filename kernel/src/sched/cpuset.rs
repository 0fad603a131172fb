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
    /// of each eight. `None`: it is none, or names a CPU that does not exist. `count` CPUs do.
    pub fn from_list(list: &str, count: usize) -> Option<Self> {
        let last_cpu = count.min(MAX_CPUS).checked_sub(1)?;
        let number = |word: &str| match word {
            "N" => Some(last_cpu),
            _ if word.bytes().all(|byte| byte.is_ascii_digit()) => word.parse::<usize>().ok(),
            _ => None,
        };
        let mut set = Self::EMPTY;
        for part in list.split(',').filter(|part| !part.is_empty()) {
            let (range, share) = match part.split_once(':') {
                Some((range, share)) => (range, Some(share)),
                None => (part, None),
            };
            let (first, last) = match range.split_once('-') {
                _ if range.eq_ignore_ascii_case("all") => (0, last_cpu),
                Some((first, last)) => (number(first)?, number(last)?),
                None if share.is_some() => return None,
                None => (number(range)?, number(range)?),
            };
            let (used, group) = match share {
                Some(share) => {
                    let (used, group) = share.split_once('/')?;
                    (number(used)?, number(group)?)
                }
                None => (1, 1),
            };
            if first > last || last > last_cpu || group == 0 || used > group {
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
