//! Timers as files: `timerfd_create` and friends.

use super::Timer;
use super::clock::Clock;
use super::process::Setting;
use super::wall::{self, WallTimer};
use crate::fs::file::{File, FileOps};
use crate::fs::io::IoDst;
use crate::fs::poll::{PollEvents, PollTable};
use crate::sched::WaitQueue;
use crate::sync::{IrqSpinGuard, IrqSpinLock};
use crate::syscall::SysResult;
use alloc::format;
use alloc::sync::{Arc, Weak};
use limen_linux_abi::Errno;

/// `TFD_NONBLOCK`'s sibling in `ioctl`: sets the tick count (checkpointing).
const TFD_IOC_SET_TICKS: u32 = limen_linux_abi::native::ioc::write(b'T', 0, 8);

/// The time to set is one of the timer's clock, not one from now.
pub const TIMER_ABSTIME: u32 = 1;
/// Whoever reads wants to know if CLOCK_REALTIME is set: `ECANCELED`. Means something with [`TIMER_ABSTIME`] only.
pub const TFD_TIMER_CANCEL_ON_SET: u32 = 2;

/// The operations of a timer file.
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
    /// Expiries not read yet.
    ticks: u64,
    /// A repeating timer fired; it is armed again when it is read or asked for, so an unread timer costs nothing.
    parked: bool,
    /// It was set with these.
    flags: u32,
    /// The clock was set, and nobody has been told yet who wanted to know.
    cancelled: bool,
}

impl State {
    /// Just set.
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
    /// A disarmed timer on clock `id`. `EINVAL` for clocks that can't be waited for.
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

    /// Now, by the clock that what is set goes by.
    fn now(&self, state: &State) -> u64 {
        self.clock.going_by(state.relative()).now()
    }

    /// Arms the timer for what is set, under the same lock: it never goes by an older setting.
    fn arm(&self, state: &IrqSpinGuard<'_, State>) {
        let clock = self.clock.going_by(state.relative());
        let at = clock.to_monotonic(state.setting.expires);
        self.timer.arm_under(state, at.unwrap_or(u64::MAX));
    }

    /// In interrupt context.
    fn expired(&self) {
        {
            let mut state = self.state.lock();
            if state.setting.expires == 0 || state.parked {
                return;
            }
            if self.now(&state) < state.setting.expires {
                // The clock was set back.
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
        self.queue.wake_all_key(PollEvents::IN.bits());
    }

    /// Counts the expiries since it was parked and arms it again.
    fn unpark(&self, state: &mut IrqSpinGuard<'_, State>) {
        if state.parked {
            let now = self.now(state);
            let missed = super::process::advance(&mut state.setting, now);
            state.ticks = state.ticks.wrapping_add(missed);
            state.parked = false;
            self.arm(state);
        }
    }

    /// The expiries since this was last asked. `ECANCELED`: it was set to notice that the clock is set.
    fn take(&self) -> Result<u64, Errno> {
        let mut state = self.state.lock();
        if state.cancelled {
            state.cancelled = false;
            state.ticks = 0;
            if state.parked {
                // It is for whoever set it to say how it goes on.
                state.parked = false;
                state.setting.expires = 0;
            }
            return Err(Errno::ECANCELED);
        }
        self.unpark(&mut state);
        Ok(core::mem::take(&mut state.ticks))
    }

    /// Sets it: `value` nanoseconds from now, or that time of its clock (`flags`); 0: off. `ECANCELED`: it is set, but the clock was before, and nobody
    /// has been told yet.
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
        // The timer as it was before may go off until now: it finds the new setting.
        self.timer.cancel_under(&state);
    }
    #[inline(never)]
    fn set_by_monotonic(&self, value: u64, interval: u64, flags: u32) {
        let (expires, deadline) = Clock::Monotonic.expiry(value, flags & TIMER_ABSTIME != 0);
        let mut state = self.state.lock();
        *state = State::set_to(expires, interval, flags);
        self.timer.arm_under(&state, deadline);
    }
    /// When it is due is worked out under the lock: the clock may just be set.
    #[inline(never)]
    fn set_by_wall_clock(&self, value: u64, interval: u64, flags: u32) -> Result<(), Errno> {
        let (expires, _) = self.clock.expiry(value, flags & TIMER_ABSTIME != 0);
        let mut state = self.state.lock();
        let cancelled = flags & TFD_TIMER_CANCEL_ON_SET != 0 && state.cancelled;
        *state = State::set_to(expires, interval, flags);
        self.arm(&state);
        if cancelled { Err(Errno::ECANCELED) } else { Ok(()) }
    }

    /// What is set, the expiry as time left.
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
            self.queue.wake_all_key(PollEvents::IN.bits());
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
        self.queue.wake_all_key(PollEvents::IN.bits());
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
