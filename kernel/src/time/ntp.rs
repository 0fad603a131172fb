//! Steering the clocks (`adjtimex`): a daemon that knows the right time tells how far the clocks are off, and
//! other programs are told how exact they are. The rate of the clocks is made of the tick's length, the
//! frequency, and a share of the remaining offset each second. A kernel thread does that, and leap seconds,
//! as long as there is something to do.

use super::{NSEC_PER_SEC, check_settable, leap, now_ns, realtime_ns, steer, tai_offset};
use crate::sched::{WaitQueue, try_spawn_kthread};
use crate::sync::Mutex;
use limen_linux_abi::{Errno, SysResult};

/// The members of `struct timex`, each as a number.
pub const TIMEX: usize = 21;
mod at {
    pub const MODES: usize = 0;
    pub const OFFSET: usize = 1;
    pub const FREQUENCY: usize = 2;
    pub const MAX_ERROR: usize = 3;
    pub const ESTIMATED_ERROR: usize = 4;
    pub const STATUS: usize = 5;
    pub const CONSTANT: usize = 6;
    pub const PRECISION: usize = 7;
    pub const TOLERANCE: usize = 8;
    pub const SECONDS: usize = 9;
    pub const FRACTION: usize = 10;
    pub const TICK: usize = 11;
    pub const TAI: usize = 20;
}

/// `ADJ_*`.
mod adj {
    pub const OFFSET: u32 = 1;
    pub const FREQUENCY: u32 = 2;
    pub const MAX_ERROR: u32 = 4;
    pub const ESTIMATED_ERROR: u32 = 8;
    pub const STATUS: u32 = 0x10;
    pub const TIME_CONSTANT: u32 = 0x20;
    pub const TAI: u32 = 0x80;
    pub const SET_OFFSET: u32 = 0x100;
    pub const MICRO: u32 = 0x1000;
    pub const NANO: u32 = 0x2000;
    pub const TICK: u32 = 0x4000;
    /// `adjtime`, with [`OFFSET`]. With [`NANO`] it only asks.
    pub const ADJTIME: u32 = 0x8000;
}

/// `STA_*`.
mod sta {
    pub const PLL: u32 = 1;
    pub const FLL: u32 = 8;
    pub const INSERT: u32 = 0x10;
    pub const DELETE: u32 = 0x20;
    pub const UNSYNC: u32 = 0x40;
    pub const FREQUENCY_HOLD: u32 = 0x80;
    pub const CLOCK_ERROR: u32 = 0x1000;
    pub const NANO: u32 = 0x2000;
    pub const MODE: u32 = 0x4000;
    /// Bits that programs cannot set.
    pub const READ_ONLY: u32 = 0xff00;
}

/// The state of a leap second: `TIME_*`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leap {
    None,
    Insert,
    Delete,
    Progress,
    Wait,
}

/// `TIME_ERROR`.
const ERROR: usize = 5;
/// The largest frequency in nanoseconds per second, with 32 bits behind the binary point.
const MAX_FREQUENCY: i64 = 500_000 << 32;
/// A unit of a frequency in `struct timex` (2^-16 parts per million), in the same unit.
const UNIT: i64 = 1000 << 16;
/// The largest offset, nanoseconds.
const MAX_OFFSET: i64 = 500_000_000;
/// The largest error that is reported, and by how much the error grows in a second without news,
/// microseconds.
const MAX_ERROR: i64 = 16_000_000;
const ERROR_PER_SECOND: i64 = 500;
/// How many microseconds `adjtime` corrects in a second at most.
const ADJUST_PER_SECOND: i64 = 500;
/// The tick's nominal length in microseconds. There are a hundred in a second.
const TICK: i64 = 10_000;
const DAY: i64 = 86_400;
const MAX_TAI: i64 = 100_000;

struct Ntp {
    status: u32,
    leap: Leap,
    /// The second in which the leap second is.
    leap_at: i64,
    /// In nanoseconds per second, 32 bits behind the binary point.
    frequency: i64,
    tick: i64,
    /// Nanoseconds that remain to be corrected.
    offset: i64,
    /// Microseconds that remain to be corrected for `adjtime`.
    adjust: i64,
    constant: i64,
    /// The error, in microseconds, at `max_error_at`, a second of `CLOCK_MONOTONIC`.
    max_error: i64,
    max_error_at: i64,
    estimated_error: i64,
    /// When the last offset was told.
    reference: i64,
    /// The share of `offset` and `adjust` that this second corrects, in nanoseconds.
    share: i64,
    /// The rate that the clocks were given last.
    rate: i64,
    /// Whether the kernel thread runs.
    running: bool,
}

