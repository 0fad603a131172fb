//! Making threads and processes: fork, vfork, clone, clone3.

use super::process::TREE;
use super::rlimit::{INFINITY, which};
use super::thread::NewTask;
use super::{Process, Task, TaskFlags, creds, current, pid, user};
use crate::arch::{self, frame::Frame, switch::Context};
use crate::fs::FsContext;
use crate::mm::KernelStack;
use crate::mm::user::UserPtr;
use crate::sched::entity::{ContextCell, SchedEntity, with_current_context};
use crate::sched::{self, WaitQueue};
use crate::signal::{self, AltStack, ProcessSignals, TaskSignals};
use crate::syscall::SysResult;
use alloc::sync::{Arc, Weak};
use bitflags::bitflags;
use core::sync::atomic::{AtomicBool, Ordering};
use limen_linux_abi::Errno;

bitflags! {
    /// `CLONE_*` (`linux/sched.h`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CloneFlags: u64 {
        /// Share the address space.
        const VM = 0x100;
        /// Share directories and umask.
        const FS = 0x200;
        /// Share descriptors.
        const FILES = 0x400;
        /// Share signal actions.
        const SIGHAND = 0x800;
        /// Give the parent a pidfd.
        const PIDFD = 0x1000;
        /// Let tracing go on in the child.
        const PTRACE = 0x2000;
        /// The parent waits until the child has called exec or ended.
        const VFORK = 0x4000;
        /// The child's parent is the caller's parent.
        const PARENT = 0x8000;
        /// A thread of the same process.
        const THREAD = 0x1_0000;
        /// A new mount namespace.
        const NEWNS = 0x2_0000;
        /// Share System V semaphore adjustments.
        const SYSVSEM = 0x4_0000;
        /// Set thread-local storage.
        const SETTLS = 0x8_0000;
        /// Store the child's id in the parent's memory.
        const PARENT_SETTID = 0x10_0000;
        /// Clear and wake the child's id word when the child ends.
        const CHILD_CLEARTID = 0x20_0000;
        /// Unused (`CLONE_DETACHED`).
        const DETACHED = 0x40_0000;
        /// A tracer can't force tracing on the child.
        const UNTRACED = 0x80_0000;
        /// Store the child's id in the child's memory.
        const CHILD_SETTID = 0x100_0000;
        /// A new cgroup namespace.
        const NEWCGROUP = 0x200_0000;
        /// A new UTS namespace.
        const NEWUTS = 0x400_0000;
        /// A new IPC namespace.
        const NEWIPC = 0x800_0000;
        /// A new user namespace.
        const NEWUSER = 0x1000_0000;
        /// A new PID namespace.
        const NEWPID = 0x2000_0000;
        /// A new network namespace.
        const NEWNET = 0x4000_0000;
        /// Share the I/O context.
        const IO = 0x8000_0000;
        /// Signal handlers back to default (clone3).
        const CLEAR_SIGHAND = 0x1_0000_0000;
        /// Into a given cgroup (clone3).
        const INTO_CGROUP = 0x2_0000_0000;
        /// A new time namespace.
        const NEWTIME = 0x80;
    }
}

impl CloneFlags {
    /// All namespaces.
    pub const NAMESPACES: Self = Self::NEWNS
        .union(Self::NEWCGROUP)
        .union(Self::NEWUTS)
        .union(Self::NEWIPC)
        .union(Self::NEWUSER)
        .union(Self::NEWPID)
        .union(Self::NEWNET);
}

/// What is to be made.
#[derive(Clone, Copy, Debug)]
pub struct CloneArgs {
    /// What is shared.
    pub flags: CloneFlags,
    /// Where the pidfd goes.
    pub pidfd: usize,
    /// The child's id word in the child.
    pub child_tid: usize,
    /// The child's id word in the parent.
    pub parent_tid: usize,
    /// The parent's signal at the child's end; 0: none.
    pub exit_signal: i32,
    /// The child's stack pointer; 0: the parent's.
    pub stack: usize,
    /// Thread-local storage.
    pub tls: usize,
    /// The id the child must get (`set_tid`).
    pub tid: Option<i32>,
}

impl CloneArgs {
    /// What `fork` makes.
    pub fn fork() -> Self {
        Self {
            flags: CloneFlags::empty(),
            pidfd: 0,
            child_tid: 0,
            parent_tid: 0,
            exit_signal: signal::SIGCHLD as i32,
            stack: 0,
            tls: 0,
            tid: None,
        }
    }
}

