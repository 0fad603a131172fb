//! [`Task`]: a thread of a program or of the kernel. What all threads of a program have in common is in
//! [`super::Process`].

use super::ns::Set;
use super::ns::pid::{Id, Numbers, PidRef, number_in};
use super::{Creds, Process, ThreadInfo};
use crate::fs::{FdTable, File, FsContext};
use crate::mm::{AddressSpace, KernelStack, MmSlot};
use crate::rcu::{Shown, glance};
use crate::sched::entity::{ContextCell, SchedEntity};
use crate::signal::TaskSignals;
use crate::sync::loan::Borrower;
use crate::sync::{IrqSpinLock, OwnSlot, SpinLock};
use alloc::boxed::Box;
use alloc::sync::Arc;
use bitflags::bitflags;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use limen_entry::ThreadFlags;

bitflags! {
    /// What kind of thread it is and what has happened to it (`PF_*`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct TaskFlags: u32 {
        /// A kernel thread: never in user mode.
        const KTHREAD = 1 << 0;
        /// It is ending.
        const EXITING = 1 << 1;
        /// It was forked and has not called exec since.
        const FORKNOEXEC = 1 << 2;
        /// Killed by a signal.
        const SIGNALED = 1 << 3;
        /// The idle thread of a CPU.
        const IDLE = 1 << 4;
        /// `PR_SET_NO_NEW_PRIVS`.
        const NO_NEW_PRIVS = 1 << 5;
        /// Used super-user privileges.
        const SUPERPRIV = 1 << 6;
        /// It became a user that has more threads than allowed. As long as that is so, exec fails.
        const NPROC_EXCEEDED = 1 << 7;
        /// It made a process, so it may have children.
        const HAS_CHILDREN = 1 << 8;
        /// Looks for a mount that is to expire (`MNT_EXPIRE`).
        const EXPIRES_MOUNT = 1 << 9;
        /// It has traced others, and may still.
        const TRACER = 1 << 10;
        /// It stops before it ends, because its process is being dumped.
        const DUMPED = 1 << 11;
        /// It has made segments of shared memory.
        const MADE_SEGMENTS = 1 << 12;
        /// Its credentials are of another user namespace than the initial one.
        const USER_NS = 1 << 13;
    }
}

/// The function that a kernel thread runs.
pub type KernelFunction = Box<dyn FnOnce() + Send>;

/// How `restart_syscall` continues an interrupted call.
pub type RestartFunction = Box<dyn FnOnce() -> limen_linux_abi::SysResult + Send>;

/// What `restart_syscall` continues, if a call was interrupted that has to be continued. Used by the thread
/// itself only.
pub struct Restart {
    /// Whether there is such a function; nearly never.
    set: AtomicBool,
    function: SpinLock<Option<RestartFunction>>,
}

impl Restart {
    fn new() -> Self {
        Self {
            set: AtomicBool::new(false),
            function: SpinLock::new(None),
        }
    }
    /// `restart_syscall` will call `function`.
    pub fn set(&self, function: RestartFunction) {
        *self.function.lock() = Some(function);
        self.set.store(true, Ordering::Relaxed);
    }
    /// Takes the function.
    pub fn take(&self) -> Option<RestartFunction> {
        if !self.set.load(Ordering::Relaxed) {
            return None;
        }
        self.set.store(false, Ordering::Relaxed);
        self.function.lock().take()
    }
    /// Drops the function.
    #[inline]
    pub fn forget(&self) {
        if self.set.load(Ordering::Relaxed) {
            drop(self.take());
        }
    }
}

/// The I/O context of threads, shared with `CLONE_IO`. No device of this kernel sorts its requests, so the
/// priority that `ioprio_set` sets is only kept for `ioprio_get`.
#[derive(Default)]
pub struct IoContext {
    /// The priority: class and level. 0: none.
    pub priority: AtomicU32,
}

