//! Who traces whom.

use super::{Event, Options};
use crate::mm::reserve::room_behind;
use crate::signal::{self, Besides, SIGCHLD, SIGKILL, SIGSTOP, SigInfo};
use crate::sync::SpinGuard;
use crate::task::access::{self, By};
use crate::task::creds::{Creds, cap};
use crate::task::fork::CloneFlags;
use crate::task::ns::pid::Id;
use crate::task::ns::user;
use crate::task::process::TREE;
use crate::task::{CurrentTask, ExitState, Process, Task, TaskFlags, current, exit, pid};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use limen_entry::{SyscallWork, ThreadFlags};
use limen_linux_abi::Errno;

/// An entry of a process's list of those that its threads trace.
pub struct Tracee {
    /// The thread.
    pub task: Arc<Task>,
    /// The thread that traces it.
    tracer: Weak<Task>,
    /// It has ended and is not the leader of its process: the tracer may wait for it.
    pub(in crate::task) ended: bool,
}

impl Tracee {
    /// Whether `task` traces it.
    pub(in crate::task) fn is_of(&self, task: &Task) -> bool {
        core::ptr::eq(self.tracer.as_ptr(), task)
    }
}

type List<'a> = SpinGuard<'a, Vec<Tracee>>;

/// Whether the running thread traces `task`.
pub fn is_tracer(task: &Task) -> bool {
    let tracer = task.trace.state.lock().tracer.clone();
    tracer.is_some_and(|tracer| core::ptr::eq(tracer.as_ptr(), &raw const **current()))
}

/// Locks [`TREE`] and a list with room for one more. `ENOMEM`.
fn lock_with_room(process: &Process) -> Result<(SpinGuard<'static, ()>, List<'_>), Errno> {
    loop {
        drop(room_behind(|| process.tracees.lock(), |list| list, 1)?);
        let tree = TREE.lock();
        let list = process.tracees.lock();
        if list.len() < list.capacity() {
            return Ok((tree, list));
        }
    }
}

/// The running thread begins to trace `task`. `EPERM`; `ENOMEM`; `ERESTARTSYS`. May sleep.
pub fn attach(task: &Arc<Task>, options: Options) -> Result<(), Errno> {
    let me = current();
    if task.is_kernel_thread() || Arc::ptr_eq(&task.process, &me.process) {
        return Err(Errno::EPERM);
    }
    // A program that gains rights is either begun without a tracer, or does not gain them.
    let begins = task.process.begins.lock_interruptible()?;
    access::look(task, By::Real, |_| ())?;
    let by = me.creds();
    let was_stopped = {
        let (_tree, mut list) = lock_with_room(&me.process)?;
        let was_stopped = link(task, &me, &mut list, options, by)?;
        me.set_flags(TaskFlags::TRACER);
        was_stopped
    };
    drop(begins);
    if !options.contains(Options::SEIZED) {
        signal::send_forced(task, SIGSTOP, SigInfo::kernel(SIGSTOP));
    }
    if was_stopped {
        // It goes from one stop to the other; until it has, it could be seen running.
        let arrived = || {
            let state = task.trace.state.lock();
            state.stop.is_some() || !state.trap_stop
        };
        // Only a fatal signal ends this wait early.
        let _ = me.process.child_wait.wait_until_killable(arrived);
    }
    Ok(())
}

/// The parent of the running thread begins to trace it. `EPERM`: it is traced already, or may do what its
/// parent may not; `ENOMEM`.
pub fn traceme() -> Result<(), Errno> {
    let me = current();
    if me.trace.is_traced() {
        return Err(Errno::EPERM);
    }
    let Some(parent) = me.process.parent() else {
        return Ok(());
    };
    let (_tree, mut list) = lock_with_room(&parent)?;
    // It may have another parent by now, which then does not trace it.
    if !me.process.parent().is_some_and(|now| Arc::ptr_eq(&now, &parent)) {
        return Ok(());
    }
    let creator = me.process.creator();
    let thread = parent.with_threads(|threads| {
        let mut threads = threads.iter();
        match creator {
            0 => threads.next().cloned(),
            tid => threads.find(|thread| thread.tid() == tid).cloned(),
        }
    });
    // In this order: a thread that ends marks itself first, and then looks whether it is a tracer. Either
    // that is seen here, or the thread finds this tracee once the lock is free.
    let Some(thread) =
        thread.filter(|thread| !thread.set_flags(TaskFlags::TRACER).contains(TaskFlags::EXITING))
    else {
        return Ok(());
    };
    let theirs = thread.creds();
    let mine = me.creds();
    // A tracer may do whatever its tracee may.
    let may = user::is_same(&mine.user, &theirs.user) && mine.permitted & !theirs.permitted == 0;
    if !may && !theirs.capable_in(&mine.user, cap::SYS_PTRACE) {
        return Err(Errno::EPERM);
    }
    // The tracee asks. Its parent may become a program of anybody, and has no part in what it could do
    // before: a program with more rights must not end up in the hands of that one.
    link(&me, &thread, &mut list, Options::TRACED, mine)?;
    Ok(())
}

