//! Run queues, `schedule`, and the hand-over from one thread to the next.
//!
//! Each CPU has a run queue with a lock of its own. A task is *on* a queue while it runs or waits to run.
//! `schedule` takes the queue's lock, chooses the next thread and switches to it. That thread unlocks the
//! queue (`finish_switch`) and clears `on_cpu` of the thread before it; only then may another CPU run that
//! one. So a task never runs on two CPUs, and a waker whose task is still on its way out waits until `on_cpu`
//! is clear.

use super::cpuset::CpuSet;
use super::entity::{TaskState, on_rq};
use super::fair;
use super::queue::{FairQueue, RtQueue};
use super::stats::CpuStats;
use crate::arch::{irq, smp, switch};
use crate::mm::AddressSpace;
use crate::sched::preempt;
use crate::sync::{MAX_CPUS, SchedLock};
use crate::task::Task;
use crate::time::raw_ns;
use alloc::sync::Arc;
use core::cell::UnsafeCell;
use core::ops::Deref;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use limen_entry::ThreadFlags;

/// The scheduler's data of each CPU.
pub struct CpuData {
    /// Its number.
    pub id: usize,
    /// Its bit in a set of CPUs.
    pub(super) bit: u64,
    /// Its run queue.
    pub rq: RunQueue,
    /// Cross-CPU calls waiting for it.
    pub calls: super::call::CallQueue,
    /// Its timers.
    pub timers: crate::time::TimerBase,
    /// Its time accounting.
    pub stats: CpuStats,
    /// What it did for restartable sequences.
    pub rseq: crate::rseq::Counts,
}

static CPUS: [AtomicPtr<CpuData>; MAX_CPUS] = [const { AtomicPtr::new(ptr::null_mut()) }; MAX_CPUS];

/// The CPUs that run their idle thread.
pub(super) static IDLE: AtomicU64 = AtomicU64::new(0);
/// The CPUs that schedule.
pub(super) static ONLINE: AtomicU64 = AtomicU64::new(0);

/// The CPUs that schedule.
#[inline]
pub fn online() -> CpuSet {
    CpuSet::from_bits(ONLINE.load(Ordering::Acquire))
}

/// The data of CPU `n`, `None` if there is no such CPU.
#[inline(always)]
pub fn cpu(n: usize) -> Option<&'static CpuData> {
    // SAFETY: set once, to an allocation that is never freed.
    unsafe { CPUS.get(n)?.load(Ordering::Acquire).as_ref() }
}

/// This CPU's data. The caller must not be migrated while it uses it (interrupts or preemption off).
#[inline(always)]
pub fn this_cpu() -> &'static CpuData {
    // SAFETY: `add_cpu` ran for this CPU before it scheduled, its data is never freed, and the block is this
    // CPU's.
    unsafe { &*smp::cpu_data() }
}

/// Whether `this_cpu` may be called already.
#[inline(always)]
pub fn ready() -> bool {
    !smp::cpu_data().is_null()
}

/// Makes the data of CPU `n` with its idle thread, which is never freed. The caller lets the CPU's local
/// block point to it.
pub(super) fn add_cpu(n: usize, idle: Arc<Task>) -> *const CpuData {
    idle.sched.set_state_relaxed(TaskState::RUNNING);
    idle.sched.on_cpu.store(true, Ordering::Relaxed);
    idle.sched.on_rq.store(on_rq::QUEUED, Ordering::Relaxed);
    idle.sched.set_policy_fields(super::Policy::Idle, 0, 0);
    idle.info.cpu.store(n as u32, Ordering::Relaxed);
    let idle = Arc::into_raw(idle);
    let data = alloc::boxed::Box::new(CpuData {
        id: n,
        bit: 1 << n,
        rq: RunQueue::new(idle),
        calls: super::call::CallQueue::new(),
        timers: crate::time::TimerBase::new(),
        stats: CpuStats::new(),
        rseq: crate::rseq::Counts::new(),
    });
    let data = alloc::boxed::Box::into_raw(data);
    CPUS[n].store(data, Ordering::Release);
    data
}

