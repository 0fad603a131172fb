//! Resource limits.

use core::sync::atomic::{AtomicU64, Ordering};

/// There is no limit.
pub const INFINITY: u64 = u64::MAX;
/// How many limits there are.
pub const COUNT: usize = 16;

/// Limit numbers (`asm-generic/resource.h`; the same on every architecture Limen supports).
#[allow(missing_docs, dead_code, reason = "Linux's list, whole")]
pub mod which {
    pub const CPU: usize = 0;
    pub const FSIZE: usize = 1;
    pub const DATA: usize = 2;
    pub const STACK: usize = 3;
    pub const CORE: usize = 4;
    pub const RSS: usize = 5;
    pub const NPROC: usize = 6;
    pub const NOFILE: usize = 7;
    pub const MEMLOCK: usize = 8;
    pub const AS: usize = 9;
    pub const LOCKS: usize = 10;
    pub const SIGPENDING: usize = 11;
    pub const MSGQUEUE: usize = 12;
    pub const NICE: usize = 13;
    pub const RTPRIO: usize = 14;
    pub const RTTIME: usize = 15;
}

/// A limit: its enforced value, and how far that may be raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The enforced value.
    pub soft: u64,
    /// The highest soft value that can be set without privilege.
    pub hard: u64,
}

/// A process's limits. Soft values are read often and without a lock. Writers hold the process's lock.
#[derive(Debug)]
pub struct Limits {
    soft: [AtomicU64; COUNT],
    hard: [AtomicU64; COUNT],
}

impl Limits {
    /// The limits of the first process. `threads` limits processes and pending signals; it follows from the
    /// size of memory.
    pub fn new(threads: u64) -> Self {
        const MIB: u64 = 1 << 20;
        let default = |n: usize| match n {
            which::STACK => (8 * MIB, INFINITY),
            which::CORE => (0, INFINITY),
            which::NPROC | which::SIGPENDING => (threads, threads),
            which::NOFILE => (1024, 4096),
            which::MEMLOCK => (8 * MIB, 8 * MIB),
            which::MSGQUEUE => (819_200, 819_200),
            which::NICE | which::RTPRIO => (0, 0),
            _ => (INFINITY, INFINITY),
        };
        Self {
            soft: core::array::from_fn(|n| AtomicU64::new(default(n).0)),
            hard: core::array::from_fn(|n| AtomicU64::new(default(n).1)),
        }
    }

    /// A copy for a child.
    pub fn duplicate(&self) -> Self {
        let copy = |from: &[AtomicU64; COUNT]| {
            core::array::from_fn(|n| AtomicU64::new(from[n].load(Ordering::Relaxed)))
        };
        Self {
            soft: copy(&self.soft),
            hard: copy(&self.hard),
        }
    }

    /// The soft limit.
    #[inline]
    pub fn soft(&self, which: usize) -> u64 {
        self.soft[which].load(Ordering::Relaxed)
    }

    /// Both values.
    pub fn get(&self, which: usize) -> Limit {
        Limit {
            soft: self.soft(which),
            hard: self.hard[which].load(Ordering::Relaxed),
        }
    }

    /// Sets the soft value to `new` if it is still `old`. Returns whether it was.
    pub fn move_soft(&self, which: usize, old: u64, new: u64) -> bool {
        self.soft[which]
            .compare_exchange(old, new, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    /// Sets both values. The caller has checked that this is allowed.
    pub fn set(&self, which: usize, limit: Limit) {
        self.soft[which].store(limit.soft, Ordering::Relaxed);
        self.hard[which].store(limit.hard, Ordering::Relaxed);
    }
}