/// Links a tracee to its tracer, with the credentials of who asked for that. [`TREE`] is locked, and the list
/// of the tracer's process has room. Returns whether the tracee has been stopped by a signal and goes over
/// into a stop for the tracer.
fn link(
    task: &Arc<Task>,
    tracer: &Arc<Task>,
    list: &mut Vec<Tracee>,
    options: Options,
    by: Arc<Creds>,
) -> Result<bool, Errno> {
    let shared = task.process.signals.lock();
    if task.trace.is_traced() || task.flags().contains(TaskFlags::EXITING) {
        return Err(Errno::EPERM);
    }
    let mut own = task.signals.lock_under(&shared);
    let mut state = task.trace.state.lock_under(&shared);
    task.trace.set(options.union(Options::TRACED));
    state.tracer = Some(Arc::downgrade(tracer));
    state.by = Some(by);
    state.message = 0;
    own.besides.insert(Besides::TRACED);
    let was_stopped = core::mem::take(&mut own.stopped);
    if was_stopped {
        state.trap_stop = true;
        own.besides.insert(Besides::TRAP);
        task.info.work.set(ThreadFlags::SIGPENDING);
    }
    drop((own, state));
    tracer.process.traces.store(true, Ordering::Relaxed);
    list.push(Tracee {
        task: task.clone(),
        tracer: Arc::downgrade(tracer),
        ended: false,
    });
    if task.tid() == task.process.tgid {
        task.process.tracer.store(tracer.tgid(), Ordering::Relaxed);
    }
    if was_stopped {
        crate::sched::wake_task(task, crate::sched::TaskState::STOPPED);
    }
    Ok(was_stopped)
}

/// Ends the tracing of `task`, which goes on with `signal` (`None`: with what it stopped for, unless that was
/// reported). [`TREE`] is locked.
fn unlink(task: &Arc<Task>, signal: Option<i32>) {
    let shared = task.process.signals.lock();
    let work = SyscallWork::TRACE
        .union(SyscallWork::EMU)
        .union(SyscallWork::EXIT_TRAP);
    task.info.work.clear_syscall_work(work);
    let mut own = task.signals.lock_under(&shared);
    let mut state = task.trace.state.lock_under(&shared);
    task.trace.set(Options::empty());
    task.trace.leave_step();
    let tracer = state.tracer.take();
    let by = state.by.take();
    (state.trap_stop, state.trap_notify) = (false, false);
    own.besides.remove(Besides::TRACED | Besides::TRAP);
    // A stop of its process goes on, or is gone back to.
    let ends = task.flags().contains(TaskFlags::EXITING) || task.killed.load(Ordering::Relaxed);
    let stopping = shared.stop_signal.is_some() && !ends;
    if stopping && !own.besides.contains(Besides::STOP) {
        own.besides.insert(Besides::STOP | Besides::UNCOUNTED);
    }
    if stopping {
        task.info.work.set(ThreadFlags::SIGPENDING);
    }
    let stopped = state.stop.is_some();
    if let Some(stop) = &mut state.stop {
        // What is no signal (an event, a call with `PTRACE_O_TRACESYSGOOD`) is nothing to go on with.
        let kept = if stop.untold { stop.code } else { 0 };
        stop.over.get_or_insert(signal.unwrap_or(kept));
    }
    drop((own, state));
    if task.tid() == task.process.tgid {
        task.process.tracer.store(0, Ordering::Relaxed);
    }
    drop(shared);
    drop((tracer, by));
    if stopped {
        crate::sched::wake_task(task, crate::sched::TaskState::TRACED);
    } else if stopping {
        signal::wake(task, false);
    }
}

