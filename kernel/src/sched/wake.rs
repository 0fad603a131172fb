//! Waking tasks, starting new ones, and choosing the CPU for them.

use super::cpu::{self, CpuData, IDLE, online, this_cpu};
use super::entity::{TaskState, on_rq};
use super::fair;
use super::run::resched_curr;
use super::runqueue::{Inner, RunQueue};
use crate::arch::irq;
use crate::arch::smp;
use crate::sched::preempt;
use crate::sync::without_interrupts;
use crate::task::Task;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU8, Ordering, fence};
use limen_entry::ThreadFlags;

/// Makes `task` runnable if its state is one of `mask`. `false`: its state was another. In any context.
pub fn wake_task(task: &Arc<Task>, mask: TaskState) -> bool {
    without_interrupts(|| {
        let s = &task.sched;
        s.wake_lock.lock();
        preempt::disable();
        let woken = wake_locked(task, mask);
        s.wake_lock.unlock();
        preempt::enable_no_resched();
        woken
    })
    .then(preempt::check_resched)
    .is_some()
}

/// [`wake_task`], with `wake_lock` held and interrupts off.
fn wake_locked(task: &Task, mask: TaskState) -> bool {
    let s = &task.sched;
    // If the task is found awake, it must all the same see what the waker wrote before.
    fence(Ordering::SeqCst);
    if !s.state().intersects(mask) {
        return false;
    }
    super::events::waking(task);
    loop {
        match s.on_rq.load(Ordering::Acquire) {
            on_rq::NO => break,
            on_rq::QUEUED => {
                // The task is on its way to sleep, but still on its CPU: it simply stays runnable.
                let cpu = lock_queue_of(task);
                let still = s.on_rq.load(Ordering::Relaxed) == on_rq::QUEUED;
                if still {
                    s.set_state_relaxed(TaskState::RUNNING);
                    super::events::wakeup(task);
                }
                cpu.rq.lock.unlock();
                if still {
                    return true;
                }
            }
            _ => irq::spin_hint(),
        }
    }
    s.set_state_relaxed(TaskState::WAKING);
    // The task may still be on its way out of its CPU. The CPU that switches it away needs no lock that is
    // held here.
    while s.on_cpu.load(Ordering::Acquire) {
        irq::spin_hint();
    }
    let last = task.info.cpu.load(Ordering::Relaxed) as usize;
    let target = select_cpu(task, last);
    put_on(task, target, Arrival::Woken { last });
    true
}

/// Locks the run queue of the CPU that the task is on. Interrupts are off.
pub(super) fn lock_queue_of(task: &Task) -> &'static CpuData {
    loop {
        let n = task.info.cpu.load(Ordering::Acquire) as usize;
        if let Some(cpu) = cpu::cpu(n) {
            cpu.rq.lock.lock();
            if task.info.cpu.load(Ordering::Relaxed) as usize == n {
                return cpu;
            }
            cpu.rq.lock.unlock();
        }
        irq::spin_hint();
    }
}

/// [`lock_queue_of`] when the task is not on its way between two CPUs.
fn lock_queue_when_settled(task: &Task) -> &'static CpuData {
    loop {
        let cpu = lock_queue_of(task);
        if task.sched.on_rq.load(Ordering::Relaxed) != on_rq::MIGRATING {
            return cpu;
        }
        cpu.rq.lock.unlock();
        irq::spin_hint();
    }
}

/// The CPU for a task that becomes runnable: the one it last ran on if that idles, else any idle one, else
/// the last one again or, if it may not run there, the first allowed one.
#[inline(always)]
fn select_cpu(task: &Task, last: usize) -> &'static CpuData {
    if let Some(cpu) = cpu::cpu(last)
        && task.sched.affinity().bits() & cpu.bit != 0
        && task.sched.effective_rt.load(Ordering::Relaxed) == 0
    {
        let idle = IDLE.load(Ordering::Relaxed);
        if idle == 0 || idle & cpu.bit != 0 {
            return cpu;
        }
    }
    search_cpu(task, last)
}

