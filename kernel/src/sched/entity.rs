//! What the scheduler keeps in every task: its state, its place in a run queue, its policy and its times. It
//! is `task.sched`. The fields belong to the scheduler; other rooms use the methods.

use super::cpuset::CpuSet;
use super::leaving;
use super::queue::{FairLink, RtLink};
use crate::arch::switch::Context;
use crate::sync::{IrqSpinLock, SchedLock, SpinLock};
use bitflags::bitflags;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

bitflags! {
    /// The state of a task. No bit: the task runs or waits for a CPU.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct TaskState: u32 {
        /// Sleeps; any signal that is not blocked wakes it.
        const INTERRUPTIBLE = 1;
        /// Sleeps; signals do not wake it.
        const UNINTERRUPTIBLE = 2;
        /// Stopped by a job-control signal.
        const STOPPED = 4;
        /// Stopped for its tracer.
        const TRACED = 8;
        /// Has exited and waits to be reaped. procfs shows it; to the scheduler such a task is `DEAD`.
        const ZOMBIE = 0x10;
        /// Will never run again once it has been switched away from.
        const DEAD = 0x20;
        /// Together with `UNINTERRUPTIBLE`: fatal signals wake it.
        const WAKEKILL = 0x40;
        /// Being woken: no longer asleep and not yet in a run queue.
        const WAKING = 0x80;
        /// Made, but never started.
        const NEW = 0x100;
        /// Sleeps; only fatal signals wake it.
        const KILLABLE = Self::UNINTERRUPTIBLE.bits() | Self::WAKEKILL.bits();
        /// The state of a thread that stops: a fatal signal wakes it, and one that comes while the thread is
        /// still on its way to sleep keeps it awake.
        const STOPPED_KILLABLE = Self::STOPPED.bits() | Self::WAKEKILL.bits();
        /// What an ordinary wake-up wakes.
        const NORMAL = Self::INTERRUPTIBLE.bits() | Self::UNINTERRUPTIBLE.bits();
        /// What SIGKILL wakes.
        const FOR_KILL = Self::INTERRUPTIBLE.bits() | Self::WAKEKILL.bits() | Self::STOPPED.bits()
            | Self::TRACED.bits();
    }
}

impl TaskState {
    /// Runs or wants to run.
    pub const RUNNING: Self = Self::empty();
}

/// The saved processor state of a task that is not running. Only the CPU that switches to or from the task
/// uses it, and the task itself while it runs.
#[repr(transparent)]
pub struct ContextCell(UnsafeCell<Context>);

// SAFETY: only one CPU at a time uses the context. It goes from CPU to CPU together with the task, ordered by
// the run-queue lock and `on_cpu`.
unsafe impl Sync for ContextCell {}
// SAFETY: as for `Sync`.
unsafe impl Send for ContextCell {}

impl ContextCell {
    /// Wraps the context of a task that has not run yet.
    pub const fn new(context: Context) -> Self {
        Self(UnsafeCell::new(context))
    }
    /// The address, for the switch.
    pub fn get(&self) -> *mut Context {
        self.0.get()
    }
}

/// Runs `f` with the running thread's own context: fork copies it, exec resets it. `f` runs with preemption
/// off and must not sleep.
pub fn with_current_context<R>(f: impl FnOnce(&mut Context) -> R) -> R {
    super::preempt::disable();
    // SAFETY: only the running thread and the switch use a context, and there is no switch while preemption
    // is off.
    let r = f(unsafe { &mut *super::current().context.get() });
    super::preempt::enable();
    r
}

/// Scheduling policies, numbered as in `sched_setscheduler`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Policy {
    /// `SCHED_OTHER`.
    Normal = 0,
    /// `SCHED_FIFO`.
    Fifo = 1,
    /// `SCHED_RR`.
    RoundRobin = 2,
    /// `SCHED_BATCH`.
    Batch = 3,
    /// `SCHED_IDLE`.
    Idle = 5,
}

impl Policy {
    /// From the system call's number.
    pub const fn from_number(n: u32) -> Option<Self> {
        Some(match n {
            0 => Self::Normal,
            1 => Self::Fifo,
            2 => Self::RoundRobin,
            3 => Self::Batch,
            5 => Self::Idle,
            _ => return None,
        })
    }
    /// `SCHED_FIFO` and `SCHED_RR`.
    pub const fn is_realtime(self) -> bool {
        matches!(self, Self::Fifo | Self::RoundRobin)
    }
}

