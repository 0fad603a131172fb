//! System calls about time: clocks, sleeping, interval timers, POSIX timers, timer files.

use super::SysResult;
use crate::mm::user::{Plain, UserPtr};
use crate::task::creds::cap;
use crate::task::{current, find_task};
use crate::time::clock::{Clock, is_alarm, may_wait_by, resolution};
use crate::time::posix::{Notify, PosixTimer};
use crate::time::process::{self, Itimer};
use crate::time::timerfd::{TFD_TIMER_CANCEL_ON_SET, TIMER_ABSTIME, TimerFd};
use crate::time::{Deadline, NSEC_PER_SEC, now_ns, realtime_ns, set_realtime_ns, sleep_until, tai_offset};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use limen_linux_abi::Errno;
use limen_vdso::clock::split;

/// One word of a time: of 64 bits everywhere, and a machine word for the calls that came before that. `[T; 2]` is a `timespec` or a
/// `timeval`.
pub trait TimeWord: Plain {
    /// Seconds, or another signed figure.
    fn get(self) -> i64;
    /// Nanoseconds or microseconds: a machine word, in whatever it lies.
    fn fraction(self) -> i64;
    /// The figure, cut to the width.
    fn put(value: i64) -> Self;
}

impl TimeWord for i64 {
    #[inline(always)]
    fn get(self) -> i64 {
        self
    }
    #[inline(always)]
    fn fraction(self) -> i64 {
        self as isize as i64
    }
    #[inline(always)]
    fn put(value: i64) -> Self {
        value
    }
}

impl TimeWord for isize {
    #[inline(always)]
    fn get(self) -> i64 {
        self as i64
    }
    #[inline(always)]
    fn fraction(self) -> i64 {
        self as i64
    }
    #[inline(always)]
    fn put(value: i64) -> Self {
        value as isize
    }
}

/// Reads a `timespec` as nanoseconds; `EINVAL` if it is not a valid one.
pub fn read_timespec<T: TimeWord>(at: UserPtr<[T; 2]>) -> Result<u64, Errno> {
    timespec_ns(at.read()?)
}

/// A `timespec` as nanoseconds; `EINVAL` if it is not a valid one.
fn timespec_ns<T: TimeWord>([seconds, ns]: [T; 2]) -> Result<u64, Errno> {
    // With fewer seconds nothing overflows; asked so, it is one comparison and one multiplication.
    const FEWER: u64 = u64::MAX / NSEC_PER_SEC;
    let (seconds, ns) = (seconds.get(), ns.fraction() as u64);
    if seconds < 0 || ns >= NSEC_PER_SEC {
        return Err(Errno::EINVAL);
    }
    let seconds = seconds as u64;
    Ok(if seconds < FEWER {
        seconds * NSEC_PER_SEC + ns
    } else {
        u64::MAX
    })
}

/// Writes nanoseconds as a `timespec`.
pub fn write_timespec<T: TimeWord>(at: UserPtr<[T; 2]>, ns: u64) -> Result<(), Errno> {
    let (seconds, ns) = split(ns);
    at.write([T::put(seconds as i64), T::put(ns as i64)])
}

fn timeval_ns(time: [isize; 2]) -> Result<u64, Errno> {
    let [seconds, us] = time.map(|n| n as i64);
    if seconds < 0 || !(0..1_000_000).contains(&us) {
        return Err(Errno::EINVAL);
    }
    Ok((seconds as u64)
        .saturating_mul(NSEC_PER_SEC)
        .saturating_add(us as u64 * 1000))
}

/// Rounded up, so that a timer that runs is not shown as zero.
fn to_timeval(ns: u64) -> [isize; 2] {
    let us = ns.div_ceil(1000);
    [(us / 1_000_000) as isize, (us % 1_000_000) as isize]
}

/// An absolute deadline from a relative time, far in the future rather than wrapped.
pub fn deadline_after(ns: u64) -> u64 {
    now_ns().saturating_add(ns).min(u64::MAX - 1)
}

