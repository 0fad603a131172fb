//! CPUs that are left alone: `nohz_full=LIST` on the command line, as on Linux. While one thread runs there,
//! no tick comes; what the tick does elsewhere is done from the boot CPU, 50 times a second:
//!
//! * the time is charged to the task, to user mode or system as context tracking says;
//! * timers and limits of CPU time are checked: if the process has any, its CPU is interrupted, as it would
//!   be by a tick.
//!
//! Threads of the kernel that may run anywhere start on the other CPUs. The boot CPU is never in the list.

use super::call::Errand;
use super::cpuset::CpuSet;
use super::entity::on_rq;
use super::{current, online, stats};
use crate::sync::{MAX_CPUS, Once};
use crate::task::timers;
use crate::time::{TICK_ALONE, Timer, now_ns, raw_ns, tick_needed};
use core::sync::atomic::{AtomicU64, Ordering};

static FULL: AtomicU64 = AtomicU64::new(0);

/// The CPUs without ticks.
pub fn full() -> CpuSet {
    CpuSet::from_bits(FULL.load(Ordering::Relaxed))
}

/// The CPUs where the kernel's own work belongs, and all that do not exist.
pub fn housekeeping() -> CpuSet {
    CpuSet::from_bits(!full().bits())
}

/// Reads the command line. Boot CPU, before the data of the others is made.
pub(super) fn init() {
    let Some(list) = crate::cmdline::value("nohz_full") else {
        return;
    };
    let count = crate::arch::smp::count().min(MAX_CPUS);
    match CpuSet::from_list(list, count) {
        Some(cpus) => {
            if cpus.contains(0) {
                warning!("nohz_full={list}: CPU 0 keeps its tick, it does the work of ticks for the others");
            }
            FULL.store(cpus.without(0).bits(), Ordering::Relaxed);
        }
        None => warning!("nohz_full={list}: not a list of CPUs (1-3,5), ignored"),
    }
}

/// Begins to do what the tick does elsewhere. Boot CPU, when all CPUs are online.
pub(super) fn start() {
    static SAMPLER: Once<Timer> = Once::new();
    if full().is_empty() {
        return;
    }
    info!("nohz_full: no tick on CPUs {}", full());
    let sampler = SAMPLER.get_or_init(|| {
        Timer::new(|| {
            full().and(online()).iter().for_each(sample);
            stats::update_load(raw_ns());
            if let Some(sampler) = SAMPLER.get() {
                sampler.arm(now_ns() + TICK_ALONE);
            }
        })
    });
    sampler.arm(now_ns() + TICK_ALONE);
}

/// What CPU `n` is sent to do if its process has timers of CPU time, or if a second thread has become
/// runnable and the tick is still off.
static ERRANDS: [Errand; MAX_CPUS] = [const { Errand::new(&tick) }; MAX_CPUS];

fn tick() {
    timers::cpu_tick(&current());
    let cpu = super::this_cpu();
    tick_needed(cpu, cpu.rq.running());
}

/// Does the work of a tick for CPU `n`. In an interrupt.
fn sample(n: usize) {
    let Some(cpu) = super::cpu(n) else { return };
    let rq = &cpu.rq;
    rq.lock.lock();
    let inner = rq.inner();
    let curr = inner.curr;
    // A tick that several threads need does it itself. A thread that leaves has been charged.
    let runs = !curr.is(inner.idle) && curr.sched.on_rq.load(Ordering::Relaxed) == on_rq::QUEUED;
    let alone = runs && !cpu.timers.ticks();
    if alone {
        let now = raw_ns();
        rq.update_curr(inner, now);
        rq.settle_least(inner);
        cpu.stats.charge(now, &curr, !cpu.presence.is_here());
    }
    let wanted = alone && (timers::counts_cpu(&curr.process) || rq.running() > 1);
    rq.lock.unlock();
    if wanted {
        ERRANDS[n].send(n);
    }
}