/// A thread.
#[repr(C)]
pub struct Task {
    /// What entry code and architectures use. Comes first, so that it is at the task's own address.
    pub info: ThreadInfo,
    /// Its state for restartable sequences. Near the start, in reach of instructions with short offsets.
    pub rseq: crate::rseq::Thread,
    /// Its saved registers while it does not run.
    pub context: ContextCell,
    /// The scheduler's part.
    pub sched: SchedEntity,
    /// Its kernel stack.
    pub stack: KernelStack,
    tid: AtomicI32,
    /// Its number in its own PID namespace.
    own_tid: AtomicI32,
    /// The numbers with which it began.
    first_numbers: Option<Arc<Numbers>>,
    /// Its process.
    pub process: Arc<Process>,
    flags: AtomicU32,
    creds: Shown<Creds>,
    mm: MmSlot,
    files: OwnSlot<FdTable>,
    /// What it has borrowed from its descriptors, if others share them.
    borrower: Borrower<File>,
    fs: OwnSlot<FsContext>,
    /// What it is in. Empty: the initial namespaces.
    namespaces: Shown<Set>,
    comm: SpinLock<[u8; 16]>,
    /// The same, for who may take no lock.
    comm_now: [AtomicU64; 2],
    /// Signal mask, pending signals of the thread, alternate stack. Locked after the process's `signals`.
    pub signals: IrqSpinLock<TaskSignals>,
    /// Whether a fatal signal was sent, which ends killable sleeps.
    pub killed: AtomicBool,
    /// The address to which 0 is written, and where a futex is woken, when the thread ends
    /// (`CLONE_CHILD_CLEARTID`). 0: none.
    pub clear_child_tid: AtomicUsize,
    /// The address to which the new thread writes its id first (`CLONE_CHILD_SETTID`). 0: none.
    pub set_child_tid: AtomicUsize,
    /// The head that was passed to `set_robust_list`.
    pub robust_list: AtomicUsize,
    /// The one that the call of 32-bit programs passed.
    pub compat_robust_list: AtomicU32,
    /// The waiters for its priority-inheriting locks.
    pub pi: crate::sched::futex::PiOwner,
    /// The event for which its parent waits in `vfork`.
    pub(super) vfork: SpinLock<Option<Arc<super::fork::VforkDone>>>,
    /// For the leader of a process: the signal that the parent gets at its end. 0: none.
    pub exit_signal: AtomicI32,
    /// The wait status with which it ended.
    pub exit_code: AtomicI32,
    /// `PR_SET_PDEATHSIG`.
    pub parent_death_signal: AtomicI32,
    /// Whether something is mounted below its directory in `/proc`, which is not its process's.
    covered: AtomicBool,
    /// A kernel thread's function. Taken when the thread first runs.
    pub kernel_function: SpinLock<Option<KernelFunction>>,
    /// The first process's first registers, until it enters user mode.
    pub start_frame: SpinLock<Option<Box<crate::arch::frame::Frame>>>,
    /// What `restart_syscall` continues.
    pub restart: Restart,
    /// When it started, `CLOCK_MONOTONIC` nanoseconds.
    pub start_ns: u64,
    /// `PR_SET_TIMERSLACK` in nanoseconds: the value now, and the one to which it is reset.
    timer_slack: [AtomicU64; 2],
    /// Its I/O context. `None` until a priority is set.
    io: SpinLock<Option<Arc<IoContext>>>,
    /// Whether `io` was ever set. Mostly not, which can be seen without the lock.
    had_io: AtomicBool,
    /// What its end does to semaphores.
    pub adjustments: super::adjustments::Adjustments,
    /// `personality`.
    pub personality: AtomicU32,
    /// The sockets that it is just closing.
    pub closing: SpinLock<crate::fs::closing::Closing>,
    minor_faults: AtomicUsize,
    /// Its seccomp mode and filters.
    pub seccomp: super::seccomp::Seccomp,
    /// Whose calls it makes.
    pub calls: super::calls::Calls,
    /// Its choice of which calls become signals.
    pub dispatch: super::dispatch::UserDispatch,
    /// Who traces it, and its stops for that.
    pub trace: super::ptrace::Trace,
    /// Its part of audit.
    pub audit: super::audit::Audit,
}