fn may_set_time() -> Result<(), Errno> {
    if current().creds().capable(cap::SYS_TIME) {
        Ok(())
    } else {
        Err(Errno::EPERM)
    }
}

/// Sleeps on a relative time; interrupted, it goes on through `restart_syscall` and says how much is left.
fn sleep_relative<T: TimeWord>(deadline: u64, remaining: UserPtr<[T; 2]>) -> SysResult {
    match sleep_until(deadline) {
        Ok(()) => Ok(0),
        Err(_) => {
            if let Some(remaining) = remaining.non_null() {
                write_timespec(remaining, deadline.saturating_sub(now_ns()))?;
            }
            current()
                .restart
                .set(Box::new(move || sleep_relative(deadline, remaining)));
            Err(Errno::ERESTART_RESTARTBLOCK)
        }
    }
}

fn itimer(which: i32) -> Result<Itimer, Errno> {
    Ok(match which {
        0 => Itimer::Real,
        1 => Itimer::Virtual,
        2 => Itimer::Prof,
        _ => return Err(Errno::EINVAL),
    })
}

/// A pair of `timespec`s: interval, value.
fn read_itimerspec<T: TimeWord>(at: UserPtr<[[T; 2]; 2]>) -> Result<(u64, u64), Errno> {
    let [interval, value] = at.read()?;
    Ok((timespec_ns(interval)?, timespec_ns(value)?))
}

fn write_itimerspec<T: TimeWord>(at: UserPtr<[[T; 2]; 2]>, interval: u64, value: u64) -> Result<(), Errno> {
    let first = at.cast::<[T; 2]>();
    write_timespec(first, interval)?;
    write_timespec(first.add(1), value)
}

/// Sets a timer file for who wants to know what was set before. A function of its own: most don't.
#[inline(never)]
fn exchange_time<T: TimeWord>(
    timer: &TimerFd,
    value: u64,
    interval: u64,
    flags: u32,
    old: UserPtr<[[T; 2]; 2]>,
) -> SysResult {
    let before = timer.get();
    let set = timer.set_time(value, interval, flags);
    write_itimerspec(old, before.interval, before.expires)?;
    set.map(|()| 0)
}

/// What `adjtimex` keeps for those who read it back; the clock itself is the machine's and is not steered.
static FREQUENCY: AtomicI64 = AtomicI64::new(0);
static STATUS: AtomicU32 = AtomicU32::new(STA_UNSYNC);
const STA_UNSYNC: u32 = 0x40;

/// Words of `struct timex` that mean something; room for more follows them.
const TIMEX_WORDS: usize = 21;

/// `adjtimex`. The structure's members are words, or integers each with a word of its own where words are wider.
fn adjust<T: TimeWord>(at: UserPtr<[T; TIMEX_WORDS]>) -> SysResult {
    const ADJ_FREQUENCY: u32 = 2;
    const ADJ_STATUS: u32 = 0x10;
    const ADJ_TAI: u32 = 0x80;
    const ADJ_SETOFFSET: u32 = 0x100;
    const ADJ_NANO: u32 = 0x2000;
    // What `adjtime` sets, with a bit without which it is only read.
    const ADJ_ADJTIME: u32 = 0x8000;
    const ADJ_OFFSET_READONLY: u32 = 0x2000;
    let t = at.read()?.map(T::get);
    let modes = t[0] as u32;
    let only_reads = modes & (ADJ_ADJTIME | ADJ_OFFSET_READONLY) == ADJ_ADJTIME | ADJ_OFFSET_READONLY;
    if modes != 0 && !only_reads || modes & ADJ_SETOFFSET != 0 {
        may_set_time()?;
        if modes & ADJ_SETOFFSET != 0 {
            let unit = if modes & ADJ_NANO != 0 { 1 } else { 1000 };
            let step = t[9]
                .wrapping_mul(NSEC_PER_SEC as i64)
                .wrapping_add(t[10].wrapping_mul(unit));
            set_realtime_ns(realtime_ns().wrapping_add_signed(step));
        }
    }
    if modes & ADJ_ADJTIME == 0 {
        if modes & ADJ_TAI != 0 {
            crate::time::set_tai_offset(t[6] as i32);
        }
        if modes & ADJ_FREQUENCY != 0 {
            FREQUENCY.store(t[2].clamp(-32_768_000, 32_768_000), Ordering::Relaxed);
        }
        if modes & ADJ_STATUS != 0 {
            STATUS.store(t[5] as u32 & 0xff, Ordering::Relaxed);
        }
    }
    let now = realtime_ns();
    let status = STATUS.load(Ordering::Relaxed);
    let mut t = [0; TIMEX_WORDS];
    t[0] = i64::from(modes);
    t[2] = FREQUENCY.load(Ordering::Relaxed);
    t[3] = 16_000_000;
    t[4] = 16_000_000;
    t[5] = i64::from(status);
    t[6] = 2;
    t[7] = 1;
    t[8] = 32_768_000;
    t[9] = (now / NSEC_PER_SEC) as i64;
    t[10] = (now % NSEC_PER_SEC / 1000) as i64;
    t[11] = 10_000;
    t[20] = i64::from(tai_offset());
    at.write(t.map(T::put))?;
    const TIME_OK: usize = 0;
    const TIME_ERROR: usize = 5;
    Ok(if status & STA_UNSYNC != 0 {
        TIME_ERROR
    } else {
        TIME_OK
    })
}

