//! The end of threads and processes.

use super::access::may_signal;
use super::creds::Creds;
use super::process::{ChildNode, Number, TREE, keep_faults};
use super::session::{ProcessGroup, Session};
use super::{
    CurrentTask, ExitState, Process, Task, TaskFlags, Usage, coredump, current, ns, pid, ptrace, user,
};
use crate::arch::syscalls;
use crate::rcu::Former;
use crate::sched::{self, futex};
use crate::signal::{self, ActionFlags, IGNORE, SIGCHLD, SIGCONT, SIGHUP, SigInfo, info::code};
use crate::sync::{Once, SpinGuard};
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use limen_linux_abi::Errno;
use limen_range_tree::Spare;

/// The wait status of an exit code.
pub const fn status_of_exit(code: i32) -> i32 {
    (code & 0xff) << 8
}

/// In a wait status: a core file was written (`WCOREFLAG`).
const DUMPED: i32 = 0x80;

/// The wait status of an end by a signal. `dumped`: a core file was written.
pub const fn status_of_signal(sig: u32, dumped: bool) -> i32 {
    sig as i32 | if dumped { DUMPED } else { 0 }
}

/// `exit_group`: ends the whole process with exit code `code`.
pub fn exit_group(code: i32) -> ! {
    end_group(status_of_exit(code))
}

/// Ends the process by a signal, with wait status `status` unless it is ending already.
pub fn exit_group_by_signal(status: i32) -> ! {
    current().set_flags(TaskFlags::SIGNALED);
    end_group(status)
}

fn end_group(status: i32) -> ! {
    let task = current();
    let status = {
        let mut shared = task.process.signals.lock();
        match shared.group_exit {
            Some(first) => first,
            None => {
                shared.group_exit = Some(status);
                signal::kill_threads(&task.process, Some(&task));
                status
            }
        }
    };
    exit_thread(status)
}

/// Who is told of threads that end.
static TOLD: Once<fn(&Task)> = Once::new();

/// From now on `told` is called by each thread that ends, while it still has its number and name. The first
/// caller's is. It may sleep.
pub fn when_threads_end(told: fn(&Task)) {
    let _ = TOLD.set(told);
}

/// Who is told of threads that have made segments of shared memory, which may go with them.
pub struct Creators {
    /// Called by each such thread that ends, when it has no memory any more, or that makes itself a new IPC
    /// namespace.
    pub end: fn(&Task),
    /// Called by each that will be in another IPC namespace by `setns`, where those it has made stay its own.
    /// `ENOMEM`. May sleep.
    pub moves: fn(&Task) -> Result<(), Errno>,
}

static CREATORS: Once<Creators> = Once::new();

/// They are told from now on. Boot.
pub fn tell_of_creators(told: Creators) {
    let _ = CREATORS.set(told);
}

/// The running thread is no longer the creator of segments of shared memory.
pub(super) fn leaves_segments(task: &Task) {
    if task.flags().contains(TaskFlags::MADE_SEGMENTS)
        && let Some(told) = CREATORS.get()
    {
        (told.end)(task);
    }
}

/// The running thread will leave its IPC namespace, and stays the creator of what it has made there.
/// `ENOMEM`. May sleep.
pub(super) fn keeps_segments(task: &Task) -> Result<(), Errno> {
    match CREATORS.get() {
        Some(told) if task.flags().contains(TaskFlags::MADE_SEGMENTS) => (told.moves)(task),
        _ => Ok(()),
    }
}

/// Ends the running thread with wait status `status`, and the process if this is its last thread. Never
/// returns.
pub fn exit_thread(status: i32) -> ! {
    let task = current();
    // Comes first: two threads that trace each other would wait for each other at their last stops, for ever.
    if task.flags().intersects(WATCHED) {
        watched_ends(&task);
    }
    if task.trace.is_traced() {
        ptrace::event(ptrace::Event::Exit, status as usize);
    }
    signal::stop::leave(&task);
    // A child may have asked for its tracing meanwhile, or a core dump has begun.
    if task.flags().intersects(WATCHED) {
        watched_ends(&task);
    }
    // The list of threads would not tell: two threads that end at the same time are both still in it.
    let last = task.process.thread_ends();
    if last && task.process.is_init() {
        let status = task.process.signals.lock().group_exit.unwrap_or(status);
        panic!("Attempted to kill init! exitcode=0x{status:08x}");
    }
    task.exit_code.store(status, Ordering::Relaxed);
    super::events::exits(&task);
    release_mm(&task);
    super::adjustments::let_go(&task);
    leaves_segments(&task);
    super::seccomp::release(&task);
    drop(task.replace_files(None));
    drop(task.replace_fs(None));
    task.drop_namespaces();
    task.drop_io();
    // A thread that its tracer has to wait for is counted until then.
    let waited_for = task.trace.is_traced() && task.tid() != task.process.tgid;
    if !waited_for {
        ends_for_user(&task.creds());
    }
    if let Some(told) = TOLD.get() {
        told(&task);
    }
    if last {
        ns::pid::init_may_end(&task);
    }
    let kept = leave_process(&task, status);
    if waited_for && !kept {
        ends_for_user(&task.creds());
    }
    task.info.work.clear(limen_entry::ThreadFlags::SIGPENDING);
    sched::end_thread()
}

