//! [`Process`]: what the threads of one program share and what goes on after the last of them, until the parent has waited.
//!
//! Locks, outermost first: [`TREE`] (who is whose parent, group membership changes, exit states), a process's `signals`, a thread's
//! `signals`. The tree lock is taken by fork, exit, wait and changes of group or session, never by a system call that only asks.

use super::rlimit::Limits;
use super::session::ProcessGroup;
use super::{Creds, Task, pid};
use crate::fs::File;
use crate::sched::WaitQueue;
use crate::signal::ProcessSignals;
use crate::sync::{InnerGuard, IrqSpinGuard, IrqSpinLock, SpinLock};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicUsize, Ordering};

/// Guards the family tree: parents, children, exit states (`tasklist_lock`).
pub static TREE: SpinLock<()> = SpinLock::new(());

/// How far a process is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ExitState {
    /// It has running threads.
    Alive = 0,
    /// All threads ended; the parent has not waited yet.
    Zombie = 1,
    /// Waited for, or nobody wanted to.
    Dead = 2,
}

/// Who is related to whom; guarded by [`TREE`] as to consistency, by its own lock as to access.
pub struct Family {
    /// The parent; dangling only for the first process and the kernel's own.
    pub parent: Weak<Process>,
    /// Children, zombies included.
    pub children: Vec<Arc<Process>>,
}

/// Times and counts of threads that ended and of children waited for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// User time, nanoseconds.
    pub user_ns: u64,
    /// System time, nanoseconds.
    pub system_ns: u64,
    /// Faults without storage access.
    pub minor_faults: u64,
    /// Faults with storage access.
    pub major_faults: u64,
    /// Switches because it waited.
    pub voluntary_switches: u64,
    /// Switches because it was preempted.
    pub involuntary_switches: u64,
    /// Largest resident set, pages.
    pub max_rss: u64,
}

impl Usage {
    /// What a thread used so far.
    pub fn of_task(task: &Task) -> Self {
        let (user_ns, system_ns) = crate::sched::stats::user_system_ns(task);
        let (voluntary_switches, involuntary_switches) = task.sched.switches();
        Self {
            user_ns,
            system_ns,
            minor_faults: task.minor_faults.load(Ordering::Relaxed),
            major_faults: task.major_faults.load(Ordering::Relaxed),
            voluntary_switches,
            involuntary_switches,
            max_rss: 0,
        }
    }
    /// User time in clock ticks (1/100 s).
    pub fn user_ticks(&self) -> usize {
        (self.user_ns / 10_000_000) as usize
    }
    /// System time in clock ticks (1/100 s).
    pub fn system_ticks(&self) -> usize {
        (self.system_ns / 10_000_000) as usize
    }
    /// Adds another's.
    pub fn add(&mut self, other: &Usage) {
        self.user_ns += other.user_ns;
        self.system_ns += other.system_ns;
        self.minor_faults += other.minor_faults;
        self.major_faults += other.major_faults;
        self.voluntary_switches += other.voluntary_switches;
        self.involuntary_switches += other.involuntary_switches;
        self.max_rss = self.max_rss.max(other.max_rss);
    }
}

/// The file a process executes: while it does, nobody may open it for writing.
struct Executed {
    file: Arc<File>,
    /// Whether writing is forbidden on behalf of this process. (A writer may have been quicker.)
    denied: bool,
}

impl Executed {
    fn new(file: Arc<File>) -> Self {
        let denied = file.inode().deny_write().is_ok();
        Self { file, denied }
    }
}

impl Drop for Executed {
    fn drop(&mut self) {
        if self.denied {
            self.file.inode().allow_write();
        }
    }
}