/// What a new thread is made of. What it shares with its parent is an `Arc` of the same object.
pub struct NewTask {
    /// Its id.
    pub tid: i32,
    /// Its numbers in PID namespaces below the initial one.
    pub numbers: Option<Arc<Numbers>>,
    /// Its process.
    pub process: Arc<Process>,
    /// Its flags.
    pub flags: TaskFlags,
    /// Its saved registers.
    pub context: ContextCell,
    /// The scheduler's part.
    pub sched: SchedEntity,
    /// Its kernel stack.
    pub stack: KernelStack,
    /// Its credentials.
    pub creds: Arc<Creds>,
    /// Its address space. `None` for kernel threads.
    pub mm: Option<Arc<AddressSpace>>,
    /// Its descriptors.
    pub files: Option<Arc<FdTable>>,
    /// Its directories and umask.
    pub fs: Option<Arc<FsContext>>,
    /// What it is in.
    pub namespaces: Option<Arc<Set>>,
    /// Its name, NUL-padded.
    pub comm: [u8; 16],
    /// Its signal state.
    pub signals: TaskSignals,
    /// The signal for the parent when it ends.
    pub exit_signal: i32,
}

impl Task {
    /// Makes a thread, which nobody knows yet. Not inlined: its parts and the whole are large together.
    #[inline(never)]
    pub fn new(new: NewTask) -> Arc<Self> {
        let mut flags = new.flags;
        if new.creds.user.is_some() {
            flags |= TaskFlags::USER_NS;
            new.process.has_user_ns.store(true, Ordering::Relaxed);
        }
        Arc::new(Self {
            info: ThreadInfo::new(),
            context: new.context,
            sched: new.sched,
            stack: new.stack,
            tid: AtomicI32::new(new.tid),
            own_tid: AtomicI32::new(new.numbers.as_ref().map_or(new.tid, |numbers| numbers.own())),
            first_numbers: new.numbers,
            process: new.process,
            flags: AtomicU32::new(flags.bits()),
            creds: Shown::new(Some(new.creds)),
            mm: MmSlot::new(new.mm),
            files: OwnSlot::new(new.files),
            borrower: Borrower::new(),
            fs: OwnSlot::new(new.fs),
            namespaces: Shown::new(new.namespaces),
            comm: SpinLock::new(new.comm),
            comm_now: halves(new.comm).map(AtomicU64::new),
            signals: IrqSpinLock::new(new.signals),
            killed: AtomicBool::new(false),
            clear_child_tid: AtomicUsize::new(0),
            set_child_tid: AtomicUsize::new(0),
            robust_list: AtomicUsize::new(0),
            compat_robust_list: AtomicU32::new(0),
            pi: crate::sched::futex::PiOwner::new(),
            vfork: SpinLock::new(None),
            exit_signal: AtomicI32::new(new.exit_signal),
            exit_code: AtomicI32::new(0),
            parent_death_signal: AtomicI32::new(0),
            covered: AtomicBool::new(false),
            kernel_function: SpinLock::new(None),
            start_frame: SpinLock::new(None),
            rseq: crate::rseq::Thread::new(),
            restart: Restart::new(),
            start_ns: crate::time::now_ns(),
            timer_slack: [const { AtomicU64::new(50_000) }; 2],
            io: SpinLock::new(None),
            had_io: AtomicBool::new(false),
            adjustments: super::adjustments::Adjustments::new(),
            personality: AtomicU32::new(0),
            closing: SpinLock::new(crate::fs::closing::Closing::new()),
            minor_faults: AtomicUsize::new(0),
            seccomp: super::seccomp::Seccomp::new(),
            calls: super::calls::Calls::new(),
            dispatch: super::dispatch::UserDispatch::new(),
            trace: super::ptrace::Trace::new(),
            audit: super::audit::Audit::new(),
        })
    }

