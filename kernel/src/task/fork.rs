//! Making threads and processes: fork, vfork, clone, clone3.

use super::ns::UserRef;
use super::ns::pid::Numbers;
use super::process::TREE;
use super::rlimit::which;
use super::session::member_node;
use super::thread::NewTask;
use super::{
    CurrentTask, Process, Task, TaskFlags, creds, current, everyone, ns, pid, ptrace, seccomp, user,
};
use crate::arch::{self, frame::Frame, switch::Context, syscalls::Segment};
use crate::fs::{FdTable, File, FsContext};
use crate::mm::KernelStack;
use crate::mm::user::UserPtr;
use crate::sched::entity::{ContextCell, SchedEntity, with_current_context};
use crate::sched::{self, WaitQueue};
use crate::signal::{self, ProcessSignals, TaskSignals};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use bitflags::bitflags;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use limen_linux_abi::{Errno, SysResult};

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

/// What `clone` is to make.
#[derive(Clone, Debug)]
pub struct CloneArgs {
    /// What parent and child share, and other options.
    pub flags: CloneFlags,
    /// The address for the pidfd.
    pub pidfd: usize,
    /// The address of the child's id word in the child's memory.
    pub child_tid: usize,
    /// The address of the child's id word in the parent's memory.
    pub parent_tid: usize,
    /// The signal for the parent when the child ends. 0: none.
    pub exit_signal: i32,
    /// The child's stack pointer. 0: that of the parent.
    pub stack: usize,
    /// The child's thread-local storage.
    pub tls: usize,
    /// The child's segment, which calls of 32-bit programs give instead.
    pub segment: Option<Segment>,
    /// The ids that the child must get (`set_tid`), from its PID namespace upwards.
    /// Mostly none.
    pub tids: Vec<i32>,
}

impl CloneArgs {
    /// How many levels of PID namespaces there are at most below the initial one: so many ids can be chosen.
    pub const MOST_TIDS: usize = super::ns::pid::DEEPEST as usize;

    /// The arguments for a `fork`.
    pub fn fork() -> Self {
        Self {
            flags: CloneFlags::empty(),
            pidfd: 0,
            child_tid: 0,
            parent_tid: 0,
            exit_signal: signal::SIGCHLD as i32,
            stack: 0,
            tls: 0,
            segment: None,
            tids: Vec::new(),
        }
    }
    /// `CLONE_SETTLS` of a call of 32-bit programs: the storage is what a segment's description at that
    /// address says. `EINVAL`, `EFAULT`.
    pub fn with_segment(mut self) -> Result<Self, Errno> {
        if self.flags.contains(CloneFlags::SETTLS) {
            self.segment = Some(arch::syscalls::read_segment(self.tls)?);
            self.flags.remove(CloneFlags::SETTLS);
        }
        Ok(self)
    }
}

/// The event for which a parent waits in `vfork`: its child has called exec or has ended.
pub struct VforkDone {
    done: AtomicBool,
    wait: WaitQueue,
}

impl VforkDone {
    /// Wakes the parent.
    pub(super) fn complete(&self) {
        self.done.store(true, Ordering::Release);
        self.wait.wake_all();
    }
}

/// How many threads may exist (`threads-max`): by default so many that their stacks take an eighth of memory.
pub fn max_threads() -> u64 {
    match MAX_THREADS.load(Ordering::Relaxed) {
        0 => threads_of_memory(),
        set => set,
    }
}

/// The value that `threads-max` was set to. 0: the default.
static MAX_THREADS: AtomicU64 = AtomicU64::new(0);

/// Sets [`max_threads`].
pub fn set_max_threads(most: u64) {
    MAX_THREADS.store(most, Ordering::Relaxed);
}

fn threads_of_memory() -> u64 {
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
        || flags.contains(F::THREAD)
            && (flags.intersects(F::NEWUSER | F::NEWPID) || ns::pid::has_others_for_children())
        || flags.contains(F::PIDFD) && flags.intersects(F::DETACHED | F::THREAD)
        || both(F::PIDFD, F::PARENT_SETTID) && args.pidfd == args.parent_tid
        || both(F::CLEAR_SIGHAND, F::SIGHAND)
        || flags.contains(F::PARENT) && current().process.is_ns_init()
    {
        return Err(Errno::EINVAL);
    }
    // There are no cgroups, so no descriptor stands for one.
    if flags.contains(F::INTO_CGROUP) {
        return Err(Errno::EBADF);
    }
    Ok(())
}

