//! Values that are made once: [`Once`] is set by hand or at first use, [`Lazy`] calls its function at first
//! use.

use super::RawSpinLock;
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::ops::Deref;
use core::sync::atomic::{AtomicBool, Ordering};

/// A cell that is written at most once and can be read without a lock.
pub struct Once<T> {
    done: AtomicBool,
    lock: RawSpinLock,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: the value is written once, under the lock, before `done` is set with release; afterwards there are
// only shared references.
unsafe impl<T: Send + Sync> Sync for Once<T> {}
// SAFETY: who owns the cell owns the value.
unsafe impl<T: Send> Send for Once<T> {}

impl<T> Once<T> {
    /// An empty cell.
    pub const fn new() -> Self {
        Self {
            done: AtomicBool::new(false),
            lock: RawSpinLock::new(),
            value: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }
    /// The value, if set.
    #[inline(always)]
    pub fn get(&self) -> Option<&T> {
        if self.done.load(Ordering::Acquire) {
            // SAFETY: `done` says it was written, and it is never written again.
            Some(unsafe { (*self.value.get()).assume_init_ref() })
        } else {
            None
        }
    }
    /// Sets the value. `Err`: there is one already, and `value` is given back.
    pub fn set(&self, value: T) -> Result<(), T> {
        super::without_interrupts(|| {
            self.lock.lock();
            let free = !self.done.load(Ordering::Relaxed);
            let result = if free {
                // SAFETY: the lock is held and the value not set, so nobody else uses it.
                unsafe { (*self.value.get()).write(value) };
                self.done.store(true, Ordering::Release);
                Ok(())
            } else {
                Err(value)
            };
            self.lock.unlock();
            result
        })
    }
    /// The value, which `f` makes if there is none. Several threads may run `f` at the same time; one result
    /// is kept.
    #[inline(always)]
    pub fn get_or_init(&self, f: impl FnOnce() -> T) -> &T {
        match self.get() {
            Some(value) => value,
            None => self.init(f),
        }
    }
    #[cold]
    #[inline(never)]
    fn init(&self, f: impl FnOnce() -> T) -> &T {
        let _ = self.set(f());
        self.get().expect("just set")
    }
}

impl<T> Drop for Once<T> {
    fn drop(&mut self) {
        if *self.done.get_mut() {
            // SAFETY: the value was written, and is dropped only here.
            unsafe { self.value.get_mut().assume_init_drop() }
        }
    }
}

/// A static whose value is made at first use. Several CPUs may run the function at the same time; one result
/// is kept.
pub struct Lazy<T, F = fn() -> T> {
    once: Once<T>,
    make: F,
}

impl<T, F: Fn() -> T> Lazy<T, F> {
    /// With the function that makes the value.
    pub const fn new(make: F) -> Self {
        Self {
            once: Once::new(),
            make,
        }
    }
}

impl<T, F: Fn() -> T> Deref for Lazy<T, F> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        self.once.get_or_init(|| (self.make)())
    }
}
