//! One POSIX timer. It has one signal at a time: one that repeats goes on when that has been taken, and counts what it missed (its overrun), so that
//! no program can keep a CPU in its timer interrupt.

use super::clock::Clock;
use super::process::{Setting, UNHEARD_REPEAT, advance};
use super::wall::{self, WallTimer};
use super::{Timer, now_ns};
use crate::signal::{self, SigInfo};
use crate::sync::{IrqSpinGuard, IrqSpinLock, Once};
use crate::task::{Process, Task};
use alloc::sync::{Arc, Weak};

/// The largest overrun count that is reported (`DELAYTIMER_MAX`).
const MAX_OVERRUN: u64 = i32::MAX as u64;

/// After how many nanoseconds a timer looks again whose clock was set back.
const EARLY_REPEAT: u64 = 20_000;

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
    /// It was set to some time from now, not to a time of its clock.
    relative: bool,
    /// It repeats, has expired, and goes on when its signal is taken: `setting` is still that of the expiry.
    parked: bool,
    /// Its signal has been sent and not been taken.
    told: bool,
    /// Expiries since the signal was sent.
    overrun: u64,
    /// As many as there were when the last signal was taken.
    last_overrun: u64,
}

impl State {
    /// Moves an expired setting on to after `now`, and counts what was missed.
    fn catch_up(&mut self, now: u64) {
        if now >= self.setting.expires {
            self.overrun += advance(&mut self.setting, now);
        }
        self.parked = false;
    }
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
        if new.clock.can_be_set() {
            wall::add(&new);
        }
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

    /// Sets it: to `value` nanoseconds from now, or that time of its clock (`absolute`); 0: off. Returns what was set, the expiry as time left.
    pub fn set(&self, value: u64, interval: u64, absolute: bool) -> Setting {
        let setting = match value {
            0 => Setting::default(),
            value => Setting {
                expires: self.clock.expiry(value, absolute).0,
                interval,
            },
        };
        let mut state = self.state.lock();
        let old = self.left(&state);
        *state = State {
            setting,
            relative: !absolute,
            told: state.told,
            ..State::default()
        };
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
                let clock = self.clock.going_by(state.relative);
                let at = clock.to_monotonic(expires).unwrap_or(u64::MAX);
                timer.arm_under(state, at.max(earliest));
            }
        }
    }

    /// Now, by the clock that what is set goes by.
    fn now(&self, state: &State) -> u64 {
        self.clock.going_by(state.relative).now()
    }

    /// What is set, the expiry as time left.
    pub fn get(&self) -> Setting {
        self.left(&self.state.lock())
    }

    fn left(&self, state: &State) -> Setting {
        let mut setting = state.setting;
        let now = self.now(state);
        if setting.expires != 0
            && now >= setting.expires
            && (state.parked || matches!(self.notify, Notify::None))
        {
            // Nobody moved it on: its signal has not been taken, or nobody is told.
            advance(&mut setting, now);
        }
        if setting.expires != 0 {
            setting.expires = setting.expires.saturating_sub(now).max(1);
        }
        setting
    }

    /// Expiries between the last signal's being sent and its being taken.
    pub fn overrun(&self) -> i32 {
        self.state.lock().last_overrun.min(MAX_OVERRUN) as i32
    }

    /// Its signal was taken: a timer that repeats goes on from now. Its overrun, if it waited for that.
    pub fn heard(&self) -> Option<i32> {
        let mut state = self.state.lock();
        if !state.told {
            return None;
        }
        state.told = false;
        if state.parked {
            let now = self.now(&state);
            state.catch_up(now);
            self.arm(&state, 0);
        }
        state.last_overrun = core::mem::take(&mut state.overrun);
        Some(state.last_overrun.min(MAX_OVERRUN) as i32)
    }

    /// `sig` is ignored from now on, and what was pending of it is forgotten.
    pub fn signal_discarded(&self, sig: u32) {
        if self.signal == sig {
            self.unheard();
        }
    }

    /// Nobody will take its signal, so that nobody says when to go on: it looks again now and then.
    fn unheard(&self) {
        let mut state = self.state.lock();
        state.told = false;
        if state.parked {
            let now = self.now(&state);
            state.catch_up(now);
            self.arm(&state, now_ns() + UNHEARD_REPEAT);
        }
    }

    /// Stops it for good.
    pub fn disarm(&self) {
        *self.state.lock() = State::default();
        if let Some(timer) = self.timer.get() {
            timer.cancel();
        }
    }

    /// For a timer that counts CPU time: fires it if it is due. In the tick.
    pub fn check_cpu(&self) {
        let due = {
            let state = self.state.lock();
            state.setting.expires != 0 && !state.parked && self.clock.now() >= state.setting.expires
        };
        if due {
            self.expired();
        }
    }

    /// In interrupt context.
    fn expired(&self) {
        {
            let mut state = self.state.lock();
            if state.setting.expires == 0 || state.parked {
                return;
            }
            if self.now(&state) < state.setting.expires {
                // The clock was set back meanwhile.
                return self.arm(&state, now_ns() + EARLY_REPEAT);
            }
            if matches!(self.notify, Notify::None) {
                // There is nothing to do: `left` moves it on.
                return;
            }
            if state.setting.interval == 0 {
                state.setting.expires = 0;
            } else {
                state.parked = true;
            }
            // If it was set anew before the signal of what was set before was taken, that is the signal of this expiry.
            state.told = true;
        }
        let info = SigInfo::timer(self.signal, self.id, self.value);
        let sent = match &self.notify {
            Notify::None => true,
            // Of nobody there is nothing to wait for.
            Notify::Process(process) => process
                .upgrade()
                .is_none_or(|process| signal::timer_to_process(&process, info)),
            Notify::Thread(task) => task
                .upgrade()
                .is_none_or(|task| signal::timer_to_task(&task, info)),
        };
        if !sent {
            self.unheard();
        }
    }
}

impl WallTimer for PosixTimer {
    fn clock_was_set(&self, _: bool) {
        let state = self.state.lock();
        if state.setting.expires != 0 && !state.parked && !state.relative {
            self.arm(&state, 0);
        }
    }
}

impl Drop for PosixTimer {
    fn drop(&mut self) {
        if self.clock.can_be_set() {
            wall::remove(self);
        }
    }
}