/// Undoes what a half-made thread has taken if making it fails.
struct Undo<'a> {
    /// The thread that keeps signals for the new process.
    keeper: Option<&'a Task>,
    /// Whose thread it is counted as.
    user: Option<(UserRef, u32)>,
    tid: Option<i32>,
}

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        if let Some(keeper) = self.keeper.take() {
            signal::forget_sent_to_many(keeper);
        }
        if let Some((ns, uid)) = self.user.take() {
            user::uncharge(&ns, uid);
        }
        if let Some(tid) = self.tid.take() {
            pid::release(tid);
        }
    }
}

/// Makes a thread or a process of the caller, whose registers are `frame`. Returns its id. May sleep.
#[inline(never)]
pub fn kernel_clone(frame: &Frame, args: &CloneArgs) -> SysResult {
    use CloneFlags as F;
    check_flags(args)?;
    let parent = current();
    let flags = args.flags;
    // A signal that is pending already comes before the fork: the call is restarted. A later one comes after
    // it, since else a program with a fast timer would never get its child. It goes to the parent and, if it
    // was sent to several processes, also to the child.
    let mut undo = Undo {
        keeper: None,
        user: None,
        tid: None,
    };
    if !flags.contains(F::THREAD) {
        signal::keep_sent_to_many(&parent);
        undo.keeper = Some(&parent);
    }
    if parent.signal_pending() {
        return Err(Errno::ERESTARTNOINTR);
    }
    let mut next = match flags.intersects(ns::change::ALL) {
        true => Some(ns::change::for_clone(&parent, flags)?),
        false => None,
    };
    let creds = next
        .as_ref()
        .map_or_else(|| parent.creds(), |next| next.creds.clone());
    // The child counts as its user's; whether the limit holds for the caller is asked of the caller, who may
    // be in another user namespace than the child.
    let exempt = creds.uid == 0
        || parent
            .with_creds(|own| own.capable(creds::cap::SYS_RESOURCE) || own.capable(creds::cap::SYS_ADMIN));
    let limit = if exempt {
        user::Limit::NONE
    } else {
        user::Limit::of(parent.process.limits.soft(which::NPROC))
    };
    user::charge(&creds, limit)?;
    undo.user = Some((creds.user.clone(), creds.uid));
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
    let namespaces = match &mut next {
        Some(next) => next.for_child(&fs, flags)?,
        None => ns::change::inherited(&parent),
    };
    let namespaces = match flags.contains(F::VM) {
        true => namespaces,
        false => ns::time::for_new_process(namespaces, mm.as_deref()),
    };
    let pid_ns = ns::pid::of_children(namespaces.as_deref());
    let pid::Taken { number: tid, numbers } = pid::allocate_in(&pid_ns, &args.tids)?;
    undo.tid = Some(tid);
    let shown = pid::number_of(tid, &numbers, parent.pid_ns());

    let signals = {
        let own = parent.signals.lock();
        let mut signals = TaskSignals::new(own.pending.account());
        signals.blocked = own.blocked;
        // A thread with the same memory must not run handlers on the same stack.
        if !flags.contains(F::VM) || flags.contains(F::VFORK) {
            signals.altstack = own.altstack;
        }
        signals
    };
    let process = if flags.contains(F::THREAD) {
        parent.process.clone()
    } else {
        new_process(&parent, tid, &numbers, args)?
    };

    let context = child_context(&stack, frame, args);

    let mut task_flags = TaskFlags::FORKNOEXEC;
    task_flags |= parent.flags() & TaskFlags::NO_NEW_PRIVS;
    let task = Task::new(NewTask {
        tid,
        numbers,
        process,
        flags: task_flags,
        context,
        sched: SchedEntity::fork_from(&parent.sched),
        stack,
        creds,
        mm,
        files,
        fs,
        namespaces,
        comm: parent.comm(),
        signals,
        exit_signal: 0,
    });
    if flags.contains(F::NEWUSER) {
        signal::charge_to_user(&task, &task.creds());
    }
    if flags.contains(F::CHILD_SETTID) {
        task.set_child_tid.store(args.child_tid, Ordering::Relaxed);
    }
    if flags.contains(F::CHILD_CLEARTID) {
        task.clear_child_tid.store(args.child_tid, Ordering::Relaxed);
    }
    task.personality
        .store(parent.personality.load(Ordering::Relaxed), Ordering::Relaxed);
    super::calls::inherit(&parent, &task);
    task.inherit_timer_slack(&parent);
    task.inherit_io(&parent, flags.contains(F::IO));
    super::audit::inherit(&parent, &task);
    crate::rseq::fork(&parent, &task, !flags.contains(F::VM));
    let vfork = flags.contains(F::VFORK).then(|| {
        Arc::new(VforkDone {
            done: AtomicBool::new(false),
            wait: WaitQueue::new(),
        })
    });
    (*task.vfork.lock()).clone_from(&vfork);

    let pidfd = match flags.contains(F::PIDFD) {
        true => Some(NewPidfd::new(&parent, &task, args.pidfd)?),
        false => None,
    };
    let (mut event, mut traced) = (None, false);
    if parent.trace.is_traced() {
        event = ptrace::fork_event(&parent, flags, args.exit_signal);
        traced = event.is_some() || flags.contains(F::PTRACE);
        ptrace::room_for_child(&parent)?;
    }
    publish(&parent, &task, flags)?;
    drop(undo.user.take());
    core::mem::forget(undo);
    super::adjustments::inherit(&parent, &task, flags.contains(F::SYSVSEM));
    if traced {
        ptrace::inherit(&parent, &task);
    }
    super::patch::inherit(&task);
    super::events::may_trace_calls(&task);
    super::audit::may_begin(&task);
    super::events::forked(&parent, &task, flags.bits());
    if let Some(pidfd) = pidfd {
        pidfd.open();
    }

    // The child exists now. As on Linux, an error of writing the word is ignored.
    if flags.contains(F::PARENT_SETTID) {
        let _ = UserPtr::<i32>::new(args.parent_tid).write(shown);
    }
    let child = task.id();
    sched::wake_new_task(&task);
    drop(task);
    if let Some(event) = event {
        ptrace::event(event, ptrace::seen_by_tracer(&parent, &child));
    }
    if let Some(vfork) = vfork {
        // Only a fatal signal ends this wait early, and then nobody needs the result.
        let _ = vfork
            .wait
            .wait_until_killable(|| vfork.done.load(Ordering::Acquire));
        if parent.trace.is_traced() {
            ptrace::event(ptrace::Event::VforkDone, ptrace::seen_by_tracer(&parent, &child));
        }
    }
    Ok(shown as usize)
}