static NTP: Mutex<Ntp> = Mutex::new(Ntp {
    status: sta::UNSYNC,
    leap: Leap::None,
    leap_at: i64::MAX,
    frequency: 0,
    tick: TICK,
    offset: 0,
    adjust: 0,
    constant: 2,
    max_error: MAX_ERROR,
    max_error_at: 0,
    estimated_error: MAX_ERROR,
    reference: 0,
    share: 0,
    rate: 0,
    running: false,
});

fn monotonic_seconds() -> i64 {
    (now_ns() / NSEC_PER_SEC) as i64
}

fn real_seconds() -> i64 {
    (realtime_ns() / NSEC_PER_SEC) as i64
}

/// `value` >> `shift`, rounded towards zero.
fn shifted(value: i64, shift: i64) -> i64 {
    let size = (value.unsigned_abs() >> shift.clamp(0, 63)) as i64;
    if value < 0 { -size } else { size }
}

impl Ntp {
    /// Adds what the error has grown by since it was told.
    fn grow_error(&mut self) {
        let now = monotonic_seconds();
        let grown = (now - self.max_error_at).saturating_mul(ERROR_PER_SECOND);
        self.max_error_at = now;
        self.max_error = self.max_error.saturating_add(grown);
        if self.max_error > MAX_ERROR {
            self.max_error = MAX_ERROR;
            self.status |= sta::UNSYNC;
        }
    }

    /// The share of the offset that this second corrects, in nanoseconds.
    fn offset_share(&self) -> i64 {
        shifted(self.offset, 2 + self.constant)
    }

    /// Sets the clocks' rate from all of this.
    fn apply(&mut self) {
        let tick = (self.tick - TICK) * 100_000;
        let gained = (i128::from(tick + self.share) << 32) + i128::from(self.frequency);
        let rate = (gained / i128::from(NSEC_PER_SEC)) as i64;
        if rate != self.rate {
            self.rate = rate;
            steer(rate);
        }
    }

    /// Whether there is something to do in the next second.
    fn is_busy(&self) -> bool {
        self.offset_share() != 0
            || self.adjust != 0
            || self.share != 0
            || self.leap != Leap::None
            || self.status & (sta::INSERT | sta::DELETE) != 0
    }

    /// A second begins.
    fn second(&mut self) {
        self.next_leap(real_seconds());
        self.grow_error();
        let share = self.offset_share();
        self.offset -= share;
        let adjust = self.adjust.clamp(-ADJUST_PER_SECOND, ADJUST_PER_SECOND);
        self.adjust -= adjust;
        self.share = share + adjust * 1000;
        self.apply();
    }

    fn next_leap(&mut self, now: i64) {
        let wants = |bit: u32| self.status & bit != 0;
        match self.leap {
            Leap::None if wants(sta::INSERT) => {
                self.leap = Leap::Insert;
                self.leap_at = now + DAY - now % DAY;
            }
            Leap::None if wants(sta::DELETE) => {
                self.leap = Leap::Delete;
                self.leap_at = now + DAY - (now + 1) % DAY;
            }
            Leap::None => {}
            Leap::Insert if !wants(sta::INSERT) => self.no_leap(Leap::None),
            Leap::Delete if !wants(sta::DELETE) => self.no_leap(Leap::None),
            Leap::Insert if now >= self.leap_at => {
                self.no_leap(Leap::Progress);
                leap(-1);
            }
            Leap::Delete if now >= self.leap_at => {
                self.no_leap(Leap::Wait);
                leap(1);
            }
            Leap::Insert | Leap::Delete => {}
            Leap::Progress => self.no_leap(Leap::Wait),
            Leap::Wait if wants(sta::INSERT | sta::DELETE) => {}
            Leap::Wait => self.no_leap(Leap::None),
        }
    }

    fn no_leap(&mut self, state: Leap) {
        self.leap = state;
        self.leap_at = i64::MAX;
    }

    /// Forgets when the next leap second is; it is computed again.
    fn no_leap_ahead(&mut self) {
        if matches!(self.leap, Leap::Insert | Leap::Delete) {
            self.no_leap(Leap::None);
        }
    }

