//! One POSIX timer.

use super::clock::Clock;
use super::process::{SHORTEST_REPEAT, Setting, advance};
use super::{Timer, now_ns};
use crate::signal::{self, SigInfo};
use crate::sync::{IrqSpinGuard, IrqSpinLock, Once};
use crate::task::{Process, Task};
use alloc::sync::{Arc, Weak};

/// The largest overrun count that is reported (`DELAYTIMER_MAX`).
const MAX_OVERRUN: u64 = i32::MAX as u64;

/// What a timer does when it fires.
pub enum Notify {
    /// Nothing: it is only read.
    None,
    /// A signal to the process.
    Process(Weak<Process>),
    /// A signal to one thread.
    Thread(Weak<Task>),
}

/// A timer made by `timer_create`.
pub struct PosixTimer {
    /// Its number in the process.
    pub id: i32,
    /// The clock it goes by.
    pub clock: Clock,
    notify: Notify,
    signal: u32,
    value: usize,
    state: IrqSpinLock<State>,
    timer: Once<Timer>,
}

#[derive(Clone, Copy, Default)]
struct State {
    setting: Setting,
    overrun: u64,
}

impl PosixTimer {
    /// A disarmed timer. `value` is handed over with the signal.
    pub fn new(id: i32, clock: Clock, notify: Notify, signal: u32, value: usize) -> Arc<Self> {
        let new = Arc::new(Self {
            id,
            clock,
            notify,
            signal,
            value,
            state: IrqSpinLock::new(State::default()),
            timer: Once::new(),
        });
        if !new.clock.is_cpu() {
            let weak = Arc::downgrade(&new);
            new.timer.get_or_init(|| {
                Timer::new(move || {
                    if let Some(timer) = weak.upgrade() {
                        timer.expired();
                    }
                })
            });
        }
        new
    }

    /// Sets it: `expires` absolute on its clock (0: off). Returns what was set, the expiry as time left.
    pub fn set(&self, setting: Setting) -> Setting {
        let mut state = self.state.lock();
        let old = self.left(&state.setting);
        *state = State { setting, overrun: 0 };
        self.arm(&state, 0);
        old
    }

    /// Arms the timer for what is set, but not before `earliest` nanoseconds of CLOCK_MONOTONIC, under the same lock: it never goes by an older
    /// setting.
    fn arm(&self, state: &IrqSpinGuard<'_, State>, earliest: u64) {
        let Some(timer) = self.timer.get() else { return };
        match state.setting.expires {
            0 => {
                timer.cancel_under(state);
            }
            expires => {
                let at = self.clock.to_monotonic(expires).unwrap_or(u64::MAX);
                timer.arm_under(state, at.max(earliest));
            }
        }
    }

    /// What is set, the expiry as time left.
    pub fn get(&self) -> Setting {
        let mut state = self.state.lock();
        if matches!(self.notify, Notify::None)
            && state.setting.expires != 0
            && self.clock.now() >= state.setting.expires
        {
            // Nobody is told, so nobody moved it on.
            advance(&mut state.setting, self.clock.now());
        }
        self.left(&state.setting)
    }

    fn left(&self, setting: &Setting) -> Setting {
        let expires = match setting.expires {
            0 => 0,
            at => at.saturating_sub(self.clock.now()).max(1),
        };
        Setting {
            expires,
            interval: setting.interval,
        }
    }

    /// Expiries that were too close together to be told one by one, since the last signal.
    pub fn overrun(&self) -> i32 {
        self.state.lock().overrun.min(MAX_OVERRUN) as i32
    }

    /// Stops it for good.
    pub fn disarm(&self) {
        self.state.lock().setting.expires = 0;
        if let Some(timer) = self.timer.get() {
            timer.cancel();
        }
    }

    /// For a timer that counts CPU time: fires it if it is due. In the tick.
    pub fn check_cpu(&self) {
        let due = {
            let expires = self.state.lock().setting.expires;
            expires != 0 && self.clock.now() >= expires
        };
        if due {
            self.expired();
        }
    }

    /// In interrupt context.
    fn expired(&self) {
        let now = self.clock.now();
        let overrun = {
            let mut state = self.state.lock();
            if state.setting.expires == 0 {
                return;
            }
            let early = now < state.setting.expires;
            if !early {
                state.overrun = advance(&mut state.setting, now);
            }
            // Early: the clock was set back meanwhile. A timer that tells nobody has no more to do: `get` moves it on.
            if early || !matches!(self.notify, Notify::None) {
                self.arm(&state, now_ns() + SHORTEST_REPEAT);
            }
            if early {
                return;
            }
            state.overrun.min(MAX_OVERRUN) as i32
        };
        let info = SigInfo::timer(self.signal, self.id, overrun, self.value);
        match &self.notify {
            Notify::None => {}
            Notify::Process(process) => {
                if let Some(process) = process.upgrade() {
                    signal::send_to_process(&process, self.signal, info);
                }
            }
            Notify::Thread(task) => {
                if let Some(task) = task.upgrade() {
                    signal::send_to_task(&task, self.signal, info);
                }
            }
        }
    }
}