/// A descriptor for the child, whose number the program has been told. If it is dropped before it is opened,
/// the number is free again.
struct NewPidfd {
    files: Arc<FdTable>,
    fd: i32,
    file: Option<Arc<File>>,
    opened: bool,
}

impl NewPidfd {
    /// Reserves a number and writes it to `at`. `EMFILE`, `EFAULT`.
    #[inline(never)]
    fn new(parent: &CurrentTask, child: &Task, at: usize) -> Result<Self, Errno> {
        let files = parent.files();
        let mut new = Self {
            fd: files.reserve(true)?,
            file: None,
            files,
            opened: false,
        };
        new.file = Some(super::pidfd::file(&child.process, 0)?);
        UserPtr::<i32>::new(at).write(new.fd)?;
        Ok(new)
    }

    /// The child exists: the descriptor becomes usable.
    fn open(mut self) {
        if let Some(file) = self.file.take() {
            self.files.fill(self.fd, file);
            self.opened = true;
        }
    }
}

impl Drop for NewPidfd {
    fn drop(&mut self) {
        if !self.opened {
            self.files.give_back(self.fd);
        }
    }
}

/// Where a new thread starts: like its caller, whose registers are `frame`, but with 0 as the result of the
/// call. Not inlined, because frames and contexts are large.
#[inline(never)]
fn child_context(stack: &KernelStack, frame: &Frame, args: &CloneArgs) -> ContextCell {
    let mut child_frame = frame.clone();
    child_frame.set_result(Ok(0));
    if current().trace.steps() {
        // Its maker is stepped through; nobody waits for the child's traps.
        arch::regset::stepping(&mut child_frame, &mut Context::running(), None);
    }
    let sp = (args.stack != 0).then_some(args.stack);
    if let Some(sp) = sp {
        child_frame.set_sp(sp);
    }
    let mut context = Context::new(stack.top(), &child_frame);
    let tls = args.flags.contains(CloneFlags::SETTLS).then_some(args.tls);
    with_current_context(|parent| context.fork_from(parent, sp, tls));
    if let Some(segment) = &args.segment {
        arch::syscalls::give_segment(&mut context, segment);
    }
    ContextCell::new(context)
}

