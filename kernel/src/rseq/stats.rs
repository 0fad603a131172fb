//! Counters: of each CPU, each thread and each process.

use crate::sched;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use limen_rseq::Event;

/// A counter, to which only one CPU, or one thread, adds. It is as wide as a register, like Linux's: on
/// 32-bit processors it wraps after 2^32.
pub struct Count(AtomicUsize);

impl Count {
    const fn new() -> Self {
        Self(AtomicUsize::new(0))
    }
    /// Adds one.
    #[inline(always)]
    pub fn add(&self) {
        self.add_many(1);
    }
    #[inline(always)]
    fn add_many(&self, n: usize) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }
    /// Takes back the last addition.
    pub fn take_back(&self) {
        self.add_many(usize::MAX);
    }
    /// Its value.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed) as u64
    }
}

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident $key:literal $(+ $also:ident)*,)*) => {
        /// The counters of a CPU, on cache lines of their own.
        #[repr(align(128))]
        pub struct Counts {
            $($(#[$doc])* pub $name: Count,)*
        }

        impl Counts {
            /// All counters are zero.
            pub const fn new() -> Self {
                Self { $($name: Count::new(),)* }
            }
        }

        /// The counters with Linux's names, and what each living thread adds to them. The last two are
        /// Limen's own.
        pub const NAMES: &[(&str, fn(&Counts) -> &Count, fn(&ThreadCounts) -> u64)] =
            &[$(($key, |counts| &counts.$name, |_thread| 0 $(+ _thread.$also.get())*),)*];
    };
}

counts! {
    /// Ways out to user mode, counted only if that was asked for.
    exits "exit:",
    /// Checks for a critical section because of a signal.
    signal "signal:" + looks,
    /// Ways out on which an access to the area faulted.
    slow "slowp:",
    /// Ways out that had work and did it at once.
    fast "fastp:" + again,
    /// Writes of ids to an area.
    ids "ids:",
    /// Checks for a critical section.
    checks "cs:" + again + looks,
    /// Critical sections whose pointer was cleared because the thread was not in them.
    clears "clear:",
    /// Critical sections aborted.
    fixups "fixup:",
    /// Extensions granted.
    granted "sgrant:",
    /// Extensions whose time was over.
    expired "sexpir:",
    /// Extensions that the kernel took back.
    revoked "srevok:",
    /// Extensions that the thread gave up with `rseq_slice_yield`.
    yielded "syield:",
    /// Extensions that another system call ended.
    aborted "sabort:",
    /// While ways out are counted: `rseq_cs` cleared although it was clear. Should never happen.
    cleared_twice "again:",
    /// While ways out are counted: critical sections of optimised areas checked although no interrupt came
    /// from user mode. Should never happen.
    uninterrupted "noirq:",
}

/// Adds one to a counter of this CPU, where the thread may be moved to another CPU.
pub fn count(which: impl FnOnce(&Counts) -> &Count) {
    crate::sync::without_preemption(|| which(&sched::this_cpu().rseq).add());
}

/// The counters of a thread, or of all ended threads of a process.
pub struct ThreadCounts {
    /// Ways out on which a legacy area said what it should and had no critical section, as nearly always.
    /// Counted per thread, where it costs least, and added to the process when the thread ends.
    pub again: Count,
    /// Signals before which a legacy area was found so. Counted per thread, too.
    pub looks: Count,
    /// Writes of ids to the area.
    pub ids: Count,
    /// Aborted critical sections, by reason: preemption, move to another CPU, signal, `membarrier`.
    pub aborts: [Count; 4],
    /// Extensions granted.
    pub grants: Count,
}

impl ThreadCounts {
    /// All counters are zero.
    pub const fn new() -> Self {
        Self {
            again: Count::new(),
            looks: Count::new(),
            ids: Count::new(),
            aborts: [const { Count::new() }; 4],
            grants: Count::new(),
        }
    }

    /// A critical section was aborted.
    pub fn aborted(&self, event: Event, signal: bool) {
        let cause = if signal {
            2
        } else if event.contains(Event::BARRIER) {
            3
        } else if event.contains(Event::MIGRATED) {
            1
        } else {
            0
        };
        self.aborts[cause].add();
    }

    /// Adds the counters of a thread that has ended. Several threads may end at the same time.
    pub fn inherit(&self, other: &Self) {
        crate::sync::without_preemption(|| {
            let all = &sched::this_cpu().rseq;
            let [again, looks] = [&other.again, &other.looks].map(|count| count.0.swap(0, Relaxed));
            all.fast.add_many(again);
            all.signal.add_many(looks);
            all.checks.add_many(again + looks);
        });
        let pairs = [(&self.ids, &other.ids), (&self.grants, &other.grants)];
        for (to, from) in pairs.into_iter().chain(self.aborts.iter().zip(&other.aborts)) {
            if from.get() != 0 {
                to.0.fetch_add(from.0.swap(0, Relaxed), Relaxed);
            }
        }
    }
}

/// The counters of several threads together.
#[derive(Default)]
pub struct Sums {
    /// See [`ThreadCounts`].
    pub ids: u64,
    /// See [`ThreadCounts`].
    pub aborts: [u64; 4],
    /// See [`ThreadCounts`].
    pub grants: u64,
}

impl Sums {
    /// Adds the counters of one thread.
    pub fn add(&mut self, counts: &ThreadCounts) {
        self.ids += counts.ids.get();
        self.grants += counts.grants.get();
        for (sum, count) in self.aborts.iter_mut().zip(&counts.aborts) {
            *sum += count.get();
        }
    }
}
