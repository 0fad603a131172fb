//! A clock that runs a little faster or slower than the counter from which it is made (`adjtimex`), and never
//! goes back or jumps: from some time of the counter on it gains or loses a fixed share. Written by the
//! kernel; read by the kernel and by user code, on any CPU at any time.

use crate::scale::scale;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// How the clock runs. All zero: like the counter.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Steering {
    /// Odd while the rest is being changed. 0: it was never changed.
    sequence: AtomicU32,
    /// From which time of the counter on it applies, in nanoseconds.
    since: AtomicU64,
    /// By how many nanoseconds the clock was ahead of the counter then (signed).
    ahead: AtomicU64,
    /// What the clock gains, in 2^-32 nanoseconds per nanosecond (signed).
    rate: AtomicU64,
}

impl Steering {
    /// Like the counter.
    pub const fn new() -> Self {
        Self {
            sequence: AtomicU32::new(0),
            since: AtomicU64::new(0),
            ahead: AtomicU64::new(0),
            rate: AtomicU64::new(0),
        }
    }

    /// Whether it was ever changed.
    #[inline(always)]
    pub fn in_use(&self) -> bool {
        self.sequence.load(Ordering::Relaxed) != 0
    }

    /// The time of the clock when the counter shows `raw`.
    #[inline(always)]
    pub fn clock(&self, raw: u64) -> u64 {
        if self.in_use() { self.steered(raw) } else { raw }
    }

    #[inline(always)]
    fn steered(&self, raw: u64) -> u64 {
        let (since, ahead, rate) = self.parts();
        let distance = if raw > since { raw.wrapping_sub(since) } else { 0 };
        raw.wrapping_add(ahead).wrapping_add(share(distance, rate))
    }

    /// The time of the counter when the clock shows `clock`, or a little less.
    pub fn raw(&self, clock: u64) -> u64 {
        let (since, ahead, rate) = self.parts();
        let Some(distance) = clock.wrapping_sub(ahead).checked_sub(since) else {
            return clock.wrapping_sub(ahead);
        };
        // Each step leaves a tenth of the error.
        let mut raw = distance;
        for _ in 0..8 {
            raw = distance.wrapping_sub(share(raw, rate));
        }
        since.wrapping_add(raw)
    }

    /// Used in user mode, too, so everything it calls is inlined in every build.
    #[inline(always)]
    fn parts(&self) -> (u64, u64, u64) {
        loop {
            let before = self.sequence.load(Ordering::Acquire);
            let since = self.since.load(Ordering::Relaxed);
            let ahead = self.ahead.load(Ordering::Relaxed);
            let rate = self.rate.load(Ordering::Relaxed);
            fence(Ordering::Acquire);
            if before & 1 == 0 && self.sequence.load(Ordering::Relaxed) == before {
                return (since, ahead, rate);
            }
        }
    }

    /// Makes the clock gain `rate` (2^-32 nanoseconds per nanosecond, less than an eighth) from the moment at
    /// which the counter shows `raw`. One caller at a time, with interrupts off.
    pub fn set(&self, raw: u64, rate: i64) {
        let ahead = self.clock(raw).wrapping_sub(raw);
        let before = self.sequence.load(Ordering::Relaxed);
        self.sequence.store(before.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        self.since.store(raw, Ordering::Relaxed);
        self.ahead.store(ahead, Ordering::Relaxed);
        self.rate.store(rate as u64, Ordering::Relaxed);
        // Never 0 again.
        let after = before.wrapping_add(2);
        self.sequence
            .store(if after == 0 { 2 } else { after }, Ordering::Release);
    }
}

/// `distance` * `rate`, which is a signed number.
#[inline(always)]
fn share(distance: u64, rate: u64) -> u64 {
    if rate >> 63 == 0 {
        scale(distance, rate)
    } else {
        0u64.wrapping_sub(scale(distance, 0u64.wrapping_sub(rate)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const TENTH: i64 = (1 << 32) / 10;

    #[test]
    fn goes_as_told_and_never_jumps() {
        let s = Steering::new();
        assert_eq!(s.clock(5 * SECOND), 5 * SECOND);
        s.set(10 * SECOND, TENTH);
        assert!(s.in_use());
        assert_eq!(s.clock(10 * SECOND), 10 * SECOND);
        assert!(s.clock(20 * SECOND).abs_diff(21 * SECOND) <= 5);
        // A reader whose counter is a little behind.
        assert_eq!(s.clock(10 * SECOND - 7), 10 * SECOND - 7);
        let before = s.clock(20 * SECOND);
        s.set(20 * SECOND, -TENTH);
        assert_eq!(s.clock(20 * SECOND), before);
        assert!(s.clock(30 * SECOND).abs_diff(before + 9 * SECOND) <= 5);
        s.set(30 * SECOND, 0);
        assert!(s.clock(40 * SECOND).abs_diff(before + 19 * SECOND) <= 5);
    }

    #[test]
    fn the_way_back_is_never_late_by_much() {
        for rate in [TENTH, -TENTH, 1 << 22, -(1 << 22), 0] {
            let s = Steering::new();
            s.set(3 * SECOND, TENTH);
            s.set(7 * SECOND, rate);
            for raw in [7 * SECOND, 8 * SECOND, 7 * SECOND + 123_456_789, 5000 * SECOND] {
                let distance = raw - 7 * SECOND;
                assert!(
                    s.raw(s.clock(raw)).abs_diff(raw) <= 2 + distance / 50_000_000,
                    "{rate} {raw}"
                );
            }
        }
    }
}
