//! Moving runnable tasks between CPUs: a CPU that is about to idle takes a task from a busier one, and busy
//! CPUs even out their loads at the tick.

use super::cpu::{self, CpuData, IDLE, online};
use super::cpuset::CpuSet;
use super::entity::on_rq;
use super::run;
use super::runqueue::Inner;
use super::wake::lag_of;
use crate::task::Task;
use core::sync::atomic::Ordering;
use limen_entry::ThreadFlags;

/// Called with `cpu`'s queue locked, interrupts off and no task to run. Unlocks the queue and locks it again.
pub(super) fn pull_when_idle(cpu: &'static CpuData, _inner: &mut Inner) {
    if online().count() == 1 {
        return;
    }
    cpu.rq.lock.unlock();
    pull(cpu, 2);
    cpu.rq.lock.lock();
}

/// At the tick of a CPU with `mine` runnable tasks: takes a task from a CPU that has clearly more, and lets
/// an idle CPU look for work. `urgent`: the highest priority of the real-time tasks that wait here, 0 for
/// none.
pub(super) fn at_tick(cpu: &'static CpuData, urgent: u8) {
    let mine = cpu.rq.running();
    if urgent > 0 {
        push_realtime(cpu, urgent);
    }
    if mine >= 2 {
        let idle = IDLE.load(Ordering::Relaxed);
        if idle != 0
            && let Some(other) = cpu::cpu(idle.trailing_zeros() as usize)
        {
            other.rq.lock.lock();
            run::resched_curr(other, other.rq.inner(), ThreadFlags::NEED_RESCHED);
            other.rq.lock.unlock();
        }
    } else {
        pull(cpu, mine + 2);
        // The CPU has to be told: one that idles, or runs a less urgent task than the one found, does not
        // look at its queue by itself.
        cpu.rq.lock.lock();
        let inner = cpu.rq.inner();
        let running = inner.curr.sched.effective_rt.load(Ordering::Relaxed);
        if inner.curr.is(inner.idle) && cpu.rq.running() > 0 || inner.rt.highest() > running {
            run::resched_curr(cpu, inner, ThreadFlags::NEED_RESCHED);
        }
        cpu.rq.lock.unlock();
    }
}

/// The CPU of `allowed` that runs the least urgent task, if that is less urgent than `level`. `last` is
/// preferred among equals. Interrupts off, no queue locked.
pub(super) fn least_urgent(allowed: CpuSet, level: u8, last: usize) -> Option<&'static CpuData> {
    let mut best: Option<(u8, &'static CpuData)> = None;
    let others = allowed.without(last);
    let here = allowed.contains(last).then_some(last);
    for n in here.into_iter().chain(others.iter()) {
        let Some(cpu) = cpu::cpu(n) else { continue };
        cpu.rq.lock.lock();
        let inner = cpu.rq.inner();
        let running = inner.curr.sched.effective_rt.load(Ordering::Relaxed);
        let running = running.max(inner.rt.highest());
        cpu.rq.lock.unlock();
        if running < level && best.is_none_or(|(b, _)| running < b) {
            best = Some((running, cpu));
        }
    }
    best.map(|(_, cpu)| cpu)
}

/// Moves the most urgent real-time task that waits here, of priority `level`, to a CPU that runs a less
/// urgent one.
fn push_realtime(cpu: &'static CpuData, level: u8) {
    let Some(to) = least_urgent(online().without(cpu.id), level, cpu.id) else {
        return;
    };
    cpu.rq.lock.lock();
    let inner = cpu.rq.inner();
    let found = inner.rt.find(|t| {
        t.sched.effective_rt.load(Ordering::Relaxed) == level
            && t.sched.affinity().contains(to.id)
            && !t.sched.on_cpu.load(Ordering::Acquire)
    });
    // SAFETY: queued tasks are alive. This one is marked as migrating, so no other CPU takes it away.
    let Some(task) = (unsafe { found.and_then(|t| t.as_ref()) }) else {
        cpu.rq.lock.unlock();
        return;
    };
    cpu.rq.take(inner, task, on_rq::MIGRATING);
    cpu.rq.lock.unlock();
    super::wake::enqueue_moved(task, to);
}

/// Moves one waiting task to `cpu` from the busiest CPU that has at least `least` runnable tasks. Interrupts
/// are off, no queue is locked.
fn pull(cpu: &'static CpuData, least: u32) {
    let mut busiest: Option<&'static CpuData> = None;
    for n in online().without(cpu.id).iter() {
        let Some(other) = cpu::cpu(n) else { continue };
        let running = other.rq.running();
        if running >= least && busiest.is_none_or(|b| running > b.rq.running()) {
            busiest = Some(other);
        }
    }
    let Some(from) = busiest else { return };
    // Only tried: that CPU may be busy with its queue, and the next tick brings another occasion.
    if !from.rq.lock.try_lock() {
        return;
    }
    let inner = from.rq.inner();
    let movable = |t: &Task| t.sched.affinity().contains(cpu.id) && !t.sched.on_cpu.load(Ordering::Acquire);
    let found = inner.rt.find(movable).or_else(|| inner.fair.find(movable));
    // SAFETY: queued tasks are alive. This one is marked as migrating, so no other CPU takes it away.
    let Some(task) = (unsafe { found.and_then(|t| t.as_ref()) }) else {
        from.rq.lock.unlock();
        return;
    };
    from.rq.take(inner, task, on_rq::MIGRATING);
    let lag = lag_of(task.sched.fair.key(), from.rq.settle_least(inner));
    from.rq.lock.unlock();

    cpu.rq.lock.lock();
    let inner = cpu.rq.inner();
    let base = cpu.rq.settle_least(inner);
    task.sched.fair.set_key(base.saturating_add_signed(lag));
    super::events::migrates(task, cpu.id);
    task.sched.migrates();
    task.info.cpu.store(cpu.id as u32, Ordering::Release);
    cpu.rq.add(inner, task);
    cpu.rq.lock.unlock();
}
