//! What is known of grace periods (`/sys/kernel/debug/rcu`), and the report of one that does not end.

use super::callbacks;
use crate::arch::smp;
use crate::sched::{self, CpuSet};
use crate::sync::Once;
use crate::time::NSEC_PER_SEC;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

static PERIODS: AtomicU64 = AtomicU64::new(0);
static TOTAL_NS: AtomicU64 = AtomicU64::new(0);
static LONGEST_NS: AtomicU64 = AtomicU64::new(0);
static ASKED: AtomicU64 = AtomicU64::new(0);
static RAN: AtomicU64 = AtomicU64::new(0);
static STALLS: AtomicU64 = AtomicU64::new(0);

/// Counts since boot.
#[derive(Clone, Copy, Debug)]
pub struct Stats {
    /// Grace periods that have ended.
    pub periods: u64,
    /// What they took together, and the longest of them, nanoseconds.
    pub total_ns: u64,
    /// See `total_ns`.
    pub longest_ns: u64,
    /// How often CPUs were asked.
    pub asked: u64,
    /// Callbacks that have run.
    pub ran: u64,
    /// Callbacks that wait.
    pub waiting: usize,
    /// Reports of grace periods that did not end.
    pub stalls: u64,
}

/// The counts now.
pub fn stats() -> Stats {
    Stats {
        periods: PERIODS.load(Relaxed),
        total_ns: TOTAL_NS.load(Relaxed),
        longest_ns: LONGEST_NS.load(Relaxed),
        asked: ASKED.load(Relaxed),
        ran: RAN.load(Relaxed),
        waiting: callbacks::waiting(),
        stalls: STALLS.load(Relaxed),
    }
}

pub(super) fn ended(took: u64, rounds: u64) {
    PERIODS.fetch_add(1, Relaxed);
    TOTAL_NS.fetch_add(took, Relaxed);
    LONGEST_NS.fetch_max(took, Relaxed);
    ASKED.fetch_add(rounds, Relaxed);
}

pub(super) fn ran(count: u64) {
    RAN.fetch_add(count, Relaxed);
}

/// How long a grace period may take until report number `reports` (from 0), nanoseconds: by
/// `rcupdate.rcu_cpu_stall_timeout=SECONDS`, which is 21 without that word. 0: there are no reports.
pub(super) fn stall_timeout(reports: u64) -> u64 {
    static TIMEOUT: Once<u64> = Once::new();
    let seconds = *TIMEOUT.get_or_init(|| {
        let word = crate::cmdline::value("rcupdate.rcu_cpu_stall_timeout");
        word.and_then(|word| word.parse().ok()).unwrap_or(21)
    });
    match seconds {
        0 => u64::MAX,
        // As on Linux, later reports come three times as late.
        seconds => seconds
            .saturating_mul(NSEC_PER_SEC)
            .saturating_mul(1 + 3 * reports),
    }
}

/// CPUs that are to show what they do ([`CpuSet`] bits).
static SHOW: AtomicU64 = AtomicU64::new(0);

/// A grace period has lasted for `ns` nanoseconds because of `cpus`.
pub(super) fn stalled(ns: u64, cpus: impl Iterator<Item = usize>) {
    STALLS.fetch_add(1, Relaxed);
    let cpus = cpus.fold(CpuSet::EMPTY, CpuSet::with);
    warning!(
        "rcu: INFO: rcu_preempt detected stalls on CPUs {:#x}, {} ms",
        cpus.bits(),
        ns / 1_000_000
    );
    SHOW.fetch_or(cpus.bits(), Relaxed);
}

/// On a CPU that is asked: shows what it was doing, if a grace period waits for it for too long.
pub(super) fn show_if_stalled() {
    let n = smp::cpu_id();
    if SHOW.load(Relaxed) & 1 << n != 0 && SHOW.fetch_and(!(1 << n), Relaxed) & 1 << n != 0 {
        warning!("rcu: CPU {n}, preempt count {:#x}:", sched::preempt::count());
        crate::trace::backtrace::print(crate::arch::stack::here());
    }
}

/// A CPU that should have shown what it does takes no interrupt.
pub(super) fn takes_no_interrupt(n: usize) {
    if SHOW.load(Relaxed) & 1 << n != 0 && SHOW.fetch_and(!(1 << n), Relaxed) & 1 << n != 0 {
        warning!("rcu: CPU {n} takes no interrupts");
    }
}

/// The grace period that was reported has ended after all: nobody has to show anything.
pub(super) fn settled() {
    if SHOW.load(Relaxed) != 0 {
        SHOW.store(0, Relaxed);
    }
}

/// Somebody has waited for a grace period for too long, and the driver has not reported why.
pub(super) fn driver_stalled() {
    STALLS.fetch_add(1, Relaxed);
    warning!("rcu: INFO: rcu_gp has not ended a grace period; does its CPU take interrupts?");
}
