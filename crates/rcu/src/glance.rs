//! Readers that are so short that writers spin until they have ended. Each CPU has a word that is odd while
//! it reads. A reader writes nothing else, and a writer only looks at the words: where nobody reads, waiting
//! is one fence and one load for each CPU, and what was removed is freed at once.

use crate::{Atomics, Native, Word};
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// A CPU's word.
pub struct Glances<A: Atomics>(A::Word);

/// A reader between [`Glances::enter`] and [`Glances::leave`].
#[derive(Debug)]
#[must_use]
pub struct Glance {
    /// What the word is to be afterwards.
    after: usize,
}

impl Glances<Native> {
    /// Without readers.
    pub const fn new() -> Self {
        Self(AtomicUsize::new(0))
    }
}

impl<A: Atomics> Default for Glances<A> {
    fn default() -> Self {
        Self(A::Word::new(0))
    }
}

impl<A: Atomics> Glances<A> {
    /// Begins to read, on the word's CPU, on which the reader stays. Nests: only the outermost reader changes
    /// the word. An interrupt in the middle of this may read as well: afterwards the word is what it was or,
    /// if it was even, even.
    #[inline(always)]
    pub fn enter(&self) -> Glance {
        let before = self.0.load(Relaxed);
        if before & 1 != 0 {
            // The outer reader may have been interrupted before its own fence.
            A::fence();
            return Glance { after: before };
        }
        // `Release`: a writer that waits for an earlier reader may see this value first.
        self.0.store(before.wrapping_add(1), Release);
        // The word is written before anything is read.
        A::fence();
        Glance {
            after: before.wrapping_add(2),
        }
    }

    /// Ends a reader.
    #[inline(always)]
    pub fn leave(&self, glance: Glance) {
        self.0.store(glance.after, Release);
    }

    /// Whether its CPU reads, and which reader that is. The caller has removed something and then called
    /// [`Atomics::fence`]; a reader that is not seen here does not find it.
    #[inline(always)]
    pub fn reads(&self) -> Option<usize> {
        let now = self.0.load(Acquire);
        (now & 1 != 0).then_some(now)
    }

    /// Whether the reader `seen` by [`Self::reads`] has ended. What it read, it has read.
    pub fn has_ended(&self, seen: usize) -> bool {
        self.0.load(Acquire) != seen
    }
}
