//! The arithmetic of the fair policies: nice values to weights, run time to virtual run time.

/// Weight of nice 0.
pub const NICE_0: u32 = 1024;

/// Weights of nice -20 to 19: each step is a factor of about 1.25 (the ratios users of `nice` know).
const WEIGHTS: [u32; 40] = {
    let mut w = [0; 40];
    let mut n = 0;
    while n < 40 {
        // 1024 * 1.25^-(n-20), in fixed point with 20 fractional bits.
        let mut x: u64 = 1024 << 20;
        let mut i = 20;
        while i > n {
            x = x * 5 / 4;
            i -= 1;
        }
        while i < n {
            x = x * 4 / 5;
            i += 1;
        }
        w[n] = ((x + (1 << 19)) >> 20) as u32;
        n += 1;
    }
    w
};

/// The weight of a nice value.
pub const fn weight_of_nice(nice: i32) -> u32 {
    let n = if nice < -20 {
        0
    } else if nice > 19 {
        39
    } else {
        nice + 20
    };
    WEIGHTS[n as usize]
}

/// `ns` of run time as virtual run time of a task of `weight`.
#[inline(always)]
pub fn virtual_time(ns: u64, weight: u32) -> u64 {
    if weight == NICE_0 {
        ns
    } else {
        ns.saturating_mul(NICE_0 as u64) / weight as u64
    }
}

/// How long a task runs before another of the same weight gets the CPU, nanoseconds.
pub const SLICE: u64 = 3_000_000;

/// How much less virtual run time than the running task a woken task must have to take the CPU from it, nanoseconds.
pub const WAKEUP_GRANULARITY: u64 = 1_000_000;

/// A task that slept is put at most this far before the least virtual run time of the queue, nanoseconds.
pub const SLEEPER_CREDIT: u64 = 3_000_000;

/// Time slice of `SCHED_RR`, nanoseconds.
pub const RR_SLICE: u64 = 100_000_000;
