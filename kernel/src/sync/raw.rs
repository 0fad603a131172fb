//! The bare spinlock under every other lock: no guard, no effect on preemption or interrupts, unknown to the lock validator. Used
//! directly only by the scheduler, whose locks are handed from one thread to the next in the middle of a switch.

use crate::arch::irq;
use core::sync::atomic::{AtomicBool, Ordering};

/// A test-and-set lock. Whoever takes it has seen to preemption and interrupts.
pub struct RawSpinLock(AtomicBool);

impl RawSpinLock {
    /// Unlocked.
    pub const fn new() -> Self {
        Self(AtomicBool::new(false))
    }
    /// Takes it.
    #[inline(always)]
    pub fn lock(&self) {
        while self
            .0
            .compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
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
