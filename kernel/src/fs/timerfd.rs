//! Timers as files: `timerfd_create`, `timerfd_settime`, `timerfd_gettime`.

use crate::fs::file::{File, FileOps};
use crate::fs::io::IoDst;
use crate::fs::poll::{PollEvents, PollTable};
use crate::sched::WaitQueue;
use crate::sync::{IrqSpinGuard, IrqSpinLock};
use crate::task::timers::clock::Clock;
use crate::task::timers::{Setting, advance};
use crate::time::Timer;
use crate::time::wall::{self, WallTimer};
use alloc::format;
use alloc::sync::{Arc, Weak};
use limen_linux_abi::Errno;
use limen_linux_abi::SysResult;

/// An `ioctl` that sets the number of expirations (for checkpointing).
const TFD_IOC_SET_TICKS: u32 = limen_linux_abi::native::ioc::write(b'T', 0, 8);

/// The time to set is one of the timer's clock, not relative to now.
pub const TIMER_ABSTIME: u32 = 1;
/// With [`TIMER_ABSTIME`]: reads give `ECANCELED` after `CLOCK_REALTIME` was set.
pub const TFD_TIMER_CANCEL_ON_SET: u32 = 2;

/// The operations of a timerfd.
pub struct TimerFd {
    id: i32,
    clock: Clock,
    state: IrqSpinLock<State>,
    queue: WaitQueue,
    timer: Timer,
}

#[derive(Clone, Copy, Default)]
struct State {
    setting: Setting,
    /// How many expirations have not been read.
    ticks: u64,
    /// It repeats and has expired. It is armed again when it is read or asked for its setting, so a timer
    /// that nobody reads costs nothing.
    parked: bool,
    /// The flags with which it was set.
    flags: u32,
    /// The clock was set, the timer was to notice that, and no reader has been told yet.
    cancelled: bool,
}

impl State {
    /// Of a timer that was just set.
    #[inline(always)]
    fn set_to(expires: u64, interval: u64, flags: u32) -> Self {
        Self {
            setting: Setting { expires, interval },
            ticks: 0,
            parked: false,
            flags,
            cancelled: false,
        }
    }
    fn relative(&self) -> bool {
        self.flags & TIMER_ABSTIME == 0
    }
}

impl TimerFd {
    /// A disarmed timer of clock `id`. `EINVAL`: there are no timers of this clock.
    pub fn new(id: i32) -> Result<Arc<Self>, Errno> {
        // REALTIME, MONOTONIC, BOOTTIME and the two alarm clocks.
        if !matches!(id, 0 | 1 | 7 | 8 | 9) {
            return Err(Errno::EINVAL);
        }
        let clock = Clock::from_id(id)?;
        let new = Arc::new_cyclic(|new: &Weak<Self>| {
            let new = new.clone();
            Self {
                id,
                clock,
                state: IrqSpinLock::new(State::default()),
                queue: WaitQueue::new(),
                timer: Timer::new(move || {
                    if let Some(timer) = new.upgrade() {
                        timer.expired();
                    }
                }),
            }
        });
        if new.clock.can_be_set() {
            wall::add(&new);
        }
        Ok(new)
    }

    /// The number of its clock.
    #[inline(always)]
    pub fn id(&self) -> i32 {
        self.id
    }

    /// The present time of the clock by which it runs.
    fn now(&self, state: &State) -> u64 {
        self.clock.going_by(state.relative()).now()
    }

    /// Arms it as set, under the lock of the setting, so that it never expires by an older one.
    fn arm(&self, state: &IrqSpinGuard<'_, State>) {
        let clock = self.clock.going_by(state.relative());
        let at = clock.to_monotonic(state.setting.expires);
        self.timer.arm_under(state, at.unwrap_or(u64::MAX));
    }

    /// Runs in interrupt context.
    fn expired(&self) {
        {
            let mut state = self.state.lock();
            if state.setting.expires == 0 || state.parked {
                return;
            }
            if self.now(&state) < state.setting.expires {
                // The clock was set back meanwhile.
                return self.arm(&state);
            }
            let s = &mut *state;
            s.ticks = s.ticks.wrapping_add(1);
            if s.setting.interval == 0 {
                s.setting.expires = 0;
            } else {
                s.parked = true;
            }
        }
        self.queue.wake_one_key(PollEvents::IN.bits());
    }

    /// Counts the expirations that it missed while it was parked, and arms it again.
    fn unpark(&self, state: &mut IrqSpinGuard<'_, State>) {
        if state.parked {
            let now = self.now(state);
            let missed = advance(&mut state.setting, now);
            state.ticks = state.ticks.wrapping_add(missed);
            state.parked = false;
            self.arm(state);
        }
    }

    /// How often it expired since the last read. `ECANCELED`: the clock was set, and the timer was to notice
    /// that.
    fn take(&self) -> Result<u64, Errno> {
        let mut state = self.state.lock();
        if state.cancelled {
            state.cancelled = false;
            state.ticks = 0;
            if state.parked {
                // The program that set it has to set it again.
                state.parked = false;
                state.setting.expires = 0;
            }
            return Err(Errno::ECANCELED);
        }
        self.unpark(&mut state);
        Ok(core::mem::take(&mut state.ticks))
    }

