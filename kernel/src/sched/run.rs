//! `schedule`, and the hand-over from one thread to the next.
//!
//! Each CPU has a run queue with a lock of its own. A task is *on* a queue while it runs or waits to run.
//! `schedule` takes the queue's lock, chooses the next thread and switches to it. That thread unlocks the
//! queue (`finish_switch`) and clears `on_cpu` of the thread before it; only then may another CPU run that
//! one. So a task never runs on two CPUs, and a waker whose task is still on its way out waits until `on_cpu`
//! is clear.

use super::cpu::{CpuData, IDLE, online, this_cpu};
use super::entity::{TaskState, on_rq};
use super::runqueue::{Inner, RunQueue, Running, after};
use crate::arch::{irq, smp, switch};
use crate::mm::AddressSpace;
use crate::sched::preempt;
use crate::task::Task;
use crate::time::raw_ns;
use alloc::sync::Arc;
use core::ptr;
use core::sync::atomic::Ordering;
use limen_entry::ThreadFlags;

/// Sets a reschedule flag of the task that runs on `cpu` and, if needed, interrupts that CPU. The run queue
/// is locked.
pub(super) fn resched_curr(cpu: &CpuData, inner: &Inner, flag: ThreadFlags) {
    let work = &inner.curr.info.work;
    if work.has(ThreadFlags::NEED_RESCHED) || work.has(flag) {
        return;
    }
    let before = work.set(flag);
    if cpu.id != smp::cpu_id() && !before.contains(ThreadFlags::POLLING_NRFLAG) {
        crate::arch::interrupt::send_ipi(cpu.id, crate::arch::interrupt::Ipi::Reschedule);
    }
}

/// Has CPU `n` call the scheduler as soon as preemption is on there (see [`super::stats::decisions_of`]).
pub fn resched_cpu(n: usize) {
    if let Some(cpu) = super::cpu(n) {
        crate::sync::without_interrupts(|| {
            cpu.rq.lock.lock();
            resched_curr(cpu, cpu.rq.inner(), ThreadFlags::NEED_RESCHED);
            cpu.rq.lock.unlock();
        });
    }
}

/// The running thread calls the scheduler. If its state is not `RUNNING`, it sleeps until it is woken; else
/// it gives up the CPU only to more deserving tasks. Interrupts are on, no spinlock is held. A function of
/// its own, so that it can be traced by this name.
#[inline(never)]
#[cfg_attr(feature = "lockdep", track_caller)]
pub fn schedule() {
    crate::sync::lockdep::scheduling(preempt::count());
    debug_assert!(
        preempt::count() == 0,
        "schedule with preempt count {:#x}",
        preempt::count()
    );
    loop {
        preempt::disable();
        switch_away(false);
        preempt::enable_no_resched();
        if !preempt::current_info().work.has(ThreadFlags::NEED_RESCHED) {
            return;
        }
    }
}

/// The running thread, which is dead, is switched away from for ever. Preemption is off.
pub(super) fn leave() -> ! {
    loop {
        switch_away(false);
    }
}

/// One decision of the scheduler for a thread that is preempted. The thread stays runnable whatever its state
/// says, since it may be about to check its condition. Interrupts are on; the preempt count is one, the
/// caller's.
pub fn switch_preempted() {
    debug_assert!(
        preempt::count() == preempt::PREEMPT,
        "preempted with preempt count {:#x}",
        preempt::count()
    );
    switch_away(true);
}

/// Preempts the running thread until no other task is more deserving. Interrupts are on, the preempt count is
/// zero.
pub fn preempt_current() {
    loop {
        preempt::disable();
        switch_preempted();
        preempt::enable_no_resched();
        if !preempt::current_info().work.has(ThreadFlags::NEED_RESCHED) {
            return;
        }
    }
}

