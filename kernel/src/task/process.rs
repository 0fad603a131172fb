//! [`Process`]: what the threads of one program share, and what remains after the last of them until a parent
//! has waited for it.
//!
//! Locks, outermost first: [`TREE`] (parents and children, changes of groups, exit states), a process's
//! `signals`, a thread's `signals`. [`TREE`] is locked by fork, exit, wait and changes of group or session,
//! and never by a system call that only asks.

use super::ns::pid::{Id, Numbers, PidRef, number_in};
use super::rlimit::Limits;
use super::session::{MemberNode, ProcessGroup, ReservedPlace};
use super::{Creds, Task, pid};
use crate::fs::File;
use crate::mm::reserve::room_behind;
use crate::sched::WaitQueue;
use crate::signal::{Actions, ProcessSignals};
use crate::sync::{InnerGuard, IrqSpinGuard, IrqSpinLock, Mutex, SpinLock};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use limen_linux_abi::Errno;
use limen_range_tree::{Key, Node, NodeBox, Place, Range, RangeTree};

/// Protects parents, children and exit states (Linux: `tasklist_lock`).
pub static TREE: SpinLock<()> = SpinLock::new(());

/// Calls `f` while no process is waited for, and no thread gives up its number. It takes no lock that may be
/// held when [`TREE`] is locked.
pub fn while_numbered<R>(f: impl FnOnce() -> R) -> R {
    let _tree = TREE.lock();
    f()
}

/// How far a process has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ExitState {
    /// It has threads.
    Alive = 0,
    /// All threads have ended, and no parent has waited yet.
    Zombie = 1,
    /// A parent has waited for it, or did not want to.
    Dead = 2,
}

/// Parents and children of a process. Its own lock protects each access; [`TREE`] keeps the families of
/// several processes consistent.
pub struct Family {
    /// The parent. It is missing only for the first process and the kernel's own.
    pub parent: Weak<Process>,
    /// Children, zombies included, in the order in which they were made.
    pub children: Children,
}

/// A process's id as a key, among children that were made at the same time. No ranges of keys are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Number(pub i32);

impl Key for Number {
    const RANGES: bool = false;
}

/// Processes, sorted by the time when they were made and by id.
pub type Children = RangeTree<Number, Arc<Process>>;
/// A process's node in its parent's tree of children. It is made together with the process, so that moving a
/// child to another parent needs no memory.
pub type ChildNode = NodeBox<Number, Arc<Process>>;

impl Family {
    /// The first child, or the first one behind `after`.
    pub(super) fn child_after(&self, after: Option<Place<Number>>) -> Option<&Arc<Process>> {
        let child = match after {
            None => self.children.first(),
            Some(after) => self.children.behind(after),
        };
        child.map(|child| &child.value)
    }
}

/// Times and counts, summed over ended threads or over children that were waited for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// User time, nanoseconds.
    pub user_ns: u64,
    /// System time, nanoseconds.
    pub system_ns: u64,
    /// Page faults for which nothing was read from storage.
    pub minor_faults: u64,
    /// Page faults for which something was read from storage.
    pub major_faults: u64,
    /// Switches away from a thread because it slept.
    pub voluntary_switches: u64,
    /// Switches away from a thread because it was preempted.
    pub involuntary_switches: u64,
    /// The largest resident set, in pages.
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
            minor_faults: task.minor_faults() as u64,
            major_faults: 0,
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
    /// Adds `other`. The largest resident set is the larger of both.
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

