//! The lock of an address space: many readers (faults) or one writer (everything that changes mappings). One atomic operation each way
//! when nobody waits; sleeps otherwise. Writers that wait keep new readers out.

use crate::sched::WaitQueue;
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, Ordering};

/// Held for writing.
const WRITER: u32 = 1 << 31;
/// Somebody waits; whoever releases the lock wakes.
const WAITERS: u32 = 1 << 30;
/// A writer waits: readers stay out.
const WRITER_WAITS: u32 = 1 << 29;
const READERS: u32 = WRITER_WAITS - 1;

/// A sleeping reader-writer lock.
pub struct RwLock<T> {
    state: AtomicU32,
    queue: WaitQueue,
    value: UnsafeCell<T>,
}

// SAFETY: readers share `&T` between threads, writers have it alone.
unsafe impl<T: Send + Sync> Sync for RwLock<T> {}
// SAFETY: owning the lock is owning the value.
unsafe impl<T: Send> Send for RwLock<T> {}

impl<T> RwLock<T> {
    /// An unlocked lock.
    pub const fn new(value: T) -> Self {
        Self { state: AtomicU32::new(0), queue: WaitQueue::new(), value: UnsafeCell::new(value) }
    }

    /// Takes it for reading. Not to be nested: a writer in between would wait forever.
    #[inline]
    pub fn read(&self) -> ReadGuard<'_, T> {
        if !self.try_read() {
            self.read_slow();
        }
        ReadGuard(self)
    }

    /// Takes it for writing.
    #[inline]
    pub fn write(&self) -> WriteGuard<'_, T> {
        if self.state.compare_exchange(0, WRITER, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.write_slow();
        }
        WriteGuard(self)
    }

    /// The value, when nobody else can hold the lock any more.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    #[inline(always)]
    fn try_read(&self) -> bool {
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            if state & (WRITER | WRITER_WAITS) != 0 {
                return false;
            }
            match self.state.compare_exchange_weak(state, state + 1, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
    }

    fn try_write(&self) -> bool {
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            if state & (WRITER | READERS) != 0 {
                return false;
            }
            // Others may still wait: keep their mark, drop the writers' (they set it again).
            let new = (state & WAITERS) | WRITER;
            match self.state.compare_exchange_weak(state, new, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn read_slow(&self) {
        self.queue.wait_until_uninterruptible(|| {
            self.try_read() || {
                self.state.fetch_or(WAITERS, Ordering::Relaxed);
                // Released in between?
                self.try_read()
            }
        });
    }

    #[cold]
    #[inline(never)]
    fn write_slow(&self) {
        self.queue.wait_until_uninterruptible(|| {
            self.try_write() || {
                self.state.fetch_or(WAITERS | WRITER_WAITS, Ordering::Relaxed);
                self.try_write()
            }
        });
    }

    #[inline(always)]
    fn release(&self, held: u32) {
        let before = self.state.fetch_sub(held, Ordering::Release);
        if before & WAITERS != 0 && (before - held) & (WRITER | READERS) == 0 {
            self.wake();
        }
    }

    #[cold]
    #[inline(never)]
    fn wake(&self) {
        // Waiters mark themselves again if they stay.
        self.state.fetch_and(!(WAITERS | WRITER_WAITS), Ordering::Relaxed);
        self.queue.wake_all();
    }
}

/// Holds a [`RwLock`] for reading.
pub struct ReadGuard<'a, T>(&'a RwLock<T>);
/// Holds a [`RwLock`] for writing.
pub struct WriteGuard<'a, T>(&'a RwLock<T>);

impl<T> Deref for ReadGuard<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: held for reading.
        unsafe { &*self.0.value.get() }
    }
}
impl<T> Deref for WriteGuard<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: held for writing.
        unsafe { &*self.0.value.get() }
    }
}
impl<T> DerefMut for WriteGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: held for writing, so nobody else has it.
        unsafe { &mut *self.0.value.get() }
    }
}
impl<T> Drop for ReadGuard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.release(1);
    }
}
impl<T> Drop for WriteGuard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.release(WRITER);
    }
}
