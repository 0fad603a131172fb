//! [`Task`]: one thread, of a program or of the kernel. What belongs to all threads of a program is in [`super::Process`].

use super::{Creds, Process, ThreadInfo};
use crate::fs::{FdTable, FsContext};
use crate::mm::{AddressSpace, KernelStack, MmSlot};
use crate::sched::entity::{ContextCell, SchedEntity};
use crate::signal::TaskSignals;
use crate::sync::{IrqSpinLock, OwnSlot, SpinLock};
use alloc::boxed::Box;
use alloc::sync::Arc;
use bitflags::bitflags;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use limen_entry::ThreadFlags;

bitflags! {
    /// What kind of thread it is and what became of it (`PF_*`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct TaskFlags: u32 {
        /// A kernel thread: never in user mode.
        const KTHREAD = 1 << 0;
        /// On its way out.
        const EXITING = 1 << 1;
        /// Forked and has not called exec since.
        const FORKNOEXEC = 1 << 2;
        /// Killed by a signal.
        const SIGNALED = 1 << 3;
        /// The idle thread of a CPU.
        const IDLE = 1 << 4;
        /// `PR_SET_NO_NEW_PRIVS`.
        const NO_NEW_PRIVS = 1 << 5;
        /// Used super-user privileges.
        const SUPERPRIV = 1 << 6;
        /// Became a user who had more threads than allowed: as long as that is so, it can't exec.
        const NPROC_EXCEEDED = 1 << 7;
    }
}

/// What a kernel thread runs.
pub type KernelFunction = Box<dyn FnOnce() + Send>;

/// How an interrupted call goes on in `restart_syscall`.
pub type RestartFunction = Box<dyn FnOnce() -> crate::syscall::SysResult + Send>;

/// What `restart_syscall` goes on with, if a call left something. Only the thread itself touches it.
pub struct Restart {
    /// Whether there is something: it nearly never is.
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
    /// The interrupted call goes on with `function`.
    pub fn set(&self, function: RestartFunction) {
        *self.function.lock() = Some(function);
        self.set.store(true, Ordering::Relaxed);
    }
    /// Takes it.
    pub fn take(&self) -> Option<RestartFunction> {
        if !self.set.load(Ordering::Relaxed) {
            return None;
        }
        self.set.store(false, Ordering::Relaxed);
        self.function.lock().take()
    }
    /// Nothing will be gone on with.
    #[inline]
    pub fn forget(&self) {
        if self.set.load(Ordering::Relaxed) {
            drop(self.take());
        }
    }
}

/// One thread.
#[repr(C)]
pub struct Task {
    /// What entry code and architecture look at; first, at the task's own address.
    pub info: ThreadInfo,
    /// Its restartable sequences. Near the start, where instructions with a short offset reach what is looked at most.
    pub rseq: crate::rseq::Thread,
    /// The saved registers while it is not running.
    pub context: ContextCell,
    /// The scheduler's part.
    pub sched: SchedEntity,
    /// Its kernel stack.
    pub stack: KernelStack,
    tid: AtomicI32,
    /// The process it belongs to.
    pub process: Arc<Process>,
    flags: AtomicU32,
    creds: OwnSlot<Creds>,
    mm: MmSlot,
    files: OwnSlot<FdTable>,
    fs: OwnSlot<FsContext>,
    comm: SpinLock<[u8; 16]>,
    /// Mask, private pending signals, alternate stack. Taken after the process's signal lock.
    pub signals: IrqSpinLock<TaskSignals>,
    /// A fatal signal was sent: sleeps that only death may end, end.
    pub killed: AtomicBool,
    /// Where to write 0 and wake a futex when the thread ends (`CLONE_CHILD_CLEARTID`), 0 for nowhere.
    pub clear_child_tid: AtomicUsize,
    /// Where the new thread writes its id first (`CLONE_CHILD_SETTID`), 0 for nowhere.
    pub set_child_tid: AtomicUsize,
    /// `set_robust_list`'s head.
    pub robust_list: AtomicUsize,
    /// Who waits for its priority-inheriting locks.
    pub pi: crate::sched::futex::PiOwner,
    /// What its `vfork`ing parent waits for.
    pub(super) vfork: SpinLock<Option<Arc<super::fork::VforkDone>>>,
    /// The signal its process's parent gets when it, the leader, ends (0: none).
    pub exit_signal: AtomicI32,
    /// The wait status it ended with.
    pub exit_code: AtomicI32,
    /// `PR_SET_PDEATHSIG`.
    pub parent_death_signal: AtomicI32,
    /// A kernel thread's function, taken when it first runs.
    pub kernel_function: SpinLock<Option<KernelFunction>>,
    /// The first process's first register file, until it returns to user mode for the first time.
    pub start_frame: SpinLock<Option<Box<crate::arch::frame::Frame>>>,
    /// What `restart_syscall` goes on with.
    pub restart: Restart,
    /// Start, CLOCK_MONOTONIC nanoseconds.
    pub start_ns: u64,
    /// `PR_SET_TIMERSLACK`, nanoseconds.
    pub timer_slack_ns: AtomicU64,
    /// What `ioprio_set` was told, kept for `ioprio_get`: no device of this kernel has a queue to order.
    pub io_priority: AtomicU32,
    /// `personality`.
    pub personality: AtomicU32,
    /// The sockets it is closing.
    pub closing: SpinLock<crate::net::unix::flight::Closing>,
    /// Faults served without and with waiting for storage (`ru_minflt`, `ru_majflt`).
    pub minor_faults: AtomicU64,
    /// See `minor_faults`.
    pub major_faults: AtomicU64,
}