/// Whether a task is on a run queue.
pub(super) mod on_rq {
    /// No.
    pub const NO: u8 = 0;
    /// In a queue, or running.
    pub const QUEUED: u8 = 1;
    /// On its way from one queue to another.
    pub const MIGRATING: u8 = 2;
}

/// The scheduler's part of a task.
pub struct SchedEntity {
    /// [`TaskState`].
    state: AtomicU32,
    /// A CPU uses this task's stack. The CPU that switched away from the task clears it as its last step.
    pub(super) on_cpu: AtomicBool,
    /// See [`on_rq`]; changed under the run-queue lock.
    pub(super) on_rq: AtomicU8,
    /// Orders wake-ups of this task, and changes of its policy and affinity, one after the other. Taken
    /// before a run-queue lock.
    pub(super) wake_lock: SchedLock,
    /// Place in the fair queue; under the run-queue lock.
    pub(super) fair: FairLink,
    /// Place in a real-time queue; under the run-queue lock.
    pub(super) rt: RtLink,
    /// Its place among those that end.
    pub(super) leaving: leaving::Link,
    /// Its weight, which follows from the nice value (1024 for nice 0).
    pub(super) weight: AtomicU32,
    /// [`Policy`].
    policy: AtomicU8,
    /// The real-time priority that the user set: 1 to 99, 0 for fair policies. Inheritance may raise it.
    pub(super) rt_priority: AtomicU8,
    /// The priority that waiters for this task's locks lend it, 0 for none.
    pub(super) inherited_rt: AtomicU8,
    /// The effective real-time priority (inheritance included); 0: fair.
    pub(super) effective_rt: AtomicU8,
    /// `SCHED_RESET_ON_FORK`.
    pub(super) reset_on_fork: AtomicBool,
    /// Nice value plus 20.
    nice: AtomicU8,
    /// How much of its slice a `SCHED_RR` task has used, in nanoseconds; no more than fits.
    pub(super) rr_used: AtomicU32,
    /// When the running task was last charged for its run time, nanoseconds. Written by the CPU that runs it.
    pub(super) exec_start: AtomicU64,
    /// The task called `sched_yield`: the next choice prefers others of the same rank. Only the task itself
    /// sets it.
    pub(super) yielding: AtomicBool,
    /// Total run time in nanoseconds.
    pub(super) sum_exec: AtomicU64,
    /// Run time sampled at ticks in user and in kernel mode, nanoseconds. Only their ratio is used.
    pub(super) user_samples: AtomicU64,
    /// See `user_samples`.
    pub(super) system_samples: AtomicU64,
    /// The user and system time that were last reported, nanoseconds: later reports must not be lower.
    pub(super) told: IrqSpinLock<(u64, u64)>,
    /// How often it was switched away from because it slept.
    pub(super) voluntary: AtomicUsize,
    /// How often it was switched away from although it wanted to run.
    pub(super) involuntary: AtomicUsize,
    /// How often it went to another CPU; under the lock of the one it goes to.
    pub(super) migrations: AtomicUsize,
    /// The CPUs on which it may run ([`CpuSet`] bits).
    pub(super) affinity: AtomicU64,
    /// Until when it sleeps by a clock that can be set. Its sleep timer is armed for that under this lock.
    pub(super) wall_deadline: SpinLock<Option<super::Deadline>>,
    /// A timer for sleeps with a deadline. Made at the first such sleep.
    pub(crate) sleep_timer: crate::sync::Once<crate::time::Timer>,
}

impl SchedEntity {
    /// Of a new task: fair, nice 0, may run on any CPU, not started.
    pub const fn new() -> Self {
        Self {
            state: AtomicU32::new(TaskState::NEW.bits()),
            on_cpu: AtomicBool::new(false),
            on_rq: AtomicU8::new(on_rq::NO),
            wake_lock: SchedLock::new(),
            fair: FairLink::new(),
            rt: RtLink::new(),
            leaving: leaving::Link::new(),
            weight: AtomicU32::new(1024),
            policy: AtomicU8::new(Policy::Normal as u8),
            rt_priority: AtomicU8::new(0),
            inherited_rt: AtomicU8::new(0),
            effective_rt: AtomicU8::new(0),
            reset_on_fork: AtomicBool::new(false),
            nice: AtomicU8::new(20),
            rr_used: AtomicU32::new(0),
            exec_start: AtomicU64::new(0),
            yielding: AtomicBool::new(false),
            sum_exec: AtomicU64::new(0),
            user_samples: AtomicU64::new(0),
            system_samples: AtomicU64::new(0),
            told: IrqSpinLock::new((0, 0)),
            voluntary: AtomicUsize::new(0),
            involuntary: AtomicUsize::new(0),
            migrations: AtomicUsize::new(0),
            affinity: AtomicU64::new(u64::MAX),
            wall_deadline: SpinLock::new(None),
            sleep_timer: crate::sync::Once::new(),
        }
    }

