//! A sleeping lock for many readers or one writer. A waiting writer keeps new readers out, so that writers do
//! not starve. Not for interrupt handlers, nor while a spinlock is held.

use super::lockdep::{Dep, Kind, Mode};
use crate::sched::WaitQueue;
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, Ordering};

/// A writer holds the lock.
const WRITER: u32 = 1 << 31;
/// At least one writer waits.
const WRITER_WAITS: u32 = 1 << 30;
/// A thread sleeps in one of the queues.
const SLEEPERS: u32 = 1 << 29;
/// The number of readers.
const READERS: u32 = SLEEPERS - 1;

/// A sleeping reader-writer lock.
pub struct RwLock<T: ?Sized> {
    state: AtomicU32,
    readers: WaitQueue,
    writers: WaitQueue,
    dep: Dep,
    value: UnsafeCell<T>,
}

// SAFETY: readers share the value (`T: Sync`); a writer has it for itself and may be another thread (`T:
// Send`).
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLock<T> {}
// SAFETY: who owns the lock owns the value.
unsafe impl<T: ?Sized + Send> Send for RwLock<T> {}

impl<T> RwLock<T> {
    /// An unlocked lock.
    #[cfg_attr(feature = "lockdep", track_caller)]
    pub const fn new(value: T) -> Self {
        Self {
            state: AtomicU32::new(0),
            readers: WaitQueue::new(),
            writers: WaitQueue::new(),
            dep: Dep::new(),
            value: UnsafeCell::new(value),
        }
    }
}

impl<T: ?Sized> RwLock<T> {
    #[inline]
    fn acquire_read(&self) -> bool {
        self.state
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, |s| {
                if s & (WRITER | WRITER_WAITS) == 0 {
                    Some(s + 1)
                } else {
                    None
                }
            })
            .is_ok()
    }
    #[inline]
    fn acquire_write(&self) -> bool {
        self.state
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, |s| {
                if s & (WRITER | READERS) == 0 {
                    Some((s | WRITER) & !WRITER_WAITS)
                } else {
                    None
                }
            })
            .is_ok()
    }
    /// Shares the value. Sleeps until no writer holds the lock or waits for it.
    #[inline]
    #[cfg_attr(any(debug_assertions, feature = "lockdep"), track_caller)]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        crate::sched::might_sleep();
        self.dep.acquire::<T>(Kind::RwLock, Mode::Shared);
        if !self.acquire_read() {
            self.readers.wait_until_uninterruptible(|| {
                self.state.fetch_or(SLEEPERS, Ordering::Relaxed);
                self.acquire_read()
            });
        }
        RwLockReadGuard { lock: self }
    }
    /// Shares the value if no writer holds it or waits for it.
    #[inline]
    #[cfg_attr(feature = "lockdep", track_caller)]
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        if self.acquire_read() {
            self.dep.acquired_by_trying::<T>(Kind::RwLock, Mode::Shared);
            Some(RwLockReadGuard { lock: self })
        } else {
            None
        }
    }
    /// Takes the value exclusively. Sleeps until nobody else holds the lock.
    #[inline]
    #[cfg_attr(any(debug_assertions, feature = "lockdep"), track_caller)]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        crate::sched::might_sleep();
        self.dep.acquire::<T>(Kind::RwLock, Mode::Exclusive);
        if !self.acquire_write() {
            self.writers.wait_until_uninterruptible(|| {
                self.state.fetch_or(SLEEPERS | WRITER_WAITS, Ordering::Relaxed);
                self.acquire_write()
            });
        }
        RwLockWriteGuard { lock: self }
    }
    /// [`RwLock::write`] while other locks of the same class are held. `subclass` (1 to 3) stands for their
    /// order.
    #[inline]
    #[cfg_attr(any(debug_assertions, feature = "lockdep"), track_caller)]
    pub fn write_nested(&self, subclass: usize) -> RwLockWriteGuard<'_, T> {
        crate::sched::might_sleep();
        self.dep
            .acquire_nested::<T>(Kind::RwLock, Mode::Exclusive, subclass);
        if !self.acquire_write() {
            self.writers.wait_until_uninterruptible(|| {
                self.state.fetch_or(SLEEPERS | WRITER_WAITS, Ordering::Relaxed);
                self.acquire_write()
            });
        }
        RwLockWriteGuard { lock: self }
    }
    /// The value, through exclusive access to the lock itself.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
    /// Called after a release: wakes writers first, then readers. The marks are cleared; threads that still
    /// have to wait set them again.
    #[cold]
    fn wake(&self) {
        self.state
            .fetch_and(!(SLEEPERS | WRITER_WAITS), Ordering::Relaxed);
        self.writers.wake_all();
        self.readers.wake_all();
    }
}

/// The right of a reader of an [`RwLock`]; dropping it releases the lock.
pub struct RwLockReadGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
}

/// The right of the writer of an [`RwLock`]; dropping it releases the lock.
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
}

// SAFETY: sharing the guard shares the value.
unsafe impl<T: ?Sized + Sync> Sync for RwLockReadGuard<'_, T> {}
// SAFETY: sharing the guard shares the value.
unsafe impl<T: ?Sized + Sync> Sync for RwLockWriteGuard<'_, T> {}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the guard holds the lock shared.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the guard holds the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard holds the lock, and is borrowed exclusively.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T: ?Sized> Drop for RwLockReadGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.dep.release();
        let before = self.lock.state.fetch_sub(1, Ordering::Release);
        if before & SLEEPERS != 0 && before & READERS == 1 {
            self.lock.wake();
        }
    }
}

impl<T: ?Sized> Drop for RwLockWriteGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.dep.release();
        let before = self.lock.state.fetch_and(!WRITER, Ordering::Release);
        if before & SLEEPERS != 0 {
            self.lock.wake();
        }
    }
}