    fn set_status(&mut self, status: u32) {
        if self.status & sta::PLL != 0 && status & sta::PLL == 0 {
            self.no_leap(Leap::None);
            self.status = sta::UNSYNC;
        }
        if self.status & sta::PLL == 0 && status & sta::PLL != 0 {
            self.reference = real_seconds();
        }
        self.status = self.status & sta::READ_ONLY | status & !sta::READ_ONLY;
    }

    /// The clocks are off by `offset`: corrects that over time, and the frequency with it.
    fn set_offset(&mut self, offset: i64) {
        if self.status & sta::PLL == 0 {
            return;
        }
        let offset = match self.status & sta::NANO {
            0 => offset.clamp(-1_000_000, 1_000_000) * 1000,
            _ => offset,
        };
        let offset = offset.clamp(-MAX_OFFSET, MAX_OFFSET);
        let now = real_seconds();
        let held = self.status & sta::FREQUENCY_HOLD != 0;
        let passed = if held { 0 } else { (now - self.reference).max(0) };
        self.reference = now;
        // A rare offset shows the clock's frequency; frequent ones only whether the clock is too fast.
        const OFTEN: i64 = 256;
        const RARELY: i64 = 2048;
        self.status &= !sta::MODE;
        let mut learnt = 0;
        if passed > RARELY || passed >= OFTEN && self.status & sta::FLL != 0 {
            self.status |= sta::MODE;
            learnt = (offset << 30) / passed;
        }
        let passed = passed.min(1 << (3 + self.constant));
        learnt += (offset * passed) << (32 - 2 * (4 + self.constant));
        self.frequency = self
            .frequency
            .saturating_add(learnt)
            .clamp(-MAX_FREQUENCY, MAX_FREQUENCY);
        self.offset = offset;
    }

    fn change(&mut self, modes: u32, t: &[i64; TIMEX]) {
        if modes & adj::STATUS != 0 {
            self.set_status(t[at::STATUS] as u32);
        }
        if modes & adj::NANO != 0 {
            self.status |= sta::NANO;
        }
        if modes & adj::MICRO != 0 {
            self.status &= !sta::NANO;
        }
        if modes & adj::FREQUENCY != 0 {
            let most = MAX_FREQUENCY / UNIT;
            self.frequency = t[at::FREQUENCY].clamp(-most, most) * UNIT;
        }
        if modes & adj::MAX_ERROR != 0 {
            self.max_error = t[at::MAX_ERROR].clamp(0, MAX_ERROR);
            self.max_error_at = monotonic_seconds();
        }
        if modes & adj::ESTIMATED_ERROR != 0 {
            self.estimated_error = t[at::ESTIMATED_ERROR].clamp(0, MAX_ERROR);
        }
        if modes & adj::TIME_CONSTANT != 0 {
            let more = if self.status & sta::NANO == 0 { 4 } else { 0 };
            self.constant = (t[at::CONSTANT].clamp(0, 10) + more).min(10);
        }
        if modes & adj::OFFSET != 0 {
            self.set_offset(t[at::OFFSET]);
        }
        if modes & adj::TICK != 0 {
            self.tick = t[at::TICK];
        }
    }

    /// Starts the thread if there is something for it to do. If memory is missing, the next call tries again.
    fn run(&mut self) {
        if !self.running && self.is_busy() {
            self.running = try_spawn_kthread("ntp", every_second).is_some();
        }
    }
}

fn every_second() {
    loop {
        let left = NSEC_PER_SEC - realtime_ns() % NSEC_PER_SEC;
        WaitQueue::new().wait_until_deadline_uninterruptible(now_ns() + left, || false);
        let mut ntp = NTP.lock();
        ntp.second();
        if !ntp.is_busy() {
            ntp.running = false;
            return;
        }
    }
}

/// `CLOCK_REALTIME` was set: what was known about its error no longer holds.
pub(super) fn clock_was_set() {
    let mut ntp = NTP.lock();
    ntp.status |= sta::UNSYNC;
    ntp.max_error = MAX_ERROR;
    ntp.max_error_at = monotonic_seconds();
    ntp.estimated_error = MAX_ERROR;
    ntp.no_leap_ahead();
    (ntp.offset, ntp.adjust, ntp.share) = (0, 0, 0);
    ntp.apply();
}

