//! Spinlocks. [`SpinLock`] keeps preemption off while held and must never be taken in an interrupt handler; [`IrqSpinLock`] keeps
//! interrupts off and may be taken anywhere.

use super::RawSpinLock;
use super::lockdep::{Dep, Kind, Mode};
use crate::arch::irq;
use crate::sched::preempt;
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};

/// A spinlock for data never touched by interrupt handlers.
pub struct SpinLock<T: ?Sized> {
    raw: RawSpinLock,
    dep: Dep,
    value: UnsafeCell<T>,
}

// SAFETY: the lock gives one holder at a time exclusive access; moving the value between holders needs `T: Send`.
unsafe impl<T: ?Sized + Send> Sync for SpinLock<T> {}
// SAFETY: owning the lock is owning the value.
unsafe impl<T: ?Sized + Send> Send for SpinLock<T> {}

impl<T> SpinLock<T> {
    /// An unlocked lock.
    #[cfg_attr(feature = "lockdep", track_caller)]
    pub const fn new(value: T) -> Self {
        Self {
            raw: RawSpinLock::new(),
            dep: Dep::new(),
            value: UnsafeCell::new(value),
        }
    }
}

impl<T: ?Sized> SpinLock<T> {
    /// Takes the lock; preemption is off until the guard is dropped.
    #[inline]
    #[cfg_attr(feature = "lockdep", track_caller)]
    pub fn lock(&self) -> SpinGuard<'_, T> {
        preempt::disable();
        self.dep.acquire::<T>(Kind::Spin, Mode::Exclusive);
        self.raw.lock();
        SpinGuard { lock: self }
    }
    /// The same while others of its class are held; `subclass` (1 to 3) stands for the order in which that happens.
    #[inline]
    #[cfg_attr(feature = "lockdep", track_caller)]
    pub fn lock_nested(&self, subclass: usize) -> SpinGuard<'_, T> {
        preempt::disable();
        self.dep
            .acquire_nested::<T>(Kind::Spin, Mode::Exclusive, subclass);
        self.raw.lock();
        SpinGuard { lock: self }
    }
    /// Takes the lock if it is free.
    #[inline]
    #[cfg_attr(feature = "lockdep", track_caller)]
    pub fn try_lock(&self) -> Option<SpinGuard<'_, T>> {
        preempt::disable();
        if self.raw.try_lock() {
            self.dep.acquired_by_trying::<T>(Kind::Spin, Mode::Exclusive);
            Some(SpinGuard { lock: self })
        } else {
            preempt::enable();
            None
        }
    }
    /// The value, through exclusive access to the lock itself.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
    /// The value, without the lock.
    ///
    /// # Safety
    /// Nobody changes it while the reference lives.
    #[inline(always)]
    pub unsafe fn peek(&self) -> &T {
        // SAFETY: the caller's promise.
        unsafe { &*self.value.get() }
    }
}

/// Holds a [`SpinLock`].
pub struct SpinGuard<'a, T: ?Sized> {
    lock: &'a SpinLock<T>,
}

impl<T: ?Sized> Deref for SpinGuard<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the guard holds the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized> DerefMut for SpinGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard holds the lock, exclusively.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T: ?Sized> Drop for SpinGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.dep.release();
        self.lock.raw.unlock();
        preempt::enable();
    }
}

/// A spinlock for data that interrupt handlers touch, too.
pub struct IrqSpinLock<T: ?Sized> {
    raw: RawSpinLock,
    dep: Dep,
    value: UnsafeCell<T>,
}

// SAFETY: as for `SpinLock`.
unsafe impl<T: ?Sized + Send> Sync for IrqSpinLock<T> {}
// SAFETY: as for `SpinLock`.
unsafe impl<T: ?Sized + Send> Send for IrqSpinLock<T> {}

impl<T> IrqSpinLock<T> {
    /// An unlocked lock.
    #[cfg_attr(feature = "lockdep", track_caller)]
    pub const fn new(value: T) -> Self {
        Self {
            raw: RawSpinLock::new(),
            dep: Dep::new(),
            value: UnsafeCell::new(value),
        }
    }
}

impl<T: ?Sized> IrqSpinLock<T> {
    /// Takes the lock; interrupts are off until the guard is dropped (then as they were before).
    #[inline]
    #[cfg_attr(feature = "lockdep", track_caller)]
    pub fn lock(&self) -> IrqSpinGuard<'_, T> {
        let flags = irq::local_save();
        preempt::disable();
        self.dep.acquire::<T>(Kind::IrqSpin, Mode::Exclusive);
        self.raw.lock();
        IrqSpinGuard { lock: self, flags }
    }
    /// Takes the lock if it is free.
    #[inline]
    #[cfg_attr(feature = "lockdep", track_caller)]
    pub fn try_lock(&self) -> Option<IrqSpinGuard<'_, T>> {
        let flags = irq::local_save();
        preempt::disable();
        if self.raw.try_lock() {
            self.dep.acquired_by_trying::<T>(Kind::IrqSpin, Mode::Exclusive);
            Some(IrqSpinGuard { lock: self, flags })
        } else {
            preempt::enable_no_resched();
            irq::local_restore(flags);
            None
        }
    }
    /// Takes the lock inside of another one, which keeps interrupts and preemption off longer than this one is held.
    #[inline]
    #[cfg_attr(feature = "lockdep", track_caller)]
    pub fn lock_under<U: ?Sized>(&self, _outer: &IrqSpinGuard<'_, U>) -> InnerGuard<'_, T> {
        self.dep.acquire::<T>(Kind::IrqSpin, Mode::Exclusive);
        self.raw.lock();
        InnerGuard { lock: self }
    }
    /// The value, through exclusive access to the lock itself.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

/// Holds an [`IrqSpinLock`] inside of another one ([`IrqSpinLock::lock_under`]); to be dropped before the outer guard.
pub struct InnerGuard<'a, T: ?Sized> {
    lock: &'a IrqSpinLock<T>,
}

impl<T: ?Sized> Deref for InnerGuard<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the guard holds the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized> DerefMut for InnerGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard holds the lock, exclusively.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T: ?Sized> Drop for InnerGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        debug_assert!(!irq::enabled(), "the outer lock went first");
        self.lock.dep.release();
        self.lock.raw.unlock();
    }
}

/// Holds an [`IrqSpinLock`].
pub struct IrqSpinGuard<'a, T: ?Sized> {
    lock: &'a IrqSpinLock<T>,
    flags: irq::Flags,
}

impl<T: ?Sized> Deref for IrqSpinGuard<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the guard holds the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized> DerefMut for IrqSpinGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard holds the lock, exclusively.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T: ?Sized> Drop for IrqSpinGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.dep.release();
        self.lock.raw.unlock();
        preempt::enable_no_resched();
        irq::local_restore(self.flags);
        preempt::check_resched();
    }
}
