//! The words that CPUs share, and the fence between accesses to them.

use core::sync::atomic::{self, AtomicUsize, Ordering};

/// A word that several CPUs access.
pub trait Word {
    /// A word with this value.
    fn new(value: usize) -> Self;
    /// Reads it.
    fn load(&self, order: Ordering) -> usize;
    /// Writes it.
    fn store(&self, value: usize, order: Ordering);
    /// Adds to it (wrapping), and returns what it was.
    fn fetch_add(&self, value: usize, order: Ordering) -> usize;
    /// Replaces `from` by `to`; otherwise returns what it is. May fail without a reason.
    fn replace(&self, from: usize, to: usize) -> Result<(), usize>;
}

/// A kind of words and its fence.
pub trait Atomics {
    /// The words.
    type Word: Word;
    /// A fence of sequential consistency: of two such fences one comes first, and what was written before it
    /// is seen by whatever is read after the other.
    fn fence();
}

/// The processor's own words.
#[derive(Debug)]
pub struct Native;

impl Atomics for Native {
    type Word = AtomicUsize;
    #[inline(always)]
    fn fence() {
        atomic::fence(Ordering::SeqCst);
    }
}

impl Word for AtomicUsize {
    #[inline(always)]
    fn new(value: usize) -> Self {
        AtomicUsize::new(value)
    }
    #[inline(always)]
    fn load(&self, order: Ordering) -> usize {
        AtomicUsize::load(self, order)
    }
    #[inline(always)]
    fn store(&self, value: usize, order: Ordering) {
        AtomicUsize::store(self, value, order);
    }
    #[inline(always)]
    fn fetch_add(&self, value: usize, order: Ordering) -> usize {
        AtomicUsize::fetch_add(self, value, order)
    }
    #[inline(always)]
    fn replace(&self, from: usize, to: usize) -> Result<(), usize> {
        self.compare_exchange_weak(from, to, Ordering::AcqRel, Ordering::Relaxed)
            .map(|_| ())
    }
}
