//! What the scheduler keeps in every task: its state, its place in a run queue, its policy and its times. Embedded in `Task` as
//! `task.sched`; other rooms use the accessors, the fields belong to the scheduler.

use super::cpuset::CpuSet;
use super::queue::{FairLink, RtLink};
use crate::arch::switch::Context;
use crate::sync::{IrqSpinLock, SchedLock};
use bitflags::bitflags;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

bitflags! {
    /// The state of a task. No bit: it runs or wants to run.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct TaskState: u32 {
        /// Sleeps; signals wake it.
        const INTERRUPTIBLE = 1;
        /// Sleeps; signals do not wake it.
        const UNINTERRUPTIBLE = 2;
        /// Stopped by a job-control signal.
        const STOPPED = 4;
        /// Stopped for its tracer.
        const TRACED = 8;
        /// Has exited and waits to be reaped (shown by procfs; the scheduler's word is `DEAD`).
        const ZOMBIE = 0x10;
        /// Will never run again once it has been switched away from.
        const DEAD = 0x20;
        /// Together with `UNINTERRUPTIBLE`: fatal signals wake it.
        const WAKEKILL = 0x40;
        /// Being woken; neither asleep nor on a queue yet.
        const WAKING = 0x80;
        /// Made, but never started.
        const NEW = 0x100;
        /// Sleeps; only fatal signals wake it.
        const KILLABLE = Self::UNINTERRUPTIBLE.bits() | Self::WAKEKILL.bits();
        /// How a thread stops: fatal signals wake it, and one that comes before it has left its CPU keeps it there.
        const STOPPED_KILLABLE = Self::STOPPED.bits() | Self::WAKEKILL.bits();
        /// What an ordinary wake-up wakes.
        const NORMAL = Self::INTERRUPTIBLE.bits() | Self::UNINTERRUPTIBLE.bits();
        /// What SIGKILL wakes.
        const FOR_KILL = Self::INTERRUPTIBLE.bits() | Self::WAKEKILL.bits() | Self::STOPPED.bits() | Self::TRACED.bits();
    }
}

impl TaskState {
    /// Runs or wants to run.
    pub const RUNNING: Self = Self::empty();
}

/// The saved processor state of a task that is not running. Only the CPU that switches the task touches it, and the task itself while
/// it runs.
#[repr(transparent)]
pub struct ContextCell(UnsafeCell<Context>);

// SAFETY: see the type: the scheduler hands a context from CPU to CPU with the task, under the run-queue lock and `on_cpu`.
unsafe impl Sync for ContextCell {}
// SAFETY: as above.
unsafe impl Send for ContextCell {}

impl ContextCell {
    /// Wraps the context of a task that has not run yet.
    pub const fn new(context: Context) -> Self {
        Self(UnsafeCell::new(context))
    }
    /// For the switch.
    pub fn get(&self) -> *mut Context {
        self.0.get()
    }
}

/// Runs `f` with the running thread's own context (fork copies from it; exec resets it). Preemption is off meanwhile.
pub fn with_current_context<R>(f: impl FnOnce(&mut Context) -> R) -> R {
    super::preempt::disable();
    // SAFETY: only the running thread and the switch touch a context; the switch can't happen while preemption is off.
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
    /// Queued, or running.
    pub const QUEUED: u8 = 1;
    /// On its way from one queue to another.
    pub const MIGRATING: u8 = 2;
}

/// The scheduler's part of a task.
pub struct SchedEntity {
    /// [`TaskState`].
    state: AtomicU32,
    /// Some CPU runs on this task's stack. Cleared by the CPU that has switched away, last.
    pub(super) on_cpu: AtomicBool,
    /// See [`on_rq`]; changed under the run-queue lock.
    pub(super) on_rq: AtomicU8,
    /// Serialises wake-ups of this task and changes of its policy and affinity. Taken before a run-queue lock.
    pub(super) wake_lock: SchedLock,
    /// Place in the fair queue; under the run-queue lock.
    pub(super) fair: FairLink,
    /// Place in a real-time queue; under the run-queue lock.
    pub(super) rt: RtLink,
    /// Weight from the nice value (1024 is nice 0).
    pub(super) weight: AtomicU32,
    /// [`Policy`].
    policy: AtomicU8,
    /// The policy set by the user has a priority that inheritance may exceed: 1 to 99, 0 for fair policies.
    pub(super) rt_priority: AtomicU8,
    /// The priority lent by those who wait for its locks, 0 for none.
    pub(super) inherited_rt: AtomicU8,
    /// The effective real-time priority (inheritance included); 0: fair.
    pub(super) effective_rt: AtomicU8,
    /// `SCHED_RESET_ON_FORK`.
    pub(super) reset_on_fork: AtomicBool,
    /// Nice value plus 20.
    nice: AtomicU8,
    /// Nanoseconds of its slice a round-robin task has used, at most what fits.
    pub(super) rr_used: AtomicU32,
    /// When the accounting of the running stretch last happened; written by the CPU that runs it.
    pub(super) exec_start: AtomicU64,
    /// `sched_yield` asked: at the next choice others of the same rank go first. Its own.
    pub(super) yielding: AtomicBool,
    /// Total run time in nanoseconds.
    pub(super) sum_exec: AtomicU64,
    /// Accounting samples in user and in kernel mode, nanoseconds; only their ratio counts.
    pub(super) user_samples: AtomicU64,
    /// See `user_samples`.
    pub(super) system_samples: AtomicU64,
    /// User and system time as they were told last, nanoseconds.
    pub(super) told: IrqSpinLock<(u64, u64)>,
    /// Switches because it slept.
    pub(super) voluntary: AtomicUsize,
    /// Switches because something else was more deserving.
    pub(super) involuntary: AtomicUsize,
    /// Where it may run ([`CpuSet`] bits).
    pub(super) affinity: AtomicU64,
    /// A timer for sleeps with a deadline, made at the first one.
    pub(crate) sleep_timer: crate::sync::Once<crate::time::Timer>,
}

impl SchedEntity {
    /// A new task's: fair, nice 0, allowed everywhere, not started.
    pub const fn new() -> Self {
        Self {
            state: AtomicU32::new(TaskState::NEW.bits()),
            on_cpu: AtomicBool::new(false),
            on_rq: AtomicU8::new(on_rq::NO),
            wake_lock: SchedLock::new(),
            fair: FairLink::new(),
            rt: RtLink::new(),
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
            affinity: AtomicU64::new(u64::MAX),
            sleep_timer: crate::sync::Once::new(),
        }
    }

    /// A child's: policy, nice value and affinity of `parent`, unless it asked for `SCHED_RESET_ON_FORK`.
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
    /// Sets the state. For the running thread before it checks what it waits for: a full barrier follows, so that either it sees the
    /// event or the waker sees the state.
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
    /// Whether that is the policy.
    #[inline(always)]
    pub fn has_policy(&self, policy: Policy) -> bool {
        self.policy.load(Ordering::Relaxed) == policy as u8
    }
    /// The nice value, -20 to 19.
    pub fn nice(&self) -> i32 {
        i32::from(self.nice.load(Ordering::Relaxed)) - 20
    }
    /// The real-time priority the user set, 0 for fair policies.
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

    /// Works out the effective priority. Under the run queue's lock, in no queue.
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