/// A CPU's run queue.
pub struct RunQueue {
    pub(super) lock: SchedLock,
    inner: UnsafeCell<Inner>,
    /// Runnable tasks, including the running one but not the idle thread. Written under the lock.
    pub(super) nr_running: AtomicU32,
    /// The least virtual run time, as of the last [`RunQueue::settle_least`]. Written under the lock.
    pub(super) min_vruntime: AtomicU64,
    /// How often the CPU switched.
    pub(super) switches: AtomicU64,
}

// SAFETY: `inner` is used only under `lock`, which a switch hands to the next thread of the same CPU.
unsafe impl Sync for RunQueue {}
// SAFETY: as for `Sync`.
unsafe impl Send for RunQueue {}

/// What the thread switched to has to do when the lock is free.
mod after {
    /// Move the thread before it to another CPU: its affinity changed.
    pub const EVICT: u8 = 1;
    /// The thread before it has ended: drop the reference that it held to itself.
    pub const DEAD: u8 = 2;
    /// Drop an address space that is no longer borrowed.
    pub const DROP_MM: u8 = 4;
}

/// The task that a CPU runs. It is alive as long as it runs: it holds a reference to itself until another
/// task has taken its place, for which the queue is locked. So the handle is used while the queue is locked,
/// or by that task itself.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Running(*const Task);

impl Running {
    /// Whether it is `task`.
    #[inline(always)]
    pub fn is(self, task: *const Task) -> bool {
        ptr::eq(self.0, task)
    }
}

impl Deref for Running {
    type Target = Task;
    #[inline(always)]
    fn deref(&self) -> &Task {
        // SAFETY: a running task is alive, and the queue is locked or the task is the one that asks.
        unsafe { &*self.0 }
    }
}

/// What the lock protects.
pub(super) struct Inner {
    pub fair: FairQueue,
    pub rt: RtQueue,
    /// Gives other tasks a part of the time if real-time tasks would use all of it.
    pub turns: fair::Turns,
    pub curr: Running,
    pub idle: *const Task,
    /// From the choice to `finish_switch`: the thread that ran before.
    prev: *const Task,
    /// What `finish_switch` has to do (bits of [`after`]). Nearly always zero.
    after: u8,
    /// The user address space that this CPU has loaded, null for none. Kernel threads and idle leave the one
    /// before loaded. The reference to it is held by the running thread's own slot, by `lazy_mm` or, in the
    /// middle of exec, by the thread that is just replacing it.
    active_mm: *const AddressSpace,
    /// A reference to `active_mm` while the running thread may have none.
    lazy_mm: Option<Arc<AddressSpace>>,
    /// The former `lazy_mm`, to be dropped when the lock is free.
    old_mm: Option<Arc<AddressSpace>>,
}

impl RunQueue {
    fn new(idle: *const Task) -> Self {
        Self {
            lock: SchedLock::new(),
            inner: UnsafeCell::new(Inner {
                fair: FairQueue::new(),
                rt: RtQueue::new(),
                turns: fair::Turns::new(),
                curr: Running(idle),
                idle,
                prev: ptr::null(),
                after: 0,
                active_mm: ptr::null(),
                lazy_mm: None,
                old_mm: None,
            }),
            nr_running: AtomicU32::new(0),
            min_vruntime: AtomicU64::new(0),
            switches: AtomicU64::new(0),
        }
    }