/// What a `vfork`ing parent waits for: its child has called exec or ended.
pub struct VforkDone {
    done: AtomicBool,
    wait: WaitQueue,
}

impl VforkDone {
    /// Lets the parent go on.
    pub(super) fn complete(&self) {
        self.done.store(true, Ordering::Release);
        self.wait.wake_all();
    }
}

/// How many threads the machine's memory bears (`threads-max`): their stacks may take an eighth of it.
pub fn max_threads() -> u64 {
    let pages_per_stack = (1u64 << crate::mm::STACK_SHIFT) >> crate::mm::PAGE_SHIFT;
    (crate::mm::total_pages() as u64 / (8 * pages_per_stack.max(1))).clamp(32, pid::PID_MAX_LIMIT as u64 / 2)
}

fn check_flags(args: &CloneArgs) -> Result<(), Errno> {
    use CloneFlags as F;
    let flags = args.flags;
    let both = |a: F, b: F| flags.contains(a) && flags.contains(b);
    if both(F::NEWNS, F::FS)
        || both(F::NEWUSER, F::FS)
        || flags.contains(F::THREAD) && !flags.contains(F::SIGHAND)
        || flags.contains(F::SIGHAND) && !flags.contains(F::VM)
        || flags.contains(F::THREAD) && flags.intersects(F::NEWUSER | F::NEWPID)
        || both(F::CLEAR_SIGHAND, F::SIGHAND)
        || flags.contains(F::PARENT) && current().process.is_init()
    {
        return Err(Errno::EINVAL);
    }
    check_namespaces(flags)
}

/// There is one namespace of each kind: asking for another is refused as by a Linux built without them.
pub(super) fn check_namespaces(flags: CloneFlags) -> Result<(), Errno> {
    if flags.intersects(CloneFlags::NAMESPACES | CloneFlags::NEWTIME) {
        let allowed = current().creds().capable(creds::cap::SYS_ADMIN) || flags.contains(CloneFlags::NEWUSER);
        return Err(if allowed { Errno::EINVAL } else { Errno::EPERM });
    }
    Ok(())
}

/// Gives back what a half-made thread has taken when making it fails.
struct Undo<'a> {
    /// Who keeps signals for the new process.
    keeper: Option<&'a Task>,
    uid: Option<u32>,
    tid: Option<i32>,
}

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        if let Some(keeper) = self.keeper.take() {
            signal::forget_sent_to_many(keeper);
        }
        if let Some(uid) = self.uid.take() {
            user::uncharge(uid);
        }
        if let Some(tid) = self.tid.take() {
            pid::release(tid);
        }
    }
}

