//! A CPU's run queue: which tasks wait there, which one runs, how run time is charged, which task is next.

use super::entity::on_rq;
use super::fair;
use super::queue::{FairQueue, KERNEL_LEVEL, RtQueue};
use crate::mm::AddressSpace;
use crate::sync::SchedLock;
use crate::task::Task;
use alloc::sync::Arc;
use core::cell::UnsafeCell;
use core::ops::Deref;
use core::ptr;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// A CPU's run queue.
pub struct RunQueue {
    pub(super) lock: SchedLock,
    inner: UnsafeCell<Inner>,
    /// Runnable tasks, including the running one but not the idle thread. Written under the lock.
    pub(super) nr_running: AtomicU32,
    /// The least virtual run time, as of the last [`RunQueue::settle_least`]. Written under the lock.
    pub(super) min_vruntime: AtomicU64,
    /// How often the CPU switched. Written under the lock.
    pub(super) switches: AtomicU64,
    /// How often the scheduler was called and let the same thread go on. Written under the lock.
    pub(super) stays: AtomicUsize,
}

// SAFETY: `inner` is used only under `lock`, which a switch hands to the next thread of the same CPU.
unsafe impl Sync for RunQueue {}
// SAFETY: as for `Sync`.
unsafe impl Send for RunQueue {}

/// What the thread switched to has to do when the lock is free.
pub(super) mod after {
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
pub(super) struct Running(pub *const Task);

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
    pub prev: *const Task,
    /// What `finish_switch` has to do (bits of [`after`]). Nearly always zero.
    pub after: u8,
    /// The user address space that this CPU has loaded, null for none. Kernel threads and idle leave the one
    /// before loaded. The reference to it is held by the running thread's own slot, by `lazy_mm` or, in the
    /// middle of exec, by the thread that is just replacing it.
    pub active_mm: *const AddressSpace,
    /// A reference to `active_mm` while the running thread may have none.
    pub lazy_mm: Option<Arc<AddressSpace>>,
    /// The former `lazy_mm`, to be dropped when the lock is free.
    pub old_mm: Option<Arc<AddressSpace>>,
}

impl RunQueue {
    pub(super) fn new(idle: *const Task) -> Self {
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
            stays: AtomicUsize::new(0),
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
    pub(super) fn leaves(&self, inner: &Inner, task: &Task, mark: u8) {
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
    pub(super) fn pick(&self, inner: &mut Inner, prev_runs: bool) -> *const Task {
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
        let level = task.sched.effective_rt.load(Ordering::Relaxed);
        if inner.rt.held && inner.rt.highest() == 0 && !(prev_runs && level == KERNEL_LEVEL) {
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