    /// What the lock protects. The caller holds the lock.
    #[inline(always)]
    #[allow(
        clippy::mut_from_ref,
        reason = "the lock is held, though not by a guard; see below"
    )]
    pub(super) fn inner(&self) -> &mut Inner {
        debug_assert!(self.lock.is_locked());
        // SAFETY: the caller holds the lock, and the scheduler's code has only one such borrow at a time.
        unsafe { &mut *self.inner.get() }
    }

    /// Calls `f` with the user address space the CPU has loaded, under the queue's lock.
    pub(super) fn with_active_mm<R>(&self, f: impl FnOnce(Option<&AddressSpace>) -> R) -> R {
        crate::sync::without_interrupts(|| {
            self.lock.lock();
            // SAFETY: a loaded address space is alive, and the lock keeps this one loaded (see `active_mm`).
            let result = f(unsafe { self.inner().active_mm.as_ref() });
            self.lock.unlock();
            result
        })
    }

    /// Runnable tasks now.
    #[inline(always)]
    pub fn running(&self) -> u32 {
        self.nr_running.load(Ordering::Relaxed)
    }

    /// Charges the running task for its run time since it was last charged.
    #[inline(always)]
    pub(super) fn update_curr(&self, inner: &Inner, now: u64) {
        let curr = inner.curr;
        let s = &curr.sched;
        let ran = now.saturating_sub(s.exec_start.load(Ordering::Relaxed));
        s.exec_start.store(now, Ordering::Relaxed);
        if curr.is(inner.idle) {
            return;
        }
        s.sum_exec
            .store(s.sum_exec.load(Ordering::Relaxed) + ran, Ordering::Relaxed);
        if s.effective_rt.load(Ordering::Relaxed) == 0 {
            s.fair
                .set_key(s.fair.key() + fair::virtual_time(ran, s.weight.load(Ordering::Relaxed)));
        } else {
            let used = u64::from(s.rr_used.load(Ordering::Relaxed)) + ran;
            s.rr_used
                .store(u32::try_from(used).unwrap_or(u32::MAX), Ordering::Relaxed);
        }
    }

    /// What the virtual run time of the running task, which has a fair policy, will be when it is charged.
    #[inline(always)]
    pub(super) fn key_of_curr(inner: &Inner, now: u64) -> u64 {
        let s = &inner.curr.sched;
        let ran = now.saturating_sub(s.exec_start.load(Ordering::Relaxed));
        s.fair.key() + fair::virtual_time(ran, s.weight.load(Ordering::Relaxed))
    }

    /// Brings the least virtual run time up to date and returns it: before a fair task is placed relative to
    /// it, and before the running task leaves. It never decreases.
    #[inline]
    pub(super) fn settle_least(&self, inner: &Inner) -> u64 {
        let curr = &inner.curr.sched;
        let running = !inner.curr.is(inner.idle) && curr.effective_rt.load(Ordering::Relaxed) == 0;
        let settled = self.min_vruntime.load(Ordering::Relaxed);
        let least = match (inner.fair.least_key(), running) {
            (Some(queued), true) => queued.min(curr.fair.key()),
            (Some(queued), false) => queued,
            (None, true) => curr.fair.key(),
            (None, false) => return settled,
        };
        if least > settled {
            self.min_vruntime.store(least, Ordering::Relaxed);
        }
        least.max(settled)
    }

    /// Adds a task that becomes runnable or arrives from another CPU.
    pub(super) fn add(&self, inner: &mut Inner, task: &Task) {
        task.sched.on_rq.store(on_rq::QUEUED, Ordering::Release);
        self.nr_running.store(self.running() + 1, Ordering::Relaxed);
        Self::queue(inner, task, false);
    }

    /// Takes a task that waits here, not the running one, off this CPU. `mark`: its new `on_rq`.
    pub(super) fn take(&self, inner: &mut Inner, task: &Task, mark: u8) {
        Self::unqueue(inner, task);
        self.nr_running.store(self.running() - 1, Ordering::Relaxed);
        task.sched.on_rq.store(mark, Ordering::Release);
    }

    /// The running task stops being runnable here. `mark`: its new `on_rq`.
    #[inline(always)]
    fn leaves(&self, inner: &Inner, task: &Task, mark: u8) {
        self.settle_least(inner);
        self.nr_running.store(self.running() - 1, Ordering::Relaxed);
        task.sched.on_rq.store(mark, Ordering::Release);
    }

    /// Puts a runnable task that does not run into the queue of its policy.
    pub(super) fn queue(inner: &mut Inner, task: &Task, front: bool) {
        match task.sched.effective_rt.load(Ordering::Relaxed) {
            0 => inner.fair.insert(task, task.sched.fair.key()),
            level => inner.rt.insert(task, level, front),
        }
    }

    /// Undoes [`RunQueue::queue`].
    pub(super) fn unqueue(inner: &mut Inner, task: &Task) {
        match task.sched.effective_rt.load(Ordering::Relaxed) {
            0 => inner.fair.remove(task),
            _ => inner.rt.remove(task),
        }
    }

    /// Chooses the next task to run and takes it out of its queue. `prev_runs`: the running task may go on.
    #[inline(always)]
    fn pick(&self, inner: &mut Inner, prev_runs: bool) -> *const Task {
        let curr = inner.curr;
        if inner.rt.is_empty() && (!prev_runs || curr.sched.effective_rt.load(Ordering::Relaxed) == 0) {
            self.pick_fair(inner, prev_runs)
        } else {
            self.pick_with_rt(inner, prev_runs)
        }
    }

    /// [`RunQueue::pick`] if no task here has a real-time priority.
    #[inline(always)]
    fn pick_fair(&self, inner: &mut Inner, prev_runs: bool) -> *const Task {
        let Some(least) = inner.fair.least_key() else {
            return if prev_runs { inner.curr.0 } else { inner.idle };
        };
        if prev_runs {
            let task = inner.curr;
            let mut key = task.sched.fair.key();
            if task.sched.yielding.load(Ordering::Relaxed) {
                task.sched.yielding.store(false, Ordering::Relaxed);
                key = key.max(least + 1);
            }
            if key <= least {
                return task.0;
            }
            // The least one is taken out before this one is put in, while the heap is smaller.
            let next = inner.fair.pop();
            inner.fair.insert(&task, key);
            return next.unwrap_or(inner.idle);
        }
        inner.fair.pop().unwrap_or(inner.idle)
    }

    /// [`RunQueue::pick`] if the running task or a waiting one has a real-time priority.
    #[inline(never)]
    fn pick_with_rt(&self, inner: &mut Inner, prev_runs: bool) -> *const Task {
        let task = inner.curr;
        if inner.rt.held {
            let level = task.sched.effective_rt.load(Ordering::Relaxed);
            if prev_runs && level == 0 || inner.fair.least_key().is_some() {
                if prev_runs && level > 0 {
                    inner.rt.insert(&task, level, true);
                }
                return self.pick_fair(inner, prev_runs && level == 0);
            }
            inner.rt.held = false;
        }
        let rt = inner.rt.highest();
        if prev_runs {
            let yielding = task.sched.yielding.load(Ordering::Relaxed);
            if yielding {
                task.sched.yielding.store(false, Ordering::Relaxed);
            }
            let level = task.sched.effective_rt.load(Ordering::Relaxed);
            if level > 0 {
                let expired = yielding
                    || task.sched.policy() == super::Policy::RoundRobin
                        && task.sched.rr_used.load(Ordering::Relaxed) >= fair::rr_slice();
                if expired {
                    task.sched.rr_used.store(0, Ordering::Relaxed);
                }
                if rt < level || rt == level && !expired {
                    return task.0;
                }
                inner.rt.insert(&task, level, !expired);
            } else {
                inner.fair.insert(&task, task.sched.fair.key());
            }
        }
        inner.rt.pop().unwrap_or(inner.idle)
    }
}

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

/// The running thread calls the scheduler. If its state is not `RUNNING`, it sleeps until it is woken; else
/// it gives up the CPU only to more deserving tasks. Interrupts are on, no spinlock is held.
#[cfg_attr(feature = "lockdep", track_caller)]
pub fn schedule() {
    crate::sync::lockdep::scheduling();
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
        if !core::mem::replace(&mut inner.active_mm, ptr::null()).is_null() {
            crate::arch::mmu::switch_to_kernel();
        }
        let old = inner.lazy_mm.take();
        rq.lock.unlock();
        old
    });
    drop(old);
}
