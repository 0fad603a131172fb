//! Spinlocks. [`SpinLock`] turns preemption off while it is held and must never be taken by an interrupt
//! handler. [`IrqSpinLock`] turns interrupts off and may be taken anywhere. No code that holds one may sleep.

use super::RawSpinLock;
use super::lockdep::{Dep, Kind, Mode};
use crate::arch::irq;
use crate::sched::preempt;
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The addresses of locks of which [`IrqSpinLock::lock_patiently`] has given up; 0: none.
static GIVEN_UP: [AtomicUsize; 4] = [const { AtomicUsize::new(0) }; 4];

/// A spinlock for data that no interrupt handler uses.
pub struct SpinLock<T: ?Sized> {
    raw: RawSpinLock,
    dep: Dep,
    value: UnsafeCell<T>,
}

// SAFETY: only the holder has access to the value. Another holder may be another thread, hence `T: Send`.
unsafe impl<T: ?Sized + Send> Sync for SpinLock<T> {}
// SAFETY: who owns the lock owns the value.
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
    /// [`SpinLock::lock`] while other locks of the same class are held. `subclass` (1 to 3) stands for their
    /// order.
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

/// The right of the holder of a [`SpinLock`]; dropping it releases the lock.
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
        // SAFETY: the guard holds the lock, and is borrowed exclusively.
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

/// A spinlock for data that interrupt handlers use, too.
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
    /// An unlocked lock of a memory allocator: while it is held, the heap must not be used, neither to
    /// allocate nor to free. The lock validator checks that.
    #[cfg_attr(feature = "lockdep", track_caller)]
    pub const fn new_allocator(value: T) -> Self {
        Self {
            raw: RawSpinLock::new(),
            dep: Dep::of_allocator(),
            value: UnsafeCell::new(value),
        }
    }
}

impl<T: ?Sized> IrqSpinLock<T> {
    /// Takes the lock. Interrupts are off until the guard is dropped, and then as they were before.
    #[inline]
    #[cfg_attr(feature = "lockdep", track_caller)]
    pub fn lock(&self) -> IrqSpinGuard<'_, T> {
        let flags = irq::local_save();
        preempt::disable();
        self.dep.acquire::<T>(Kind::IrqSpin, Mode::Exclusive);
        self.raw.lock();
        IrqSpinGuard { lock: self, flags }
    }
    /// [`IrqSpinLock::lock`] while other locks of the same class are held. `subclass` (up to 3) stands for
    /// their order.
    #[inline]
    #[cfg_attr(feature = "lockdep", track_caller)]
    pub fn lock_nested(&self, subclass: usize) -> IrqSpinGuard<'_, T> {
        let flags = irq::local_save();
        preempt::disable();
        self.dep
            .acquire_nested::<T>(Kind::IrqSpin, Mode::Exclusive, subclass);
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
    /// Takes a lock that this CPU may already hold (below an NMI, or a fault of the holder): gives up after
    /// some time, and at once as long as it has given up before and the lock was not free since.
    #[cfg_attr(feature = "lockdep", track_caller)]
    pub fn lock_patiently(&self) -> Option<IrqSpinGuard<'_, T>> {
        const TRIES: usize = 10_000_000;
        let me = (&raw const *self).cast::<()>().addr();
        let before = GIVEN_UP.iter().find(|lock| lock.load(Relaxed) == me);
        for _ in 0..before.map_or(TRIES, |_| 1) {
            if let Some(guard) = self.try_lock() {
                if let Some(lock) = before {
                    lock.store(0, Relaxed);
                }
                return Some(guard);
            }
            irq::spin_hint();
        }
        if before.is_none() {
            let _ = GIVEN_UP
                .iter()
                .find(|lock| lock.compare_exchange(0, me, Relaxed, Relaxed).is_ok());
        }
        None
    }
    /// Takes the lock while `_outer` is held, which keeps interrupts and preemption off longer than this lock
    /// is held.
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

/// The right of the holder of an [`IrqSpinLock`] that was taken under another one
/// ([`IrqSpinLock::lock_under`]). Must be dropped before the outer guard.
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
        // SAFETY: the guard holds the lock, and is borrowed exclusively.
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

/// The right of the holder of an [`IrqSpinLock`]; dropping it releases the lock.
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
        // SAFETY: the guard holds the lock, and is borrowed exclusively.
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