/// `EPERM` or `EINVAL` for requests that are not allowed.
fn validate(modes: u32, t: &[i64; TIMEX], privileged: bool) -> Result<(), Errno> {
    if modes & adj::ADJTIME != 0 {
        if modes & adj::OFFSET == 0 {
            return Err(Errno::EINVAL);
        }
        if modes & adj::NANO == 0 && !privileged {
            return Err(Errno::EPERM);
        }
    } else {
        if modes != 0 && !privileged {
            return Err(Errno::EPERM);
        }
        if modes & adj::TICK != 0 && !(TICK * 9 / 10..=TICK * 11 / 10).contains(&t[at::TICK]) {
            return Err(Errno::EINVAL);
        }
    }
    if modes & adj::SET_OFFSET != 0 {
        if !privileged {
            return Err(Errno::EPERM);
        }
        let whole = if modes & adj::NANO != 0 {
            1_000_000_000
        } else {
            1_000_000
        };
        if !(0..whole).contains(&t[at::FRACTION]) {
            return Err(Errno::EINVAL);
        }
    }
    if modes & adj::FREQUENCY != 0 && t[at::FREQUENCY].checked_mul(UNIT).is_none() && usize::BITS == 64 {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

/// Moves `CLOCK_REALTIME` by the time in `t`.
fn move_clock(modes: u32, t: &[i64; TIMEX]) -> Result<(), Errno> {
    let unit = if modes & adj::NANO != 0 { 1 } else { 1000 };
    let second = i128::from(NSEC_PER_SEC);
    let step = i128::from(t[at::SECONDS]) * second + i128::from(t[at::FRACTION] * unit);
    let new = i128::from(realtime_ns()) + step;
    check_settable(i64::try_from(new.div_euclid(second)).map_err(|_| Errno::EINVAL)?)?;
    super::set_realtime_ns(u64::try_from(new).map_err(|_| Errno::EINVAL)?)
}

/// `adjtimex`: does what the modes in `t` ask for, and writes the present state into `t`. Returns the clock's
/// state. `privileged`: the caller may set clocks.
pub fn adjust(t: &mut [i64; TIMEX], privileged: bool) -> SysResult {
    let modes = t[at::MODES] as u32;
    validate(modes, t, privileged)?;
    if modes & adj::SET_OFFSET != 0 {
        move_clock(modes, t)?;
    }
    let mut ntp = NTP.lock();
    ntp.grow_error();
    let offset = if modes & adj::ADJTIME != 0 {
        let before = ntp.adjust;
        if modes & adj::NANO == 0 {
            ntp.adjust = t[at::OFFSET];
        }
        before
    } else {
        ntp.change(modes, t);
        match ntp.status & sta::NANO {
            0 => ntp.offset / 1000,
            _ => ntp.offset,
        }
    };
    ntp.apply();
    ntp.run();
    let now = realtime_ns();
    let (seconds, fraction) = ((now / NSEC_PER_SEC) as i64, (now % NSEC_PER_SEC) as i64);
    let asked = *t;
    *t = [0; TIMEX];
    t[at::MODES] = asked[at::MODES];
    t[at::OFFSET] = offset;
    t[at::FREQUENCY] = ntp.frequency / UNIT;
    t[at::MAX_ERROR] = ntp.max_error;
    t[at::ESTIMATED_ERROR] = ntp.estimated_error;
    t[at::STATUS] = ntp.status.into();
    t[at::CONSTANT] = ntp.constant;
    t[at::PRECISION] = 1;
    t[at::TOLERANCE] = MAX_FREQUENCY / UNIT;
    t[at::SECONDS] = seconds;
    t[at::FRACTION] = if ntp.status & sta::NANO != 0 {
        fraction
    } else {
        fraction / 1000
    };
    t[at::TICK] = ntp.tick;
    let state = match ntp.leap {
        _ if ntp.status & (sta::UNSYNC | sta::CLOCK_ERROR) != 0 => ERROR,
        Leap::None => 0,
        Leap::Insert => 1,
        Leap::Delete => 2,
        Leap::Progress => 3,
        Leap::Wait => 4,
    };
    drop(ntp);
    let tai = asked[at::CONSTANT];
    if modes & (adj::TAI | adj::ADJTIME) == adj::TAI
        && (0..=MAX_TAI).contains(&tai)
        && tai != tai_offset().into()
    {
        super::set_tai_offset(tai as i32);
    }
    t[at::TAI] = tai_offset().into();
    Ok(state)
}
