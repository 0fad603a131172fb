//! A POSIX timer. It has one signal at a time. A repeating timer continues when its signal is taken, and
//! counts the expiries that it missed (its overrun). So no program can keep a CPU busy with timer interrupts.
//!
//! A signal that is taken after its timer was set again or deleted is nobody's: the thread that took it looks
//! for another. While the signal is ignored, a repeating timer that has expired waits: the signal is sent
//! when the action changes. All that is Linux's since 6.13.

use super::{Sending, Setting, UNHEARD_REPEAT, advance, lock_settled};
use crate::signal::{self, SigInfo};
use crate::sync::{IrqSpinGuard, IrqSpinLock, Once, without_interrupts};
use crate::task::timers::clock::Clock;
use crate::task::user::{Counts, Limit};
use crate::task::{Process, Task, current, rlimit};
use crate::time::wall::{self, WallTimer};
use crate::time::{Timer, now_ns};
use alloc::sync::{Arc, Weak};
use limen_linux_abi::Errno;

/// The largest overrun that is reported (`DELAYTIMER_MAX`).
const MAX_OVERRUN: u64 = i32::MAX as u64;

/// After how many nanoseconds a timer checks again if its clock was set back.
const EARLY_REPEAT: u64 = 20_000;

/// What a timer does when it expires.
pub enum Notify {
    /// Nothing: programs only read it.
    None,
    /// Sends a signal to the process.
    Process(Weak<Process>),
    /// Sends a signal to a thread.
    Thread(Weak<Task>),
}

/// A timer that `timer_create` made.
pub struct PosixTimer {
    /// Its number in the process.
    pub id: i32,
    /// The clock it goes by.
    pub clock: Clock,
    /// The number by which that was named.
    pub clock_id: i32,
    notify: Notify,
    signal: u32,
    value: usize,
    state: IrqSpinLock<State>,
    timer: Once<Timer>,
    _place: Place,
}

/// Room for the timer's signal in the queue of its maker's user. It counts as a queued signal from now on,
/// sent or not.
pub struct Place(Option<Arc<Counts>>);

impl Place {
    /// `EAGAIN`: the user has too many queued signals.
    pub fn take() -> Result<Self, Errno> {
        let process = &current().process;
        let account = process.signals.lock().pending.account();
        if let Some(account) = &account
            && !account.add_signal(Limit::of(process.limits.soft(rlimit::which::SIGPENDING)))
        {
            return Err(Errno::EAGAIN);
        }
        Ok(Self(account))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(account) = &self.0 {
            account.remove_signals(1);
        }
    }
}

#[derive(Clone, Copy, Default)]
struct State {
    setting: Setting,
    /// It was set relative to the present time, not to a time of its clock.
    relative: bool,
    /// It repeats, has expired, and continues when its signal is taken. `setting` has the time of the expiry.
    parked: bool,
    sending: Sending,
    /// It has expired, and its signal has not been taken since: one that is pending is valid. If none is, the
    /// signal is ignored or was dropped.
    told: bool,
    /// How often it expired since the signal was sent.
    overrun: u64,
    /// The overrun of the signal that was taken last.
    last_overrun: u64,
    /// It has been deleted: whoever found it before cannot set it any more.
    gone: bool,
}

impl State {
    /// Of a timer that has been deleted.
    fn gone() -> Self {
        Self {
            gone: true,
            ..Self::default()
        }
    }

    /// Moves the next expiry of an expired timer behind `now`, and counts the missed ones.
    fn catch_up(&mut self, now: u64) {
        if now >= self.setting.expires {
            self.overrun += advance(&mut self.setting, now);
        }
        self.parked = false;
    }
}

