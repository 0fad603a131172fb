//! Tasks: threads, processes, process groups and sessions, credentials, fork, exec, exit and wait.

pub mod access;
pub mod creds;
pub mod exec;
pub mod exit;
pub mod fork;
pub mod group;
pub mod init;
pub mod pid;
pub mod pidfd;
pub mod process;
pub mod rlimit;
pub mod session;
pub mod thread;
pub mod user;
pub mod wait;

pub use crate::sched::{CurrentTask, current};
pub use creds::Creds;
pub use pid::{all_processes, find_process, find_task};
pub use process::{ExitState, Process, Usage};
pub use thread::{Task, TaskFlags};

use crate::sync::SpinLock;
use alloc::sync::{Arc, Weak};
use core::sync::atomic::AtomicU32;
use limen_entry::WorkWords;

/// The part of a task the entry code and the architecture look at; the first field of `Task`.
#[derive(Debug)]
#[repr(C)]
pub struct ThreadInfo {
    /// Pending work.
    pub work: WorkWords,
    /// Preempt count: bits 0-7 preemption disabled, 16-19 in hardware interrupt, 20-23 in NMI. Only the thread itself (or an
    /// interrupt on its CPU) changes it.
    pub preempt_count: AtomicU32,
    /// The CPU it runs on, or last ran on.
    pub cpu: AtomicU32,
    /// What it holds, for the lock validator.
    pub lockdep: crate::sync::lockdep::ThreadState,
}

impl ThreadInfo {
    /// For a thread that is not running yet.
    pub const fn new() -> Self {
        Self {
            work: WorkWords::new(),
            preempt_count: AtomicU32::new(0),
            cpu: AtomicU32::new(0),
            lockdep: crate::sync::lockdep::ThreadState::new(),
        }
    }
}

/// What kernel threads share: their process (id 0, never in the table) and root's credentials.
static KERNEL: SpinLock<Option<(Arc<Process>, Arc<Creds>)>> = SpinLock::new(None);

fn kernel() -> (Arc<Process>, Arc<Creds>) {
    let mut kernel = KERNEL.lock();
    kernel
        .get_or_insert_with(|| {
            let group = session::ProcessGroup::new(0, session::Session::new(0));
            let process = Process::new(
                0,
                &Weak::new(),
                group,
                rlimit::Limits::new(fork::max_threads()),
                crate::signal::ProcessSignals::new(),
                0,
            );
            (process, Arc::new(Creds::root()))
        })
        .clone()
}

/// The process kernel threads belong to. Needs the heap, nothing else: the scheduler makes idle threads before [`init`].
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

/// Prepares process identifiers and the like.
pub fn init() {
    // As Linux: more CPUs, more processes.
    let cpus = crate::arch::smp::count() as i32;
    let max = pid::PID_MAX
        .load(core::sync::atomic::Ordering::Relaxed)
        .max(cpus.saturating_mul(1024));
    pid::PID_MAX.store(max.min(pid::PID_MAX_LIMIT), core::sync::atomic::Ordering::Relaxed);
}

pub use init::start_init;
