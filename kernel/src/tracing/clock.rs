//! The trace clocks.

use crate::arch::time as machine;
use crate::sched::preempt;
use crate::time;
use core::sync::atomic::{AtomicU64, Ordering};
use limen_trace_text::line::Time;

/// A clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Clock {
    /// What the machine counts. On all machines that exist here the CPUs agree, so [`Self::Global`] and
    /// [`Self::Perf`] are the same.
    Local = 0,
    /// See [`Self::Local`].
    Global,
    /// A number of its own for each event, in their order.
    Counter,
    /// Hundredths of seconds since boot.
    Uptime,
    /// See [`Self::Local`].
    Perf,
    /// `CLOCK_MONOTONIC`.
    Mono,
    /// `CLOCK_MONOTONIC_RAW`.
    MonoRaw,
    /// `CLOCK_BOOTTIME`.
    Boot,
    /// `CLOCK_TAI`.
    Tai,
    /// The machine's counter, where Linux has it among the clocks of traces.
    Counts,
}

/// Those that all machines have.
const COMMON: [(&str, Clock); 9] = [
    ("local", Clock::Local),
    ("global", Clock::Global),
    ("counter", Clock::Counter),
    ("uptime", Clock::Uptime),
    ("perf", Clock::Perf),
    ("mono", Clock::Mono),
    ("mono_raw", Clock::MonoRaw),
    ("boot", Clock::Boot),
    ("tai", Clock::Tai),
];

/// All clocks with their names, in the order in which `trace_clock` shows them.
pub fn all() -> impl Iterator<Item = (&'static str, Clock)> {
    let own = machine::COUNTER.map(|(name, _)| (name, Clock::Counts));
    COMMON.into_iter().chain(own)
}

static COUNTER: AtomicU64 = AtomicU64::new(0);

impl Clock {
    /// The clock with this number.
    pub fn from_number(number: u8) -> Self {
        let other = if number == Self::Counts as u8 {
            Self::Counts
        } else {
            Self::Local
        };
        COMMON.get(usize::from(number)).map_or(other, |row| row.1)
    }

    /// The clock with this name.
    pub fn named(name: &str) -> Option<Self> {
        all().find(|row| row.0 == name).map(|row| row.1)
    }

    /// How its times are shown.
    pub fn style(self) -> Time {
        match self {
            Self::Counter | Self::Uptime | Self::Counts => Time::Count,
            _ => Time::Nanoseconds,
        }
    }

    /// The time. In any context.
    #[inline(always)]
    pub fn now(self) -> u64 {
        match self {
            Self::Local | Self::Global | Self::Perf | Self::MonoRaw => machine::now_ns(),
            other => other.other(),
        }
    }

    #[inline(never)]
    fn other(self) -> u64 {
        // An NMI may have come upon whoever changes the rate of `CLOCK_MONOTONIC`, and must not wait for it.
        // The buffer gives its event the time of the one in front if this one is earlier.
        let nmi = preempt::count() & preempt::NMI_MASK != 0;
        match self {
            Self::Counter => COUNTER.fetch_add(1, Ordering::Relaxed) + 1,
            Self::Uptime => machine::now_ns() / 10_000_000,
            Self::Counts => machine::COUNTER.map_or(0, |(_, count)| count()),
            Self::Mono | Self::Boot if !nmi => time::now_ns(),
            Self::Tai if !nmi => time::tai_ns(),
            _ => machine::now_ns(),
        }
    }
}