/// Makes a thread or process from the caller, whose registers are `frame`. Returns its id.
pub fn clone(frame: &Frame, args: &CloneArgs) -> SysResult {
    use CloneFlags as F;
    check_flags(args)?;
    let parent = current();
    let flags = args.flags;
    // A signal that is here already comes before the fork. One that comes from now on comes after it, or a program with a fast timer would never get
    // its child: to the parent, and if it was sent to several processes to the child, too.
    let mut undo = Undo {
        keeper: None,
        uid: None,
        tid: None,
    };
    if !flags.contains(F::THREAD) {
        signal::keep_sent_to_many(&parent);
        undo.keeper = Some(&parent);
    }
    if parent.signal_pending() {
        return Err(Errno::ERESTARTNOINTR);
    }
    let creds = parent.creds();
    let exempt =
        creds.uid == 0 || creds.capable(creds::cap::SYS_RESOURCE) || creds.capable(creds::cap::SYS_ADMIN);
    let limit = if exempt {
        INFINITY
    } else {
        parent.process.limits.soft(which::NPROC)
    };
    user::charge(creds.uid, limit)?;
    undo.uid = Some(creds.uid);
    if parent.flags().contains(TaskFlags::NPROC_EXCEEDED) {
        parent.clear_flags(TaskFlags::NPROC_EXCEEDED);
    }
    if flags.contains(F::SETTLS) && arch::TLS_END.is_some_and(|end| args.tls >= end) {
        return Err(Errno::EPERM);
    }

    let stack = KernelStack::new().ok_or(Errno::ENOMEM)?;
    let old_mm = parent.mm();
    let mm = match &old_mm {
        Some(mm) if flags.contains(F::VM) => Some(mm.clone()),
        Some(mm) => Some(mm.fork()?),
        None => None,
    };
    let files = match parent.try_files() {
        Some(files) if flags.contains(F::FILES) => Some(files),
        Some(files) => Some(files.copy()?),
        None => None,
    };
    let fs = match parent.try_fs() {
        Some(fs) if flags.contains(F::FS) => Some(fs),
        Some(fs) => Some(FsContext::copy(&fs)),
        None => None,
    };
    let tid = match args.tid {
        Some(tid) => pid::allocate_exact(tid)?,
        None => pid::allocate()?,
    };
    undo.tid = Some(tid);

    let mut signals = TaskSignals::new();
    {
        let own = parent.signals.lock();
        signals.blocked = own.blocked;
        // A thread on the same memory must not run handlers on the same stack.
        if !flags.contains(F::VM) || flags.contains(F::VFORK) {
            signals.altstack = own.altstack;
        } else {
            signals.altstack = AltStack::default();
        }
    }
    let process = if flags.contains(F::THREAD) {
        parent.process.clone()
    } else {
        new_process(&parent, tid, args)?
    };

    let context = child_context(&stack, frame, args);

    let mut task_flags = TaskFlags::FORKNOEXEC;
    task_flags |= parent.flags() & TaskFlags::NO_NEW_PRIVS;
    let task = Task::new(NewTask {
        tid,
        process,
        flags: task_flags,
        context,
        sched: SchedEntity::fork_from(&parent.sched),
        stack,
        creds,
        mm,
        files,
        fs,
        comm: parent.comm(),
        signals,
        exit_signal: 0,
    });
    if flags.contains(F::CHILD_SETTID) {
        task.set_child_tid.store(args.child_tid, Ordering::Relaxed);
    }
    if flags.contains(F::CHILD_CLEARTID) {
        task.clear_child_tid.store(args.child_tid, Ordering::Relaxed);
    }
    task.personality
        .store(parent.personality.load(Ordering::Relaxed), Ordering::Relaxed);
    task.timer_slack_ns
        .store(parent.timer_slack_ns.load(Ordering::Relaxed), Ordering::Relaxed);
    task.io_priority
        .store(parent.io_priority.load(Ordering::Relaxed), Ordering::Relaxed);
    crate::rseq::fork(&parent, &task, !flags.contains(F::VM));
    let vfork = flags.contains(F::VFORK).then(|| {
        Arc::new(VforkDone {
            done: AtomicBool::new(false),
            wait: WaitQueue::new(),
        })
    });
    (*task.vfork.lock()).clone_from(&vfork);

    let pidfd = match flags.contains(F::PIDFD) {
        true => Some(super::pidfd::open(&task.process, 0)?),
        false => None,
    };
    if let Err(e) = publish(&parent, &task, flags) {
        if let Some(fd) = pidfd {
            let _ = parent.files().close(fd);
        }
        return Err(e);
    }
    core::mem::forget(undo);

    // The child exists now: faults on these two words are the caller's problem, as in Linux.
    if flags.contains(F::PARENT_SETTID) {
        let _ = UserPtr::<i32>::new(args.parent_tid).write(tid);
    }
    if let Some(fd) = pidfd {
        let _ = UserPtr::<i32>::new(args.pidfd).write(fd);
    }
    sched::wake_new_task(&task);
    if let Some(vfork) = vfork {
        drop(task);
        // Only death ends this wait early; then nobody needs the answer.
        let _ = vfork
            .wait
            .wait_until_killable(|| vfork.done.load(Ordering::Acquire));
    }
    Ok(tid as usize)
}

/// Where a new thread starts: as the caller, whose registers are `frame`, with 0 for the call's result. Not inlined: frames and
/// contexts are large.
#[inline(never)]
fn child_context(stack: &KernelStack, frame: &Frame, args: &CloneArgs) -> ContextCell {
    let mut child_frame = frame.clone();
    child_frame.set_result(Ok(0));
    let sp = (args.stack != 0).then_some(args.stack);
    if let Some(sp) = sp {
        child_frame.set_sp(sp);
    }
    let mut context = Context::new(stack.top(), &child_frame);
    let tls = args.flags.contains(CloneFlags::SETTLS).then_some(args.tls);
    with_current_context(|parent| context.fork_from(parent, sp, tls));
    ContextCell::new(context)
}

