//! The bare spinlock under every other lock, and the scheduler's lock, which is handed from one thread to the next in the middle of a switch. Neither
//! has a guard or an effect on preemption or interrupts.

use super::lockdep::{Dep, Kind, Mode};
use crate::arch::irq;
use core::sync::atomic::{AtomicBool, Ordering};

/// A test-and-set lock. Whoever takes it has seen to preemption and interrupts. The lock validator does not know it: what is
/// built on it tells the validator.
pub struct RawSpinLock(AtomicBool);

impl RawSpinLock {
    /// Unlocked.
    pub const fn new() -> Self {
        Self(AtomicBool::new(false))
    }
    /// Takes it.
    #[inline(always)]
    pub fn lock(&self) {
        while self.0.swap(true, Ordering::Acquire) {
            while self.0.load(Ordering::Relaxed) {
                irq::spin_hint();
            }
        }
    }
    /// Takes it if it is free.
    #[inline(always)]
    pub fn try_lock(&self) -> bool {
        self.0
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }
    /// Gives it back.
    #[inline(always)]
    pub fn unlock(&self) {
        self.0.store(false, Ordering::Release);
    }
    /// Whether somebody holds it.
    #[inline(always)]
    pub fn is_locked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A lock of the scheduler: a [`RawSpinLock`] the validator knows. Interrupts are off while it is held.
pub struct SchedLock {
    raw: RawSpinLock,
    dep: Dep,
}

impl SchedLock {
    /// Unlocked.
    #[cfg_attr(feature = "lockdep", track_caller)]
    pub const fn new() -> Self {
        Self {
            raw: RawSpinLock::new(),
            dep: Dep::new(),
        }
    }
    /// Takes it.
    #[inline(always)]
    #[cfg_attr(feature = "lockdep", track_caller)]
    pub fn lock(&self) {
        self.dep.acquire::<Self>(Kind::Raw, Mode::Exclusive);
        self.raw.lock();
    }
    /// Takes it if it is free.
    #[inline(always)]
    #[cfg_attr(feature = "lockdep", track_caller)]
    pub fn try_lock(&self) -> bool {
        let got = self.raw.try_lock();
        if got {
            self.dep.acquired_by_trying::<Self>(Kind::Raw, Mode::Exclusive);
        }
        got
    }
    /// Gives it back.
    #[inline(always)]
    pub fn unlock(&self) {
        self.dep.release();
        self.raw.unlock();
    }
    /// Whether somebody holds it.
    #[inline(always)]
    pub fn is_locked(&self) -> bool {
        self.raw.is_locked()
    }
    /// The running thread, which holds it, is about to switch; the thread it switches to will have it.
    #[inline(always)]
    pub fn hand_over(&self) {
        self.dep.release();
    }
    /// The running thread has just been switched to and got the lock with that.
    #[inline(always)]
    #[cfg_attr(feature = "lockdep", track_caller)]
    pub fn take_over(&self) {
        self.dep.acquire::<Self>(Kind::Raw, Mode::Exclusive);
    }
}
