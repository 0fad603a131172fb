//! Signals that wait for delivery.

use super::info::code;
use super::{SIGRTMIN, SigInfo, SigSet};
use crate::task::user::{Counts, Limit};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Pending signals of a thread or of a process. Of an ordinary signal there is at most one, and one more for
/// each timer. Real-time signals queue up in order.
#[derive(Debug, Default)]
pub struct Pending {
    set: SigSet,
    /// The details, oldest first. Those of a member of `set` may be missing because memory was short; it is
    /// then delivered without details.
    queue: Vec<SigInfo>,
    /// How many of them have a place that their timer reserved.
    own: usize,
    /// The account on which the others are counted.
    account: Option<Arc<Counts>>,
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.uncharge(self.queue.len() - self.own);
    }
}

/// What became of a signal that was to be queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queued {
    /// It is pending now.
    Yes,
    /// It was pending already: an ordinary signal, or the one of this timer.
    Already,
    /// There was no room for the details of a real-time signal.
    NoRoom,
}

impl Pending {
    /// Nothing pending. What will be queued is counted on `account`.
    pub const fn counting(account: Option<Arc<Counts>>) -> Self {
        Self {
            set: SigSet::EMPTY,
            queue: Vec::new(),
            own: 0,
            account,
        }
    }
    /// Counts what is queued on `account` from now on. Returns the former account, which must be dropped
    /// without locks held.
    #[must_use]
    pub fn charge_to(&mut self, account: Option<Arc<Counts>>) -> Option<Arc<Counts>> {
        let charged = self.queue.len() - self.own;
        if let Some(account) = &account {
            account.move_signals_in(charged);
        }
        self.uncharge(charged);
        core::mem::replace(&mut self.account, account)
    }
    /// The account on which the queued signals are counted.
    pub fn account(&self) -> Option<Arc<Counts>> {
        self.account.clone()
    }
    #[inline(always)]
    fn uncharge(&self, n: usize) {
        if n != 0
            && let Some(account) = &self.account
        {
            account.remove_signals(n);
        }
    }
    /// Counts one more signal, unless that would be more than `limit`. `true`: it was counted.
    #[inline(always)]
    fn charge(&self, limit: Limit) -> bool {
        self.account
            .as_ref()
            .is_none_or(|account| account.add_signal(limit))
    }
    /// Which signals are pending.
    #[inline]
    pub fn set(&self) -> SigSet {
        self.set
    }
    /// Adds a signal; with its details only if the user then has at most `limit` queued. Inlined, since one
    /// caller sends most signals.
    #[inline(always)]
    pub fn push(&mut self, info: &SigInfo, limit: Limit) -> Queued {
        let sig = info.signal();
        if sig < SIGRTMIN && self.set.has(sig) {
            return Queued::Already;
        }
        if !self.charge(limit) || self.no_memory() {
            // The value of a queued real-time signal must not be lost without an error. Other signals become
            // pending without details.
            if sig >= SIGRTMIN && !matches!(info.code(), code::USER | code::KERNEL) {
                return Queued::NoRoom;
            }
        } else {
            self.queue.push(*info);
        }
        self.set = self.set.with(sig);
        Queued::Yes
    }
    /// Whether there is no memory for one more; then takes it back from the account.
    #[inline(always)]
    fn no_memory(&mut self) -> bool {
        let none = crate::sync::lockdep::at_once(|| self.queue.try_reserve(1)).is_err();
        if none {
            self.uncharge(1);
        }
        none
    }
    /// Adds a timer's signal, for which the timer has reserved a place. It is added even if the signal is
    /// pending already, unless that one is from the same timer.
    #[cold]
    #[inline(never)]
    pub fn push_own(&mut self, info: SigInfo) -> Queued {
        if self.own != 0 && self.queue.iter().any(|other| other.timer_id() == info.timer_id()) {
            return Queued::Already;
        }
        if crate::sync::lockdep::at_once(|| self.queue.try_reserve(1)).is_err() {
            return Queued::NoRoom;
        }
        self.queue.push(info);
        self.own += 1;
        self.set = self.set.with(info.signal());
        Queued::Yes
    }
    /// POSIX timer `id` is deleted. Its signal stays pending, and nobody will get it; its place is counted on
    /// the account from now on, whatever the limit.
    pub fn forget_timer(&mut self, id: i32) {
        if self.own == 0 {
            return;
        }
        if let Some(info) = self.queue.iter_mut().find(|info| info.timer_id() == Some(id)) {
            info.forget_timer();
            self.own -= 1;
            if let Some(account) = &self.account {
                account.move_signals_in(1);
            }
        }
    }
    /// A signal with these details has left the queue.
    #[inline(always)]
    fn left(&mut self, info: &SigInfo) {
        if self.own != 0 && info.timer_id().is_some() {
            self.own -= 1;
        } else {
            self.uncharge(1);
        }
    }
    /// Details that are queued, by place.
    pub fn nth(&self, n: usize) -> Option<SigInfo> {
        self.queue.get(n).copied()
    }
    /// Makes a signal pending without details (`SIGKILL` for the threads of a dying process).
    pub fn mark(&mut self, sig: u32) {
        self.set = self.set.with(sig);
    }
    /// Makes several signals pending without details.
    pub fn mark_all(&mut self, set: SigSet) {
        self.set = self.set.or(set);
    }
    /// Which signal that is not in `blocked` is to be taken next: first those of faults, then the lowest
    /// number.
    #[inline]
    pub fn next(&self, blocked: SigSet) -> Option<u32> {
        let ready = self.set.minus(blocked);
        ready.and(SigSet::SYNCHRONOUS).first().or_else(|| ready.first())
    }
    /// Takes the next signal that is not in `blocked`.
    pub fn take_next(&mut self, blocked: SigSet) -> Option<SigInfo> {
        let mut info = SigInfo::NOTHING;
        self.take(self.next(blocked)?, &mut info);
        Some(info)
    }
    /// Takes the oldest pending `sig` out into `info`.
    #[inline]
    pub fn take(&mut self, sig: u32, info: &mut SigInfo) {
        // Most often it is the only one in the queue.
        if let [only] = *self.queue
            && only.signal() == sig
        {
            *info = only;
            self.queue.clear();
            self.set = self.set.without(sig);
            return self.left(info);
        }
        self.take_of_several(sig, info);
    }
    #[inline(never)]
    fn take_of_several(&mut self, sig: u32, info: &mut SigInfo) {
        let Some(at) = self.queue.iter().position(|info| info.signal() == sig) else {
            self.set = self.set.without(sig);
            *info = SigInfo::unknown(sig);
            return;
        };
        *info = self.queue[at];
        if at + 1 == self.queue.len() {
            self.queue.pop();
        } else {
            self.queue.remove(at);
        }
        self.left(info);
        if !self.queue.iter().any(|info| info.signal() == sig) {
            self.set = self.set.without(sig);
        }
    }
    /// Drops the signals of POSIX timers, and what looks like them.
    pub fn discard_timers(&mut self) {
        let mut queue = core::mem::take(&mut self.queue);
        queue.retain(|info| {
            let goes = info.code() == code::TIMER;
            if goes {
                self.set = self.set.without(info.signal());
                self.left(info);
            }
            !goes
        });
        for info in &queue {
            self.set = self.set.with(info.signal());
        }
        self.queue = queue;
    }
    /// Drops all pending signals of `set`.
    pub fn discard(&mut self, set: SigSet) {
        if !self.set.and(set).is_empty() {
            self.set = self.set.minus(set);
            let mut queue = core::mem::take(&mut self.queue);
            queue.retain(|info| {
                let goes = set.has(info.signal());
                if goes {
                    self.left(info);
                }
                !goes
            });
            self.queue = queue;
        }
    }
}
