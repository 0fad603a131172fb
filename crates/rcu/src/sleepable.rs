//! Readers that may sleep (SRCU). They are counted, in one of two pairs of counts; a grace period turns new
//! readers to the other pair and waits until the old one balances.
//!
//! Each CPU has counts of its own, and a reader may leave on another CPU than it entered on: only the sums
//! balance. The updater adds up those who left before those who entered, so a reader that it sees leave it
//! has also seen enter.

use crate::{Atomics, Native, Word};
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// A CPU's counts: readers that entered and that left, by the pair they were turned to.
struct Counts<A: Atomics> {
    entered: [A::Word; 2],
    left: [A::Word; 2],
}

/// A domain of readers that may sleep.
pub struct Sleepable<A: Atomics, const CPUS: usize> {
    /// The pair that new readers use: its lowest bit.
    turn: A::Word,
    counts: [Counts<A>; CPUS],
}

/// A reader between [`Sleepable::enter`] and [`Sleepable::leave`].
#[derive(Debug)]
#[must_use]
pub struct Reader(usize);

impl<const CPUS: usize> Sleepable<Native, CPUS> {
    /// Without readers.
    pub const fn new() -> Self {
        Self {
            turn: AtomicUsize::new(0),
            counts: [const {
                Counts {
                    entered: [const { AtomicUsize::new(0) }; 2],
                    left: [const { AtomicUsize::new(0) }; 2],
                }
            }; CPUS],
        }
    }
}

impl<A: Atomics, const CPUS: usize> Default for Sleepable<A, CPUS> {
    fn default() -> Self {
        let pair = || [A::Word::new(0), A::Word::new(0)];
        Self {
            turn: A::Word::new(0),
            counts: core::array::from_fn(|_| Counts {
                entered: pair(),
                left: pair(),
            }),
        }
    }
}

impl<A: Atomics, const CPUS: usize> Sleepable<A, CPUS> {
    /// Begins to read, on CPU `cpu` (if the thread has moved meanwhile, that costs time and nothing else).
    pub fn enter(&self, cpu: usize) -> Reader {
        let pair = self.turn.load(Acquire) & 1;
        self.counts[cpu].entered[pair].fetch_add(1, Relaxed);
        // The count is written before anything is read.
        A::fence();
        Reader(pair)
    }

    /// Ends a reader.
    pub fn leave(&self, cpu: usize, reader: Reader) {
        // Everything has been read before the count is written.
        A::fence();
        self.counts[cpu].left[reader.0].fetch_add(1, Release);
    }

    /// Begins a grace period. Only one at a time: the caller holds a lock of its own.
    pub fn begin(&self) -> Waiting<'_, A, CPUS> {
        // What was removed is written before any count is read.
        A::fence();
        Waiting {
            of: self,
            is_turned: false,
        }
    }

    /// Whether all readers of a pair have left.
    fn balances(&self, pair: usize) -> bool {
        let sum = |count: fn(&Counts<A>) -> &[A::Word; 2]| {
            let counts = self.counts.iter().map(|of| count(of)[pair].load(Acquire));
            counts.fold(0, usize::wrapping_add)
        };
        let left = sum(|of| &of.left);
        // A reader that has been seen to leave is seen to have entered.
        A::fence();
        left == sum(|of| &of.entered)
    }
}

/// A grace period of readers that may sleep, which has begun and not ended.
#[must_use]
pub struct Waiting<'a, A: Atomics, const CPUS: usize> {
    of: &'a Sleepable<A, CPUS>,
    is_turned: bool,
}

impl<A: Atomics, const CPUS: usize> Waiting<'_, A, CPUS> {
    /// Goes as far as it can without waiting. `true`: it is over, and all readers that had begun before it
    /// have left.
    pub fn is_over(&mut self) -> bool {
        let turn = self.of.turn.load(Relaxed);
        if !self.is_turned {
            // A reader of the grace period before the last may have looked at the turn then and have entered
            // only now: its pair must balance before new readers are turned to it.
            if !self.of.balances((turn & 1) ^ 1) {
                return false;
            }
            self.of.turn.store(turn.wrapping_add(1), Release);
            A::fence();
            self.is_turned = true;
            return self.is_over();
        }
        let over = self.of.balances((turn & 1) ^ 1);
        if over {
            A::fence();
        }
        over
    }
}
