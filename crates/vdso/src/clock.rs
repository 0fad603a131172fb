//! Converting the counter to a clock's seconds and nanoseconds. All of it is inlined into the functions of
//! the vDSO, which may call nothing and must not panic: all arithmetic wraps.

use crate::data::ClockData;
use crate::scale::{NSEC_PER_SEC, multiply_high};

/// Nanoseconds as seconds and remaining nanoseconds, without a division, for which a 32-bit processor would
/// call a function.
#[inline(always)]
pub const fn split(ns: u64) -> (u64, u64) {
    // 10^9 is 2^9 times an odd number; 2^84 / 10^9, rounded up, is exact for the 55 bits left.
    let seconds = multiply_high(ns >> 9, 0x44_b82f_a09b_5a53) >> 11;
    (seconds, ns.wrapping_sub(seconds.wrapping_mul(NSEC_PER_SEC)))
}

/// [`split`] in fewer steps on a 32-bit processor, for the usual times of files. `None`: a time that is
/// negative as a signed number and, there, one after 2043.
#[inline(always)]
pub const fn split_usual(ns: u64) -> Option<(u64, u32)> {
    if usize::BITS == 32 {
        return split_below_2043(ns);
    }
    let (seconds, rest) = split(ns);
    if ns >> 63 == 0 {
        Some((seconds, rest as u32))
    } else {
        None
    }
}

#[inline(always)]
const fn split_below_2043(ns: u64) -> Option<(u64, u32)> {
    const SECOND: u32 = NSEC_PER_SEC as u32;
    const SCALE: u64 = (1 << 61) / NSEC_PER_SEC;
    if ns >> 61 != 0 {
        return None;
    }
    // Both factors are rounded down, by less than 0.54 and 0.22 seconds in all: the result is right, or one
    // too small.
    let seconds = ((ns >> 29).wrapping_mul(SCALE) >> 32) as u32;
    let rest = (ns as u32).wrapping_sub(seconds.wrapping_mul(SECOND));
    if rest < SECOND {
        Some((seconds as u64, rest))
    } else {
        Some((seconds.wrapping_add(1) as u64, rest.wrapping_sub(SECOND)))
    }
}

/// The clocks that are read without the kernel, as a bit set of their numbers: REALTIME, MONOTONIC,
/// MONOTONIC_RAW, REALTIME_COARSE, MONOTONIC_COARSE, BOOTTIME and TAI.
const MONOTONIC_LIKE: u32 = 1 << 1 | 1 << 4 | 1 << 6 | 1 << 7;
const REALTIME_LIKE: u32 = 1 << 0 | 1 << 5;
const TAI: u32 = 1 << 11;
/// The clock that is not steered.
const RAW: u32 = 1 << 4;

/// The clocks to which a time namespace adds what it adds to `CLOCK_BOOTTIME`. To the others of
/// `MONOTONIC_LIKE` it adds what it adds to `CLOCK_MONOTONIC`.
const BOOTTIME: u32 = 1 << 7;

/// The present time of clock `id` as seconds and nanoseconds. `None`: the kernel must be asked, or, if `data`
/// is that of a time namespace, [`gettime_in`] tells. `counter` reads the counter.
#[inline(always)]
pub fn gettime(data: &ClockData, counter: impl FnOnce() -> u64, id: u32) -> Option<(u64, u64)> {
    nanoseconds(data, counter, id).map(split)
}

/// The same in the time namespace with the data `ns`, on a machine with the data `machines`.
#[inline(always)]
pub fn gettime_in(
    ns: &ClockData,
    machines: &ClockData,
    counter: impl FnOnce() -> u64,
    id: u32,
) -> Option<(u64, u64)> {
    let time = nanoseconds(machines, counter, id)?;
    let bit = 1u32.wrapping_shl(id);
    let added = if bit & MONOTONIC_LIKE != 0 {
        ns.added(bit & BOOTTIME != 0)
    } else {
        0
    };
    Some(split(time.wrapping_add(added)))
}

/// The present time of clock `id` in nanoseconds. `None`: the kernel must be asked.
#[inline(always)]
fn nanoseconds(data: &ClockData, counter: impl FnOnce() -> u64, id: u32) -> Option<u64> {
    let mult = data.mult();
    if id >= 12 || mult == 0 {
        return None;
    }
    let bit = 1u32.wrapping_shl(id);
    let offset = if bit & MONOTONIC_LIKE != 0 {
        0
    } else if bit & REALTIME_LIKE != 0 {
        data.realtime_offset()
    } else if bit & TAI != 0 {
        data.tai_offset()
    } else {
        return None;
    };
    let raw = data.raw(mult, counter());
    let steered = if bit == RAW {
        raw
    } else {
        data.steering().clock(raw)
    };
    Some(steered.wrapping_add(offset))
}