/// What a thread looks for that ends: whether it is to be dumped, and whether it may trace others.
const WATCHED: TaskFlags = TaskFlags::TRACER.union(TaskFlags::DUMPED);

#[cold]
fn watched_ends(task: &CurrentTask) {
    if task.flags().contains(TaskFlags::DUMPED) {
        coredump::park(task);
    }
    if task.flags().contains(TaskFlags::TRACER) {
        ptrace::tracer_ends(task);
    }
}

/// What must be done before the thread's memory goes away: robust futexes, the id word, a parent that waits
/// in `vfork`. exec calls it for the old program's memory; `last`: the thread ends.
pub(super) fn release_memory_words(task: &Arc<Task>, last: bool) {
    let robust = task.robust_list.swap(0, Ordering::Relaxed);
    if robust != 0 {
        futex::exit_robust_list::<usize>(robust);
    }
    if syscalls::COMPAT.is_some() && task.compat_robust_list.load(Ordering::Relaxed) != 0 {
        let robust = task.compat_robust_list.swap(0, Ordering::Relaxed);
        futex::exit_robust_list::<u32>(robust as usize);
    }
    futex::release_waiters(task, last);
    let word = task.clear_child_tid.swap(0, Ordering::Relaxed);
    // If no other thread uses the memory, nobody can wait for the word.
    if word != 0 && crate::mm::current_space().is_some_and(|mm| mm.has_others()) {
        // A bad address harms only the program that passed it.
        let _ = crate::mm::user::UserPtr::<u32>::new(word).write(0);
        // A word in a shared mapping, such as a thread's stack may be, has the key of a shared futex. Waiters
        // look for that key, too.
        futex::wake(word, 1, true);
    }
}

/// Wakes a parent that waits in `vfork`.
pub(super) fn release_vfork_parent(task: &Task) {
    let vfork = task.vfork.lock().take();
    if let Some(vfork) = vfork {
        vfork.complete();
    }
}

fn release_mm(task: &Arc<Task>) {
    if let Some(mm) = task.mm() {
        crate::rseq::ends(task);
        release_memory_words(task, true);
        let peak = mm.usage().peak_rss as u64;
        let mut dead = task.process.dead_threads.lock();
        dead.max_rss = dead.max_rss.max(peak);
        drop(dead);
    }
    if let Some(mm) = task.replace_mm(None) {
        sched::leave_mm();
        drop(mm);
    }
    release_vfork_parent(task);
}

/// Processes that no parent waits for. Their nodes in their parents' trees hold them until they are dropped.
type Gone = Spare<Number, Arc<Process>>;

/// Takes the thread out of its process. If it was the last one, ends the process. Returns whether its tracer
/// is to wait for it.
fn leave_process(task: &Arc<Task>, status: i32) -> bool {
    let process = &task.process;
    // It runs on when its number is gone, be that given back here or, meanwhile, by its tracer.
    sched::leaving::leave();
    let mut gone = Gone::new();
    let (last, number);
    let mut keeps_number = false;
    {
        let _tree = lock_without_exe(process);
        let leader = task.tid() == process.tgid;
        if task.trace.is_traced() && !leader {
            keeps_number = ptrace::thread_ends(task);
        }
        // Comes before any other thread can see it gone: a parent that has waited for the process finds
        // nothing under its number, and a thread in exec that waits for the others can take over the leader's
        // number.
        number = match keeps_number {
            true => Former::nothing(),
            false => pid::forget_task(task.tid()),
        };
        if leader {
            *process.remains.lock() = Some((task.comm(), task.creds()));
            process.exit_code.store(status, Ordering::Relaxed);
        }
        last = process.with_threads(|threads| {
            // In one step: whoever adds up living and dead threads finds this one in one of the two sums.
            process.dead_threads.lock().add(&Usage::of_task(task));
            threads.retain(|other| !Arc::ptr_eq(other, task));
            threads.is_empty()
        });
        if last {
            end_process(process, &mut gone);
        } else {
            if task.flags().contains(TaskFlags::HAS_CHILDREN) {
                leave_children(task);
            }
            // A thread in exec may be waiting for the others to end.
            process.exit_wait.wake_all();
        }
    }
    drop(number);
    // These may be the last references. They are dropped without the tree lock.
    while let Some(node) = gone.pop() {
        forget(node);
    }
    if task.is_covered() && !keeps_number {
        crate::fs::procfs::thread_gone(task);
    }
    if last {
        crate::task::timers::ended(process);
    }
    keeps_number
}