    /// Sets it to `value`: nanoseconds from now or, with [`TIMER_ABSTIME`], a time of its clock; 0 disarms
    /// it. `ECANCELED`: it has been set; but the clock was set before, and no reader had been told.
    #[inline(always)]
    pub fn set_time(&self, value: u64, interval: u64, flags: u32) -> Result<(), Errno> {
        if value == 0 {
            self.turn_off(interval, flags);
        } else if self.clock.can_be_set() {
            return self.set_by_wall_clock(value, interval, flags);
        } else {
            self.set_by_monotonic(value, interval, flags);
        }
        Ok(())
    }
    #[inline(never)]
    fn turn_off(&self, interval: u64, flags: u32) {
        let mut state = self.state.lock();
        *state = State::set_to(0, interval, flags);
        // The callback of the former setting may run until here; it sees the new one.
        self.timer.cancel_under(&state);
    }
    #[inline(never)]
    fn set_by_monotonic(&self, value: u64, interval: u64, flags: u32) {
        let (expires, deadline) = Clock::Monotonic.expiry(value, flags & TIMER_ABSTIME != 0);
        let mut state = self.state.lock();
        *state = State::set_to(expires, interval, flags);
        self.timer.arm_under(&state, deadline);
    }
    /// Converts the time to `CLOCK_MONOTONIC` under the lock, since the clock may be set at the same time.
    #[inline(never)]
    fn set_by_wall_clock(&self, value: u64, interval: u64, flags: u32) -> Result<(), Errno> {
        let (expires, _) = self.clock.expiry(value, flags & TIMER_ABSTIME != 0);
        let mut state = self.state.lock();
        let cancelled = flags & TFD_TIMER_CANCEL_ON_SET != 0 && state.cancelled;
        *state = State::set_to(expires, interval, flags);
        self.arm(&state);
        if cancelled { Err(Errno::ECANCELED) } else { Ok(()) }
    }

    /// The setting, with the time left until expiry.
    pub fn get(&self) -> Setting {
        let mut state = self.state.lock();
        self.unpark(&mut state);
        let Setting { expires, interval } = state.setting;
        let expires = match expires {
            0 => 0,
            at => at.saturating_sub(self.now(&state)).max(1),
        };
        Setting { expires, interval }
    }
}

impl WallTimer for TimerFd {
    fn clock_was_set(&self, realtime: bool) {
        let mut state = self.state.lock();
        let tell = realtime && state.flags == TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET;
        if tell {
            state.cancelled = true;
            state.ticks = state.ticks.wrapping_add(1);
        }
        if state.setting.expires != 0 && !state.parked && !state.relative() {
            self.arm(&state);
        }
        drop(state);
        if tell {
            self.queue.wake_one_key(PollEvents::IN.bits());
        }
    }
}

impl Drop for TimerFd {
    fn drop(&mut self) {
        if self.clock.can_be_set() {
            wall::remove(self);
        }
    }
}

impl FileOps for TimerFd {
    fn timer(&self) -> Option<&TimerFd> {
        Some(self)
    }
    fn read(&self, file: &File, dst: &mut IoDst<'_>, _: Option<u64>) -> SysResult {
        if dst.remaining() < 8 {
            return Err(Errno::EINVAL);
        }
        loop {
            let ticks = self.take()?;
            if ticks != 0 {
                return dst.put(&ticks.to_ne_bytes());
            }
            if file.nonblocking() {
                return Err(Errno::EAGAIN);
            }
            self.queue.wait_until(|| self.state.lock().ticks != 0)?;
        }
    }
    fn poll(&self, _: &File, table: Option<&mut PollTable<'_>>) -> PollEvents {
        if let Some(table) = table {
            table.register(&self.queue);
        }
        if self.state.lock().ticks != 0 {
            PollEvents::IN
        } else {
            PollEvents::empty()
        }
    }
    fn ioctl(&self, _: &File, cmd: u32, arg: usize) -> SysResult {
        if cmd != TFD_IOC_SET_TICKS {
            return Err(Errno::ENOTTY);
        }
        let ticks = crate::mm::user::UserPtr::<u64>::new(arg).read()?;
        if ticks == 0 {
            return Err(Errno::EINVAL);
        }
        let mut state = self.state.lock();
        if core::mem::take(&mut state.cancelled) {
            return Err(Errno::ECANCELED);
        }
        state.ticks = ticks;
        drop(state);
        self.queue.wake_one_key(PollEvents::IN.bits());
        Ok(0)
    }
    fn release(&self, _: &File) {
        self.timer.cancel();
    }
    fn show_fdinfo(&self, _: &File, out: &mut crate::fs::pseudo::Text) {
        use core::fmt::Write;
        let state = *self.state.lock();
        let left = state.setting.expires.saturating_sub(self.now(&state));
        let time = |ns: u64| format!("({}, {})", ns / 1_000_000_000, ns % 1_000_000_000);
        let _ = write!(
            out,
            "clockid: {}\nticks: {}\nsettime flags: 0{:o}\nit_value: {}\nit_interval: {}\n",
            self.id,
            state.ticks,
            state.flags,
            time(left),
            time(state.setting.interval)
        );
    }
}
