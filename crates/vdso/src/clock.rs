//! From the counter to a clock's seconds and nanoseconds. Everything inlines into the vDSO's functions, which may call nothing and
//! must not panic: all arithmetic wraps.

use crate::data::ClockData;

const NSEC_PER_SEC: u64 = 1_000_000_000;

/// Counter steps to nanoseconds; `mult` is 32.32 fixed point.
#[inline(always)]
pub const fn scale(delta: u64, mult: u64) -> u64 {
    ((delta as u128).wrapping_mul(mult as u128) >> 32) as u64
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
    Some((ns / NSEC_PER_SEC, ns % NSEC_PER_SEC))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scaling() {
        assert_eq!(scale(5, mult_for(1_000_000_000)), 5);
        assert_eq!(scale(62_500_000, mult_for(62_500_000)), 1_000_000_000);
        // 3 GHz for ten years: off by less than a second.
        let ns = scale(3_000_000_000 * 86400 * 3650, mult_for(3_000_000_000));
        assert!(ns.abs_diff(86400 * 3650 * 1_000_000_000) < 1_000_000_000);
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
