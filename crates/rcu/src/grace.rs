//! Grace periods for readers that hold off preemption.
//!
//! One thread, the *driver*, makes one grace period after the other, as long as one is wanted:
//!
//! 1. [`GracePeriods::begin`] notes for each CPU how far its counts have come;
//! 2. [`Period::scan`], again and again, crosses off the CPUs whose counts have changed, or that are away. In
//!    between the driver sleeps, and may interrupt the CPUs that are left ([`Period::waits_for`]);
//! 3. when none is left, [`Period::end`].
//!
//! Why what is removed before the beginning cannot be seen after the end: of three fences, the remover's in
//! [`GracePeriods::cookie`] comes before the driver's in `begin`, because the remover does not see the
//! grace period that begins; and the driver's before a CPU's after its count, because the driver does not see
//! that count. So a reader that begins after the count sees the removal. One that began before has ended,
//! and its accesses come before the end of the grace period: the count is written with release and read with
//! acquire.

use crate::{Atomics, Native, Word};
use core::fmt;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Names the first grace period that begins after the cookie was made. Grace periods are numbered; the
/// numbers wrap, so a cookie must not be kept for half of all numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cookie(usize);

impl Cookie {
    /// Whether this grace period is over when `other` is, because it is the same or an earlier one.
    pub fn is_covered_by(self, other: Cookie) -> bool {
        other.0.wrapping_sub(self.0) as isize >= 0
    }
}

/// The numbers of the grace periods of one domain.
pub struct GracePeriods<A: Atomics> {
    /// The newest that began.
    begun: A::Word,
    /// The newest that ended: that one, or the one before.
    ended: A::Word,
    /// The newest that somebody waits for.
    wanted: A::Word,
}

impl GracePeriods<Native> {
    /// None has begun.
    pub const fn new() -> Self {
        Self {
            begun: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
            wanted: AtomicUsize::new(0),
        }
    }
}

impl<A: Atomics> Default for GracePeriods<A> {
    fn default() -> Self {
        Self::from_number(0)
    }
}

impl<A: Atomics> GracePeriods<A> {
    /// None has begun; the first will follow `number`. (A test lets the numbers wrap.)
    pub fn from_number(number: usize) -> Self {
        Self {
            begun: A::Word::new(number),
            ended: A::Word::new(number),
            wanted: A::Word::new(number),
        }
    }

    /// The grace period after which nobody can see what the caller has removed so far.
    pub fn cookie(&self) -> Cookie {
        // The removal is written before the look at what has begun.
        A::fence();
        Cookie(self.begun.load(Acquire).wrapping_add(1))
    }

    /// Whether a grace period has ended.
    #[inline]
    pub fn is_over(&self, cookie: Cookie) -> bool {
        cookie.is_covered_by(Cookie(self.ended.load(Acquire)))
    }

    /// Asks the driver to go on until this grace period has ended. `true`: the driver may be asleep and has
    /// to be woken; what it then asks of [`GracePeriods::is_wanted`] is true.
    pub fn want(&self, cookie: Cookie) -> bool {
        let mut wanted = self.wanted.load(Relaxed);
        while !cookie.is_covered_by(Cookie(wanted)) {
            match self.wanted.replace(wanted, cookie.0) {
                Ok(()) => return true,
                Err(now) => wanted = now,
            }
        }
        false
    }

    /// Whether somebody waits for a grace period that has not ended.
    pub fn is_wanted(&self) -> bool {
        !self.is_over(Cookie(self.wanted.load(Acquire)))
    }

    /// Begins a grace period. `seen` has room for each CPU. Only the driver calls it, and ends one before it
    /// begins the next.
    pub fn begin<'a, M: Machine<Atomics = A>>(&'a self, machine: &M, seen: &'a mut [Seen]) -> Period<'a, A> {
        let number = self.begun.load(Relaxed).wrapping_add(1);
        self.begun.store(number, Release);
        A::fence();
        for (cpu, seen) in seen.iter_mut().enumerate() {
            *seen = match machine.presence(cpu) {
                Some(presence) => Seen::at(presence, machine.switches(cpu)),
                None => Seen(None),
            };
        }
        Period {
            of: self,
            number,
            seen,
        }
    }
}

