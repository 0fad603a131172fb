//! The data page: written by the kernel, read by user code on any CPU at any time.

use core::sync::atomic::{AtomicU64, Ordering};

/// What user code needs to turn the counter into clocks.
///
/// `base` and `mult` never change once the first program runs, and each clock's offset is one word, so readers need no sequence
/// lock: they see the clock before or after a step, never in between.
#[derive(Debug)]
#[repr(C)]
pub struct ClockData {
    /// Counter value at monotonic time zero.
    base: AtomicU64,
    /// Nanoseconds per counter step, 32.32 fixed point; 0: the counter can't be used, ask the kernel.
    mult: AtomicU64,
    /// `CLOCK_REALTIME` minus `CLOCK_MONOTONIC`, nanoseconds.
    realtime_offset: AtomicU64,
    /// `CLOCK_TAI` minus `CLOCK_MONOTONIC`, nanoseconds.
    tai_offset: AtomicU64,
}

impl ClockData {
    /// All zero: every clock asks the kernel.
    pub const fn new() -> Self {
        Self {
            base: AtomicU64::new(0),
            mult: AtomicU64::new(0),
            realtime_offset: AtomicU64::new(0),
            tai_offset: AtomicU64::new(0),
        }
    }

    /// Says how the counter becomes nanoseconds. Called before the first program runs.
    pub fn set_counter(&self, base: u64, mult: u64) {
        self.base.store(base, Ordering::Relaxed);
        self.mult.store(mult, Ordering::Release);
    }

    /// Steps the wall clocks; offsets in nanoseconds to `CLOCK_MONOTONIC`.
    pub fn set_offsets(&self, realtime: u64, tai: u64) {
        self.realtime_offset.store(realtime, Ordering::Release);
        self.tai_offset.store(tai, Ordering::Release);
    }

    #[inline(always)]
    pub(crate) fn mult(&self) -> u64 {
        self.mult.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(crate) fn monotonic(&self, mult: u64, counter: u64) -> u64 {
        crate::clock::scale(counter.wrapping_sub(self.base.load(Ordering::Relaxed)), mult)
    }

    #[inline(always)]
    pub(crate) fn realtime_offset(&self) -> u64 {
        self.realtime_offset.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(crate) fn tai_offset(&self) -> u64 {
        self.tai_offset.load(Ordering::Relaxed)
    }
}

impl Default for ClockData {
    fn default() -> Self {
        Self::new()
    }
}