/// Locks [`TREE`]. If the running thread is the last of its process, the process no longer holds its
/// executable: a parent that has waited can open the file for writing.
fn lock_without_exe(process: &Process) -> SpinGuard<'static, ()> {
    loop {
        // Closing a file may sleep, so it is done without the lock. A last thread cannot get company.
        if process.thread_count() == 1 {
            process.set_exe(None);
        }
        let tree = TREE.lock();
        if process.thread_count() > 1 || process.exe().is_none() {
            return tree;
        }
    }
}

/// The last thread has ended. [`TREE`] is locked. Processes that no parent waits for are added to `gone`.
fn end_process(process: &Arc<Process>, gone: &mut Gone) {
    if let Some(status) = process.signals.lock().group_exit {
        process.exit_code.store(status, Ordering::Relaxed);
    }
    reparent_children(process, gone);
    let group = process.group();
    if group.session.id == process.tgid {
        end_session(&group.session);
    }
    let parent = process.parent();
    // The link to this process's parent may have kept its group from being orphaned.
    if let Some(parent) = &parent {
        hang_up_if_orphaned(&group, process, Some(parent));
    }
    process.set_exit_state(ExitState::Zombie);
    let waits = process.tracer.load(Ordering::Relaxed) != 0 && ptrace::tell_tracer_of_exit(process);
    if !waits && let Some(Reaped::Process(child)) = report_end(process) {
        gone.push(child);
    }
    process.exit_wait.wake_all();
}

/// A thread with these credentials is not counted any more.
fn ends_for_user(creds: &Creds) {
    user::uncharge(&creds.user, creds.uid);
}

/// Something for which nobody waits any more; dropped with [`finish`].
pub(super) enum Reaped {
    /// A process, with its node in its parent's tree.
    Process(ChildNode),
    /// A thread, with its number, that is still counted for its user.
    Thread(Former<Task>, Arc<Task>),
}

/// Nobody waits for a process any more. No lock is held.
fn forget(node: ChildNode) {
    let process = &node.range().value;
    crate::fs::procfs::process_gone(process);
    drop(node);
}

/// Drops it, with no lock held. May sleep.
pub(super) fn finish(gone: Option<Reaped>) {
    match gone {
        Some(Reaped::Process(node)) => forget(node),
        Some(Reaped::Thread(number, task)) => {
            ends_for_user(&task.creds());
            drop(number);
            if task.is_covered() {
                crate::fs::procfs::thread_gone(&task);
            }
        }
        None => {}
    }
}

/// [`finish`] for who must not sleep: what is mounted below the directory of what is gone is left to the
/// caller.
pub(super) fn finish_still(gone: Option<Reaped>) {
    match gone {
        Some(Reaped::Process(node)) => drop(node),
        Some(Reaped::Thread(number, task)) => {
            ends_for_user(&task.creds());
            drop(number);
        }
        None => {}
    }
}

/// `process` has ended: tells its parent. Returns it if the parent does not want to wait for it. [`TREE`] is
/// locked.
pub(super) fn report_end(process: &Arc<Process>) -> Option<Reaped> {
    let parent = process.parent();
    let reap = match &parent {
        Some(parent) => tell_parent_of_exit(process, parent),
        None => true,
    };
    if reap { unwanted(process) } else { None }
}

/// `process` has ended, and nobody waits for it: its parent knows, and does not want to. [`TREE`] is locked.
pub(super) fn unwanted(process: &Arc<Process>) -> Option<Reaped> {
    let parent = process.parent();
    process.set_exit_state(ExitState::Dead);
    let child = parent.and_then(|parent| parent.family().children.remove(process.place()));
    bury(process);
    child.map(Reaped::Process)
}

/// Whether a process does not wait for its children.
pub(super) fn ignores_children(process: &Process) -> bool {
    let action = process.signals.lock().actions.get(SIGCHLD);
    action.handler == IGNORE || action.flags.contains(ActionFlags::NOCLDWAIT)
}