    /// Of a child: policy, nice value and affinity are `parent`'s, unless that set `SCHED_RESET_ON_FORK`.
    pub fn fork_from(parent: &Self) -> Self {
        let new = Self::new();
        new.affinity
            .store(parent.affinity.load(Ordering::Relaxed), Ordering::Relaxed);
        let reset = parent.reset_on_fork.load(Ordering::Relaxed);
        if reset && (parent.policy().is_realtime() || parent.nice() < 0) {
            return new;
        }
        new.set_policy_fields(
            parent.policy(),
            parent.rt_priority.load(Ordering::Relaxed),
            parent.nice(),
        );
        new
    }

    /// The state now.
    #[inline(always)]
    pub fn state(&self) -> TaskState {
        TaskState::from_bits_retain(self.state.load(Ordering::Acquire))
    }
    /// Sets the state, followed by a full barrier. A thread that is about to sleep calls it before it checks
    /// its condition: then either the sleeper sees the event, or the waker sees the state.
    #[inline(always)]
    pub fn set_state(&self, state: TaskState) {
        self.set_state_relaxed(state);
        core::sync::atomic::fence(Ordering::SeqCst);
    }
    /// Sets the state without a barrier.
    #[inline(always)]
    pub(super) fn set_state_relaxed(&self, state: TaskState) {
        self.state.store(state.bits(), Ordering::Release);
    }
    /// The policy.
    pub fn policy(&self) -> Policy {
        Policy::from_number(self.policy.load(Ordering::Relaxed).into()).unwrap_or(Policy::Normal)
    }
    /// Whether `policy` is the task's.
    #[inline(always)]
    pub fn has_policy(&self, policy: Policy) -> bool {
        self.policy.load(Ordering::Relaxed) == policy as u8
    }
    /// The nice value, -20 to 19.
    pub fn nice(&self) -> i32 {
        i32::from(self.nice.load(Ordering::Relaxed)) - 20
    }
    /// The real-time priority that the user set, 0 for fair policies.
    pub fn rt_priority(&self) -> u8 {
        self.rt_priority.load(Ordering::Relaxed)
    }
    /// Where the task may run.
    pub fn affinity(&self) -> CpuSet {
        CpuSet::from_bits(self.affinity.load(Ordering::Relaxed))
    }
    /// Switches of this task away from a CPU, (voluntary, involuntary).
    pub fn switches(&self) -> (u64, u64) {
        (
            self.voluntary.load(Ordering::Relaxed) as u64,
            self.involuntary.load(Ordering::Relaxed) as u64,
        )
    }

    /// It goes to another CPU, whose queue's lock is held.
    pub(super) fn migrates(&self) {
        let before = self.migrations.load(Ordering::Relaxed);
        self.migrations.store(before.wrapping_add(1), Ordering::Relaxed);
    }

    /// Works out the effective priority again. The run queue is locked and the task in no queue.
    pub(super) fn update_effective(&self) {
        let inherited = self.inherited_rt.load(Ordering::Relaxed);
        self.effective_rt
            .store(inherited.max(self.rt_priority()), Ordering::Relaxed);
    }

    pub(super) fn set_policy_fields(&self, policy: Policy, rt_priority: u8, nice: i32) {
        self.policy.store(policy as u8, Ordering::Relaxed);
        self.nice
            .store((nice.clamp(-20, 19) + 20) as u8, Ordering::Relaxed);
        self.rt_priority.store(rt_priority, Ordering::Relaxed);
        self.update_effective();
        let weight = if policy == Policy::Idle {
            3
        } else {
            super::fair::weight_of_nice(nice)
        };
        self.weight.store(weight, Ordering::Relaxed);
    }
}