crate::syscalls! {
    fn time(at: UserPtr<isize>) {
        let seconds = (realtime_ns() / NSEC_PER_SEC) as isize;
        if let Some(at) = at.non_null() {
            at.write(seconds)?;
        }
        Ok(seconds as usize)
    }

    fn stime(at: UserPtr<isize>) {
        let seconds = u64::try_from(at.read()?).map_err(|_| Errno::EINVAL)?;
        may_set_time()?;
        set_realtime_ns(seconds.saturating_mul(NSEC_PER_SEC));
        Ok(0)
    }

    fn gettimeofday(tv: UserPtr<[isize; 2]>, tz: UserPtr<[i32; 2]>) {
        if let Some(tv) = tv.non_null() {
            let (seconds, ns) = split(realtime_ns());
            tv.write([seconds as isize, (ns as u32 / 1000) as isize])?;
        }
        if let Some(tz) = tz.non_null() {
            tz.write([0, 0])?;
        }
        Ok(0)
    }

    fn settimeofday(tv: UserPtr<[isize; 2]>, tz: UserPtr<[i32; 2]>) {
        let ns = match tv.non_null() { Some(tv) => Some(timeval_ns(tv.read()?)?), None => None };
        let zone = tz.non_null().map(|tz| tz.read()).transpose()?;
        may_set_time()?;
        // The kernel's time zone only ever mattered to old file systems; its range is checked as ever.
        if zone.is_some_and(|[west, _]| !(-15 * 60..=15 * 60).contains(&west)) {
            return Err(Errno::EINVAL);
        }
        if let Some(ns) = ns {
            set_realtime_ns(ns);
        }
        Ok(0)
    }

    fn clock_gettime/clock_gettime64(id: i32, at: UserPtr<[Time; 2]>) {
        let now = match id {
            0 | 5 => realtime_ns(),
            1 | 4 | 6 | 7 => now_ns(),
            _ => Clock::from_id(id)?.now(),
        };
        write_timespec(at, now)?;
        Ok(0)
    }

    fn clock_settime/clock_settime64(id: i32, at: UserPtr<[Time; 2]>) {
        if id > 0 {
            // Other clocks exist but can't be set, or don't exist: the same answer.
            return Err(Errno::EINVAL);
        }
        let time = at.read()?;
        if id < 0 {
            return Clock::from_id(id).and(Err(Errno::EPERM));
        }
        let ns = timespec_ns(time)?;
        may_set_time()?;
        set_realtime_ns(ns);
        Ok(0)
    }

    fn clock_getres/clock_getres_time64(id: i32, at: UserPtr<[Time; 2]>) {
        let ns = resolution(id)?;
        if let Some(at) = at.non_null() {
            write_timespec(at, ns)?;
        }
        Ok(0)
    }

    fn nanosleep(requested: UserPtr<[isize; 2]>, remaining: UserPtr<[isize; 2]>) {
        sleep_relative(deadline_after(read_timespec(requested)?), remaining)
    }

    fn clock_nanosleep/clock_nanosleep_time64(id: i32, flags: u32, requested: UserPtr<[Time; 2]>, remaining: UserPtr<[Time; 2]>) {
        // Nobody sleeps by the running thread's clock, raw and coarse ones.
        if (3..=6).contains(&id) {
            return Err(Errno::EOPNOTSUPP);
        }
        // Whether there is the CPU clock of a negative number comes last.
        let clock = Clock::from_id(id);
        if id >= 0 && clock.is_err() {
            return Err(Errno::EINVAL);
        }
        let ns = read_timespec(requested)?;
        let clock = clock?;
        if is_alarm(id) && flags & !TIMER_ABSTIME != 0 {
            return Err(Errno::EINVAL);
        }
        may_wait_by(id)?;
        match &clock {
            Clock::Thread(task, _) if task.tid() == current().tid() => return Err(Errno::EINVAL),
            clock if clock.is_cpu() => return Err(Errno::EOPNOTSUPP),
            _ => {}
        }
        if flags & TIMER_ABSTIME == 0 {
            return sleep_relative(deadline_after(ns), remaining);
        }
        let deadline = Deadline::of(&clock, ns).ok_or(Errno::EOPNOTSUPP)?;
        deadline.sleep().map(|()| 0).map_err(|_| Errno::ERESTARTNOHAND)
    }

    fn adjtimex(at: UserPtr<[isize; TIMEX_WORDS]>) {
        adjust(at)
    }

    fn clock_adjtime/clock_adjtime64(id: i32, at: UserPtr<[Time; TIMEX_WORDS]>) {
        if id != 0 {
            at.read()?;
            return Err(if id <= 11 { Errno::EOPNOTSUPP } else { Errno::EINVAL });
        }
        adjust(at)
    }

    fn alarm(seconds: u32) {
        let (left, _) = process::set_itimer(Itimer::Real, u64::from(seconds) * NSEC_PER_SEC, 0);
        // Never zero if there was one.
        Ok(if left == 0 { 0 } else { (left + NSEC_PER_SEC / 2).div_euclid(NSEC_PER_SEC).max(1) as usize })
    }

    fn getitimer(which: i32, at: UserPtr<[[isize; 2]; 2]>) {
        let (left, interval) = process::get_itimer(itimer(which)?);
        at.write([to_timeval(interval), to_timeval(left)])?;
        Ok(0)
    }

    fn setitimer(which: i32, new: UserPtr<[[isize; 2]; 2]>, old: UserPtr<[[isize; 2]; 2]>) {
        let (interval, value) = match new.non_null() {
            Some(new) => {
                let [interval, value] = new.read()?;
                (timeval_ns(interval)?, timeval_ns(value)?)
            }
            // Linux takes a null pointer for "off".
            None => (0, 0),
        };
        let which = itimer(which)?;
        let (left, old_interval) = process::set_itimer(which, value, interval);
        if let Some(old) = old.non_null() {
            old.write([to_timeval(old_interval), to_timeval(left)])?;
        }
        Ok(0)
    }

    fn timer_create(id: i32, event: usize, out: UserPtr<i32>) {
        const SIGEV_SIGNAL: i32 = 0;
        const SIGEV_NONE: i32 = 1;
        const SIGEV_THREAD: i32 = 2;
        const SIGEV_THREAD_ID: i32 = 4;
        const SIGALRM: i32 = 14;
        let me = current();
        // struct sigevent: value (a word), signo, notify, then the thread's id.
        let (value, signo, how, tid) = if event == 0 {
            (None, SIGALRM, SIGEV_SIGNAL, 0)
        } else {
            let value = UserPtr::<usize>::new(event).read()?;
            let [signo, how, tid] = UserPtr::<[i32; 3]>::new(event + size_of::<usize>()).read()?;
            (Some(value), signo, how, tid)
        };
        let clock = Clock::from_id(id)?;
        if id == 4 || id == 5 || id == 6 {
            // Raw and coarse clocks have no timers.
            return Err(Errno::EOPNOTSUPP);
        }
        if how != SIGEV_NONE && !(1..=64).contains(&signo) {
            return Err(Errno::EINVAL);
        }
        let notify = match how {
            SIGEV_NONE => Notify::None,
            SIGEV_SIGNAL | SIGEV_THREAD => Notify::Process(Arc::downgrade(&me.process)),
            SIGEV_THREAD_ID => {
                let task = find_task(tid).filter(|t| Arc::ptr_eq(&t.process, &me.process)).ok_or(Errno::EINVAL)?;
                Notify::Thread(Arc::downgrade(&task))
            }
            _ => return Err(Errno::EINVAL),
        };
        may_wait_by(id)?;
        let id = process::add_posix(|id| PosixTimer::new(id, clock, notify, signo as u32, value.unwrap_or(id as usize)))?;
        if let Err(e) = out.write(id) {
            process::remove_posix(id)?;
            return Err(e);
        }
        Ok(0)
    }

    fn timer_settime/timer_settime64(id: i32, flags: u32, new: UserPtr<[[Time; 2]; 2]>, old: UserPtr<[[Time; 2]; 2]>) {
        if new.is_null() {
            return Err(Errno::EINVAL);
        }
        let (interval, value) = read_itimerspec(new)?;
        let timer = process::find_posix(id)?;
        let before = timer.set(value, interval, flags & TIMER_ABSTIME != 0);
        if let Some(old) = old.non_null() {
            write_itimerspec(old, before.interval, before.expires)?;
        }
        Ok(0)
    }

    fn timer_gettime/timer_gettime64(id: i32, at: UserPtr<[[Time; 2]; 2]>) {
        let setting = process::find_posix(id)?.get();
        write_itimerspec(at, setting.interval, setting.expires)?;
        Ok(0)
    }

    fn timer_getoverrun(id: i32) {
        Ok(process::find_posix(id)?.overrun() as usize)
    }

    fn timer_delete(id: i32) {
        process::remove_posix(id)?;
        Ok(0)
    }

    fn timerfd_create(id: i32, flags: u32) {
        const TFD_CLOEXEC: u32 = 0o2_000_000;
        const TFD_NONBLOCK: u32 = 0o4000;
        if flags & !(TFD_CLOEXEC | TFD_NONBLOCK) != 0 {
            return Err(Errno::EINVAL);
        }
        const O_RDWR: u32 = 2;
        may_wait_by(id)?;
        let file = crate::fs::anon::file(
            "[timerfd]",
            TimerFd::new(id)?,
            O_RDWR | flags & TFD_NONBLOCK,
            crate::fs::FileMode::NO_WRITE,
        );
        Ok(current().files().install(file, flags & TFD_CLOEXEC != 0)? as usize)
    }

    fn timerfd_settime/timerfd_settime64(fd: i32, flags: u32, new: UserPtr<[[Time; 2]; 2]>, old: UserPtr<[[Time; 2]; 2]>) {
        let (interval, value) = read_itimerspec(new)?;
        if flags & !(TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET) != 0 {
            return Err(Errno::EINVAL);
        }
        current().with_file(fd, #[inline(always)] move |file| {
            let timer = file.ops().timer().ok_or(Errno::EINVAL)?;
            match old.non_null() {
                None => timer.set_time(value, interval, flags).map(|()| 0),
                Some(old) => exchange_time(timer, value, interval, flags, old),
            }
        })
    }

    fn timerfd_gettime/timerfd_gettime64(fd: i32, at: UserPtr<[[Time; 2]; 2]>) {
        let setting = current().with_file(fd, move |file| Ok(file.ops().timer().ok_or(Errno::EINVAL)?.get()))?;
        write_itimerspec(at, setting.interval, setting.expires)?;
        Ok(0)
    }
}
