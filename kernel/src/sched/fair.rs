//! The arithmetic of the fair policies: nice values to weights, run time to virtual run time.

use core::sync::atomic::{AtomicU32, Ordering};

/// Weight of nice 0.
pub const NICE_0: u32 = 1024;

/// Weights of nice -20 to 19. Each step is a factor of about 1.25, as on Linux.
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

/// Run time of `ns` nanoseconds, as virtual run time of a task of weight `weight`.
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

/// A woken task takes the CPU from the running one only if its virtual run time is less by more than this,
/// nanoseconds.
pub const WAKEUP_GRANULARITY: u64 = 1_000_000;

/// A task that slept gets a virtual run time at most this far below the queue's least, nanoseconds.
pub const SLEEPER_CREDIT: u64 = 3_000_000;

/// Time slice of `SCHED_RR`, nanoseconds.
pub const RR_SLICE: u32 = 100_000_000;
static RR_SLICE_NOW: AtomicU32 = AtomicU32::new(RR_SLICE);

/// The slice of `SCHED_RR` tasks, nanoseconds (`kernel.sched_rr_timeslice_ms`).
#[inline]
pub fn rr_slice() -> u32 {
    RR_SLICE_NOW.load(Ordering::Relaxed)
}

/// Sets [`rr_slice`].
pub fn set_rr_slice(ns: u32) {
    RR_SLICE_NOW.store(ns, Ordering::Relaxed);
}

/// The period, in nanoseconds, of which real-time tasks may use only a part if other tasks wait for the CPU.
/// The part, 95 of 100, is Linux's (`sched_rt_runtime_us`). Linux's period is a second; this one is shorter,
/// so that the others do not have to wait that long.
const TURN_PERIOD: u64 = 200_000_000;
const RT_SHARE: u64 = TURN_PERIOD / 100 * 95;

/// Divides a CPU between real-time tasks that would keep it for themselves and all others. Used under the run
/// queue's lock.
pub struct Turns {
    /// When the period began, `CLOCK_MONOTONIC` nanoseconds.
    began: u64,
    /// When the last tick was.
    last: u64,
    /// How long real-time tasks ran in this period, as the ticks found them.
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
    /// A tick; `rt`: it found a real-time task running. Returns whether the other tasks, if some wait, are to
    /// run now.
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
