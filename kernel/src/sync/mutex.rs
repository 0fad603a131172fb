//! A lock whose waiters sleep. Not for interrupt handlers, nor while a spinlock is held.

use super::lockdep::{Dep, Kind, Mode};
use crate::sched::WaitQueue;
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, Ordering};
use limen_linux_abi::Errno;

const FREE: u32 = 0;
const HELD: u32 = 1;
/// A thread holds it, and another may be asleep waiting for it.
const CONTENDED: u32 = 2;

/// A sleeping lock.
pub struct Mutex<T: ?Sized> {
    state: AtomicU32,
    waiters: WaitQueue,
    dep: Dep,
    value: UnsafeCell<T>,
}

// SAFETY: only the holder has access to the value. Another holder may be another thread, hence `T: Send`.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}
// SAFETY: who owns the lock owns the value.
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
    #[inline(always)]
    fn wait(&self) {
        mutex_lock(&self.state, &self.waiters);
    }
    /// Takes the lock. Sleeps until it is free.
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
    /// [`Mutex::lock`] while other locks of the same class are held. `subclass` (1 to 3) stands for their
    /// order.
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
        if !mutex_trylock(&self.state) {
            return None;
        }
        self.dep.acquired_by_trying::<T>(Kind::Mutex, Mode::Exclusive);
        Some(MutexGuard { lock: self })
    }
    /// Takes the lock. A signal ends the wait with `ERESTARTSYS`.
    #[cfg_attr(any(debug_assertions, feature = "lockdep"), track_caller)]
    pub fn lock_interruptible(&self) -> Result<MutexGuard<'_, T>, Errno> {
        crate::sched::might_sleep();
        self.dep.acquire::<T>(Kind::Mutex, Mode::Exclusive);
        if !self.acquire() {
            self.waiters
                .wait_until_exclusive(|| acquire_contended(&self.state))
                .inspect_err(|_| self.dep.release())?;
        }
        Ok(MutexGuard { lock: self })
    }
}

/// The right of the holder of a [`Mutex`]; dropping it releases the lock.
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
        // SAFETY: the guard holds the lock, and is borrowed exclusively.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.dep.release();
        if self.lock.state.swap(FREE, Ordering::Release) == CONTENDED {
            mutex_unlock_slowpath(&self.lock.waiters);
        }
    }
}

/// For a thread that has waited: it sets [`CONTENDED`], as others may still be waiting.
fn acquire_contended(state: &AtomicU32) -> bool {
    state.swap(CONTENDED, Ordering::Acquire) == FREE
}

// Functions of their own, so that they can be traced by Linux's names.

/// Waits until the mutex is free, and takes it.
#[cold]
#[inline(never)]
fn mutex_lock(state: &AtomicU32, waiters: &WaitQueue) {
    waiters.wait_until_uninterruptible_exclusive(|| acquire_contended(state));
}

/// Takes the mutex if it is free.
#[inline(never)]
fn mutex_trylock(state: &AtomicU32) -> bool {
    state
        .compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed)
        .is_ok()
}

/// The mutex was released, and others may wait for it.
#[cold]
#[inline(never)]
fn mutex_unlock_slowpath(waiters: &WaitQueue) {
    waiters.wake_one();
}

impl Mutex<u64> {
    /// The value as it is at some moment, without the lock: to be shown while the lock may be held for long.
    pub fn peek(&self) -> u64 {
        // SAFETY: the value is always initialised. The holder may be writing it, but any bits are a `u64`,
        // and it is only shown.
        unsafe { core::ptr::read_volatile(self.value.get()) }
    }
}

impl<T: Default> Default for Mutex<T> {
    #[cfg_attr(feature = "lockdep", track_caller)]
    fn default() -> Self {
        Self::new(T::default())
    }
}
