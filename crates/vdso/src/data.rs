//! The data page: written by the kernel, read by user code on any CPU at any time.

use crate::steer::Steering;
use core::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// What user code needs to convert the counter to clocks.
///
/// `base` and `mult` never change after the first program has started, and each clock's offset is one word.
/// So readers need no sequence lock for these: they see a clock before or after it was set, never in between.
/// The steering has a sequence lock, which is used from the first `adjtimex` on.
#[derive(Debug)]
#[repr(C)]
pub struct ClockData {
    /// Counter value at monotonic time zero.
    base: AtomicU64,
    /// Nanoseconds per counter step, 32.32 fixed point. 0: the counter cannot be used, and the kernel must be
    /// asked.
    mult: AtomicU64,
    /// `CLOCK_REALTIME` - `CLOCK_MONOTONIC`, nanoseconds.
    realtime_offset: AtomicU64,
    /// `CLOCK_TAI` - `CLOCK_MONOTONIC`, nanoseconds.
    tai_offset: AtomicU64,
    /// How all clocks but `CLOCK_MONOTONIC_RAW` differ from the counter.
    steering: Steering,
    /// The time zone: minutes west of Greenwich, and a kind of daylight saving time.
    zone: [AtomicI32; 2],
    /// 1: this is the page of a time namespace, and only `added` is meant. The machine's data is elsewhere.
    is_namespace: AtomicI32,
    /// What a time namespace adds to `CLOCK_MONOTONIC` and to `CLOCK_BOOTTIME`, nanoseconds.
    added: [AtomicU64; 2],
}

impl ClockData {
    /// All zero: the kernel must be asked for every clock.
    pub const fn new() -> Self {
        Self {
            base: AtomicU64::new(0),
            mult: AtomicU64::new(0),
            realtime_offset: AtomicU64::new(0),
            tai_offset: AtomicU64::new(0),
            steering: Steering::new(),
            zone: [AtomicI32::new(0), AtomicI32::new(0)],
            is_namespace: AtomicI32::new(0),
            added: [AtomicU64::new(0), AtomicU64::new(0)],
        }
    }

    /// How all clocks but `CLOCK_MONOTONIC_RAW` differ from the counter.
    #[inline(always)]
    pub fn steering(&self) -> &Steering {
        &self.steering
    }

    /// Sets how the counter is converted to nanoseconds. Called before the first program starts.
    pub fn set_counter(&self, base: u64, mult: u64) {
        self.base.store(base, Ordering::Relaxed);
        self.mult.store(mult, Ordering::Release);
    }

    /// Sets the offsets of `CLOCK_REALTIME` and `CLOCK_TAI` to `CLOCK_MONOTONIC`, in nanoseconds.
    pub fn set_offsets(&self, realtime: u64, tai: u64) {
        self.realtime_offset.store(realtime, Ordering::Release);
        self.tai_offset.store(tai, Ordering::Release);
    }

    /// Sets the time zone: minutes west of Greenwich, and a kind of daylight saving time. Who reads meanwhile
    /// may find one of both, as on Linux.
    pub fn set_zone(&self, [west, daylight]: [i32; 2]) {
        self.zone[0].store(west, Ordering::Relaxed);
        self.zone[1].store(daylight, Ordering::Relaxed);
    }

    /// The time zone.
    #[inline(always)]
    pub fn zone(&self) -> [i32; 2] {
        let [west, daylight] = &self.zone;
        [west.load(Ordering::Relaxed), daylight.load(Ordering::Relaxed)]
    }

    /// Makes this, which is all zero, the page of a time namespace: what it adds to `CLOCK_MONOTONIC` and to
    /// `CLOCK_BOOTTIME`, in nanoseconds. Before a program of the namespace runs.
    pub fn set_namespace(&self, [monotonic, boottime]: [i64; 2]) {
        self.added[0].store(monotonic as u64, Ordering::Relaxed);
        self.added[1].store(boottime as u64, Ordering::Relaxed);
        self.is_namespace.store(1, Ordering::Release);
    }

    /// Whether this is the page of a time namespace. The machine's data never is.
    #[inline(always)]
    pub fn is_namespace(&self) -> bool {
        self.mult() == 0 && self.is_namespace.load(Ordering::Relaxed) != 0
    }

    /// What a time namespace adds to these clocks, nanoseconds.
    #[inline(always)]
    pub(crate) fn added(&self, boottime: bool) -> u64 {
        self.added[usize::from(boottime)].load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(crate) fn mult(&self) -> u64 {
        self.mult.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(crate) fn raw(&self, mult: u64, counter: u64) -> u64 {
        crate::scale::scale(counter.wrapping_sub(self.base.load(Ordering::Relaxed)), mult)
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