/// One decision and, if another thread is chosen, the switch. It is never inlined: its one copy is where a
/// thread that was switched away from goes on.
#[inline(never)]
fn switch_away(preempted: bool) {
    irq::local_disable();
    let cpu = this_cpu();
    let rq = &cpu.rq;
    rq.lock.lock();
    let inner = rq.inner();
    let prev = inner.curr;
    let now = raw_ns();
    rq.update_curr(inner, now);
    let idle = prev.is(inner.idle);
    let mut runs = !idle;
    let mut switches = &prev.sched.involuntary;
    let state = prev.sched.state();
    if state != TaskState::RUNNING && !preempted && !idle {
        if state.contains(TaskState::INTERRUPTIBLE) && prev.signal_pending()
            || state.contains(TaskState::WAKEKILL) && prev.fatal_signal_pending()
        {
            prev.sched.set_state_relaxed(TaskState::RUNNING);
        } else {
            runs = false;
            switches = &prev.sched.voluntary;
            if state.contains(TaskState::DEAD) {
                inner.after = after::DEAD;
            }
            rq.leaves(inner, &prev, on_rq::NO);
        }
    }
    if runs && prev.sched.affinity().bits() & cpu.bit == 0 && !prev.sched.affinity().and(online()).is_empty()
    {
        runs = false;
        inner.after = after::EVICT;
        rq.leaves(inner, &prev, on_rq::MIGRATING);
    }
    if prev.info.work.has(ThreadFlags::RESCHED) {
        prev.info.work.clear(ThreadFlags::RESCHED);
    }
    let mut next_ptr = rq.pick(inner, runs);
    if next_ptr == inner.idle {
        next_ptr = about_to_idle(cpu, inner, !idle, now);
    }
    if prev.is(next_ptr) {
        let stays = rq.stays.load(Ordering::Relaxed);
        rq.stays.store(stays.wrapping_add(1), Ordering::Relaxed);
        rq.lock.unlock();
        crate::time::tick_needed(cpu, rq.running());
        irq::local_enable();
        return;
    }
    switches.store(
        switches.load(Ordering::Relaxed).wrapping_add(1),
        Ordering::Relaxed,
    );
    if idle {
        IDLE.fetch_and(!cpu.bit, Ordering::Relaxed);
        cpu.stats.leave_idle(now);
    }
    // SAFETY: the chosen task is alive: a runnable task holds a reference to itself.
    let next = unsafe { &*next_ptr };
    super::events::switches(&prev, next, preempted && runs);
    inner.curr = Running(next_ptr);
    inner.prev = prev.0;
    rq.switches
        .store(rq.switches.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    next.sched.on_cpu.store(true, Ordering::Relaxed);
    next.sched.exec_start.store(now, Ordering::Relaxed);
    crate::time::tick_needed(cpu, rq.running());
    switch_mm(inner, next);
    rq.lock.hand_over();
    // SAFETY: interrupts are off. `next` runs nowhere: it was in this queue, under this lock. Its stack
    // becomes the current one.
    unsafe {
        smp::set_current(&next.info, next.stack.top());
        switch::switch(prev.context.get(), next.context.get(), crate::rseq::resumed);
    }
    // `prev` is running again, perhaps on another CPU.
    switched();
}

/// No task is left to run on this CPU: tries to take one from a busier CPU. The queue is unlocked meanwhile,
/// so it is looked at again afterwards. A waker of the running thread waits for `on_cpu`. `entering`: the
/// idle thread is not the running one yet.
#[inline(never)]
fn about_to_idle(cpu: &'static CpuData, inner: &mut Inner, entering: bool, now: u64) -> *const Task {
    super::balance::pull_when_idle(cpu, inner);
    let next = cpu.rq.pick(inner, false);
    if next == inner.idle && entering {
        IDLE.fetch_or(cpu.bit, Ordering::Relaxed);
        cpu.stats.enter_idle(now);
    }
    next
}

/// Loads `next`'s address space unless it is loaded already. A thread without one borrows the loaded one and
/// holds a reference to it as long as it does.
#[inline(always)]
fn switch_mm(inner: &mut Inner, next: &Task) {
    let Some(mm) = next.mm_slot().peek() else {
        if inner.lazy_mm.is_none() && !inner.active_mm.is_null() {
            // SAFETY: it is loaded, so there is a reference to it (see `active_mm`), and it lies in an `Arc`.
            inner.lazy_mm = Some(unsafe {
                Arc::increment_strong_count(inner.active_mm);
                Arc::from_raw(inner.active_mm)
            });
        }
        return;
    };
    if !ptr::eq(mm, inner.active_mm) {
        // `next` does not run, so its slot does not change; the slot holds a reference.
        mm.activate();
        inner.active_mm = mm;
    }
    if inner.lazy_mm.is_some() {
        inner.old_mm = inner.lazy_mm.take();
        inner.after |= after::DROP_MM;
    }
}

/// The second half of a switch, on the new thread's stack: allows the thread before to run elsewhere, unlocks
/// the queue, turns interrupts on.
#[inline(always)]
fn switched() {
    let rq = &this_cpu().rq;
    rq.lock.take_over();
    let inner = rq.inner();
    if inner.after != 0 {
        return switched_with_more(rq, inner);
    }
    // SAFETY: the thread before is alive: it cannot end before `on_cpu` is cleared.
    unsafe { (*inner.prev).sched.on_cpu.store(false, Ordering::Release) };
    rq.lock.unlock();
    irq::local_enable();
}

/// [`switched`] if [`after`] says that there is more to do.
#[inline(never)]
fn switched_with_more(rq: &RunQueue, inner: &mut Inner) {
    let todo = core::mem::take(&mut inner.after);
    let prev_ptr = inner.prev;
    let old_mm = inner.old_mm.take();
    // SAFETY: the thread before is alive until the reference is dropped below.
    let prev = unsafe { &*prev_ptr };
    prev.sched.on_cpu.store(false, Ordering::Release);
    rq.lock.unlock();
    if todo & after::EVICT != 0 {
        // Comes before interrupts are on: whoever wakes the task or changes its policy waits until it is in a
        // queue, and that may be an interrupt handler of this CPU.
        super::wake::place_evicted(prev);
    }
    irq::local_enable();
    drop(old_mm);
    if todo & after::DEAD != 0 {
        super::leaving::left(prev);
        // SAFETY: this is the reference that every started thread holds to itself. The thread never runs
        // again, so nothing else drops it.
        drop(unsafe { Arc::from_raw(prev_ptr) });
    }
}

/// The second half of the first switch to a thread. Every new thread calls it first.
pub(super) fn finish_switch() {
    switched();
}

/// Loads `mm` on the CPU of the running thread (exec, and kernel threads that borrow an address space). The
/// caller has set the thread's own `mm` to the same.
pub fn activate_mm(mm: &Arc<AddressSpace>) {
    let old = crate::sync::without_interrupts(|| {
        let rq = &this_cpu().rq;
        rq.lock.lock();
        let inner = rq.inner();
        mm.activate();
        inner.active_mm = Arc::as_ptr(mm);
        let old = inner.lazy_mm.take();
        rq.lock.unlock();
        old
    });
    drop(old);
}

/// Unloads the user address space of this CPU. At exit, so that the memory is freed even if the CPU idles
/// afterwards.
pub fn leave_mm() {
    let old = crate::sync::without_interrupts(|| {
        let rq = &this_cpu().rq;
        rq.lock.lock();
        let inner = rq.inner();
        if !core::mem::take(&mut inner.active_mm).is_null() {
            crate::arch::mmu::switch_to_kernel();
        }
        let old = inner.lazy_mm.take();
        rq.lock.unlock();
        old
    });
    drop(old);
}
