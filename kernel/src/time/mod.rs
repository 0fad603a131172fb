//! Clocks, timers and the timer interrupt.

#![forbid(unsafe_code)]

pub mod ntp;
mod sleep;
mod timer;
pub mod vdso;
pub mod wall;

pub use sleep::{sleep_until, sleep_until_passed};
pub use timer::{TICK_ALONE, Timer, TimerBase, tick_needed, timer_interrupt};

use crate::sync::{IrqSpinLock, SpinLock};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use limen_linux_abi::Errno;
use limen_vdso::Steering;

/// Nanoseconds of a second.
pub const NSEC_PER_SEC: u64 = 1_000_000_000;

/// `CLOCK_REALTIME` - `CLOCK_MONOTONIC`, nanoseconds.
static WALL_OFFSET: AtomicU64 = AtomicU64::new(0);

/// `CLOCK_TAI` - `CLOCK_REALTIME`, seconds.
static TAI_OFFSET: AtomicI32 = AtomicI32::new(0);

/// Reads the machine's real-time clock. Once, at boot.
pub fn init() {
    if let Some(seconds) = crate::arch::platform::wall_clock() {
        WALL_OFFSET.store((seconds * NSEC_PER_SEC).wrapping_sub(now_ns()), Ordering::Relaxed);
    }
    vdso::init();
    tell_programs();
}

/// `CLOCK_REALTIME` or `CLOCK_TAI` was set: writes the offsets that programs read through the vDSO. Callers
/// take turns, so that the last offsets stay.
fn tell_programs() {
    static TELLING: SpinLock<()> = SpinLock::new(());
    let _telling = TELLING.lock();
    let realtime = WALL_OFFSET.load(Ordering::Relaxed);
    let tai = realtime.wrapping_add_signed(i64::from(tai_offset()) * NSEC_PER_SEC as i64);
    vdso::set_offsets(realtime, tai);
}

/// `CLOCK_MONOTONIC`: nanoseconds since boot, at the rate set with `adjtimex`.
#[inline(always)]
pub fn now_ns() -> u64 {
    STEERING.clock(raw_ns())
}

/// `CLOCK_MONOTONIC_RAW`: nanoseconds since boot as the machine counts them. Only to be compared with other
/// such times.
#[inline(always)]
pub fn raw_ns() -> u64 {
    crate::arch::time::now_ns()
}

/// How `CLOCK_MONOTONIC` differs from what the machine counts.
static STEERING: Steering = Steering::new();

/// Makes `CLOCK_MONOTONIC` gain `rate` from now on, in 2^-32 nanoseconds per nanosecond. Sends a cross-CPU
/// call, so interrupts must be on.
fn steer(rate: i64) {
    static CHANGING: IrqSpinLock<()> = IrqSpinLock::new(());
    {
        let _changing = CHANGING.lock();
        let raw = raw_ns();
        STEERING.set(raw, rate);
        vdso::steer(raw, rate);
    }
    // Timers that are programmed were converted with the old rate.
    crate::sched::on_each_cpu(crate::sched::online(), &timer::program_again);
}

/// When the machine's timer must expire so that `CLOCK_MONOTONIC` shows at most `deadline`, in nanoseconds as
/// the machine counts.
#[inline(always)]
fn event_time(deadline: u64) -> u64 {
    if STEERING.in_use() {
        steered_event_time(deadline)
    } else {
        deadline
    }
}

#[cold]
#[inline(never)]
fn steered_event_time(deadline: u64) -> u64 {
    if deadline == u64::MAX {
        return deadline;
    }
    // At most a second ahead, since the present rate may change.
    STEERING.raw(deadline).min(raw_ns() + NSEC_PER_SEC)
}

/// `CLOCK_REALTIME`: nanoseconds since 1970.
#[inline]
pub fn realtime_ns() -> u64 {
    WALL_OFFSET.load(Ordering::Relaxed).wrapping_add(now_ns())
}

/// `CLOCK_TAI`: [`realtime_ns`] without leap seconds.
#[inline]
pub fn tai_ns() -> u64 {
    realtime_ns().wrapping_add_signed(i64::from(tai_offset()) * NSEC_PER_SEC as i64)
}