/// One process.
pub struct Process {
    /// Its id.
    pub tgid: i32,
    /// The parent's id, kept up to date so that `getppid` takes no lock.
    pub ppid: AtomicI32,
    family: SpinLock<Family>,
    threads: IrqSpinLock<Vec<Arc<Task>>>,
    group: IrqSpinLock<Arc<ProcessGroup>>,
    exe: SpinLock<Option<Executed>>,
    /// Resource limits.
    pub limits: Limits,
    /// Actions, shared pending signals, stops. See [`crate::signal`].
    pub signals: IrqSpinLock<ProcessSignals>,
    /// Parents sleep here for changes of their children's states.
    pub child_wait: WaitQueue,
    /// Pidfd pollers and the like: notified when the process has ended.
    pub exit_wait: WaitQueue,
    /// Threads that have not begun to end: which is the last is settled once, when it begins to.
    live: AtomicUsize,
    exit_state: AtomicU32,
    /// The wait status of the whole process, once it is a zombie.
    pub exit_code: AtomicI32,
    /// The signal its parent gets at its end.
    pub exit_signal: AtomicI32,
    /// Called `exec` since it was forked: `setpgid` by the parent fails.
    pub did_exec: AtomicBool,
    /// `PR_SET_CHILD_SUBREAPER`.
    pub child_subreaper: AtomicBool,
    /// Some ancestor may be a subreaper.
    pub has_subreaper: AtomicBool,
    /// Of ended threads. A thread's usage comes here as it leaves the list: to see all of it once, look at both together.
    pub dead_threads: IrqSpinLock<Usage>,
    /// Of children waited for.
    pub dead_children: SpinLock<Usage>,
    /// Start, CLOCK_MONOTONIC nanoseconds.
    pub start_ns: u64,
    /// Interval and POSIX timers.
    pub timers: crate::time::ProcessTimers,
    /// `oom_score_adj`.
    pub oom_score_adj: AtomicI32,
    /// What was done for the restartable sequences of its ended threads.
    pub rseq: crate::rseq::ThreadCounts,
    /// The real user id, kept for those who ask after the last thread is gone.
    pub real_uid: AtomicU32,
    /// The leader's name and credentials when it ended: `/proc` shows them until the parent has waited.
    pub remains: SpinLock<Option<([u8; 16], Arc<Creds>)>>,
}

impl Process {
    /// A new process without threads.
    pub fn new(
        tgid: i32,
        parent: &Weak<Process>,
        group: Arc<ProcessGroup>,
        limits: Limits,
        signals: ProcessSignals,
        exit_signal: i32,
    ) -> Arc<Self> {
        let (ppid, subreaper) = match parent.upgrade() {
            Some(p) => (
                p.tgid,
                p.child_subreaper.load(Ordering::Relaxed) || p.has_subreaper.load(Ordering::Relaxed),
            ),
            None => (0, false),
        };
        Arc::new(Self {
            tgid,
            ppid: AtomicI32::new(ppid),
            family: SpinLock::new(Family {
                parent: parent.clone(),
                children: Vec::new(),
            }),
            threads: IrqSpinLock::new(Vec::new()),
            group: IrqSpinLock::new(group),
            exe: SpinLock::new(None),
            limits,
            signals: IrqSpinLock::new(signals),
            child_wait: WaitQueue::new(),
            exit_wait: WaitQueue::new(),
            live: AtomicUsize::new(1),
            exit_state: AtomicU32::new(ExitState::Alive as u32),
            exit_code: AtomicI32::new(0),
            exit_signal: AtomicI32::new(exit_signal),
            did_exec: AtomicBool::new(false),
            child_subreaper: AtomicBool::new(false),
            has_subreaper: AtomicBool::new(subreaper),
            dead_threads: IrqSpinLock::new(Usage::default()),
            dead_children: SpinLock::new(Usage::default()),
            start_ns: crate::arch::time::now_ns(),
            timers: crate::time::ProcessTimers::new(),
            oom_score_adj: AtomicI32::new(0),
            rseq: crate::rseq::ThreadCounts::new(),
            real_uid: AtomicU32::new(0),
            remains: SpinLock::new(None),
        })
    }

