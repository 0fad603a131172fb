//! Tasks: threads, processes, process groups and sessions, credentials, fork, exec, exit and wait.

#![forbid(unsafe_code)]

pub mod access;
pub mod adjustments;
pub mod audit;
pub mod calls;
pub mod coredump;
pub mod creds;
pub mod dispatch;
pub mod events;
pub mod everyone;
pub mod exec;
pub mod exit;
pub mod fork;
pub mod group;
pub mod init;
pub mod ns;
pub mod oom;
pub mod patch;
pub mod pid;
pub mod pidfd;
pub mod process;
pub mod ptrace;
pub mod returns;
pub mod rlimit;
pub mod seccomp;
pub mod session;
mod start;
pub mod thread;
pub mod timers;
pub mod unshare;
pub mod user;
pub mod uts;
pub mod wait;

pub use crate::sched::{CurrentTask, current};
pub use creds::Creds;
pub use pid::{all_processes, all_tasks, find_task};
pub use process::{ExitState, Process, Usage};
pub use thread::{Task, TaskFlags};

use crate::sync::SpinLock;
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicI8, AtomicPtr, AtomicU8, AtomicU32};
use limen_entry::WorkWords;

/// The part of a task that entry code and architectures use. It is the first field of `Task`.
#[derive(Debug)]
#[repr(C)]
pub struct ThreadInfo {
    /// The work words.
    pub work: WorkWords,
    /// The preempt count: bits 0-7 count disabled preemption, 16-19 hardware interrupts, 20-23 NMIs. Only the
    /// thread itself, or an interrupt on its CPU, changes it.
    pub preempt_count: AtomicU32,
    /// The CPU it runs on, or last ran on.
    pub cpu: AtomicU32,
    /// Which locks it holds, for the lock validator.
    pub lockdep: crate::sync::lockdep::ThreadState,
    /// Where its traced functions return to.
    pub returns: returns::Own,
    /// Whether it is known to traces: [`IS_IN_TRACE`], [`IN_TRACER`]. Only the thread itself changes it, and
    /// what interrupts it, which leaves the latter as it was.
    pub trace: AtomicU8,
    /// Which functions it calls while a live patch comes or goes (`livepatch`): `patch::PATCHED`,
    /// `UNPATCHED`; otherwise `UNDEFINED`.
    pub patch_state: AtomicI8,
    /// The direct calls that it is in, and interrupts on top of it (`ftrace::inside`). Only they change it.
    pub direct: AtomicPtr<()>,
}

/// A trace has something of the thread, and its name is to be kept (`tracing::names`).
pub const IS_IN_TRACE: u8 = 1;
/// The thread is in a tracer of functions that calls others (`ftrace::guard`).
pub const IN_TRACER: u8 = 1 << 1;

impl ThreadInfo {
    /// For a thread that is not running yet.
    pub const fn new() -> Self {
        Self {
            work: WorkWords::new(),
            preempt_count: AtomicU32::new(0),
            cpu: AtomicU32::new(0),
            lockdep: crate::sync::lockdep::ThreadState::new(),
            returns: returns::Own::new(),
            trace: AtomicU8::new(0),
            patch_state: AtomicI8::new(patch::UNDEFINED),
            direct: AtomicPtr::new(core::ptr::null_mut()),
        }
    }
}

/// What kernel threads share: their process (id 0, not in the table) and root's credentials.
static KERNEL: SpinLock<Option<(Arc<Process>, Arc<Creds>)>> = SpinLock::new(None);

fn kernel() -> (Arc<Process>, Arc<Creds>) {
    let mut kernel = KERNEL.lock();
    kernel
        .get_or_insert_with(|| {
            let group =
                session::ProcessGroup::new(ns::pid::Id::NONE, session::Session::new(ns::pid::Id::NONE));
            let process = Process::new(
                0,
                &Weak::new(),
                group,
                rlimit::Limits::new(fork::max_threads()),
                crate::signal::ProcessSignals::new(),
                0,
                None,
            );
            (process, Arc::new(Creds::root()))
        })
        .clone()
}

/// The process of all kernel threads. It needs only the heap, as the scheduler makes idle threads before
/// [`init()`] runs.
pub fn kernel_process() -> Arc<Process> {
    kernel().0
}

/// Root's credentials.
pub fn root_creds() -> Arc<Creds> {
    kernel().1
}

/// The soft limit of the running process ([`rlimit::which`]).
#[inline]
pub fn rlimit(which: usize) -> u64 {
    current().process.limits.soft(which)
}

/// Prepares process ids. Once, at boot.
pub fn init() {
    crate::mm::oom::set_users(&oom::Processes);
    ns::init();
    ns::provide(ns::Kind::User, &ns::user::Users);
    // As on Linux: the more CPUs, the higher the largest id.
    let cpus = crate::arch::smp::count() as i32;
    let max = pid::PID_MAX
        .load(core::sync::atomic::Ordering::Relaxed)
        .max(cpus.saturating_mul(1024));
    pid::PID_MAX.store(max.min(pid::PID_MAX_LIMIT), core::sync::atomic::Ordering::Relaxed);
}

pub use init::start_init;