/// The process of a new program, with limits, group and actions of its parent. `ENOMEM`.
#[inline(never)]
fn new_process(
    parent: &Arc<Task>,
    tid: i32,
    numbers: &Option<Arc<Numbers>>,
    args: &CloneArgs,
) -> Result<Arc<Process>, Errno> {
    use CloneFlags as F;
    let old = &parent.process;
    let (mut actions, account) = {
        let shared = old.signals.lock();
        (shared.actions.clone(), shared.pending.account())
    };
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
        {
            let mut signals = ProcessSignals::with(actions, account);
            signals.unkillable = numbers.as_ref().is_some_and(|numbers| numbers.own() == 1);
            signals
        },
        exit_signal,
        numbers.clone(),
    );
    process.set_exe(old.exe());
    process
        .real_uid
        .store(old.real_uid.load(Ordering::Relaxed), Ordering::Relaxed);
    process
        .saved_uid
        .store(old.saved_uid.load(Ordering::Relaxed), Ordering::Relaxed);
    for (new, old) in [
        (&process.oom_score_adj, &old.oom_score_adj),
        (&process.oom_score_adj_min, &old.oom_score_adj_min),
    ] {
        new.store(old.load(Ordering::Relaxed), Ordering::Relaxed);
    }
    Ok(process)
}

/// Makes the new thread known: from here on it can be found, signalled and waited for.
fn publish(parent: &Arc<Task>, task: &Arc<Task>, flags: CloneFlags) -> Result<(), Errno> {
    if flags.contains(CloneFlags::THREAD) {
        return publish_thread(parent, task);
    }
    let process = &task.process;
    let (child, member) = (process.child_node(), member_node(process));
    let mut waited = None;
    let (place, _tree) = loop {
        let place = parent.process.group().reserve();
        let Some(tree) = everyone::may_enter(TREE.lock(), &mut waited) else {
            continue;
        };
        if place.is_behind(&parent.process) {
            break (place, tree);
        }
        // The parent's group has changed meanwhile.
    };
    if process.pid_ns.as_ref().is_some_and(|ns| ns.is_closed()) {
        return Err(Errno::ENOMEM);
    }
    let shared = parent.process.signals.lock();
    // The process, or all its other threads, are ending: the fork fails.
    if shared.group_exit.is_some() || shared.exec.is_some() {
        return Err(Errno::ERESTARTNOINTR);
    }
    seccomp::inherit(&shared, parent, task);
    drop(shared);
    if process.is_ns_init()
        && let Some(ns) = &process.pid_ns
    {
        ns.set_init(process);
    }
    process.with_threads(|threads| threads.push(task.clone()));
    // The parent may have a new parent since then, for which it ends with another signal.
    let sibling = flags.contains(CloneFlags::PARENT);
    let (real_parent, creator): (Weak<Process>, i32) = if sibling {
        let exit_signal = parent.process.exit_signal.load(Ordering::Relaxed);
        process.exit_signal.store(exit_signal, Ordering::Relaxed);
        (parent.process.family().parent.clone(), parent.process.creator())
    } else {
        (Arc::downgrade(&parent.process), parent.tid())
    };
    if !sibling && !parent.flags().contains(TaskFlags::HAS_CHILDREN) {
        parent.set_flags(TaskFlags::HAS_CHILDREN);
    }
    let real_parent = match real_parent.upgrade() {
        Some(real_parent) => real_parent,
        None => super::process::init_process().unwrap_or_else(|| parent.process.clone()),
    };
    process.adopt(&real_parent);
    process.set_creator(creator);
    real_parent.family().children.insert(child);
    process.enter_group(place, member);
    // Comes last: a sender to the group now finds the new process itself.
    signal::give_sent_to_many(parent, task);
    pid::register(task, true);
    Ok(())
}

/// [`publish`] for one more thread of the same process.
fn publish_thread(parent: &Arc<Task>, task: &Arc<Task>) -> Result<(), Errno> {
    let process = &task.process;
    loop {
        let tree = TREE.lock();
        let mut shared = process.signals.lock();
        if shared.group_exit.is_some() || shared.exec.is_some() {
            return Err(Errno::ERESTARTNOINTR);
        }
        // Memory is allocated without locks, and only if there is no room. Other threads may use it up again.
        if has_no_room(&process.threads_under(&shared)) {
            drop((shared, tree));
            process.room_for_thread()?;
            continue;
        }
        signal::stop::join(parent, task, &mut shared);
        process.thread_starts();
        seccomp::inherit(&shared, parent, task);
        process.threads_under(&shared).push(task.clone());
        pid::register(task, false);
        return Ok(());
    }
}

fn has_no_room(threads: &Vec<Arc<Task>>) -> bool {
    threads.len() == threads.capacity()
}

/// The first thing that a new user thread does. `frame` has the registers with which it will enter user mode.
pub fn first_return(frame: &mut Frame) {
    let task = current();
    if let Some(start) = task.start_frame.lock().take() {
        *frame = *start;
    }
    let at = task.set_child_tid.swap(0, Ordering::Relaxed);
    if at != 0 {
        let _ = UserPtr::<i32>::new(at).write(task.own_tid());
    }
    crate::rseq::first_return(&task);
}