/// What the driver reads of the CPUs.
pub trait Machine {
    /// The words it is made of.
    type Atomics: Atomics;
    /// What a CPU says of itself; `None`: it does not run. A CPU that begins to run executes a fence of
    /// sequential consistency before its first reader.
    fn presence(&self, cpu: usize) -> Option<&Presence<Self::Atomics>>;
    /// A count that changes with each switch of a CPU between threads, and may change at other moments when
    /// it is in no reader. Either it is read with acquire, and the CPU writes it with release, after the
    /// readers of the thread that is left, and executes a fence of sequential consistency before the first
    /// reader of the next. Or it is read under a lock that the CPU holds from before the count changes until
    /// the next thread runs.
    fn switches(&self, cpu: usize) -> usize;
}

/// What a CPU says of itself. Only the CPU writes it, with interrupts off; others read it.
///
/// One count: odd while the CPU may be in readers, even while it is away, which is idle or in user mode. Each
/// change of it is a moment without a reader.
pub struct Presence<A: Atomics>(A::Word);

impl Presence<Native> {
    /// The CPU is here.
    pub const fn new() -> Self {
        Self(AtomicUsize::new(1))
    }
}

impl<A: Atomics> Default for Presence<A> {
    fn default() -> Self {
        Self(A::Word::new(1))
    }
}

impl<A: Atomics> fmt::Debug for Presence<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Presence").field(&self.0.load(Relaxed)).finish()
    }
}

impl<A: Atomics> Presence<A> {
    /// The CPU is in no reader now, as an interrupt handler finds when the driver asked: the interrupted code
    /// is user mode, or kernel code that may be preempted.
    pub fn passes(&self) {
        self.0.store(self.0.load(Relaxed).wrapping_add(2), Release);
        A::fence();
    }
    /// The CPU goes away: from here to [`Presence::comes_back`] it is in no reader.
    #[inline(always)]
    pub fn goes(&self) {
        self.0.store(self.0.load(Relaxed).wrapping_add(1), Release);
    }
    /// The CPU is back, and may read.
    #[inline(always)]
    pub fn comes_back(&self) {
        self.0.store(self.0.load(Relaxed).wrapping_add(1), Relaxed);
        A::fence();
    }
    /// Whether the CPU is here, as it says of itself.
    #[inline(always)]
    pub fn is_here(&self) -> bool {
        self.0.load(Relaxed) & 1 == 1
    }
}

/// How far a CPU's counts had come when a grace period began; `None`: it need not be waited for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen(Option<(usize, usize)>);

impl Seen {
    fn at<A: Atomics>(presence: &Presence<A>, switches: usize) -> Self {
        let count = presence.0.load(Acquire);
        Self((count & 1 == 1).then_some((count, switches)))
    }
}

/// A grace period that has begun and not ended.
#[must_use]
pub struct Period<'a, A: Atomics> {
    of: &'a GracePeriods<A>,
    number: usize,
    seen: &'a mut [Seen],
}

impl<A: Atomics> Period<'_, A> {
    /// Crosses off the CPUs that have been in a quiescent state since the beginning. Whether none is left.
    pub fn scan<M: Machine<Atomics = A>>(&mut self, machine: &M) -> bool {
        let mut all = true;
        for (cpu, seen) in self.seen.iter_mut().enumerate() {
            let Some((count, switches)) = seen.0 else { continue };
            let passed = machine.presence(cpu).is_none_or(|presence| {
                let now = presence.0.load(Acquire);
                now != count || now & 1 == 0
            });
            if passed || machine.switches(cpu) != switches {
                seen.0 = None;
            } else {
                all = false;
            }
        }
        all
    }

    /// The CPUs that are left.
    pub fn waits_for(&self) -> impl Iterator<Item = usize> + '_ {
        let left = self.seen.iter().enumerate();
        left.filter(|(_, seen)| seen.0.is_some()).map(|(cpu, _)| cpu)
    }

    /// Ends the grace period.
    ///
    /// # Panics
    ///
    /// A CPU is left.
    pub fn end(self) {
        assert!(self.seen.iter().all(|seen| seen.0.is_none()), "a CPU is left");
        self.of.ended.store(self.number, Release);
    }
}
