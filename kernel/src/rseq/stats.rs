//! Counters: each CPU's, each thread's, each process's.

use crate::sched;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use limen_rseq::Event;

/// One counter. Only one CPU, or one thread, adds one to it. A register wide, as Linux's: on 32-bit processors it begins anew after 2^32.
pub struct Count(AtomicUsize);

impl Count {
    const fn new() -> Self {
        Self(AtomicUsize::new(0))
    }
    /// One more.
    #[inline(always)]
    pub fn add(&self) {
        self.add_many(1);
    }
    #[inline(always)]
    fn add_many(&self, n: usize) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }
    /// One less: the last was none.
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
        /// What a CPU did. On cache lines of its own.
        #[repr(align(128))]
        pub struct Counts {
            $($(#[$doc])* pub $name: Count,)*
        }

        impl Counts {
            /// Nothing yet.
            pub const fn new() -> Self {
                Self { $($name: Count::new(),)* }
            }
        }

        /// The counters, as Linux calls them, and what each living thread adds to them; the last two are Limen's own.
        pub const NAMES: &[(&str, fn(&Counts) -> &Count, fn(&ThreadCounts) -> u64)] =
            &[$(($key, |counts| &counts.$name, |_thread| 0 $(+ _thread.$also.get())*),)*];
    };
}

counts! {
    /// Ways out to user mode, while they are counted.
    exits "exit:",
    /// Looks at a critical section because of a signal.
    signal "signal:" + looks,
    /// Ways out that found user memory missing.
    slow "slowp:",
    /// Ways out that had something to do and did it at once.
    fast "fastp:" + again,
    /// Identifiers written.
    ids "ids:",
    /// Critical sections looked for.
    checks "cs:" + again + looks,
    /// Critical sections forgotten because the thread was not in them.
    clears "clear:",
    /// Critical sections aborted.
    fixups "fixup:",
    /// Time-slice extensions granted.
    granted "sgrant:",
    /// Those whose time was up.
    expired "sexpir:",
    /// Those that were taken back.
    revoked "srevok:",
    /// Those given up by `rseq_slice_yield`.
    yielded "syield:",
    /// Those that ended by another system call.
    aborted "sabort:",
    /// While ways out are counted: `rseq_cs` cleared though it was clear. Nothing does.
    cleared_twice "again:",
    /// While ways out are counted: critical sections of optimised areas looked for though user mode had not been interrupted. Nothing does.
    uninterrupted "noirq:",
}

/// Adds to one of this CPU's counters where the thread may be moved to another meanwhile.
pub fn count(which: impl FnOnce(&Counts) -> &Count) {
    crate::sync::without_preemption(|| which(&sched::this_cpu().rseq).add());
}

/// What was done for a thread, or for the ended threads of a process.
pub struct ThreadCounts {
    /// Ways out that found a legacy area as it was to be, and no critical section: all that nearly every one finds. Counted here, where it takes least,
    /// until the thread ends.
    pub again: Count,
    /// Signals about to be taken by a thread whose legacy area was so, likewise.
    pub looks: Count,
    /// Identifiers written.
    pub ids: Count,
    /// Critical sections aborted because it was preempted, moved to another CPU, got a signal, or `membarrier` said so.
    pub aborts: [Count; 4],
    /// Time-slice extensions granted.
    pub grants: Count,
}

impl ThreadCounts {
    /// Nothing yet.
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

    /// The thread whose counts are `other` has ended. Several may end at a time.
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

/// Counts of several threads together.
#[derive(Default)]
pub struct Sums {
    /// As in [`ThreadCounts`].
    pub ids: u64,
    /// As in [`ThreadCounts`].
    pub aborts: [u64; 4],
    /// As in [`ThreadCounts`].
    pub grants: u64,
}

impl Sums {
    /// Adds one thread's.
    pub fn add(&mut self, counts: &ThreadCounts) {
        self.ids += counts.ids.get();
        self.grants += counts.grants.get();
        for (sum, count) in self.aborts.iter_mut().zip(&counts.aborts) {
            *sum += count.get();
        }
    }
}
