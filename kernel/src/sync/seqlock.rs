//! A sequence lock: readers never block a writer and never write anything; they read again if a writer was at work.

use super::IrqSpinLock;
use super::lockdep::{Dep, Kind, Mode};
use core::cell::UnsafeCell;
use core::ptr;
use core::sync::atomic::{AtomicU32, Ordering, fence};

/// A value that is read often, written rarely, and copied out.
pub struct SeqLock<T: Copy> {
    sequence: AtomicU32,
    writers: IrqSpinLock<()>,
    dep: Dep,
    value: UnsafeCell<T>,
}

// SAFETY: writers exclude each other; readers copy the value and throw the copy away if a writer was at work.
unsafe impl<T: Copy + Send> Sync for SeqLock<T> {}

impl<T: Copy> SeqLock<T> {
    /// With a first value.
    #[cfg_attr(feature = "lockdep", track_caller)]
    pub const fn new(value: T) -> Self {
        Self {
            sequence: AtomicU32::new(0),
            writers: IrqSpinLock::new(()),
            dep: Dep::new(),
            value: UnsafeCell::new(value),
        }
    }
    /// A consistent copy. Any context, interrupts included (writers keep interrupts off).
    #[inline]
    #[cfg_attr(feature = "lockdep", track_caller)]
    pub fn read(&self) -> T {
        // It waits for a writer, so it counts as a reader that waits for nothing else.
        self.dep.acquire::<T>(Kind::Seq, Mode::SharedRecursive);
        self.dep.release();
        loop {
            let before = self.sequence.load(Ordering::Acquire);
            if before & 1 == 0 {
                // SAFETY: always initialised; a torn copy is not used (`MaybeUninit` holds any bits), see the check below.
                let copy =
                    unsafe { ptr::read_volatile(self.value.get().cast::<core::mem::MaybeUninit<T>>()) };
                fence(Ordering::Acquire);
                if self.sequence.load(Ordering::Relaxed) == before {
                    // SAFETY: no writer was at work while it was copied.
                    return unsafe { copy.assume_init() };
                }
            }
            crate::arch::irq::spin_hint();
        }
    }
    /// Changes the value.
    #[cfg_attr(feature = "lockdep", track_caller)]
    pub fn write<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        let _guard = self.writers.lock();
        self.dep.acquire::<T>(Kind::Seq, Mode::Exclusive);
        let s = self.sequence.load(Ordering::Relaxed);
        self.sequence.store(s.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        // SAFETY: the only writer; readers only copy.
        let mut value = unsafe { *self.value.get() };
        let r = f(&mut value);
        // SAFETY: as above.
        unsafe { ptr::write_volatile(self.value.get(), value) };
        self.sequence.store(s.wrapping_add(2), Ordering::Release);
        self.dep.release();
        r
    }
}