/// [`select_cpu`] for a task with a real-time priority, or one whose last CPU is busy.
#[inline(never)]
fn search_cpu(task: &Task, last: usize) -> &'static CpuData {
    let online = online();
    let mut allowed = task.sched.affinity().and(online);
    if allowed.is_empty() {
        allowed = online;
    }
    let idle = IDLE.load(Ordering::Relaxed) & allowed.bits();
    let here = smp::cpu_id();
    let level = task.sched.effective_rt.load(Ordering::Relaxed);
    if level > 0
        && idle == 0
        && let Some(cpu) = super::balance::least_urgent(allowed, level, last)
    {
        return cpu;
    }
    let n = if allowed.contains(last) && (idle & (1 << last) != 0 || idle == 0) {
        last
    } else if idle != 0 {
        idle.trailing_zeros() as usize
    } else if allowed.contains(here) {
        here
    } else {
        allowed.first().unwrap_or(here)
    };
    cpu::cpu(n).unwrap_or_else(this_cpu)
}

/// Where a task comes from when it is queued.
#[derive(Clone, Copy)]
enum Arrival {
    /// It slept and was last on that CPU.
    Woken { last: usize },
    /// It never ran.
    New,
    /// It was runnable on another CPU; its key has been made relative to that queue's least one.
    Moved { lag: i64 },
}

/// Queues a task on `cpu` and preempts the running one if the new task is more deserving. Interrupts off.
#[inline(never)]
fn enqueue(task: &Task, cpu: &'static CpuData, arrival: Arrival) {
    put_on(task, cpu, arrival);
}

/// [`enqueue`], inlined.
#[inline(always)]
fn put_on(task: &Task, cpu: &'static CpuData, arrival: Arrival) {
    let rq = &cpu.rq;
    rq.lock.lock();
    let inner = rq.inner();
    let s = &task.sched;
    let least = rq.settle_least(inner);
    let key = match arrival {
        Arrival::New => least + 1,
        Arrival::Moved { lag } => least.saturating_add_signed(lag),
        Arrival::Woken { last } if last == cpu.id => {
            s.fair.key().max(least.saturating_sub(fair::SLEEPER_CREDIT))
        }
        Arrival::Woken { last } => {
            let old = cpu::cpu(last).map_or(least, |c| c.rq.min_vruntime.load(Ordering::Relaxed));
            least.saturating_add_signed(lag_of(s.fair.key(), old))
        }
    };
    s.fair.set_key(key);
    s.rr_used.store(0, Ordering::Relaxed);
    if task.info.cpu.load(Ordering::Relaxed) != cpu.id as u32 {
        if !matches!(arrival, Arrival::New) {
            super::events::migrates(task, cpu.id);
            s.migrates();
        }
        task.info.cpu.store(cpu.id as u32, Ordering::Release);
    }
    rq.add(inner, task);
    // One that was moved while it was on its way to sleep still is.
    if !matches!(arrival, Arrival::Moved { .. }) {
        s.set_state_relaxed(TaskState::RUNNING);
    }
    check_preempt(cpu, inner, task);
    match arrival {
        Arrival::Woken { .. } => super::events::wakeup(task),
        Arrival::New => super::events::wakeup_new(task),
        Arrival::Moved { .. } => {}
    }
    rq.lock.unlock();
}

/// Queues a runnable task that was taken out of another queue on `cpu`. Interrupts off.
pub(super) fn enqueue_moved(task: &Task, cpu: &'static CpuData) {
    enqueue(task, cpu, Arrival::Moved { lag: 0 });
}

/// How far `key` is from its queue's least one, limited to what another queue should honour.
pub(super) fn lag_of(key: u64, least: u64) -> i64 {
    let lag = key.wrapping_sub(least) as i64;
    lag.clamp(-(fair::SLEEPER_CREDIT as i64), 10 * fair::SLICE as i64)
}

/// A task was queued on `cpu`: preempts the running task if the new one is more deserving; else sees to it
/// that the tick runs.
pub(super) fn check_preempt(cpu: &CpuData, inner: &Inner, task: &Task) {
    let curr = inner.curr;
    let level = task.sched.effective_rt.load(Ordering::Relaxed);
    let running = curr.sched.effective_rt.load(Ordering::Relaxed);
    let flag = if curr.is(inner.idle) || level > running {
        ThreadFlags::NEED_RESCHED
    } else if level > 0 || running > 0 || !task.sched.has_policy(super::Policy::Normal) {
        ThreadFlags::empty()
    } else if curr.sched.has_policy(super::Policy::Idle) {
        ThreadFlags::NEED_RESCHED_LAZY
    } else {
        let key = RunQueue::key_of_curr(inner, crate::time::raw_ns());
        if key > task.sched.fair.key() + fair::WAKEUP_GRANULARITY {
            ThreadFlags::NEED_RESCHED_LAZY
        } else {
            ThreadFlags::empty()
        }
    };
    if !flag.is_empty() {
        resched_curr(cpu, inner, flag);
    } else if cpu.rq.running() == 2 {
        if cpu.id == smp::cpu_id() {
            crate::time::tick_needed(cpu, 2);
        } else {
            // The tick of that CPU may be off: a reschedule turns it on.
            resched_curr(cpu, inner, ThreadFlags::NEED_RESCHED_LAZY);
        }
    }
}