/// `process`, whose leader is traced, has ended: tells the tracer's process.
pub(super) fn tell_tracer(process: &Arc<Process>, tracer: &Arc<Process>) {
    let own = process
        .parent()
        .is_some_and(|parent| Arc::ptr_eq(&parent, tracer));
    let sig = match own {
        true => process.exit_signal.load(Ordering::Relaxed),
        false => SIGCHLD as i32,
    };
    tell_of_exit(process, tracer, sig);
}

/// The traced thread `task` has ended: tells its tracer's process.
pub(super) fn tell_of_thread(task: &Arc<Task>, tracer: &Arc<Process>) {
    let (code, value) = explain(thread_status(task));
    let usage = Usage::of_task(task);
    let (user, system) = (usage.user_ticks(), usage.system_ticks());
    let info = SigInfo::child(
        code,
        task.number_in(&tracer.pid_ns),
        task.creds().uid,
        value,
        user,
        system,
    );
    signal::send_to_process(tracer, SIGCHLD, info);
    tracer.child_wait.wake_all();
}

/// The wait status of a thread that has ended.
pub(super) fn thread_status(task: &Task) -> i32 {
    let group = task.process.signals.lock().group_exit;
    group.unwrap_or_else(|| task.exit_code.load(Ordering::Relaxed))
}

/// Sends the parent its signal. Returns whether the parent ignores it, so that the process is reaped at once.
fn tell_parent_of_exit(process: &Arc<Process>, parent: &Arc<Process>) -> bool {
    let mut sig = process.exit_signal.load(Ordering::Relaxed);
    let mut reap = false;
    if sig == SIGCHLD as i32 {
        let action = parent.signals.lock().actions.get(SIGCHLD);
        reap = action.handler == IGNORE || action.flags.contains(ActionFlags::NOCLDWAIT);
        if action.handler == IGNORE {
            sig = 0;
        }
    }
    tell_of_exit(process, parent, sig);
    reap
}

/// Sends `sig`, if it is one, and wakes who waits.
fn tell_of_exit(process: &Arc<Process>, parent: &Arc<Process>, sig: i32) {
    // `clone` accepts numbers that are not signals.
    if (1..=signal::NSIG as i32).contains(&sig) {
        signal::send_to_process(parent, sig as u32, exit_info(process, parent, sig as u32));
    }
    parent.child_wait.wake_all();
}

/// The details of the signal that the parent of an ended process gets.
fn exit_info(process: &Process, parent: &Process, sig: u32) -> SigInfo {
    let status = process.exit_code.load(Ordering::Relaxed);
    let (code, value) = explain(status);
    let usage = process.usage();
    // Not the running process's: that may be its tracer, or its former parent.
    let uid = process.real_uid.load(Ordering::Relaxed);
    let info = SigInfo::child(
        code,
        process.number_in(&parent.pid_ns),
        uid,
        value,
        usage.user_ticks(),
        usage.system_ticks(),
    );
    info.with_signal(sig)
}

/// `si_code` and `si_status` of a wait status.
pub const fn explain(status: i32) -> (i32, i32) {
    if status & 0x7f == 0 {
        (code::CLD_EXITED, status >> 8 & 0xff)
    } else if status & DUMPED != 0 {
        (code::CLD_DUMPED, status & 0x7f)
    } else {
        (code::CLD_KILLED, status & 0x7f)
    }
}

const _: () = assert!(matches!(explain(status_of_exit(0x181)), (code::CLD_EXITED, 0x81)));
const _: () = assert!(matches!(
    explain(status_of_signal(64, false)),
    (code::CLD_KILLED, 64)
));
const _: () = assert!(matches!(
    explain(status_of_signal(11, true)),
    (code::CLD_DUMPED, 11)
));

/// The children of an ending process get a new parent: the nearest living subreaper of the same PID
/// namespace, else the first process of that.
fn reparent_children(process: &Arc<Process>, gone: &mut Gone) {
    let mut children = core::mem::take(&mut process.family().children);
    if children.is_empty() {
        return;
    }
    let Some(reaper) = find_reaper(process) else {
        return;
    };
    while let Some(node) = children.remove_first() {
        let child = node.range().value.clone();
        child.adopt(&reaper);
        tell_of_parents_death(&child);
        // The child chose its signal for its old parent.
        child.exit_signal.store(SIGCHLD as i32, Ordering::Relaxed);
        let zombie = child.exit_state() == ExitState::Zombie && child.tracer.load(Ordering::Relaxed) == 0;
        if zombie && tell_parent_of_exit(&child, &reaper) {
            child.set_exit_state(ExitState::Dead);
            bury(&child);
            gone.push(node);
            continue;
        }
        let group = child.group();
        reaper.family().children.insert(node);
        hang_up_if_orphaned(&group, &child, Some(process));
    }
}