/// The process of a new program: limits, group and actions from its parent's. `ENOMEM`.
#[inline(never)]
fn new_process(parent: &Arc<Task>, tid: i32, args: &CloneArgs) -> Result<Arc<Process>, Errno> {
    use CloneFlags as F;
    let old = &parent.process;
    let mut actions = old.signals.lock().actions.clone();
    if !args.flags.contains(F::SIGHAND) {
        actions = actions.copy()?;
        if args.flags.contains(F::CLEAR_SIGHAND) {
            actions.forget_handlers();
        }
    }
    let (real_parent, exit_signal) = if args.flags.contains(F::PARENT) {
        (
            old.family().parent.clone(),
            old.exit_signal.load(Ordering::Relaxed),
        )
    } else {
        (Arc::downgrade(old), args.exit_signal)
    };
    let process = Process::new(
        tid,
        &real_parent,
        old.group(),
        old.limits.duplicate(),
        ProcessSignals::with(actions),
        exit_signal,
    );
    process.set_exe(old.exe());
    process
        .real_uid
        .store(old.real_uid.load(Ordering::Relaxed), Ordering::Relaxed);
    process
        .oom_score_adj
        .store(old.oom_score_adj.load(Ordering::Relaxed), Ordering::Relaxed);
    Ok(process)
}

/// Makes the new thread known: from here on it can be found, signalled and waited for.
fn publish(parent: &Arc<Task>, task: &Arc<Task>, flags: CloneFlags) -> Result<(), Errno> {
    let _tree = TREE.lock();
    let mut shared = parent.process.signals.lock();
    // The process is ending, or its other threads are: the fork did not happen.
    if shared.group_exit.is_some() || shared.exec.is_some() {
        return Err(Errno::ERESTARTNOINTR);
    }
    if flags.contains(CloneFlags::THREAD) {
        signal::stop::join(parent, task, &mut shared);
        task.process.thread_starts();
        task.process.with_threads(|threads| threads.push(task.clone()));
        pid::register(task, false);
        return Ok(());
    }
    drop(shared);
    let process = &task.process;
    process.with_threads(|threads| threads.push(task.clone()));
    // The group and the parent may have changed since they were copied.
    let group = parent.process.group();
    let real_parent: Weak<Process> = if flags.contains(CloneFlags::PARENT) {
        parent.process.family().parent.clone()
    } else {
        Arc::downgrade(&parent.process)
    };
    let real_parent = match real_parent.upgrade() {
        Some(real_parent) => real_parent,
        None => super::process::init_process().unwrap_or_else(|| parent.process.clone()),
    };
    process.adopt(&real_parent);
    real_parent.family().children.push(process.clone());
    process.enter_group(group);
    // Last: who looks at the group now finds the new process itself.
    signal::give_sent_to_many(parent, task);
    pid::register(task, true);
    Ok(())
}

/// The first thing a new user thread does in its own context; `frame` is what it returns to user mode with.
pub fn first_return(frame: &mut Frame) {
    let task = current();
    if let Some(start) = task.start_frame.lock().take() {
        *frame = *start;
    }
    let at = task.set_child_tid.swap(0, Ordering::Relaxed);
    if at != 0 {
        let _ = UserPtr::<i32>::new(at).write(task.tid());
    }
    crate::rseq::first_return(&task);
}

/// The running thread's descriptors are its own from now on: a copy, if another thread has them, too. If not they stay as they are, since with the
/// last user of a table its record locks go.
pub fn unshare_files() -> Result<(), Errno> {
    let task = current();
    let Some(files) = task.try_files() else {
        return Ok(());
    };
    // Whoever else holds a count may be only looking (`/proc`).
    let has = |other: &Arc<Task>| !Arc::ptr_eq(other, &task) && other.files_slot().holds(&files);
    if Arc::strong_count(&files) > 2 && pid::all_processes().iter().any(|p| p.threads().iter().any(has)) {
        drop(task.replace_files(Some(files.copy()?)));
    }
    Ok(())
}

/// `unshare`: the caller stops sharing what it shared.
pub fn unshare(flags: CloneFlags) -> SysResult {
    use CloneFlags as F;
    let allowed = F::THREAD | F::FS | F::FILES | F::SIGHAND | F::VM | F::SYSVSEM | F::NAMESPACES | F::NEWTIME;
    if !(flags & !allowed).is_empty() {
        return Err(Errno::EINVAL);
    }
    let task = current();
    // These can't be unshared by one of several threads.
    if flags.intersects(F::THREAD | F::SIGHAND | F::VM) && task.process.thread_count() > 1 {
        return Err(Errno::EINVAL);
    }
    check_namespaces(flags)?;
    if flags.contains(F::FILES) {
        unshare_files()?;
    }
    if flags.contains(F::FS)
        && let Some(fs) = task.try_fs()
    {
        drop(task.replace_fs(Some(FsContext::copy(&fs))));
    }
    Ok(0)
}