/// The running thread no longer traces `task`, which is in a stop and goes on with `signal`. `ESRCH`: it does
/// not trace it.
pub fn detach(task: &Arc<Task>, signal: i32) -> Result<(), Errno> {
    let me = current();
    let tree = TREE.lock();
    let mut list = me.process.tracees.lock();
    let at = list
        .iter()
        .position(|tracee| Arc::ptr_eq(&tracee.task, task) && tracee.is_of(&me))
        .ok_or(Errno::ESRCH)?;
    let tracee = list.swap_remove(at);
    drop(list);
    unlink(task, Some(signal));
    let gone = released(&tracee, &me.process);
    drop(tree);
    drop(tracee);
    exit::finish(gone);
    Ok(())
}

/// `task`, a thread that has ended, gives up its number.
pub(in crate::task) fn ended_thread(task: &Arc<Task>) -> exit::Reaped {
    exit::Reaped::Thread(pid::forget_task(task.tid()), task.clone())
}

/// `tracee` is not traced any more by a thread of `former`; if it has ended, nobody waits for it as a tracee
/// any more. [`TREE`] is locked.
fn released(tracee: &Tracee, former: &Arc<Process>) -> Option<exit::Reaped> {
    let process = &tracee.task.process;
    if tracee.ended {
        return Some(ended_thread(&tracee.task));
    }
    let leader = tracee.task.tid() == process.tgid;
    if !leader || process.exit_state() != ExitState::Zombie {
        return None;
    }
    let parent = process.parent();
    if parent.is_none_or(|parent| !Arc::ptr_eq(&parent, former)) {
        return exit::report_end(process);
    }
    // It has been told already, and waits as a parent now, if it does.
    former.child_wait.wake_all();
    match exit::ignores_children(former) {
        true => exit::unwanted(process),
        false => None,
    }
}

/// The running thread ends: what it traces goes on without a tracer, or is killed. Once it is marked as
/// ending it gets no more tracees, but children of those that it still has. May sleep.
#[cold]
pub(in crate::task) fn tracer_ends(me: &CurrentTask) {
    loop {
        let tree = TREE.lock();
        let next = {
            let mut list = me.process.tracees.lock();
            let at = list.iter().position(|tracee| tracee.is_of(me));
            at.map(|at| list.swap_remove(at))
        };
        let Some(tracee) = next else { break };
        // First, so that it does not run on without its tracer.
        if tracee.task.trace.options().contains(Options::EXITKILL) {
            signal::send_forced(&tracee.task, SIGKILL, SigInfo::kernel(SIGKILL));
        }
        unlink(&tracee.task, None);
        let gone = released(&tracee, &me.process);
        drop(tree);
        drop(tracee);
        exit::finish(gone);
    }
}

/// Which event `parent` reports for a clone, if its tracer asked for it.
#[cold]
pub(in crate::task) fn fork_event(parent: &Task, flags: CloneFlags, exit_signal: i32) -> Option<Event> {
    if flags.contains(CloneFlags::UNTRACED) {
        return None;
    }
    let (event, option) = if flags.contains(CloneFlags::VFORK) {
        (Event::Vfork, Options::VFORK)
    } else if exit_signal != SIGCHLD as i32 {
        (Event::Clone, Options::CLONE)
    } else {
        (Event::Fork, Options::FORK)
    };
    parent.trace.options().contains(option).then_some(event)
}

/// Makes room for one more tracee of the tracer of `parent`. `ENOMEM`.
#[cold]
pub(in crate::task) fn room_for_child(parent: &Task) -> Result<(), Errno> {
    match parent.trace.tracer() {
        Some(tracer) => room_behind(|| tracer.process.tracees.lock(), |list| list, 1).map(drop),
        None => Ok(()),
    }
}

