//! Clocks, timers and the timer interrupt.

pub mod clock;
pub mod posix;
pub mod process;
mod sleep;
mod timer;
pub mod timerfd;
pub mod vdso;
pub mod wall;

pub use process::{ProcessTimers, ended as process_ended, exec as program_changed};
pub use sleep::sleep_until;
pub use timer::{Timer, TimerBase, tick_needed, timer_interrupt};
pub use wall::Deadline;

use crate::sync::SpinLock;
use core::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// Nanoseconds of a second.
pub const NSEC_PER_SEC: u64 = 1_000_000_000;

/// CLOCK_REALTIME minus CLOCK_MONOTONIC, nanoseconds.
static WALL_OFFSET: AtomicU64 = AtomicU64::new(0);

/// CLOCK_TAI minus CLOCK_REALTIME, seconds.
static TAI_OFFSET: AtomicI32 = AtomicI32::new(0);

/// Brings the room up: reads the machine's real-time clock.
pub fn init() {
    if let Some(seconds) = crate::arch::platform::wall_clock() {
        WALL_OFFSET.store((seconds * NSEC_PER_SEC).wrapping_sub(now_ns()), Ordering::Relaxed);
    }
    vdso::init();
    tell_programs();
}

/// The wall clocks moved: programs read them through the vDSO. One after the other, so that what was set last stays.
fn tell_programs() {
    static TELLING: SpinLock<()> = SpinLock::new(());
    let _telling = TELLING.lock();
    let realtime = WALL_OFFSET.load(Ordering::Relaxed);
    let tai = realtime.wrapping_add_signed(i64::from(tai_offset()) * NSEC_PER_SEC as i64);
    vdso::set_offsets(realtime, tai);
}

/// CLOCK_MONOTONIC: nanoseconds since boot.
#[inline(always)]
pub fn now_ns() -> u64 {
    crate::arch::time::now_ns()
}

/// CLOCK_REALTIME: nanoseconds since 1970.
#[inline]
pub fn realtime_ns() -> u64 {
    WALL_OFFSET.load(Ordering::Relaxed).wrapping_add(now_ns())
}

/// Sets CLOCK_REALTIME.
pub fn set_realtime_ns(ns: u64) {
    WALL_OFFSET.store(ns.wrapping_sub(now_ns()), Ordering::Relaxed);
    tell_programs();
    wall::clock_was_set(true);
}

/// Sets CLOCK_TAI minus CLOCK_REALTIME, seconds.
pub fn set_tai_offset(seconds: i32) {
    TAI_OFFSET.store(seconds, Ordering::Relaxed);
    tell_programs();
    wall::clock_was_set(false);
}

/// CLOCK_TAI minus CLOCK_REALTIME, seconds.
pub fn tai_offset() -> i32 {
    TAI_OFFSET.load(Ordering::Relaxed)
}
