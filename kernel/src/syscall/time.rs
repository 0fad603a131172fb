//! System calls on time: clocks, sleeping, interval timers, POSIX timers, timerfds.

use super::SysResult;
use crate::fs::timerfd::{TFD_TIMER_CANCEL_ON_SET, TIMER_ABSTIME, TimerFd};
use crate::mm::user::{Plain, UserPtr, Word};
use crate::signal::SIGALRM;
use crate::task::creds::cap;
use crate::task::ns::time::{meant, shown};
use crate::task::timers::clock::{Clock, is_alarm, may_wait_by, resolution};
use crate::task::timers::posix::{Notify, Place, PosixTimer};
use crate::task::timers::{self, Itimer};
use crate::task::{current, pid::find_task_here};
use crate::time::{
    NSEC_PER_SEC, check_settable, now_ns, ntp, realtime_ns, set_realtime_ns, set_zone, sleep_until, vdso,
};
use alloc::boxed::Box;
use alloc::sync::Arc;
use limen_linux_abi::{Errno, raw::general as abi};
use limen_vdso::clock::split;

/// The type of a time's words: 64 bits, and in older calls a machine word. `[T; 2]` is a `timespec` or a
/// `timeval`.
pub trait TimeWord: Plain {
    /// Seconds, or another signed number.
    fn get(self) -> i64;
    /// Nanoseconds or microseconds: a machine word, which may lie in 64 bits.
    fn fraction(self) -> i64;
    /// The number, cut to the width.
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

impl TimeWord for i32 {
    #[inline(always)]
    fn get(self) -> i64 {
        self.into()
    }
    #[inline(always)]
    fn fraction(self) -> i64 {
        self.into()
    }
    #[inline(always)]
    fn put(value: i64) -> Self {
        value as i32
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

/// Reads a `timespec` and returns nanoseconds. `EINVAL`: it is not valid.
pub fn read_timespec<T: TimeWord>(at: UserPtr<[T; 2]>) -> Result<u64, Errno> {
    timespec_ns(at.read()?)
}

/// A `timespec` in nanoseconds. `EINVAL`: it is not valid.
pub fn timespec_ns<T: TimeWord>([seconds, ns]: [T; 2]) -> Result<u64, Errno> {
    // With fewer seconds there is no overflow: so there is one comparison and one multiplication.
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

fn timeval_ns<T: TimeWord>(time: [T; 2]) -> Result<u64, Errno> {
    let [seconds, us] = time.map(T::get);
    if seconds < 0 || !(0..1_000_000).contains(&us) {
        return Err(Errno::EINVAL);
    }
    Ok((seconds as u64)
        .saturating_mul(NSEC_PER_SEC)
        .saturating_add(us as u64 * 1000))
}

/// Rounded up, so that a running timer does not show zero.
fn to_timeval<T: TimeWord>(ns: u64) -> [T; 2] {
    let us = ns.div_ceil(1000);
    [T::put((us / 1_000_000) as i64), T::put((us % 1_000_000) as i64)]
}

/// The deadline, in nanoseconds of `CLOCK_MONOTONIC`, after a relative time. It does not wrap.
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

/// Sleeps until `deadline`. If a signal interrupts it, writes the time that is left, and `restart_syscall`
/// continues it.
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

/// Reads two `timespec`s: interval and value.
fn read_itimerspec<T: TimeWord>(at: UserPtr<[[T; 2]; 2]>) -> Result<(u64, u64), Errno> {
    let [interval, value] = at.read()?;
    Ok((timespec_ns(interval)?, timespec_ns(value)?))
}

fn write_itimerspec<T: TimeWord>(at: UserPtr<[[T; 2]; 2]>, interval: u64, value: u64) -> Result<(), Errno> {
    let first = at.cast::<[T; 2]>();
    write_timespec(first, interval)?;
    write_timespec(first.add(1), value)
}

/// Sets a timerfd for a program that wants to know the former setting. Not inlined, as most do not want that.
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

/// `adjtimex`. The members of the structure are words, or, where words are wider, integers that each take up
/// a word.
fn adjust<T: TimeWord>(at: UserPtr<[T; ntp::TIMEX]>) -> SysResult {
    let mut t = at.read()?.map(T::get);
    let state = ntp::adjust(&mut t, current().creds().capable(cap::SYS_TIME))?;
    at.write(t.map(T::put))?;
    Ok(state)
}

/// `timer_create`, with a `struct sigevent` of words `W`.
pub(super) fn create_timer<W: Word>(id: i32, event: usize, out: UserPtr<i32>) -> SysResult {
    const SIGEV_SIGNAL: i32 = 0;
    const SIGEV_NONE: i32 = 1;
    const SIGEV_THREAD: i32 = 2;
    const SIGEV_THREAD_ID: i32 = 4;
    let me = current();
    // struct sigevent: value (a word), signo, notify, then the thread's id.
    let (value, signo, how, tid) = if event == 0 {
        (None, SIGALRM as i32, SIGEV_SIGNAL, 0)
    } else {
        let value = UserPtr::<W>::new(event).read()?.get();
        let [signo, how, tid] = UserPtr::<[i32; 3]>::new(event + size_of::<W>()).read()?;
        (Some(value), signo, how, tid)
    };
    let clock = Clock::from_id(id)?;
    if id == 4 || id == 5 || id == 6 {
        // There are no timers by raw and coarse clocks.
        return Err(Errno::EOPNOTSUPP);
    }
    if how != SIGEV_NONE && !(1..=64).contains(&signo) {
        return Err(Errno::EINVAL);
    }
    let notify = match how {
        SIGEV_NONE => Notify::None,
        SIGEV_SIGNAL | SIGEV_THREAD => Notify::Process(Arc::downgrade(&me.process)),
        SIGEV_THREAD_ID => {
            let task = find_task_here(tid)
                .filter(|t| Arc::ptr_eq(&t.process, &me.process))
                .ok_or(Errno::EINVAL)?;
            Notify::Thread(Arc::downgrade(&task))
        }
        _ => return Err(Errno::EINVAL),
    };
    may_wait_by(id)?;
    let place = Place::take()?;
    let clock = (clock, id);
    let id = timers::add_posix(|id| {
        PosixTimer::new(
            id,
            clock,
            notify,
            signo as u32,
            value.unwrap_or(id as usize),
            place,
        )
    })?;
    if let Err(e) = out.write(id) {
        timers::remove_posix(id)?;
        return Err(e);
    }
    Ok(0)
}

crate::syscalls! {
    fn time/(at: UserPtr<Time>) {
        let seconds = (realtime_ns() / NSEC_PER_SEC) as Time;
        if let Some(at) = at.non_null() {
            at.write(seconds)?;
        }
        Ok(seconds as usize)
    }

    fn stime/(at: UserPtr<Time>) {
        let seconds = at.read()?.get();
        may_set_time()?;
        check_settable(seconds)?;
        set_realtime_ns(seconds as u64 * NSEC_PER_SEC)?;
        Ok(0)
    }

    fn gettimeofday/(tv: UserPtr<[Time; 2]>, tz: UserPtr<[i32; 2]>) {
        if let Some(tv) = tv.non_null() {
            let (seconds, ns) = split(realtime_ns());
            tv.write([seconds as Time, (ns as u32 / 1000) as Time])?;
        }
        if let Some(tz) = tz.non_null() {
            tz.write(vdso::zone())?;
        }
        Ok(0)
    }

    fn settimeofday/(tv: UserPtr<[Time; 2]>, tz: UserPtr<[i32; 2]>) {
        let time = tv.non_null().map(|tv| tv.read()).transpose()?;
        if time.is_some_and(|[_, us]| !(0..=1_000_000).contains(&us)) {
            return Err(Errno::EINVAL);
        }
        let zone = tz.non_null().map(|tz| tz.read()).transpose()?;
        let ns = time.map(timeval_ns).transpose()?;
        if let Some([seconds, _]) = time {
            check_settable(seconds.get())?;
        }
        may_set_time()?;
        if let Some(zone) = zone {
            set_zone(zone, time.is_some())?;
        }
        if let Some(ns) = ns {
            set_realtime_ns(ns)?;
        }
        Ok(0)
    }

    fn clock_gettime/clock_gettime64(id: i32, at: UserPtr<[Time; 2]>) {
        let now = match id {
            0 | 5 => realtime_ns(),
            1 | 6 | 7 => shown(id, now_ns()),
            _ => shown(id, Clock::from_id(id)?.now()),
        };
        write_timespec(at, now)?;
        Ok(0)
    }

    fn clock_settime/clock_settime64(id: i32, at: UserPtr<[Time; 2]>) {
        if id > 0 {
            // The same error for clocks that cannot be set and for those that do not exist.
            return Err(Errno::EINVAL);
        }
        let time = at.read()?;
        if id < 0 {
            return Clock::from_id(id).and(Err(Errno::EPERM));
        }
        let ns = timespec_ns(time)?;
        check_settable(time[0].get())?;
        may_set_time()?;
        set_realtime_ns(ns)?;
        Ok(0)
    }

    fn clock_getres/clock_getres_time64(id: i32, at: UserPtr<[Time; 2]>) {
        let ns = resolution(id)?;
        if let Some(at) = at.non_null() {
            write_timespec(at, ns)?;
        }
        Ok(0)
    }

    fn nanosleep/(requested: UserPtr<[Time; 2]>, remaining: UserPtr<[Time; 2]>) {
        sleep_relative(deadline_after(read_timespec(requested)?), remaining)
    }

    fn clock_nanosleep/clock_nanosleep_time64(id: i32, flags: u32, requested: UserPtr<[Time; 2]>,
        remaining: UserPtr<[Time; 2]>) {
        // There are no sleeps by the running thread's CPU time, nor by raw and coarse clocks.
        if (3..=6).contains(&id) {
            return Err(Errno::EOPNOTSUPP);
        }
        // Whether the CPU clock of a negative number exists is checked last.
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
        let deadline = clock.deadline(meant(id, ns)).ok_or(Errno::EOPNOTSUPP)?;
        deadline.sleep().map(|()| 0).map_err(|_| Errno::ERESTARTNOHAND)
    }

    fn adjtimex/(at: UserPtr<[Time; ntp::TIMEX]>) {
        adjust(at)
    }

    fn clock_adjtime/clock_adjtime64(id: i32, at: UserPtr<[Time; ntp::TIMEX]>) {
        if id != 0 {
            at.read()?;
            // A CPU clock, whether it exists or not; a clock that is a file; one of the others.
            let known = if id < 0 { id & 7 != 3 } else { id <= 11 && id != 10 };
            return Err(if known { Errno::EOPNOTSUPP } else { Errno::EINVAL });
        }
        adjust(at)
    }

    fn alarm(seconds: u32) {
        let (left, _) = timers::set_itimer(Itimer::Real, u64::from(seconds) * NSEC_PER_SEC, 0);
        // Not 0 if there was an alarm.
        Ok(if left == 0 { 0 } else { (left + NSEC_PER_SEC / 2).div_euclid(NSEC_PER_SEC).max(1) as usize })
    }

    fn getitimer/(which: i32, at: UserPtr<[[Time; 2]; 2]>) {
        let (left, interval) = timers::get_itimer(itimer(which)?);
        at.write([to_timeval(interval), to_timeval(left)])?;
        Ok(0)
    }

    fn setitimer/(which: i32, new: UserPtr<[[Time; 2]; 2]>, old: UserPtr<[[Time; 2]; 2]>) {
        let (interval, value) = match new.non_null() {
            Some(new) => {
                let [interval, value] = new.read()?;
                (timeval_ns(interval)?, timeval_ns(value)?)
            }
            // As on Linux a null pointer turns the timer off.
            None => (0, 0),
        };
        let which = itimer(which)?;
        let (left, old_interval) = timers::set_itimer(which, value, interval);
        if let Some(old) = old.non_null() {
            old.write([to_timeval(old_interval), to_timeval(left)])?;
        }
        Ok(0)
    }

    fn timer_create(id: i32, event: usize, out: UserPtr<i32>) {
        create_timer::<usize>(id, event, out)
    }

    fn timer_settime/timer_settime64(id: i32, flags: u32, new: UserPtr<[[Time; 2]; 2]>,
        old: UserPtr<[[Time; 2]; 2]>) {
        if new.is_null() {
            return Err(Errno::EINVAL);
        }
        let (interval, value) = read_itimerspec(new)?;
        let timer = timers::find_posix(id)?;
        let absolute = flags & TIMER_ABSTIME != 0;
        let value = if absolute && value != 0 { meant(timer.clock_id, value) } else { value };
        let before = timer.set(value, interval, absolute)?;
        if let Some(old) = old.non_null() {
            write_itimerspec(old, before.interval, before.expires)?;
        }
        Ok(0)
    }

    fn timer_gettime/timer_gettime64(id: i32, at: UserPtr<[[Time; 2]; 2]>) {
        let setting = timers::find_posix(id)?.get();
        write_itimerspec(at, setting.interval, setting.expires)?;
        Ok(0)
    }

    fn timer_getoverrun(id: i32) {
        Ok(timers::find_posix(id)?.overrun() as usize)
    }

    fn timer_delete(id: i32) {
        timers::remove_posix(id)?;
        Ok(0)
    }

    fn timerfd_create(id: i32, flags: u32) {
        const TFD_CLOEXEC: u32 = 0o2_000_000;
        const TFD_NONBLOCK: u32 = 0o4000;
        if flags & !(TFD_CLOEXEC | TFD_NONBLOCK) != 0 {
            return Err(Errno::EINVAL);
        }
        may_wait_by(id)?;
        let file = crate::fs::anon::file(
            "[timerfd]",
            TimerFd::new(id)?,
            abi::O_RDWR | flags & TFD_NONBLOCK,
            crate::fs::FileMode::NO_WRITE,
        )?;
        Ok(current().files().install(file, flags & TFD_CLOEXEC != 0)? as usize)
    }

    fn timerfd_settime/timerfd_settime64(fd: i32, flags: u32, new: UserPtr<[[Time; 2]; 2]>,
        old: UserPtr<[[Time; 2]; 2]>) {
        let (interval, value) = read_itimerspec(new)?;
        if flags & !(TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET) != 0 {
            return Err(Errno::EINVAL);
        }
        current().with_file(fd, #[inline(always)] move |file| {
            let timer = file.ops().timer().ok_or(Errno::EINVAL)?;
            // The task that sets the timer needs the privilege, whichever task made it.
            may_wait_by(timer.id())?;
            let absolute = flags & TIMER_ABSTIME != 0;
            let value = if absolute && value != 0 { meant(timer.id(), value) } else { value };
            match old.non_null() {
                None => timer.set_time(value, interval, flags).map(|()| 0),
                Some(old) => exchange_time(timer, value, interval, flags, old),
            }
        })
    }

    fn timerfd_gettime/timerfd_gettime64(fd: i32, at: UserPtr<[[Time; 2]; 2]>) {
        let setting = current().with_file(fd,
            move |file| Ok(file.ops().timer().ok_or(Errno::EINVAL)?.get()))?;
        write_itimerspec(at, setting.interval, setting.expires)?;
        Ok(0)
    }
}