/// The tracer of `parent` traces `child`, too, which has not started. If there is no memory for that, it does
/// not.
#[cold]
pub(in crate::task) fn inherit(parent: &Task, child: &Arc<Task>) {
    let Some(tracer) = parent.trace.tracer() else {
        return;
    };
    let Ok((_tree, mut list)) = lock_with_room(&tracer.process) else {
        return;
    };
    // The tracer may have ended, or let go of the parent.
    let (by, still) = {
        let state = parent.trace.state.lock();
        let still = state
            .tracer
            .as_ref()
            .is_some_and(|now| core::ptr::eq(now.as_ptr(), &raw const *tracer));
        (state.by.clone(), still)
    };
    let options = parent.trace.options();
    let linked = |by| link(child, &tracer, &mut list, options, by).is_ok();
    if !still || !by.is_some_and(linked) {
        return;
    }
    let shared = child.process.signals.lock();
    let mut own = child.signals.lock_under(&shared);
    if child.killed.load(Ordering::Relaxed) {
        return;
    }
    if options.contains(Options::SEIZED) {
        own.besides.insert(Besides::TRAP);
        child.trace.state.lock_under(&shared).trap_stop = true;
    } else {
        own.pending.mark(SIGSTOP);
    }
    child.info.work.set(ThreadFlags::SIGPENDING);
}

/// The running thread `task`, which is traced and not the leader of its process, has ended. [`TREE`] is
/// locked. Returns whether its tracer is to wait for it, even if that ignores its children: it keeps its
/// number until then.
#[cold]
pub(in crate::task) fn thread_ends(task: &Arc<Task>) -> bool {
    let Some(tracer) = task.trace.tracer() else {
        return false;
    };
    let found = {
        let mut list = tracer.process.tracees.lock();
        let tracee = list.iter_mut().find(|tracee| Arc::ptr_eq(&tracee.task, task));
        tracee.map(|tracee| tracee.ended = true).is_some()
    };
    if found {
        exit::tell_of_thread(task, &tracer.process);
    }
    found
}

/// The process of a traced leader has ended. Tells the tracer, which is to wait for it even if it ignores its
/// children; returns whether there is one. [`TREE`] is locked.
#[cold]
pub(in crate::task) fn tell_tracer_of_exit(process: &Arc<Process>) -> bool {
    let tracer = pid::find_process(process.tracer.load(Ordering::Relaxed));
    tracer.map(|tracer| exit::tell_tracer(process, &tracer)).is_some()
}

/// Takes the leader of `process` from its tracer. [`TREE`] is locked; what is returned is dropped without it.
fn unlink_leader(process: &Arc<Process>) -> Option<Tracee> {
    let tracer = pid::find_process(process.tracer.load(Ordering::Relaxed))?;
    let tracee = {
        let mut list = tracer.tracees.lock();
        let at = list.iter().position(|tracee| {
            Arc::ptr_eq(&tracee.task.process, process) && tracee.task.tid() == process.tgid && !tracee.ended
        })?;
        list.swap_remove(at)
    };
    unlink(&tracee.task, None);
    tracer.child_wait.wake_all();
    Some(tracee)
}

/// `task`, which calls exec, is about to get the number of its process's leader, which has ended: nobody
/// traces that any more, and who traces `task` traces the leader then. [`TREE`] is locked.
pub(in crate::task) fn leader_replaced(task: &Task) -> Option<Tracee> {
    let old = match task.process.tracer.load(Ordering::Relaxed) {
        0 => None,
        _ => unlink_leader(&task.process),
    };
    let tracer = task.trace.tracer().map_or(0, |tracer| tracer.tgid());
    task.process.tracer.store(tracer, Ordering::Relaxed);
    old
}

/// A tracer has waited for a tracee that has ended. [`TREE`] and `list` are locked. What is returned is
/// dropped without them.
pub(in crate::task) fn reap(list: &mut Vec<Tracee>, at: usize) -> Tracee {
    let tracee = list.swap_remove(at);
    if tracee.task.trace.is_traced() {
        unlink(&tracee.task, None);
    }
    tracee
}

/// The number of `child` for the tracer of the running thread `task` (the message of an event).
#[cold]
pub(in crate::task) fn seen_by_tracer(task: &Task, child: &Id) -> usize {
    let tracer = task.trace.tracer();
    tracer.map_or(child.number, |tracer| child.seen_from(tracer.pid_ns())) as usize
}