/// The file that a process executes. As long as it does, the file cannot be opened for writing.
struct Executed {
    file: Arc<File>,
    /// Whether this process forbids writing. Not if a writer had opened the file before.
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
    /// Its number in its own PID namespace (`getpid`).
    pub own_tgid: i32,
    /// Its PID namespace.
    pub pid_ns: PidRef,
    /// Its numbers in PID namespaces below the initial one.
    pub numbers: Option<Arc<Numbers>>,
    /// The parent's id. Kept up to date, so that `getppid` takes no lock.
    pub ppid: AtomicI32,
    /// The id of the parent's thread whose child it is. 0: that of the parent's first thread. Changes under
    /// [`TREE`].
    creator: AtomicI32,
    family: SpinLock<Family>,
    threads: IrqSpinLock<Vec<Arc<Task>>>,
    group: IrqSpinLock<Arc<ProcessGroup>>,
    exe: SpinLock<Option<Executed>>,
    /// Its place in its group. Used by the group.
    pub(super) member_at: AtomicU64,
    /// Resource limits.
    pub limits: Limits,
    /// Actions, pending signals of the process, stops. See [`crate::signal`].
    pub signals: IrqSpinLock<ProcessSignals>,
    /// Parents sleep here until the state of a child changes.
    pub child_wait: WaitQueue,
    /// Notified when the process has ended, for pollers of pidfds and others.
    pub exit_wait: WaitQueue,
    /// How many threads have not begun to end. The thread that counts it down to 0 is the last one.
    live: AtomicUsize,
    exit_state: AtomicU32,
    /// The wait status of the process when it is a zombie.
    pub exit_code: AtomicI32,
    /// The signal that its parent gets at its end.
    pub exit_signal: AtomicI32,
    /// Whether it has called exec since its fork; then the parent's `setpgid` fails.
    pub did_exec: AtomicBool,
    /// How many programs it has executed.
    pub execs: AtomicU32,
    /// `PR_SET_CHILD_SUBREAPER`.
    pub child_subreaper: AtomicBool,
    /// Whether an ancestor may be a subreaper.
    pub has_subreaper: AtomicBool,
    /// Whether something is mounted below its directory in `/proc`.
    covered: AtomicBool,
    /// The usage of ended threads. A thread's usage is added when the thread leaves the list: to count each
    /// thread once, read both together.
    pub dead_threads: IrqSpinLock<Usage>,
    /// The usage of children that were waited for.
    pub dead_children: SpinLock<Usage>,
    /// What its threads share that do (`CLONE_SYSVSEM`).
    pub adjustments: super::adjustments::OfProcess,
    /// When it started, `CLOCK_MONOTONIC` nanoseconds.
    pub start_ns: u64,
    /// Interval and POSIX timers.
    pub timers: super::timers::ProcessTimers,
    /// `oom_score_adj`.
    pub oom_score_adj: AtomicI32,
    /// The lowest value of `oom_score_adj` that can be set without privilege: the last one set with
    /// privilege.
    pub oom_score_adj_min: AtomicI32,
    /// The counters of restartable sequences of its ended threads.
    pub rseq: crate::rseq::ThreadCounts,
    /// The real user id. Kept for callers that ask after the last thread has ended.
    pub real_uid: AtomicU32,
    /// Whether its threads are in another user namespace than the initial one. All are in the same.
    pub has_user_ns: AtomicBool,
    /// The saved user id, likewise.
    pub saved_uid: AtomicU32,
    /// Those whom its threads trace, those included that have ended and not been waited for. Changes under
    /// [`TREE`].
    pub(super) tracees: SpinLock<Vec<super::ptrace::Tracee>>,
    /// Whether there ever were any. Mostly not, which can be seen without the lock.
    pub(super) traces: AtomicBool,
    /// The id of the process that traces its leader; 0 for none. Changes under [`TREE`].
    pub(super) tracer: AtomicI32,
    /// Held while it begins a program, from when the program's rights are decided until they are its own, and
    /// by who attaches to trace it.
    pub(super) begins: Mutex<()>,
    /// The leader's name and credentials at its end. `/proc` shows them until a parent has waited.
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
        numbers: Option<Arc<Numbers>>,
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
            own_tgid: numbers.as_ref().map_or(tgid, |numbers| numbers.own()),
            pid_ns: numbers.as_ref().map(|numbers| numbers.ns().clone()),
            numbers,
            ppid: AtomicI32::new(ppid),
            creator: AtomicI32::new(0),
            family: SpinLock::new(Family {
                parent: parent.clone(),
                children: Children::new(),
            }),
            threads: IrqSpinLock::new(Vec::with_capacity(1)),
            group: IrqSpinLock::new(group),
            exe: SpinLock::new(None),
            member_at: AtomicU64::new(0),
            limits,
            signals: IrqSpinLock::new(signals),
            child_wait: WaitQueue::new(),
            exit_wait: WaitQueue::new(),
            live: AtomicUsize::new(1),
            exit_state: AtomicU32::new(ExitState::Alive as u32),
            exit_code: AtomicI32::new(0),
            exit_signal: AtomicI32::new(exit_signal),
            did_exec: AtomicBool::new(false),
            execs: AtomicU32::new(0),
            child_subreaper: AtomicBool::new(false),
            has_subreaper: AtomicBool::new(subreaper),
            covered: AtomicBool::new(false),
            dead_threads: IrqSpinLock::new(Usage::default()),
            dead_children: SpinLock::new(Usage::default()),
            adjustments: super::adjustments::OfProcess::new(),
            start_ns: crate::time::now_ns(),
            timers: super::timers::ProcessTimers::new(),
            oom_score_adj: AtomicI32::new(0),
            oom_score_adj_min: AtomicI32::new(0),
            rseq: crate::rseq::ThreadCounts::new(),
            real_uid: AtomicU32::new(0),
            has_user_ns: AtomicBool::new(false),
            saved_uid: AtomicU32::new(0),
            tracees: SpinLock::new(Vec::new()),
            traces: AtomicBool::new(false),
            tracer: AtomicI32::new(0),
            begins: Mutex::new(()),
            remains: SpinLock::new(None),
        })
    }

    /// Its number in `ns`. 0: it is not seen from there.
    #[inline]
    pub fn number_in(&self, ns: &PidRef) -> i32 {
        number_in(self.tgid, &self.numbers, ns)
    }
    /// What it is called by after its end.
    pub fn id(&self) -> Id {
        Id::new(self.tgid, &self.numbers)
    }
    /// Whether it is the first process of its PID namespace.
    #[inline]
    pub fn is_ns_init(&self) -> bool {
        self.own_tgid == 1
    }
    /// The number in `ns` of its parent. 0: it has none there.
    #[inline]
    pub fn ppid_in(&self, ns: &PidRef) -> i32 {
        match ns {
            None => self.ppid.load(Ordering::Relaxed),
            Some(_) => self.ppid_below(ns),
        }
    }
    #[cold]
    #[inline(never)]
    fn ppid_below(&self, ns: &PidRef) -> i32 {
        self.parent().map_or(0, |parent| parent.number_in(ns))
    }
    /// The parent. `None` for the first process.
    pub fn parent(&self) -> Option<Arc<Process>> {
        self.family.lock().parent.upgrade()
    }
    /// Parent and children. Consistent with those of other processes only under [`TREE`].
    pub fn family(&self) -> crate::sync::SpinGuard<'_, Family> {
        self.family.lock()
    }
    /// Its threads, the leader first. The walk holds no lock: it visits those that exist when their turn
    /// comes.
    pub fn threads(&self) -> impl Iterator<Item = Arc<Task>> {
        let (mut last, mut seen) = (None::<Arc<Task>>, 0);
        core::iter::from_fn(move || {
            let next = {
                let threads = self.threads.lock();
                // Continues at the same place, or earlier if threads before it have ended.
                seen = seen.min(threads.len());
                if let Some(last) = &last {
                    let found = threads[..seen].iter().rposition(|t| Arc::ptr_eq(t, last));
                    seen = found.map_or(seen.saturating_sub(1), |at| at + 1);
                }
                threads.get(seen).cloned()
            };
            seen += 1;
            // The thread before is dropped without the lock.
            last = next;
            last.clone()
        })
    }
    /// Runs `f` on the list of threads, with interrupts off. `f` must be short and not sleep.
    #[inline]
    pub fn with_threads<R>(&self, f: impl FnOnce(&mut Vec<Arc<Task>>) -> R) -> R {
        f(&mut self.threads.lock())
    }
    /// Reserves room for one more thread. `ENOMEM`.
    pub(super) fn room_for_thread(&self) -> Result<(), Errno> {
        room_behind(|| self.threads.lock(), |threads| threads, 1).map(drop)
    }
    /// Its place in its parent's tree of children.
    pub(super) fn place(&self) -> Place<Number> {
        (self.start_ns, Number(self.tgid))
    }
    /// Its node for its parent's tree of children.
    pub(super) fn child_node(self: &Arc<Self>) -> ChildNode {
        Node::must(Range {
            first: self.start_ns,
            last: self.start_ns,
            key: Number(self.tgid),
            value: self.clone(),
        })
    }
    /// Its first child, or the first one behind `after`.
    fn child_after(&self, after: Option<Place<Number>>) -> Option<Arc<Process>> {
        self.family.lock().child_after(after).cloned()
    }
    /// Its children. The walk holds no lock: it visits those that exist when their turn comes.
    pub fn children(&self) -> impl Iterator<Item = Arc<Process>> {
        let mut after = None;
        core::iter::from_fn(move || {
            let child = self.child_after(after)?;
            after = Some(child.place());
            Some(child)
        })
    }
    /// The list of threads, for callers that have locked the process's signals.
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
    /// Whether its real or saved user id is `uid`. In any context.
    pub fn has_user(&self, uid: u32) -> bool {
        [&self.real_uid, &self.saved_uid]
            .iter()
            .any(|own| own.load(Ordering::Relaxed) == uid)
    }
    /// The leader, as long as it is in the list (it may have ended).
    pub fn leader(&self) -> Option<Arc<Task>> {
        self.threads.lock().first().cloned()
    }
    /// Its leader's credentials, or those that one ended with.
    pub fn leaders_creds(&self) -> Arc<Creds> {
        if let Some(leader) = self.leader() {
            return leader.creds();
        }
        let remains = self.remains.lock();
        remains
            .as_ref()
            .map_or_else(super::root_creds, |(_, creds)| creds.clone())
    }
    /// A thread is added that is not its first one.
    pub(super) fn thread_starts(&self) {
        self.live.fetch_add(1, Ordering::Relaxed);
    }
    /// A thread begins to end. Called once for each. Returns whether it is the last one.
    pub(super) fn thread_ends(&self) -> bool {
        self.live.fetch_sub(1, Ordering::AcqRel) == 1
    }
    /// Whether no thread but the running one is left that has not begun to end.
    pub fn is_last_thread(&self) -> bool {
        self.live.load(Ordering::Relaxed) == 1
    }
    /// Its process group.
    pub fn group(&self) -> Arc<ProcessGroup> {
        self.group.lock().clone()
    }
    /// Its process group's id.
    pub fn pgrp(&self) -> i32 {
        self.group.lock().id
    }
    /// Its process group's id in `ns`. 0: the group is not seen from there.
    #[inline]
    pub fn pgrp_in(&self, ns: &PidRef) -> i32 {
        match ns {
            None => self.pgrp(),
            Some(_) => self.pgrp_below(ns),
        }
    }
    #[cold]
    #[inline(never)]
    fn pgrp_below(&self, ns: &PidRef) -> i32 {
        self.group().number_in(ns)
    }
    /// Its session's id in `ns`. 0: the session is not seen from there.
    #[inline]
    pub fn sid_in(&self, ns: &PidRef) -> i32 {
        match ns {
            None => self.sid(),
            Some(_) => self.sid_below(ns),
        }
    }
    #[cold]
    #[inline(never)]
    fn sid_below(&self, ns: &PidRef) -> i32 {
        self.group().session.number_in(ns)
    }
    /// Its session's id.
    pub fn sid(&self) -> i32 {
        self.group.lock().session.id
    }
    /// Enters its first group. [`TREE`] is locked.
    pub(super) fn enter_group(&self, place: ReservedPlace, node: MemberNode) {
        let group = place.take(self, node);
        let old = core::mem::replace(&mut *self.group.lock(), group);
        drop(old);
    }
    /// Moves it to another group. [`TREE`] is locked.
    pub(super) fn set_group(self: &Arc<Self>, group: Arc<ProcessGroup>, node: MemberNode) {
        if Arc::ptr_eq(&group, &self.group.lock()) {
            return;
        }
        let at = self.member_at.load(Ordering::Relaxed);
        group.join(self, node);
        let old = core::mem::replace(&mut *self.group.lock(), group);
        old.leave(self, at);
    }
    /// Sets another parent. [`TREE`] is locked. The caller changes the parents' trees of children.
    pub(super) fn adopt(&self, parent: &Arc<Process>) {
        self.family.lock().parent = Arc::downgrade(parent);
        self.ppid.store(parent.tgid, Ordering::Relaxed);
        self.set_creator(0);
        let subreaper =
            parent.child_subreaper.load(Ordering::Relaxed) || parent.has_subreaper.load(Ordering::Relaxed);
        self.has_subreaper.store(subreaper, Ordering::Relaxed);
    }
    /// Sets the thread of its parent whose child it is. 0: the parent's first one. [`TREE`] is locked.
    pub(super) fn set_creator(&self, tid: i32) {
        self.creator.store(tid, Ordering::Relaxed);
    }
    /// The thread of its parent whose child it is (see [`Self::set_creator`]).
    pub(super) fn creator(&self) -> i32 {
        self.creator.load(Ordering::Relaxed)
    }
    /// Whether `child` is the child of the thread `tid`, and not of another thread of that process. `first`:
    /// that process's [`Self::first_thread`].
    pub fn is_threads_child(child: &Process, tid: i32, first: i32) -> bool {
        match child.creator() {
            0 => tid == first,
            creator => tid == creator,
        }
    }
    /// The id of the first thread that has not ended. 0: there is none.
    pub fn first_thread(&self) -> i32 {
        self.with_threads(|threads| threads.first().map_or(0, |first| first.tid()))
    }
    /// The file that it executes.
    pub fn exe(&self) -> Option<Arc<File>> {
        self.exe.lock().as_ref().map(|exe| exe.file.clone())
    }
    /// Sets the file that it executes. May sleep, as the old one may be closed.
    pub fn set_exe(&self, exe: Option<Arc<File>>) {
        let new = exe.map(Executed::new);
        let old = core::mem::replace(&mut *self.exe.lock(), new);
        drop(old);
    }
    /// How far it has ended.
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
    /// Something is mounted below its directory in `/proc`, or nothing any more. The caller has locked all
    /// mounts and, for the first of that, [`TREE`], under which it has seen that no parent has waited for it.
    pub fn set_covered(&self, covered: bool) {
        self.covered.store(covered, Ordering::Relaxed);
    }
    /// Whether something is mounted below its directory in `/proc`, which goes with it
    /// ([`crate::fs::procfs::process_gone`]). The caller has locked [`TREE`] since it is gone.
    #[inline]
    pub fn is_covered(&self) -> bool {
        self.covered.load(Ordering::Relaxed)
    }
    /// Whether it is the first process, which no signal may kill.
    #[inline]
    pub fn is_init(&self) -> bool {
        self.tgid == 1
    }
    /// What its threads have used, ended ones included.
    pub fn usage(&self) -> Usage {
        self.with_threads(|threads| {
            let mut usage = *self.dead_threads.lock();
            for task in threads {
                usage.add(&Usage::of_task(task));
            }
            usage
        })
    }
    /// Its signal actions. `None`: it is a zombie.
    pub fn actions(&self) -> Option<Arc<Actions>> {
        (self.exit_state() == ExitState::Alive).then(|| self.signals.lock().actions.clone())
    }
    /// The address space of its first thread that has one.
    pub fn mm(&self) -> Option<Arc<crate::mm::AddressSpace>> {
        self.threads().find_map(|task| task.mm())
    }
}