/// What a new thread is made of; what it shares with its parent is an `Arc` of the same object.
pub struct NewTask {
    /// Its id.
    pub tid: i32,
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
    /// Its address space; `None` for kernel threads.
    pub mm: Option<Arc<AddressSpace>>,
    /// Its descriptors.
    pub files: Option<Arc<FdTable>>,
    /// Its directories and umask.
    pub fs: Option<Arc<FsContext>>,
    /// Its name, NUL-padded.
    pub comm: [u8; 16],
    /// Its signal state.
    pub signals: TaskSignals,
    /// The signal for the parent.
    pub exit_signal: i32,
}

impl Task {
    /// Makes a thread object; nobody knows of it yet. Not inlined: what it is made of and the whole of it are large together.
    #[inline(never)]
    pub fn new(new: NewTask) -> Arc<Self> {
        Arc::new(Self {
            info: ThreadInfo::new(),
            context: new.context,
            sched: new.sched,
            stack: new.stack,
            tid: AtomicI32::new(new.tid),
            process: new.process,
            flags: AtomicU32::new(new.flags.bits()),
            creds: OwnSlot::new(Some(new.creds)),
            mm: MmSlot::new(new.mm),
            files: OwnSlot::new(new.files),
            fs: OwnSlot::new(new.fs),
            comm: SpinLock::new(new.comm),
            signals: IrqSpinLock::new(new.signals),
            killed: AtomicBool::new(false),
            clear_child_tid: AtomicUsize::new(0),
            set_child_tid: AtomicUsize::new(0),
            robust_list: AtomicUsize::new(0),
            pi: crate::sched::futex::PiOwner::new(),
            vfork: SpinLock::new(None),
            exit_signal: AtomicI32::new(new.exit_signal),
            exit_code: AtomicI32::new(0),
            parent_death_signal: AtomicI32::new(0),
            kernel_function: SpinLock::new(None),
            start_frame: SpinLock::new(None),
            rseq: crate::rseq::Thread::new(),
            restart: Restart::new(),
            start_ns: crate::arch::time::now_ns(),
            timer_slack_ns: AtomicU64::new(50_000),
            io_priority: AtomicU32::new(0),
            personality: AtomicU32::new(0),
            closing: SpinLock::new(crate::net::unix::flight::Closing::new()),
            minor_faults: AtomicU64::new(0),
            major_faults: AtomicU64::new(0),
        })
    }