/// Starts a task that never ran, and that others can find. The scheduler holds a reference to it until it has
/// ended. Thread.
pub fn wake_new_task(task: &Arc<Task>) {
    crate::task::returns::begin(task);
    // The reference that a started thread holds to itself. `finish_switch` drops it.
    let _ = Arc::into_raw(task.clone());
    // A new thread starts in the second half of a switch, where preemption is off.
    task.info.preempt_count.store(preempt::PREEMPT, Ordering::Relaxed);
    without_interrupts(|| {
        task.sched.wake_lock.lock();
        let here = smp::cpu_id();
        let target = select_cpu(task, here);
        enqueue(task, target, Arrival::New);
        task.sched.wake_lock.unlock();
    });
    preempt::check_resched();
}

/// Queues a task that was switched away from because it may no longer run on that CPU. Interrupts off.
pub(super) fn place_evicted(task: &Task) {
    let last = task.info.cpu.load(Ordering::Relaxed) as usize;
    let lag = cpu::cpu(last).map_or(0, |c| {
        lag_of(task.sched.fair.key(), c.rq.min_vruntime.load(Ordering::Relaxed))
    });
    enqueue(task, select_cpu(task, last), Arrival::Moved { lag });
}

/// Changes what decides a task's place in its queue: `change` sets policy, priority or weight. The task may
/// be running, waiting or asleep.
pub(super) fn requeue(task: &Task, change: impl FnOnce()) {
    without_interrupts(|| {
        task.sched.wake_lock.lock();
        let cpu = lock_queue_when_settled(task);
        let inner = cpu.rq.inner();
        let running = inner.curr.is(task);
        let queued = is_queued(&task.sched.on_rq) && !running;
        if running {
            cpu.rq.update_curr(inner, crate::time::raw_ns());
        }
        if queued {
            RunQueue::unqueue(inner, task);
        }
        let was_rt = task.sched.effective_rt.load(Ordering::Relaxed) > 0;
        change();
        if was_rt && task.sched.effective_rt.load(Ordering::Relaxed) == 0 {
            task.sched.fair.set_key(cpu.rq.settle_least(inner));
        }
        if queued {
            RunQueue::queue(inner, task, false);
            check_preempt(cpu, inner, task);
        }
        if running {
            // The running task may have lost its right to the CPU; one decision too many costs little.
            resched_curr(cpu, inner, ThreadFlags::NEED_RESCHED);
        }
        cpu.rq.lock.unlock();
        task.sched.wake_lock.unlock();
    });
    preempt::check_resched();
}

fn is_queued(mark: &AtomicU8) -> bool {
    mark.load(Ordering::Relaxed) == on_rq::QUEUED
}

/// Changes on which CPUs a task may run. If it is on another one, it is moved.
pub(super) fn set_affinity(task: &Task, cpus: super::CpuSet) {
    without_interrupts(|| {
        task.sched.wake_lock.lock();
        let cpu = lock_queue_when_settled(task);
        task.sched.affinity.store(cpus.bits(), Ordering::Relaxed);
        let inner = cpu.rq.inner();
        if is_queued(&task.sched.on_rq) && !cpus.contains(cpu.id) {
            if inner.curr.is(task) {
                resched_curr(cpu, inner, ThreadFlags::NEED_RESCHED);
                cpu.rq.lock.unlock();
            } else {
                cpu.rq.take(inner, task, on_rq::MIGRATING);
                let lag = lag_of(task.sched.fair.key(), cpu.rq.settle_least(inner));
                cpu.rq.lock.unlock();
                enqueue(task, select_cpu(task, cpu.id), Arrival::Moved { lag });
            }
        } else {
            cpu.rq.lock.unlock();
        }
        task.sched.wake_lock.unlock();
    });
    preempt::check_resched();
}
