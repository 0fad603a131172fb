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
pub const RR_SLICE: u32 = 100_000_000;

/// Of every period, nanoseconds, real-time tasks may keep a CPU from others that wait for it for this long. The share, 95 of 100, is Linux's
/// (`sched_rt_runtime_us`); its period is a second, in which others starve for longer than is good for anybody.
const TURN_PERIOD: u64 = 200_000_000;
const RT_SHARE: u64 = TURN_PERIOD / 100 * 95;

/// Whose turn it is on a CPU that real-time tasks would keep for themselves. Under the run queue's lock.
pub struct Turns {
    /// When the period began, CLOCK_MONOTONIC.
    began: u64,
    /// The tick before.
    last: u64,
    /// How long real-time tasks have run in the period, by the ticks that found one.
    realtime: u64,
}

impl Turns {
    /// At boot.
    pub const fn new() -> Self {
        Self {
            began: 0,
            last: 0,
            realtime: 0,
        }
    }
    /// A tick while a real-time task runs (`rt`). Whether it is the turn of the others, if some wait.
    pub fn tick(&mut self, now: u64, rt: bool) -> bool {
        let ran = now.saturating_sub(self.last);
        self.last = now;
        if now.saturating_sub(self.began) >= TURN_PERIOD {
            self.began = now;
            self.realtime = 0;
        } else if rt {
            self.realtime += ran;
        }
        self.realtime >= RT_SHARE
    }
}
