//! From the counter to a clock's seconds and nanoseconds. Everything inlines into the vDSO's functions, which may call nothing and
//! must not panic: all arithmetic wraps.

use crate::data::ClockData;

const NSEC_PER_SEC: u64 = 1_000_000_000;

/// `a * b >> 64`, without the 128-bit multiplication that a 32-bit processor would call a function for.
#[inline(always)]
const fn multiply_high(a: u64, b: u64) -> u64 {
    if usize::BITS == 64 {
        return ((a as u128).wrapping_mul(b as u128) >> 64) as u64;
    }
    let [ll, lh, hl, hh] = partial_products(a, b);
    let middle = (ll >> 32)
        .wrapping_add(lh & 0xffff_ffff)
        .wrapping_add(hl & 0xffff_ffff);
    hh.wrapping_add(lh >> 32)
        .wrapping_add(hl >> 32)
        .wrapping_add(middle >> 32)
}

/// The products of the halves: low times low, low times high, high times low, high times high.
#[inline(always)]
const fn partial_products(a: u64, b: u64) -> [u64; 4] {
    let (al, ah) = (a as u32 as u64, a >> 32);
    let (bl, bh) = (b as u32 as u64, b >> 32);
    [
        al.wrapping_mul(bl),
        al.wrapping_mul(bh),
        ah.wrapping_mul(bl),
        ah.wrapping_mul(bh),
    ]
}

/// Counter steps to nanoseconds (and back); `mult` is 32.32 fixed point.
#[inline(always)]
pub const fn scale(delta: u64, mult: u64) -> u64 {
    if usize::BITS == 64 {
        return ((delta as u128).wrapping_mul(mult as u128) >> 32) as u64;
    }
    let [ll, lh, hl, hh] = partial_products(delta, mult);
    (ll >> 32)
        .wrapping_add(lh)
        .wrapping_add(hl)
        .wrapping_add(hh << 32)
}

/// Nanoseconds as seconds and the rest, without a division (which a 32-bit processor would call a function for).
#[inline(always)]
pub const fn split(ns: u64) -> (u64, u64) {
    // 10^9 is 2^9 times an odd number; 2^84 / 10^9, rounded up, is exact for the 55 bits left.
    let seconds = multiply_high(ns >> 9, 0x44_b82f_a09b_5a53) >> 11;
    (seconds, ns.wrapping_sub(seconds.wrapping_mul(NSEC_PER_SEC)))
}

/// [`split`] in fewer steps on a 32-bit processor, for the times that files have: `None` for one that is negative when it is taken as signed, and
/// there for one after 2043.
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
    // Both factors are rounded down, by less than 0.54 and 0.22 seconds in all: what results is right or one too few.
    let seconds = ((ns >> 29).wrapping_mul(SCALE) >> 32) as u32;
    let rest = (ns as u32).wrapping_sub(seconds.wrapping_mul(SECOND));
    if rest < SECOND {
        Some((seconds as u64, rest))
    } else {
        Some((seconds.wrapping_add(1) as u64, rest.wrapping_sub(SECOND)))
    }
}

/// The `mult` for a counter of `hz` steps per second.
pub const fn mult_for(hz: u64) -> u64 {
    (((NSEC_PER_SEC as u128) << 32) / hz as u128) as u64
}

/// Bit set of the clocks that are read without the kernel: REALTIME, MONOTONIC, MONOTONIC_RAW, REALTIME_COARSE, MONOTONIC_COARSE,
/// BOOTTIME and TAI, at their numbers.
const MONOTONIC_LIKE: u32 = 1 << 1 | 1 << 4 | 1 << 6 | 1 << 7;
const REALTIME_LIKE: u32 = 1 << 0 | 1 << 5;
const TAI: u32 = 1 << 11;

/// Clock `id` now, as seconds and nanoseconds; `None`: ask the kernel. `counter` reads the counter.
#[inline(always)]
pub fn gettime(data: &ClockData, counter: impl FnOnce() -> u64, id: u32) -> Option<(u64, u64)> {
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
    let ns = data.monotonic(mult, counter()).wrapping_add(offset);
    Some(split(ns))
}

/// The resolution of clock `id` in nanoseconds; `None`: ask the kernel.
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

/// Seconds since 1970 of a date and time in UTC, as real-time clocks tell them: year, month and day, counted from 1; hour, minute, second. `None` before
/// 1970, or if there is no such month.
pub fn since_1970([year, month, day]: [u64; 3], [hour, minute, second]: [u64; 3]) -> Option<u64> {
    if !(1970..1 << 32).contains(&year) || !(1..=12).contains(&month) {
        return None;
    }
    // Years begin in March, so that the leap day is the last.
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
    fn scaling() {
        assert_eq!(scale(5, mult_for(1_000_000_000)), 5);
        assert_eq!(scale(62_500_000, mult_for(62_500_000)), 1_000_000_000);
        // 3 GHz for ten years: off by less than a second.
        let ns = scale(3_000_000_000 * 86400 * 3650, mult_for(3_000_000_000));
        assert!(ns.abs_diff(86400 * 3650 * 1_000_000_000) < 1_000_000_000);
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
        let at = |id| gettime(&d, || 1000 + 1_500_000_000, id);
        for id in [1, 4, 6, 7] {
            assert_eq!(at(id), Some((1, 500_000_000)));
            assert_eq!(getres(&d, id), Some(1));
        }
        assert_eq!(at(0), Some((8, 500_000_000)));
        assert_eq!(at(5), Some((8, 500_000_000)));
        assert_eq!(at(11), Some((45, 500_000_000)));
        for id in [2, 3, 8, 9, 10, 12, 31, 32, 33, u32::MAX] {
            assert_eq!(at(id), None);
            assert_eq!(getres(&d, id), None);
        }
    }
}
