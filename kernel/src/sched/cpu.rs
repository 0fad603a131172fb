//! What each CPU has for itself: the block that entry code must reach at once, and the scheduler's data.

use super::cpuset::CpuSet;
use super::entity::{TaskState, on_rq};
use super::runqueue::RunQueue;
use super::stats::CpuStats;
use crate::arch::smp;
use crate::sync::MAX_CPUS;
use crate::task::{Task, ThreadInfo};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use limen_rcu::{Native, Presence};

/// A CPU's local block. The architecture keeps its address in a register. The lowest byte of that register
/// may hold something else, hence the alignment.
#[derive(Debug)]
#[repr(C, align(256))]
pub struct CpuLocal {
    /// Its own address (for processors that reach it through a segment).
    pub this: *const CpuLocal,
    /// The running thread.
    pub current: *const ThreadInfo,
    /// Where an entry from user mode puts its frame: the top of the running thread's kernel stack.
    pub kernel_stack_top: usize,
    /// Scratch words for the entry stub.
    pub scratch: [usize; 4],
    /// The top of this CPU's interrupt stack.
    pub irq_stack_top: usize,
    /// This CPU's number.
    pub id: usize,
    /// The scheduler's data of this CPU, null until the scheduler works.
    pub data: *const CpuData,
    /// Whose floating-point registers the processor's are; null: nobody's.
    pub float_owner: super::float::Whose,
    /// Whether this CPU may be in readers of RCU, and how often that ended.
    pub presence: Presence<Native>,
    /// Saved vector registers, while the kernel uses them for a moment with interrupts off.
    pub lent: [u128; 4],
}

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
    /// What crossed the threshold on it, if that is counted.
    pub crossings: super::crossings::Crossings,
    /// From what the next distance on a kernel stack comes (`threshold::hardened`).
    pub stack_distance: AtomicU32,
    /// The block's [`CpuLocal::presence`].
    pub presence: &'static Presence<Native>,
    /// Its idle thread, which is never freed.
    idle_thread: *const Task,
    /// The address on that thread's stack above which nothing is that it returns to; 0 before it idles.
    pub(super) idle_base: AtomicUsize,
    /// Its idle thread waits for an interrupt. Only context tracking uses it.
    pub(super) idle: core::sync::atomic::AtomicBool,
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
    debug_assert!(ready());
    // SAFETY: `add_cpu` ran for this CPU before it scheduled, its data is never freed, and the block is this
    // CPU's.
    unsafe { &*smp::cpu_data() }
}

/// Whether `this_cpu` may be called already.
#[inline(always)]
pub fn ready() -> bool {
    !smp::cpu_data().is_null()
}

/// This CPU's presence. The caller must not be migrated while it uses it. At any time.
#[inline(always)]
pub(super) fn own_presence() -> &'static Presence<Native> {
    // SAFETY: the block is this CPU's, and never freed once the scheduler knows it.
    unsafe { &(*smp::cpu_local()).presence }
}

/// Makes the data of CPU `n` with its idle thread, which is never freed. The caller lets the CPU's local
/// block, which `presence` is a part of, point to it.
pub(super) fn add_cpu(n: usize, idle: Arc<Task>, presence: &'static Presence<Native>) -> *const CpuData {
    idle.sched.set_state_relaxed(TaskState::RUNNING);
    idle.sched.on_cpu.store(true, Ordering::Relaxed);
    idle.sched.on_rq.store(on_rq::QUEUED, Ordering::Relaxed);
    idle.sched.set_policy_fields(super::Policy::Idle, 0, 0);
    idle.info.cpu.store(n as u32, Ordering::Relaxed);
    let idle = Arc::into_raw(idle);
    let data = fill(Box::new_uninit(), n, idle, presence);
    let data = Box::into_raw(data);
    CPUS[n].store(data, Ordering::Release);
    data
}

/// The idle threads of all CPUs.
pub(super) fn idle_threads() -> impl Iterator<Item = &'static Task> {
    (0..MAX_CPUS).filter_map(|n| {
        let data = cpu(n)?;
        // SAFETY: it was made from an `Arc`, and is never freed.
        Some(unsafe { &*data.idle_thread })
    })
}

/// Writes the data of CPU `n`. Never inlined: it is built on the stack first, and what allocates needs that
/// stack, too.
#[inline(never)]
fn fill(
    room: Box<MaybeUninit<CpuData>>,
    n: usize,
    idle: *const Task,
    presence: &'static Presence<Native>,
) -> Box<CpuData> {
    let data = CpuData {
        id: n,
        bit: 1 << n,
        rq: RunQueue::new(idle),
        calls: super::call::CallQueue::new(),
        timers: crate::time::TimerBase::new(super::nohz::full().contains(n)),
        stats: CpuStats::new(),
        rseq: crate::rseq::Counts::new(),
        crossings: super::crossings::Crossings::new(),
        stack_distance: AtomicU32::new(crate::random::word() as u32),
        presence,
        idle_thread: idle,
        idle_base: AtomicUsize::new(0),
        idle: core::sync::atomic::AtomicBool::new(false),
    };
    Box::write(room, data)
}
