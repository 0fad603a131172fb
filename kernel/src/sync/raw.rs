//! The plain spinlock, of which all other locks are made, and the scheduler's lock, which one thread hands to
//! the next in the middle of a switch. Neither has a guard or changes preemption or interrupts.

use super::lockdep::{Dep, Kind, Mode};
use crate::arch::irq;
use core::sync::atomic::{AtomicBool, Ordering};

/// A test-and-set lock. The caller turns preemption or interrupts off. The lock validator does not know of
/// it; locks that are made of it tell the validator.
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
    /// Releases it.
    #[inline(always)]
    pub fn unlock(&self) {
        self.0.store(false, Ordering::Release);
    }
    /// Whether it is held.
    #[inline(always)]
    pub fn is_locked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A lock of the scheduler: a [`RawSpinLock`] of which the validator knows. Interrupts are off while it is
/// held.
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
    /// Releases it.
    #[inline(always)]
    pub fn unlock(&self) {
        self.dep.release();
        self.raw.unlock();
    }
    /// Whether it is held.
    #[inline(always)]
    pub fn is_locked(&self) -> bool {
        self.raw.is_locked()
    }
    /// The running thread, which holds the lock, is about to switch. The thread to which it switches will
    /// hold it.
    #[inline(always)]
    pub fn hand_over(&self) {
        self.dep.release();
    }
    /// The running thread has just been switched to, and now holds the lock.
    #[inline(always)]
    #[cfg_attr(feature = "lockdep", track_caller)]
    pub fn take_over(&self) {
        self.dep.acquire::<Self>(Kind::Raw, Mode::Exclusive);
    }
}
