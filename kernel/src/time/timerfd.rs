//! Timers as files: `timerfd_create` and friends.

use super::clock::Clock;
use super::process::Setting;
use super::{Timer, now_ns};
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
}

impl TimerFd {
    /// A disarmed timer on clock `id`. `EINVAL` for clocks that can't be waited for.
    pub fn new(id: i32) -> Result<Arc<Self>, Errno> {
        // REALTIME, MONOTONIC, BOOTTIME and the two alarm clocks.
        if !matches!(id, 0 | 1 | 7 | 8 | 9) {
            return Err(Errno::EINVAL);
        }
        let clock = Clock::from_id(id)?;
        Ok(Arc::new_cyclic(|new: &Weak<Self>| {
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
        }))
    }

    /// Arms the timer for what is set, under the same lock: it never goes by an older setting.
    fn arm(&self, state: &IrqSpinGuard<'_, State>) {
        let at = self.clock.to_monotonic(state.setting.expires);
        self.timer.arm_under(state, at.unwrap_or(u64::MAX));
    }

    /// In interrupt context.
    fn expired(&self) {
        {
            let mut state = self.state.lock();
            let s = &mut *state;
            if s.setting.expires == 0 || s.parked {
                return;
            }
            if self.clock.now() < s.setting.expires {
                // The clock was set back.
                return self.arm(&state);
            }
            s.ticks += 1;
            if s.setting.interval == 0 {
                s.setting.expires = 0;
            } else {
                s.parked = true;
            }
        }
        self.queue.wake_all_key(PollEvents::IN.bits());
    }

    /// Counts the expiries since it was parked and arms it again.
    fn unpark(&self) {
        let mut state = self.state.lock();
        if state.parked {
            let missed = super::process::advance(&mut state.setting, self.clock.now());
            state.ticks += missed;
            state.parked = false;
            self.arm(&state);
        }
    }

    /// Sets it: `value` nanoseconds from now, or that time of its clock (`absolute`); 0: off.
    pub fn set_time(&self, value: u64, interval: u64, absolute: bool) {
        let (expires, deadline) = match value {
            0 => (0, 0),
            value => self.clock.expiry(value, absolute),
        };
        let setting = Setting { expires, interval };
        let mut state = self.state.lock();
        *state = State {
            setting,
            ticks: 0,
            parked: false,
        };
        // The timer as it was before may go off until now: it finds the new setting.
        if expires != 0 {
            self.timer.arm_under(&state, deadline);
        } else {
            self.timer.cancel_under(&state);
        }
    }

    /// What is set, the expiry as time left.
    pub fn get(&self) -> Setting {
        self.unpark();
        let setting = self.state.lock().setting;
        let expires = match setting.expires {
            0 => 0,
            at => at.saturating_sub(self.clock.now()).max(1),
        };
        Setting {
            expires,
            interval: setting.interval,
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
            self.unpark();
            let ticks = core::mem::take(&mut self.state.lock().ticks);
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
        self.state.lock().ticks = ticks;
        self.queue.wake_all_key(PollEvents::IN.bits());
        Ok(0)
    }
    fn release(&self, _: &File) {
        self.timer.cancel();
    }
    fn show_fdinfo(&self, _: &File, out: &mut crate::fs::pseudo::Text) {
        use core::fmt::Write;
        let state = *self.state.lock();
        let left = state.setting.expires.saturating_sub(now_ns());
        let time = |ns: u64| format!("({}, {})", ns / 1_000_000_000, ns % 1_000_000_000);
        let _ = write!(
            out,
            "clockid: {}\nticks: {}\nsettime flags: 00\nit_value: {}\nit_interval: {}\n",
            self.id,
            state.ticks,
            time(left),
            time(state.setting.interval)
        );
    }
}