/// Page faults of processes that were removed from the tables.
static GONE_FAULTS: AtomicUsize = AtomicUsize::new(0);

/// Keeps the page faults of a process that is removed from the tables. [`TREE`] is locked.
pub(super) fn keep_faults(process: &Process) {
    let faults = process.dead_threads.lock().minor_faults;
    GONE_FAULTS.fetch_add(faults as usize, Ordering::Relaxed);
}

/// The page faults of all processes since boot.
pub fn all_faults() -> usize {
    let _tree = TREE.lock();
    let mut faults = GONE_FAULTS.load(Ordering::Relaxed);
    let mut from = 1;
    while let Some(process) = pid::next_process(from) {
        from = process.tgid + 1;
        faults = faults.wrapping_add(process.usage().minor_faults as usize);
    }
    faults
}

/// The first process. `None` until it is started.
pub fn init_process() -> Option<Arc<Process>> {
    pid::find_process(1)
}

/// `process` became a subreaper: marks its descendants, which must look for it when they are orphaned.
pub fn mark_descendants(process: &Arc<Process>) {
    let _tree = TREE.lock();
    let mut at = process.clone();
    let mut next = at.child_after(None);
    loop {
        match next {
            Some(child) => {
                child.has_subreaper.store(true, Ordering::Relaxed);
                next = child.child_after(None);
                at = child;
            }
            None if Arc::ptr_eq(&at, process) => return,
            None => {
                let Some(parent) = at.parent() else { return };
                next = parent.child_after(Some(at.place()));
                at = parent;
            }
        }
    }
}
