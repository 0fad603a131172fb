//! A lock whose waiters sleep. Not for interrupt handlers and not while a spinlock is held.

use super::lockdep::{Dep, Kind, Mode};
use crate::sched::WaitQueue;
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, Ordering};
use limen_linux_abi::Errno;

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held, and somebody may be asleep waiting.
const CONTENDED: u32 = 2;

/// A sleeping lock.
pub struct Mutex<T: ?Sized> {
    state: AtomicU32,
    waiters: WaitQueue,
    dep: Dep,
    value: UnsafeCell<T>,
}

// SAFETY: one holder at a time has exclusive access; moving the value between holders needs `T: Send`.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}
// SAFETY: owning the lock is owning the value.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}

impl<T> Mutex<T> {
    /// An unlocked lock.
    #[cfg_attr(feature = "lockdep", track_caller)]
    pub const fn new(value: T) -> Self {
        Self {
            state: AtomicU32::new(FREE),
            waiters: WaitQueue::new(),
            dep: Dep::new(),
            value: UnsafeCell::new(value),
        }
    }
}

impl<T: ?Sized> Mutex<T> {
    #[inline(always)]
    fn acquire(&self) -> bool {
        self.state
            .compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }
    /// For a waiter: whoever waited leaves the mark, because others may be waiting still.
    fn acquire_contended(&self) -> bool {
        self.state.swap(CONTENDED, Ordering::Acquire) == FREE
    }
    #[cold]
    #[inline(never)]
    fn wait(&self) {
        self.waiters
            .wait_until_uninterruptible(|| self.acquire_contended());
    }
    /// Takes the lock, sleeping until it is free.
    #[inline]
    #[cfg_attr(any(debug_assertions, feature = "lockdep"), track_caller)]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        crate::sched::might_sleep();
        self.dep.acquire::<T>(Kind::Mutex, Mode::Exclusive);
        if !self.acquire() {
            self.wait();
        }
        MutexGuard { lock: self }
    }
    /// [`Mutex::lock`] while others of its class are held; `subclass` (1 to 3) stands for the order in which that happens.
    #[cfg_attr(any(debug_assertions, feature = "lockdep"), track_caller)]
    pub fn lock_nested(&self, subclass: usize) -> MutexGuard<'_, T> {
        crate::sched::might_sleep();
        self.dep
            .acquire_nested::<T>(Kind::Mutex, Mode::Exclusive, subclass);
        if !self.acquire() {
            self.wait();
        }
        MutexGuard { lock: self }
    }
    /// Takes the lock if it is free.
    #[cfg_attr(feature = "lockdep", track_caller)]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        if !self.acquire() {
            return None;
        }
        self.dep.acquired_by_trying::<T>(Kind::Mutex, Mode::Exclusive);
        Some(MutexGuard { lock: self })
    }
    /// Takes the lock; any signal ends the wait with `ERESTARTSYS`.
    #[cfg_attr(any(debug_assertions, feature = "lockdep"), track_caller)]
    pub fn lock_interruptible(&self) -> Result<MutexGuard<'_, T>, Errno> {
        crate::sched::might_sleep();
        self.dep.acquire::<T>(Kind::Mutex, Mode::Exclusive);
        if !self.acquire() {
            self.waiters
                .wait_until(|| self.acquire_contended())
                .inspect_err(|_| self.dep.release())?;
        }
        Ok(MutexGuard { lock: self })
    }
}

/// Holds a [`Mutex`].
pub struct MutexGuard<'a, T: ?Sized> {
    lock: &'a Mutex<T>,
}

// SAFETY: sharing the guard shares the value.
unsafe impl<T: ?Sized + Sync> Sync for MutexGuard<'_, T> {}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the guard holds the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard holds the lock, exclusively.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.dep.release();
        if self.lock.state.swap(FREE, Ordering::Release) == CONTENDED {
            self.lock.waiters.wake_one();
        }
    }
}

impl Mutex<u64> {
    /// The value at some moment, without the lock: for showing it, even while the lock is held for long.
    pub fn peek(&self) -> u64 {
        // SAFETY: always initialised. A holder may be writing: any bits are a `u64`, and nothing but a number to be shown depends on them.
        unsafe { core::ptr::read_volatile(self.value.get()) }
    }
}

impl<T: Default> Default for Mutex<T> {
    #[cfg_attr(feature = "lockdep", track_caller)]
    fn default() -> Self {
        Self::new(T::default())
    }
}