    /// Makes a kernel thread of the kernel's process. It does not run before the scheduler starts it. `idle`:
    /// an idle thread, which is running already when its object is made.
    pub fn new_kernel(name: &str, stack: KernelStack, context: ContextCell, idle: bool) -> Arc<Self> {
        let mut comm = [0; 16];
        let n = name.len().min(15);
        comm[..n].copy_from_slice(&name.as_bytes()[..n]);
        Self::new(NewTask {
            tid: 0,
            numbers: None,
            process: super::kernel_process(),
            flags: if idle {
                TaskFlags::KTHREAD | TaskFlags::IDLE
            } else {
                TaskFlags::KTHREAD
            },
            context,
            sched: SchedEntity::new(),
            stack,
            creds: super::root_creds(),
            mm: None,
            files: None,
            fs: None,
            namespaces: None,
            comm,
            signals: TaskSignals::new(None),
            exit_signal: 0,
        })
    }

    /// The thread's id.
    #[inline]
    pub fn tid(&self) -> i32 {
        self.tid.load(Ordering::Relaxed)
    }
    /// It becomes the leader of its process.
    pub(super) fn take_leaders_number(&self) {
        self.tid.store(self.process.tgid, Ordering::Relaxed);
        self.own_tid.store(self.process.own_tgid, Ordering::Relaxed);
        // Not under this number.
        self.info.trace.fetch_and(!super::IS_IN_TRACE, Ordering::Relaxed);
    }
    /// As [`Process::set_covered`]: of the directory of a thread that is not the leader.
    pub fn set_covered(&self, covered: bool) {
        self.covered.store(covered, Ordering::Relaxed);
    }
    /// Whether something is mounted below its directory in `/proc`, which goes with its number
    /// ([`crate::fs::procfs::thread_gone`]). The caller has locked [`TREE`](super::process::TREE) since it
    /// gave up that.
    #[inline]
    pub fn is_covered(&self) -> bool {
        self.covered.load(Ordering::Relaxed)
    }
    /// The number in its own PID namespace (`gettid`).
    #[inline]
    pub fn own_tid(&self) -> i32 {
        self.own_tid.load(Ordering::Relaxed)
    }
    /// Its numbers in PID namespaces below the initial one.
    pub fn numbers(&self) -> &Option<Arc<Numbers>> {
        match self.tid() == self.process.tgid {
            true => &self.process.numbers,
            false => &self.first_numbers,
        }
    }
    /// Its number in `ns`. 0: it is not seen from there.
    #[inline]
    pub fn number_in(&self, ns: &PidRef) -> i32 {
        match ns {
            None => self.tid(),
            Some(_) => number_in(self.tid(), self.numbers(), ns),
        }
    }
    /// The number in `ns` with which it began. `tid`: that one in the initial namespace.
    pub(super) fn first_number_in(&self, tid: i32, ns: &PidRef) -> i32 {
        number_in(tid, &self.first_numbers, ns)
    }
    /// What it is called by after its end.
    pub fn id(&self) -> Id {
        Id::new(self.tid(), self.numbers())
    }
    /// Its PID namespace.
    #[inline]
    pub fn pid_ns(&self) -> &PidRef {
        &self.process.pid_ns
    }
    /// The process's id.
    #[inline]
    pub fn tgid(&self) -> i32 {
        self.process.tgid
    }
    /// Its flags.
    #[inline]
    pub fn flags(&self) -> TaskFlags {
        TaskFlags::from_bits_retain(self.flags.load(Ordering::Relaxed))
    }
    /// Sets flags. Returns what was set before.
    pub fn set_flags(&self, flags: TaskFlags) -> TaskFlags {
        TaskFlags::from_bits_retain(self.flags.fetch_or(flags.bits(), Ordering::Relaxed))
    }
    /// Clears flags.
    pub fn clear_flags(&self, flags: TaskFlags) {
        self.flags.fetch_and(!flags.bits(), Ordering::Relaxed);
    }
    /// Whether it is a kernel thread.
    #[inline]
    pub fn is_kernel_thread(&self) -> bool {
        self.flags().contains(TaskFlags::KTHREAD)
    }
    /// Its credentials. For the running thread `CurrentTask` has a cheaper way.
    pub fn creds(&self) -> Arc<Creds> {
        self.creds.get(&glance()).unwrap_or_else(super::root_creds)
    }
    /// Replaces the credentials. Only for the thread itself.
    pub fn set_creds(&self, creds: Arc<Creds>) {
        if creds.user.is_some() {
            self.set_flags(TaskFlags::USER_NS);
            self.process.has_user_ns.store(true, Ordering::Relaxed);
        }
        self.process.real_uid.store(creds.uid, Ordering::Relaxed);
        self.process.saved_uid.store(creds.suid, Ordering::Relaxed);
        drop(self.creds.replace(Some(creds)));
    }
    /// Where its credentials are shown. Only the thread itself replaces them.
    #[inline(always)]
    pub fn creds_shown(&self) -> &Shown<Creds> {
        &self.creds
    }
    /// Its address space. `None` for kernel threads and threads that have ended.
    #[inline]
    pub fn mm(&self) -> Option<Arc<AddressSpace>> {
        self.mm.get()
    }
    /// The slot with its address space. For `mm` and the scheduler.
    #[inline(always)]
    pub fn mm_slot(&self) -> &MmSlot {
        &self.mm
    }
    /// Replaces the address space and returns the old one. The caller loads the new one and drops the old one
    /// afterwards.
    pub fn replace_mm(&self, mm: Option<Arc<AddressSpace>>) -> Option<Arc<AddressSpace>> {
        self.mm.replace(mm)
    }
    /// The slot with its descriptors. Empty for kernel threads and threads that have ended.
    #[inline(always)]
    pub fn files_slot(&self) -> &OwnSlot<FdTable> {
        &self.files
    }
    /// The slot with its directories and umask. Empty for the same threads.
    #[inline(always)]
    pub fn fs_slot(&self) -> &OwnSlot<FsContext> {
        &self.fs
    }
    /// Its descriptors, if it has any. For `/proc`.
    pub fn try_files(&self) -> Option<Arc<FdTable>> {
        self.files.get()
    }
    /// What it has borrowed from its descriptors. For `CurrentTask`.
    #[inline(always)]
    pub fn borrower(&self) -> &Borrower<File> {
        &self.borrower
    }
    /// Its directories and umask, if it has any. For `/proc`.
    pub fn try_fs(&self) -> Option<Arc<FsContext>> {
        self.fs.get()
    }
    /// Replaces directories and umask and returns the old ones.
    pub fn replace_fs(&self, fs: Option<Arc<FsContext>>) -> Option<Arc<FsContext>> {
        self.fs.replace(fs)
    }
    /// By how many nanoseconds its sleeps may be prolonged. This kernel does not prolong them.
    pub fn timer_slack(&self) -> u64 {
        self.timer_slack[0].load(Ordering::Relaxed)
    }
    /// Sets [`Self::timer_slack`]. 0: to the value with which it started.
    pub fn set_timer_slack(&self, ns: u64) {
        let [now, first] = &self.timer_slack;
        let ns = if ns == 0 {
            first.load(Ordering::Relaxed)
        } else {
            ns
        };
        now.store(ns, Ordering::Relaxed);
    }
    /// A new thread gets the present value of `parent`, which makes it, also as the value to which it is
    /// reset.
    pub(super) fn inherit_timer_slack(&self, parent: &Self) {
        let ns = parent.timer_slack();
        self.timer_slack
            .iter()
            .for_each(|slack| slack.store(ns, Ordering::Relaxed));
    }
    /// Whether its parent waits in `vfork` for it.
    pub fn is_vforked(&self) -> bool {
        self.vfork.lock().is_some()
    }
    /// Its I/O context, if it has one.
    pub fn io(&self) -> Option<Arc<IoContext>> {
        if !self.had_io.load(Ordering::Acquire) {
            return None;
        }
        self.io.lock().clone()
    }
    /// Its I/O context. Makes one if it has none.
    pub fn make_io(&self) -> Arc<IoContext> {
        let mut io = self.io.lock();
        self.had_io.store(true, Ordering::Release);
        io.get_or_insert_default().clone()
    }
    /// A new thread gets the I/O context of `parent`, which makes it (`shared`), or one with the same
    /// priority.
    #[inline]
    pub(super) fn inherit_io(&self, parent: &Self, shared: bool) {
        if parent.had_io.load(Ordering::Acquire) {
            self.take_io(parent.io(), shared);
        }
    }
    #[cold]
    #[inline(never)]
    fn take_io(&self, theirs: Option<Arc<IoContext>>, shared: bool) {
        let Some(theirs) = theirs else { return };
        self.had_io.store(true, Ordering::Release);
        *self.io.lock() = Some(match shared {
            true => theirs,
            false => Arc::new(IoContext {
                priority: AtomicU32::new(theirs.priority.load(Ordering::Relaxed)),
            }),
        });
    }
    /// The thread ends: drops its I/O context.
    pub(super) fn drop_io(&self) {
        if !self.had_io.load(Ordering::Acquire) {
            return;
        }
        let old = self.io.lock().take();
        drop(old);
    }
    /// The namespaces in which it is. `None`: the initial ones, or it has ended. For the running thread
    /// `CurrentTask` has a cheaper way.
    pub fn namespaces(&self) -> Option<Arc<Set>> {
        if self.namespaces.is_empty() {
            return None;
        }
        self.namespaces.get(&glance())
    }
    /// Replaces its namespaces. Only for the thread itself.
    pub fn set_namespaces(&self, set: Option<Arc<Set>>) {
        drop(self.namespaces.replace(set));
    }
    /// Where its namespaces are shown. Only the thread itself replaces them.
    #[inline(always)]
    pub fn namespaces_shown(&self) -> &Shown<Set> {
        &self.namespaces
    }
    /// The thread ends: it is in no namespaces any more.
    #[inline]
    pub(super) fn drop_namespaces(&self) {
        if !self.namespaces.is_empty() {
            self.set_namespaces(None);
        }
    }
    /// Its name, NUL-padded (`TASK_COMM_LEN`).
    pub fn comm(&self) -> [u8; 16] {
        *self.comm.lock()
    }
    /// Sets the name. At most 15 bytes are kept.
    pub fn set_comm(&self, name: &[u8]) {
        let mut comm = [0; 16];
        let n = name.iter().position(|&b| b == 0).unwrap_or(name.len()).min(15);
        comm[..n].copy_from_slice(&name[..n]);
        super::events::renamed(self, comm);
        let mut own = self.comm.lock();
        *own = comm;
        for (half, bytes) in self.comm_now.iter().zip(halves(comm)) {
            half.store(bytes, Ordering::Relaxed);
        }
    }
    /// [`Self::comm`] in any context. While the name changes it may be half of each.
    #[inline]
    pub fn comm_now(&self) -> [u8; 16] {
        let mut comm = [0; 16];
        for (bytes, half) in comm.chunks_exact_mut(8).zip(&self.comm_now) {
            bytes.copy_from_slice(&half.load(Ordering::Relaxed).to_ne_bytes());
        }
        comm
    }
    /// Counts a page fault; `self` is the running thread. No page is read from storage, so none is a major
    /// fault.
    #[inline(always)]
    pub fn count_fault(&self) {
        let faults = self.minor_faults.load(Ordering::Relaxed);
        self.minor_faults.store(faults.wrapping_add(1), Ordering::Relaxed);
    }
    /// How many of its page faults were resolved (`ru_minflt`).
    pub fn minor_faults(&self) -> usize {
        self.minor_faults.load(Ordering::Relaxed)
    }
    /// Whether a signal, or work that counts as one, should end its interruptible sleep.
    #[inline]
    pub fn signal_pending(&self) -> bool {
        self.info
            .work
            .has(ThreadFlags::SIGPENDING.union(ThreadFlags::NOTIFY_SIGNAL))
    }
    /// Whether a fatal signal was sent, which ends even killable sleeps.
    #[inline]
    pub fn fatal_signal_pending(&self) -> bool {
        self.killed.load(Ordering::Relaxed) && self.signal_pending()
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        super::events::freed(self);
    }
}

/// A name as two words.
fn halves(comm: [u8; 16]) -> [u64; 2] {
    let (first, second) = comm.split_at(8);
    [first, second].map(|half| u64::from_ne_bytes(half.try_into().unwrap_or_default()))
}
