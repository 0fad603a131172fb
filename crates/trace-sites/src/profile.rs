//! The function profile: how often each function was called, and for how long; `trace_stat/functionN`. There
//! is one for each CPU. Counting is done in any context and allocates nothing.

use crate::{Error, Site};
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[derive(Debug, Default)]
struct Counts {
    hits: AtomicU64,
    time: AtomicU64,
    squares: AtomicU64,
}

/// What is known of a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// How often it was called.
    pub hits: u64,
    /// How long it took, in nanoseconds.
    pub time: u64,
    /// The sum of the squares of those times, in ns².
    pub squares: u64,
}

/// One CPU's profile, 24 bytes for each site.
#[derive(Debug, Default)]
pub struct Profile {
    counts: Vec<Counts>,
}

impl Profile {
    /// For the sites below `bound`.
    pub fn new(bound: u32) -> Result<Self, Error> {
        let mut counts = Vec::new();
        counts.try_reserve_exact(bound as usize)?;
        counts.resize_with(bound as usize, Counts::default);
        Ok(Self { counts })
    }
    /// A function is called.
    #[inline]
    pub fn hit(&self, site: Site) {
        if let Some(counts) = self.counts.get(site.index()) {
            counts.hits.fetch_add(1, Relaxed);
        }
    }
    /// A function returns after `time` nanoseconds.
    #[inline]
    pub fn returned(&self, site: Site, time: u64) {
        if let Some(counts) = self.counts.get(site.index()) {
            counts.time.fetch_add(time, Relaxed);
            counts.squares.fetch_add(time.wrapping_mul(time), Relaxed);
        }
    }
    /// What is known of a function.
    pub fn total(&self, site: Site) -> Total {
        self.counts
            .get(site.index())
            .map_or(Total::default(), |counts| Total {
                hits: counts.hits.load(Relaxed),
                time: counts.time.load(Relaxed),
                squares: counts.squares.load(Relaxed),
            })
    }
    /// Begins again with a function: its module has been unloaded.
    pub fn forget(&self, site: Site) {
        if let Some(counts) = self.counts.get(site.index()) {
            for count in [&counts.hits, &counts.time, &counts.squares] {
                count.store(0, Relaxed);
            }
        }
    }
    /// Begins again with all of them.
    pub fn reset(&self) {
        (0..self.counts.len() as u32).for_each(|index| self.forget(Site(index)));
    }
    /// Adds the functions that were called, by number from `first` on, to `all`.
    pub fn add_to(&self, all: &mut Vec<(Site, Total)>, first: u32) -> Result<(), Error> {
        // Functions may be called for the first time meanwhile: those are left out.
        let called = || {
            let totals = (0..self.counts.len() as u32).map(|index| (Site(index), self.total(Site(index))));
            totals.filter(|(_, total)| total.hits > 0)
        };
        let count = called().count();
        all.try_reserve(count)?;
        all.extend(
            called()
                .take(count)
                .map(|(site, total)| (Site(first + site.0), total)),
        );
        Ok(())
    }
}

/// Those with the most time or hits first.
pub fn sort(all: &mut [(Site, Total)], by: By) {
    all.sort_unstable_by_key(|&(site, total)| {
        let key = match by {
            By::Time => total.time,
            By::Hits => total.hits,
        };
        (core::cmp::Reverse(key), site)
    });
}

/// What the functions are sorted by, and whether times are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Times are known.
    Time,
    /// They are only counted.
    Hits,
}

impl By {
    /// What the file begins with.
    pub fn header(self) -> &'static str {
        match self {
            Self::Time => {
                "  Function                               Hit    Time            Avg             s^2\n  \
                 --------                               ---    ----            ---             ---\n"
            }
            Self::Hits => {
                "  Function                               Hit\n  \
                 --------                               ---\n"
            }
        }
    }
}

impl Total {
    /// The mean time, in nanoseconds.
    pub fn mean(&self) -> u64 {
        self.time.checked_div(self.hits).unwrap_or(0)
    }
    /// The sample variance, in thousands of ns².
    pub fn variance(&self) -> u64 {
        if self.hits < 2 {
            return 0;
        }
        let [hits, time, squares] = [self.hits, self.time, self.squares].map(u128::from);
        // Calls that have not returned yet have a hit and no time, and what has wrapped is of no use.
        let spread = (hits * squares).saturating_sub(time.saturating_mul(time));
        let variance = spread / hits.saturating_mul(hits - 1).saturating_mul(1000);
        u64::try_from(variance).unwrap_or(u64::MAX)
    }
}

/// Microseconds with so many decimals that there are seven digits, eight places wide.
struct Duration(u64);

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (micros, rest) = (self.0 / 1000, self.0 % 1000);
        let digits = micros.checked_ilog10().map_or(1, |log| log as usize + 1);
        write!(f, "{micros}")?;
        let mut width = digits;
        if digits < 7 {
            let decimals = (7 - digits).min(3);
            let shown = rest / 10_u64.pow(3 - decimals as u32);
            write!(f, ".{shown:0decimals$}")?;
            width += decimals + 1;
        }
        f.write_str(" us ")?;
        (width..8).try_for_each(|_| f.write_str(" "))
    }
}

/// A line of the file, with its end.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// The function.
    pub function: &'a str,
    /// What is known of it.
    pub total: Total,
    /// Whether times are known.
    pub by: By,
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = &self.total;
        write!(f, "  {:<30.30}  {:>10}", self.function, total.hits)?;
        if self.by == By::Time {
            let [time, mean, variance] = [total.time, total.mean(), total.variance()].map(Duration);
            write!(f, "    {time}    {mean}    {variance}")?;
        }
        f.write_str("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn durations_have_seven_digits() {
        for (ns, text) in [
            (0, "0.000 us    "),
            (1_234, "1.234 us    "),
            (12_345_678, "12345.67 us "),
            (123_456_789, "123456.7 us "),
            (1_234_567_890, "1234567 us  "),
            (12_345_678_901, "12345678 us "),
        ] {
            assert_eq!(Duration(ns).to_string(), text);
        }
    }

    #[test]
    fn lines() {
        let profile = Profile::new(4).unwrap();
        for time in [1000, 3000] {
            profile.hit(Site(2));
            profile.returned(Site(2), time);
        }
        (0..3).for_each(|_| profile.hit(Site(1)));
        profile.hit(Site(9));
        let sorted = |by| {
            let mut all = Vec::new();
            profile.add_to(&mut all, 10).unwrap();
            sort(&mut all, by);
            all
        };
        let first = |by| sorted(by)[0].0;
        assert_eq!((first(By::Time), first(By::Hits)), (Site(12), Site(11)));
        assert_eq!(sorted(By::Hits).len(), 2);
        let total = profile.total(Site(2));
        assert_eq!((total.mean(), total.variance()), (2000, 2000));
        let line = |by| {
            Line {
                function: "schedule",
                total,
                by,
            }
            .to_string()
        };
        assert_eq!(line(By::Hits), "  schedule                                 2\n");
        assert_eq!(
            line(By::Time),
            "  schedule                                 2    4.000 us        2.000 us        2.000 us    \n"
        );
        profile.reset();
        assert!(sorted(By::Time).is_empty());
    }
}