/// The time of `CLOCK_MONOTONIC` at which `CLOCK_REALTIME` shows `at`, if it is not set before; 0 if it
/// showed that before boot. No clock is read, so the result is the same until the clock is set: a timer that
/// was armed for it has not expired too early.
#[inline]
pub fn monotonic_of_realtime(at: u64) -> u64 {
    let offset = WALL_OFFSET.load(Ordering::Relaxed) as i64;
    at.saturating_add_signed(offset.wrapping_neg())
}

/// [`monotonic_of_realtime`] for `CLOCK_TAI`.
#[inline]
pub fn monotonic_of_tai(at: u64) -> u64 {
    let ahead = i64::from(tai_offset()) * NSEC_PER_SEC as i64;
    monotonic_of_realtime(at.saturating_add_signed(-ahead))
}

/// Clocks cannot be set to this second or a later one: 30 years are left until 63 bits of nanoseconds
/// overflow.
const SETTABLE: i64 = i64::MAX / NSEC_PER_SEC as i64 - 30 * 365 * 86_400;

/// `EINVAL` if a clock cannot be set to this time.
pub fn check_settable(seconds: i64) -> Result<(), Errno> {
    if (0..SETTABLE).contains(&seconds) {
        Ok(())
    } else {
        Err(Errno::EINVAL)
    }
}

/// Sets `CLOCK_REALTIME`. `EINVAL`: the machine would have booted before 1970.
pub fn set_realtime_ns(ns: u64) -> Result<(), Errno> {
    let offset = ns.checked_sub(now_ns()).ok_or(Errno::EINVAL)?;
    WALL_OFFSET.store(offset, Ordering::Relaxed);
    ntp::clock_was_set();
    tell_programs();
    wall::clock_was_set(true);
    Ok(())
}

/// Keeps a time zone for programs: minutes west of Greenwich, and a kind of daylight saving time, which
/// nobody uses. The first one that comes without a time says that the machine's clock showed local time:
/// `CLOCK_REALTIME` is moved by it. `EINVAL`: it is more than 15 hours from Greenwich.
pub fn set_zone(zone: [i32; 2], with_time: bool) -> Result<(), Errno> {
    static SET: AtomicBool = AtomicBool::new(false);
    let west = zone[0];
    if !(-15 * 60..=15 * 60).contains(&west) {
        return Err(Errno::EINVAL);
    }
    vdso::set_zone(zone);
    if !SET.swap(true, Ordering::Relaxed) && !with_time && west != 0 {
        let moved = realtime_ns() as i64 + i64::from(west) * 60 * NSEC_PER_SEC as i64;
        // A time that cannot be is not set; nobody is told.
        set_realtime_ns(moved as u64).unwrap_or_default();
    }
    Ok(())
}

/// A leap second: `CLOCK_REALTIME` jumps by `seconds`, `CLOCK_TAI` does not.
fn leap(seconds: i32) {
    let ns = (i64::from(seconds) * NSEC_PER_SEC as i64) as u64;
    // Between the two `CLOCK_TAI` may be behind for a moment, but never ahead: a sleep by it would end early.
    if seconds > 0 {
        TAI_OFFSET.fetch_sub(seconds, Ordering::SeqCst);
        WALL_OFFSET.fetch_add(ns, Ordering::SeqCst);
    } else {
        WALL_OFFSET.fetch_add(ns, Ordering::SeqCst);
        TAI_OFFSET.fetch_sub(seconds, Ordering::SeqCst);
    }
    tell_programs();
    wall::clock_was_set(true);
}

/// Sets `CLOCK_TAI` - `CLOCK_REALTIME`, in seconds.
pub fn set_tai_offset(seconds: i32) {
    TAI_OFFSET.store(seconds, Ordering::Relaxed);
    tell_programs();
    wall::clock_was_set(false);
}

/// `CLOCK_TAI` - `CLOCK_REALTIME`, in seconds.
pub fn tai_offset() -> i32 {
    TAI_OFFSET.load(Ordering::Relaxed)
}