    /// A kernel thread that belongs to the kernel's own process. It does not run before the scheduler is told of it.
    /// `running`: for idle threads, which are running already when they get their object.
    pub fn new_kernel(name: &str, stack: KernelStack, context: ContextCell, idle: bool) -> Arc<Self> {
        let mut comm = [0; 16];
        let n = name.len().min(15);
        comm[..n].copy_from_slice(&name.as_bytes()[..n]);
        Self::new(NewTask {
            tid: 0,
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
            comm,
            signals: TaskSignals::new(),
            exit_signal: 0,
        })
    }

    /// The thread's id.
    #[inline]
    pub fn tid(&self) -> i32 {
        self.tid.load(Ordering::Relaxed)
    }
    pub(super) fn set_tid(&self, tid: i32) {
        self.tid.store(tid, Ordering::Relaxed);
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
    /// Sets flags.
    pub fn set_flags(&self, flags: TaskFlags) {
        self.flags.fetch_or(flags.bits(), Ordering::Relaxed);
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
    /// Its credentials; `CurrentTask` has a cheaper way to the running thread's own.
    pub fn creds(&self) -> Arc<Creds> {
        self.creds.get().unwrap_or_else(super::root_creds)
    }
    /// Replaces the credentials; only the thread itself does that.
    pub fn set_creds(&self, creds: Arc<Creds>) {
        self.process.real_uid.store(creds.uid, Ordering::Relaxed);
        drop(self.creds.replace(Some(creds)));
    }
    /// Where its credentials are kept.
    #[inline(always)]
    pub fn creds_slot(&self) -> &OwnSlot<Creds> {
        &self.creds
    }
    /// Its address space; `None` for kernel threads and threads past their end.
    #[inline]
    pub fn mm(&self) -> Option<Arc<AddressSpace>> {
        self.mm.get()
    }
    /// Where its address space is kept, for the memory room and the scheduler.
    #[inline(always)]
    pub fn mm_slot(&self) -> &MmSlot {
        &self.mm
    }
    /// Replaces the address space and returns the old one; the caller activates the new one and drops the old one afterwards.
    pub fn replace_mm(&self, mm: Option<Arc<AddressSpace>>) -> Option<Arc<AddressSpace>> {
        self.mm.replace(mm)
    }
    /// Where its descriptors are kept: empty for kernel threads and threads past their end.
    #[inline(always)]
    pub fn files_slot(&self) -> &OwnSlot<FdTable> {
        &self.files
    }
    /// Where its directories and umask are kept, likewise.
    #[inline(always)]
    pub fn fs_slot(&self) -> &OwnSlot<FsContext> {
        &self.fs
    }
    /// Its descriptors, if it has any (for `/proc`).
    pub fn try_files(&self) -> Option<Arc<FdTable>> {
        self.files.get()
    }
    /// Replaces the descriptors and returns the old ones, to be dropped by the caller.
    pub fn replace_files(&self, files: Option<Arc<FdTable>>) -> Option<Arc<FdTable>> {
        self.files.replace(files)
    }
    /// Its directories, if it has any (for `/proc`).
    pub fn try_fs(&self) -> Option<Arc<FsContext>> {
        self.fs.get()
    }
    /// Replaces directories and umask and returns the old ones.
    pub fn replace_fs(&self, fs: Option<Arc<FsContext>>) -> Option<Arc<FsContext>> {
        self.fs.replace(fs)
    }
    /// Its name, NUL-padded (`TASK_COMM_LEN`).
    pub fn comm(&self) -> [u8; 16] {
        *self.comm.lock()
    }
    /// Sets the name: at most 15 bytes are kept.
    pub fn set_comm(&self, name: &[u8]) {
        let mut comm = [0; 16];
        let n = name.iter().position(|&b| b == 0).unwrap_or(name.len()).min(15);
        comm[..n].copy_from_slice(&name[..n]);
        *self.comm.lock() = comm;
    }
    /// Whether a signal (or work that counts as one) should interrupt its sleep.
    #[inline]
    pub fn signal_pending(&self) -> bool {
        self.info
            .work
            .has(ThreadFlags::SIGPENDING.union(ThreadFlags::NOTIFY_SIGNAL))
    }
    /// Whether it was killed: even killable sleeps end.
    #[inline]
    pub fn fatal_signal_pending(&self) -> bool {
        self.killed.load(Ordering::Relaxed) && self.signal_pending()
    }
}