/// The children of an ending thread become those of another thread of its process. Children that asked for it
/// are told that their parent ended. [`TREE`] is locked.
#[cold]
fn leave_children(task: &Task) {
    let tid = task.tid();
    for child in task.process.children().filter(|child| child.creator() == tid) {
        child.set_creator(0);
        tell_of_parents_death(&child);
    }
}

/// The running thread, the parent of `child`, ends: sends the threads of `child` the signals that they chose
/// for that (`PR_SET_PDEATHSIG`), where the running thread may send them.
fn tell_of_parents_death(child: &Arc<Process>) {
    for thread in child.threads() {
        let sig = thread.parent_death_signal.load(Ordering::Relaxed) as u32;
        if sig != 0 && may_signal(child, &thread.creds(), Some(sig)).is_ok() {
            let me = current();
            let info = SigInfo::user(sig, me.process.number_in(&child.pid_ns), me.creds().uid);
            signal::send_to_process(child, sig, info);
        }
    }
}

fn find_reaper(process: &Arc<Process>) -> Option<Arc<Process>> {
    let mut ancestor = process.parent();
    let level = ns::pid::level(&process.pid_ns);
    if process.has_subreaper.load(Ordering::Relaxed) {
        while let Some(candidate) = ancestor {
            // A parent may be in a namespace above, but not in another one of the same level.
            if candidate.is_init() || ns::pid::level(&candidate.pid_ns) != level {
                break;
            }
            if candidate.child_subreaper.load(Ordering::Relaxed) && candidate.thread_count() > 0 {
                return Some(candidate);
            }
            ancestor = candidate.parent();
        }
    }
    ns::pid::reaper(&process.pid_ns, process)
}

/// Whether a group is orphaned: no member has a living parent in another group of the same session. `ignore`
/// is not counted as a member.
pub fn is_orphaned(group: &Arc<ProcessGroup>, ignore: Option<&Arc<Process>>) -> bool {
    !group.members().any(|member| {
        if ignore.is_some_and(|ignore| Arc::ptr_eq(ignore, &member))
            || member.exit_state() != ExitState::Alive
        {
            return false;
        }
        member.parent().is_some_and(|parent| {
            !parent.is_init() && parent.pgrp() != group.id && parent.sid() == group.session.id
        })
    })
}

/// If the end of `process`, or of its parent, makes its group an orphaned one that has stopped members, they
/// get `SIGHUP` and `SIGCONT`. `parent`: the parent because of which the group was not orphaned until now.
fn hang_up_if_orphaned(group: &Arc<ProcessGroup>, process: &Arc<Process>, parent: Option<&Arc<Process>>) {
    let mattered = parent.is_some_and(|parent| parent.pgrp() != group.id && parent.sid() == group.session.id);
    if !mattered {
        return;
    }
    let ending = process.thread_count() == 0;
    if !is_orphaned(group, ending.then_some(process)) {
        return;
    }
    if group.members().any(|member| member.signals.lock().stopped) {
        for member in group.members() {
            for sig in [SIGHUP, SIGCONT] {
                let _ = signal::queue_to_member(&member, sig, SigInfo::kernel(sig));
            }
        }
    }
}

/// The leader of `session` ends: the foreground group of its terminal gets `SIGHUP`, and the terminal is free
/// for another session. If the terminal went away earlier, the group gets it that was in the foreground then.
fn end_session(session: &Session) {
    let terminal = session.ctty.lock().take();
    let left_behind = session.set_left_behind(None);
    let foreground = match terminal {
        Some(terminal) => {
            let foreground = terminal.foreground();
            terminal.disassociate();
            foreground
        }
        None => left_behind.as_ref().map_or(0, |group| group.id),
    };
    if foreground > 0 {
        // The group may have ended meanwhile.
        let _ = signal::send_to_pgrp(foreground, SIGHUP, SigInfo::kernel(SIGHUP));
        let _ = signal::send_to_pgrp(foreground, SIGCONT, SigInfo::kernel(SIGCONT));
    }
}

/// Removes a dead process from the tables. [`TREE`] is locked: a thread that does not find the process among
/// the children does not find it by its number either. The caller holds a reference until it has unlocked
/// `TREE`.
pub(super) fn bury(process: &Arc<Process>) {
    process
        .group()
        .leave(process, process.member_at.load(Ordering::Relaxed));
    keep_faults(process);
    pid::forget_process(process.tgid);
}