    /// The parent, `None` for the first process.
    pub fn parent(&self) -> Option<Arc<Process>> {
        self.family.lock().parent.upgrade()
    }
    /// Parent and children; consistent with those of others only under [`TREE`].
    pub fn family(&self) -> crate::sync::SpinGuard<'_, Family> {
        self.family.lock()
    }
    /// Its threads now, the leader first.
    pub fn threads(&self) -> Vec<Arc<Task>> {
        self.threads.lock().clone()
    }
    /// Runs `f` on the list of threads (interrupts off, short).
    #[inline]
    pub fn with_threads<R>(&self, f: impl FnOnce(&mut Vec<Arc<Task>>) -> R) -> R {
        f(&mut self.threads.lock())
    }
    /// The list of threads, for who holds the process's signals.
    #[inline]
    pub fn threads_under(
        &self,
        signals: &IrqSpinGuard<'_, ProcessSignals>,
    ) -> InnerGuard<'_, Vec<Arc<Task>>> {
        self.threads.lock_under(signals)
    }
    /// How many threads it has.
    pub fn thread_count(&self) -> usize {
        self.threads.lock().len()
    }
    /// The leading thread, as long as it is there (it may be a zombie itself).
    pub fn leader(&self) -> Option<Arc<Task>> {
        self.threads.lock().first().cloned()
    }
    /// Another thread than its first is added.
    pub(super) fn thread_starts(&self) {
        self.live.fetch_add(1, Ordering::Relaxed);
    }
    /// A thread begins to end: whether it is the last. Once for each.
    pub(super) fn thread_ends(&self) -> bool {
        self.live.fetch_sub(1, Ordering::AcqRel) == 1
    }
    /// Its process group.
    pub fn group(&self) -> Arc<ProcessGroup> {
        self.group.lock().clone()
    }
    /// Its process group's id.
    pub fn pgrp(&self) -> i32 {
        self.group.lock().id
    }
    /// Its session's id.
    pub fn sid(&self) -> i32 {
        self.group.lock().session.id
    }
    /// Enters its first group; under [`TREE`].
    pub(super) fn enter_group(self: &Arc<Self>, group: Arc<ProcessGroup>) {
        group.join(self);
        let old = core::mem::replace(&mut *self.group.lock(), group);
        drop(old);
    }
    /// Moves it to another group; under [`TREE`].
    pub(super) fn set_group(self: &Arc<Self>, group: Arc<ProcessGroup>) {
        if Arc::ptr_eq(&group, &self.group.lock()) {
            return;
        }
        group.join(self);
        let old = core::mem::replace(&mut *self.group.lock(), group);
        old.leave(self);
    }
    /// Gets another parent; under [`TREE`]. The parents' lists of children are the caller's business.
    pub(super) fn adopt(&self, parent: &Arc<Process>) {
        self.family.lock().parent = Arc::downgrade(parent);
        self.ppid.store(parent.tgid, Ordering::Relaxed);
        let subreaper =
            parent.child_subreaper.load(Ordering::Relaxed) || parent.has_subreaper.load(Ordering::Relaxed);
        self.has_subreaper.store(subreaper, Ordering::Relaxed);
    }
    /// The file it executes.
    pub fn exe(&self) -> Option<Arc<File>> {
        self.exe.lock().as_ref().map(|exe| exe.file.clone())
    }
    /// Sets the file it executes. May sleep: the old one may be closed for good.
    pub fn set_exe(&self, exe: Option<Arc<File>>) {
        let new = exe.map(Executed::new);
        let old = core::mem::replace(&mut *self.exe.lock(), new);
        drop(old);
    }
    /// How far it is gone.
    pub fn exit_state(&self) -> ExitState {
        match self.exit_state.load(Ordering::Acquire) {
            0 => ExitState::Alive,
            1 => ExitState::Zombie,
            _ => ExitState::Dead,
        }
    }
    pub(super) fn set_exit_state(&self, state: ExitState) {
        self.exit_state.store(state as u32, Ordering::Release);
    }
    /// Whether it is the first process, which nothing may kill.
    #[inline]
    pub fn is_init(&self) -> bool {
        self.tgid == 1
    }
    /// What its threads used, ended ones included.
    pub fn usage(&self) -> Usage {
        self.with_threads(|threads| {
            let mut usage = *self.dead_threads.lock();
            for task in threads {
                usage.add(&Usage::of_task(task));
            }
            usage
        })
    }
    /// The address space of its first thread that has one.
    pub fn mm(&self) -> Option<Arc<crate::mm::AddressSpace>> {
        self.threads().iter().find_map(|task| task.mm())
    }
}

/// The first process, once it is started.
pub fn init_process() -> Option<Arc<Process>> {
    pid::find_process(1)
}

/// `process` became a subreaper: its descendants must look for one when they are orphaned.
pub fn mark_descendants(process: &Arc<Process>) {
    let _tree = TREE.lock();
    let mut left = process.family().children.clone();
    while let Some(child) = left.pop() {
        child.has_subreaper.store(true, Ordering::Relaxed);
        left.extend(child.family().children.iter().cloned());
    }
}