impl PosixTimer {
    /// A disarmed timer, with its number in the process, by the clock with number `clock_id`. `value` comes
    /// with the signal.
    pub fn new(
        id: i32,
        (clock, clock_id): (Clock, i32),
        notify: Notify,
        signal: u32,
        value: usize,
        place: Place,
    ) -> Arc<Self> {
        let new = Arc::new(Self {
            id,
            clock,
            clock_id,
            notify,
            signal,
            value,
            state: IrqSpinLock::new(State::default()),
            timer: Once::new(),
            _place: place,
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

    /// Sets it to `value`: nanoseconds from now or, if `absolute`, a time of its clock; 0 disarms it. Returns
    /// the former setting, with the time that was left until expiry. `EINVAL`: it has just been deleted.
    pub fn set(&self, value: u64, interval: u64, absolute: bool) -> Result<Setting, Errno> {
        let setting = match value {
            0 => Setting::default(),
            value => Setting {
                expires: self.clock.expiry(value, absolute).0,
                interval,
            },
        };
        let mut state = lock_settled(&self.state, |state| state.sending.now);
        if state.gone {
            return Err(Errno::EINVAL);
        }
        let old = self.left(&state);
        // A signal of the former setting may be pending: nobody gets that, unless the timer expires again.
        *state = State {
            setting,
            relative: !absolute,
            ..State::default()
        };
        self.arm(&state, 0);
        if self.clock.is_cpu() {
            // It may be time already, and its process may never run again.
            drop(state);
            without_interrupts(|| self.check_cpu());
        }
        Ok(old)
    }

    /// Arms it as set, but not before `earliest` (`CLOCK_MONOTONIC` nanoseconds), under the lock of the
    /// setting, so that it never expires by an older one.
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

    /// The present time of the clock by which it runs.
    fn now(&self, state: &State) -> u64 {
        self.clock.going_by(state.relative).now()
    }

    /// The setting, with the time left until expiry.
    pub fn get(&self) -> Setting {
        self.left(&lock_settled(&self.state, |state| state.sending.now))
    }

    fn left(&self, state: &State) -> Setting {
        let mut setting = state.setting;
        let now = self.now(state);
        if setting.expires != 0
            && now >= setting.expires
            && (state.parked || matches!(self.notify, Notify::None))
        {
            // Not moved on yet: its signal has not been taken, or it has none.
            advance(&mut setting, now);
        }
        if setting.expires != 0 {
            setting.expires = setting.expires.saturating_sub(now).max(1);
        }
        setting
    }

    /// How often it expired between its last signal's being sent and being taken.
    pub fn overrun(&self) -> i32 {
        self.state.lock().last_overrun.min(MAX_OVERRUN) as i32
    }

    /// Its signal was taken: a repeating timer continues. Returns the overrun. `None`: the timer has been set
    /// since it sent the signal, which is not valid any more.
    pub fn heard(&self) -> Option<i32> {
        let mut state = self.state.lock();
        if !core::mem::take(&mut state.told) {
            return None;
        }
        if state.parked {
            let now = self.now(&state);
            state.catch_up(now);
            self.arm(&state, 0);
        }
        state.last_overrun = core::mem::take(&mut state.overrun);
        Some(state.last_overrun.min(MAX_OVERRUN) as i32)
    }

    /// `sig` is not ignored any more: a repeating timer that expired meanwhile sends its signal after all.
    pub fn signal_heeded(&self, sig: u32) {
        if self.signal != sig || !self.waits() {
            return;
        }
        let room = self
            .with_receiver(|process, task| signal::timer_heeded(process, task, self.info(), || self.waits()));
        if room == Some(false) {
            self.unheard(&mut self.state.lock());
        }
    }

    /// Whether it waits for its signal to be taken.
    fn waits(&self) -> bool {
        let state = self.state.lock();
        state.told && state.parked
    }

    fn info(&self) -> SigInfo {
        SigInfo::timer(self.signal, self.id, self.value)
    }

    /// Calls `with` with who gets its signal: a process or one thread of it. `None`: there is none, or it has
    /// ended.
    fn with_receiver<R>(&self, with: impl FnOnce(&Arc<Process>, Option<&Arc<Task>>) -> R) -> Option<R> {
        match &self.notify {
            Notify::None => None,
            Notify::Process(process) => Some(with(&process.upgrade()?, None)),
            Notify::Thread(task) => {
                let task = task.upgrade()?;
                Some(with(&task.process, Some(&task)))
            }
        }
    }

    /// There was no memory for its signal, so nothing will take that and make it continue: it continues by
    /// itself, at a low rate. One that does not repeat tries again.
    fn unheard(&self, state: &mut IrqSpinGuard<'_, State>) {
        state.told = false;
        if state.parked {
            let now = self.now(state);
            state.catch_up(now);
        }
        self.arm(state, now_ns() + UNHEARD_REPEAT);
    }

    /// Disarms it for good, when no signal of it is being sent. Nobody gets one that is pending.
    pub fn delete(&self) {
        self.stop();
        self.with_receiver(|process, task| {
            signal::timer_deleted(process, task.map(|task| &**task), self.id);
        });
    }

    /// Disarms it for good, when no signal of it is being sent.
    pub fn stop(&self) {
        *lock_settled(&self.state, |state| state.sending.now) = State::gone();
        self.disarm();
    }

    /// Disarms it for good. Does not wait.
    pub fn disarm(&self) {
        *self.state.lock() = State::gone();
        if let Some(timer) = self.timer.get() {
            timer.cancel();
        }
    }

    /// For a timer of CPU time: expires if it is time. Called in the tick.
    pub fn check_cpu(&self) {
        let due = {
            let state = self.state.lock();
            state.setting.expires != 0 && !state.parked && self.clock.now() >= state.setting.expires
        };
        if due {
            self.expired();
        }
    }

    /// Runs in interrupt context.
    fn expired(&self) {
        while self.expires_now() {}
    }

    /// Sends the signal if it is time. Whether to look at the timer once more.
    fn expires_now(&self) -> bool {
        {
            let mut state = self.state.lock();
            if state.setting.expires == 0 || state.parked || !state.sending.may_begin() {
                return false;
            }
            if self.now(&state) < state.setting.expires {
                // The clock was set back meanwhile.
                self.arm(&state, now_ns() + EARLY_REPEAT);
                return false;
            }
            if matches!(self.notify, Notify::None) {
                // Nothing to do: `left` moves the expiry on.
                return false;
            }
            state.parked = state.setting.interval != 0;
            state.sending.now = true;
            // If it was set again while a signal of the former setting is pending, that one now stands for
            // this expiry.
            state.told = true;
        }
        // If the receiver has ended, no signal has to be taken.
        let room = self.with_receiver(|process, task| signal::timer_to(process, task, self.info()));
        let mut state = self.state.lock();
        if room == Some(false) {
            self.unheard(&mut state);
            // One that does not repeat stays set.
            return core::mem::take(&mut state.sending).again;
        }
        let state = &mut *state;
        state.sending.ends(&mut state.setting)
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