/// The resolution of clock `id` in nanoseconds. `None`: the kernel must be asked.
#[inline(always)]
pub fn getres(data: &ClockData, id: u32) -> Option<u64> {
    if id >= 12 || data.mult() == 0 {
        return None;
    }
    let bit = 1u32.wrapping_shl(id);
    if bit & (MONOTONIC_LIKE | REALTIME_LIKE | TAI) != 0 {
        Some(1)
    } else {
        None
    }
}

/// Seconds since 1970 of a date and time in UTC, as real-time clocks have them: year; month and day, counted
/// from 1; hour, minute, second. `None`: it is before 1970, or there is no such month.
pub fn since_1970([year, month, day]: [u64; 3], [hour, minute, second]: [u64; 3]) -> Option<u64> {
    if !(1970..1 << 32).contains(&year) || !(1..=12).contains(&month) {
        return None;
    }
    // Years begin in March here, so that the leap day is the last one.
    let (y, m) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days = (365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day).checked_sub(719_469)?;
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scale::{mult_for, partial_products};

    #[test]
    fn dates() {
        let midnight = |date| since_1970(date, [0; 3]);
        assert_eq!(midnight([1970, 1, 1]), Some(0));
        assert_eq!(since_1970([2000, 2, 29], [23, 59, 59]), Some(951_868_799));
        assert_eq!(since_1970([2038, 1, 19], [3, 14, 8]), Some(1 << 31));
        assert_eq!(
            midnight([2100, 3, 1])
                .zip(midnight([2100, 2, 28]))
                .map(|(a, b)| a - b),
            Some(86_400)
        );
        for wrong in [
            [1969, 12, 31],
            [0, 1, 1],
            [2000, 0, 1],
            [2000, 13, 1],
            [1970, 1, 0],
        ] {
            assert_eq!(midnight(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn splitting_is_exact_and_the_narrow_products_agree_with_the_wide_ones() {
        let mut n = 1u64;
        for i in 0..200_000u64 {
            n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(i);
            for ns in [
                n,
                n >> (i % 64),
                (n >> 30) * NSEC_PER_SEC,
                ((n >> 30) * NSEC_PER_SEC).wrapping_sub(1),
                u64::MAX - i,
            ] {
                assert_eq!(split(ns), (ns / NSEC_PER_SEC, ns % NSEC_PER_SEC));
                let usual = |ns| Some((ns / NSEC_PER_SEC, (ns % NSEC_PER_SEC) as u32));
                assert_eq!(split_usual(ns >> 3), usual(ns >> 3));
                assert_eq!(split_usual(ns | 1 << 63), None);
                assert_eq!(split_below_2043(ns >> 3), usual(ns >> 3));
                assert_eq!(split_below_2043(ns | 1 << 61), None);
                let [ll, lh, hl, hh] = partial_products(ns, n);
                let wide =
                    (u128::from(hh) << 64) + (u128::from(lh) << 32) + (u128::from(hl) << 32) + u128::from(ll);
                assert_eq!(wide, u128::from(ns) * u128::from(n));
            }
        }
    }

    #[test]
    fn clocks() {
        let d = ClockData::new();
        assert_eq!(gettime(&d, || 5, 1), None);
        d.set_counter(1000, mult_for(1_000_000_000));
        d.set_offsets(7_000_000_000, 44_000_000_000);
        let counter = || 1000 + 1_500_000_000;
        let at = |id| gettime(&d, counter, id);
        for id in [1, 4, 6, 7] {
            assert_eq!(at(id), Some((1, 500_000_000)));
            assert_eq!(getres(&d, id), Some(1));
        }
        assert_eq!(at(0), Some((8, 500_000_000)));
        assert_eq!(at(5), Some((8, 500_000_000)));
        assert_eq!(at(11), Some((45, 500_000_000)));
        let ns = ClockData::new();
        ns.set_namespace([-1_000_000_000, 10_000_000_000]);
        assert!(ns.is_namespace() && !d.is_namespace());
        for (id, seconds) in [(1, 0), (4, 0), (6, 0), (7, 11), (0, 8), (5, 8), (11, 45)] {
            assert_eq!(
                gettime_in(&ns, &d, counter, id),
                Some((seconds, 500_000_000)),
                "{id}"
            );
        }
        assert_eq!(gettime_in(&ns, &d, counter, 9), None);
        assert_eq!((gettime(&ns, counter, 1), getres(&ns, 1)), (None, None));
        d.steering().set(1_000_000_000, (1 << 32) / 10);
        assert_eq!(at(4), Some((1, 500_000_000)));
        for (id, seconds) in [(1, 1), (6, 1), (7, 1), (0, 8), (5, 8), (11, 45)] {
            assert!(
                at(id).is_some_and(|(s, ns)| s == seconds && ns.abs_diff(550_000_000) < 5),
                "{id}"
            );
        }
        for id in [2, 3, 8, 9, 10, 12, 31, 32, 33, u32::MAX] {
            assert_eq!(at(id), None);
            assert_eq!(getres(&d, id), None);
        }
    }
}
