//! Sending signals. All of it may run in interrupts (terminals, timers), unless a function says otherwise.
//!
//! Lock order: the process's `signals`, then its list of threads, then a thread's `signals`.

use super::events;
use super::many::keep_for_new;
use super::wake::wake;
use super::{
    Besides, DEFAULT, IGNORE, ProcessSignals, Queued, SIGCONT, SIGKILL, SIGRTMIN, SIGSTOP, SigInfo, SigSet,
    StopNews, info::code,
};
use crate::sched::{self, entity::TaskState};
use crate::sync::IrqSpinGuard;
use crate::task::ns::user;
use crate::task::user::{Counts, Limit};
use crate::task::{Creds, Process, Task, TaskFlags, coredump, exit, pid, ptrace, rlimit};
use alloc::sync::Arc;
use core::sync::atomic::Ordering::Relaxed;
use limen_entry::ThreadFlags;
use limen_linux_abi::Errno;

/// A process's signals, locked.
pub(super) type Shared<'a> = IrqSpinGuard<'a, ProcessSignals>;

/// For whom a signal is.
#[derive(Clone, Copy)]
pub(super) enum Target<'a> {
    Process,
    /// The process of this thread, which runs now: it takes the signal unless it blocks it.
    Running(&'a Arc<Task>),
    /// A process, which is one of several to which the signal is sent.
    Member,
    Task(&'a Arc<Task>),
}

impl<'a> Target<'a> {
    /// The only thread that may take the signal, if there is only one.
    #[inline(always)]
    fn task(self) -> Option<&'a Arc<Task>> {
        match self {
            Self::Task(task) => Some(task),
            Self::Process | Self::Running(_) | Self::Member => None,
        }
    }
    /// Calls `ask` for the thread that stands for whoever the signal is for: whether it ignores the signal is
    /// decided as for that one. Not if the process has no thread any more.
    fn with_first<R>(
        self,
        process: &Process,
        shared: &Shared<'_>,
        ask: impl FnOnce(&Arc<Task>) -> R,
    ) -> Option<R> {
        match self {
            Self::Task(task) | Self::Running(task) => Some(ask(task)),
            Self::Process | Self::Member => process.threads_under(shared).first().map(ask),
        }
    }
}

/// Under which conditions a signal is sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// As the process's actions and limits say.
    Ordinary,
    /// It must arrive.
    Forced,
    /// A place has been reserved for it (a timer's).
    Prepared,
}

/// What became of it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    /// A thread will take it, or the process ends.
    Queued,
    /// It is ignored, or was pending already.
    Dropped,
    /// There was no room for the details of a real-time signal.
    NoRoom,
}

impl Sent {
    fn result(self) -> Result<(), Errno> {
        match self {
            Self::NoRoom => Err(Errno::EAGAIN),
            Self::Queued | Self::Dropped => Ok(()),
        }
    }
}

/// Sends a signal to a process. Any thread that does not block it takes it.
pub fn send_to_process(process: &Arc<Process>, sig: u32, info: SigInfo) {
    // A real-time signal without room is lost, as all that the kernel sends.
    send(process, Target::Process, sig, info, How::Ordinary);
}

/// Sends a signal to the process of `task`, which runs now: it takes the signal unless it blocks it.
pub fn send_to_running(task: &Arc<Task>, sig: u32, info: SigInfo) {
    send(&task.process, Target::Running(task), sig, info, How::Ordinary);
}

/// Sends a signal to one thread.
pub fn send_to_task(task: &Arc<Task>, sig: u32, info: SigInfo) {
    send(&task.process, Target::Task(task), sig, info, How::Ordinary);
}

/// [`send_to_process`] with an error. `EAGAIN`: there is no room for a real-time signal.
pub fn queue_to_process(process: &Arc<Process>, sig: u32, info: SigInfo) -> Result<(), Errno> {
    send(process, Target::Process, sig, info, How::Ordinary).result()
}

/// [`send_to_task`] with an error. `EAGAIN`: there is no room for a real-time signal.
pub fn queue_to_task(task: &Arc<Task>, sig: u32, info: SigInfo) -> Result<(), Errno> {
    send(&task.process, Target::Task(task), sig, info, How::Ordinary).result()
}

/// Sends a signal to a thread that must arrive, whatever the process's actions and limits are.
pub fn send_forced(task: &Arc<Task>, sig: u32, info: SigInfo) {
    send(&task.process, Target::Task(task), sig, info, How::Forced);
}

/// [`queue_to_process`] for one of several processes: a process that one of its threads is just making, and
/// which cannot be found yet, gets the signal, too.
pub fn queue_to_member(process: &Arc<Process>, sig: u32, info: SigInfo) -> Result<(), Errno> {
    send(process, Target::Member, sig, info, How::Ordinary).result()
}

/// Sends the signal of a process's interval timer. Returns whether a thread will take it; if not, it is
/// ignored or was pending already.
pub fn itimer_to_process(process: &Arc<Process>, sig: u32) -> bool {
    send(process, Target::Process, sig, SigInfo::itimer(sig), How::Ordinary) == Sent::Queued
}

/// Sends a signal to every process of a group, which has this number in the initial PID namespace. `ESRCH`:
/// there is no such group. Not in interrupts.
pub fn send_to_pgrp(pgrp: i32, sig: u32, info: SigInfo) -> Result<(), Errno> {
    let group = pid::find_group(pgrp).ok_or(Errno::ESRCH)?;
    let mut result = Err(Errno::ESRCH);
    for process in group.sending() {
        // A real-time signal without room is lost.
        let _ = queue_to_member(&process, sig, info);
        result = Ok(());
    }
    result
}

/// `task`, the running thread or one that has not started, gets the credentials `creds`: signals queued for
/// it and its process are counted for their user.
pub fn charge_to_user(task: &Task, creds: &Creds) {
    let account = Counts::of(creds);
    let mut shared = task.process.signals.lock();
    let for_all = shared.pending.charge_to(Some(account.clone()));
    let own = task.signals.lock_under(&shared).pending.charge_to(Some(account));
    drop(shared);
    drop((for_all, own));
}

/// Sends the signal of a synchronous fault of the running thread (`SIGSEGV`, `SIGBUS`, `SIGILL`, `SIGFPE`,
/// `SIGTRAP`). If it is blocked or ignored, the default action is taken.
pub fn force_fault(sig: u32, code: i32, addr: usize) {
    force(sig, SigInfo::fault(sig, code, addr));
}

/// [`force_fault`] with given details.
pub fn force(sig: u32, info: SigInfo) {
    let task = crate::task::current();
    {
        let mut shared = task.process.signals.lock();
        let default = {
            let mut own = task.signals.lock_under(&shared);
            let mut table = shared.actions.table.lock_under(&shared);
            let action = &mut table[sig as usize - 1];
            let blocked = own.blocked.has(sig);
            if blocked || action.handler == IGNORE {
                action.handler = DEFAULT;
                own.blocked = own.blocked.without(sig);
                // It may be pending: then no other is queued, which would wake the thread.
                super::recalculate(&task, &shared, &own);
            }
            action.handler == DEFAULT
        };
        if default && !task.trace.is_traced() {
            // Not even the first process survives that: it would do the same again, for ever. If it is
            // traced, its tracer may want the signal, as that of a single step.
            shared.unkillable = false;
        }
    }
    send(&task.process, Target::Task(&task), sig, info, How::Forced);
}

/// Kills the running thread's process with `sig` whatever its action. For errors after which `sig` could not
/// be caught: a signal frame that cannot be written, memory missing in the middle of exec.
pub fn force_fatal(sig: u32) {
    let task = crate::task::current();
    {
        let mut shared = task.process.signals.lock();
        shared.unkillable = false;
        shared.actions.table.lock()[sig as usize - 1].handler = DEFAULT;
        let mut own = task.signals.lock();
        own.blocked = own.blocked.without(sig);
        super::recalculate(&task, &shared, &own);
    }
    send(
        &task.process,
        Target::Task(&task),
        sig,
        SigInfo::kernel(sig),
        How::Forced,
    );
}

/// Ends the running thread's process as by a signal with these details that nothing can catch, not even an
/// action that another thread sets at this moment. With no lock held.
pub fn end_by(info: &SigInfo) -> ! {
    let task = crate::task::current();
    super::fatal::report(&task, info);
    let dumped = coredump::dump(&task, info);
    exit::exit_group_by_signal(exit::status_of_signal(info.signal(), dumped))
}

/// Whether the default action of `sig` ends the process.
fn default_is_fatal(sig: u32) -> bool {
    !SigSet::IGNORED.or(SigSet::STOP).has(sig)
}

/// Whether a signal for `process`, which is in a PID namespace below the initial one, comes from above it, or
/// from the kernel. Who is above has no number there.
fn comes_from_above(process: &Process, info: &mut SigInfo) -> bool {
    if !info.names_sender() {
        return false;
    }
    let sender = crate::task::current();
    if sender.process.number_in(&process.pid_ns) != 0 {
        return info.code() == code::KERNEL;
    }
    info.forget_sender();
    true
}

/// Makes of `info` what `process` gets, which is in a namespace of processes or users below the initial one.
/// Returns how the signal is sent.
#[cold]
#[inline(never)]
fn as_received(process: &Process, sig: u32, info: &mut SigInfo, how: How) -> How {
    let above = process.pid_ns.is_some() && comes_from_above(process, info);
    // All threads of a process are in the same user namespace.
    if process.has_user_ns.load(Relaxed) && info.has_uid() {
        info.set_uid(user::from_kuid_munged(&process.leaders_creds().user, info.uid()));
    }
    match above && (sig == SIGKILL || sig == SIGSTOP) && how == How::Ordinary {
        // Not even the first process of the namespace ignores these.
        true => How::Forced,
        false => how,
    }
}

pub(super) fn send(
    process: &Arc<Process>,
    target: Target<'_>,
    sig: u32,
    mut info: SigInfo,
    mut how: How,
) -> Sent {
    if process.pid_ns.is_some() || process.has_user_ns.load(Relaxed) {
        how = as_received(process, sig, &mut info, how);
    }
    let mut shared = process.signals.lock();
    if matches!(target, Target::Member) {
        keep_for_new(process, &shared, sig);
    }
    if shared.group_exit.is_some() {
        // Its core dump ends early.
        if sig == SIGKILL
            && let Some(dump) = &shared.dump
        {
            dump.kill();
            shared.group_exit = Some(exit::status_of_signal(SIGKILL, false));
        }
        return Sent::Queued;
    }
    if SigSet::STOP.with(SIGCONT).has(sig) {
        at_once(process, &mut shared, sig);
    }
    let handler = shared.actions.table.lock_under(&shared)[sig as usize - 1].handler;
    let would_ignore = handler <= IGNORE
        && (handler == IGNORE || SigSet::IGNORED.has(sig) || shared.unkillable && how != How::Forced);
    if would_ignore {
        let asked = target.with_first(process, &shared, |task| {
            (is_blocked(&shared, task, sig), task.trace.is_traced())
        });
        // A blocked signal stays pending even if it is ignored: its action may change before it is unblocked.
        // A tracer sees ignored signals, too.
        let (blocked, traced) = asked.unwrap_or_default();
        if !blocked && !traced || sig == SIGKILL {
            tell(process, &shared, target, &info, events::Result::Ignored);
            return Sent::Dropped;
        }
    }
    // An ordinary signal needs no room on the account, unless the program passed details of its own.
    let limit = if how == How::Ordinary && (sig >= SIGRTMIN || info.code() < 0) {
        Limit::of(process.limits.soft(rlimit::which::SIGPENDING))
    } else {
        Limit::NONE
    };
    let queued = match (target.task(), how) {
        (task, How::Prepared) => push_prepared(&mut shared, task, info),
        (Some(task), _) => task.signals.lock_under(&shared).pending.push(&info, limit),
        (None, _) => shared.pending.push(&info, limit),
    };
    finish(process, shared, target, &info, how, handler, queued)
}

/// Tells who listens to events what became of a signal.
#[inline(always)]
fn tell(process: &Process, shared: &Shared<'_>, target: Target<'_>, info: &SigInfo, result: events::Result) {
    target.with_first(process, shared, |task| {
        events::generated(info, task, target.task().is_none(), result);
    });
}

/// A signal whose action is `handler` was queued, or could not be: says so, and wakes a thread to take it.
#[inline(always)]
pub(super) fn finish(
    process: &Process,
    mut shared: Shared<'_>,
    target: Target<'_>,
    info: &SigInfo,
    how: How,
    handler: usize,
    queued: Queued,
) -> Sent {
    let sig = info.signal();
    tell(
        process,
        &shared,
        target,
        info,
        match queued {
            Queued::Already => events::Result::AlreadyPending,
            Queued::NoRoom => events::Result::Overflow,
            Queued::Yes => events::Result::Delivered,
        },
    );
    match queued {
        Queued::Already if how == How::Prepared => return Sent::Queued,
        Queued::Already => return Sent::Dropped,
        Queued::NoRoom => return Sent::NoRoom,
        Queued::Yes => {}
    }
    let fatal = {
        let threads;
        let chosen = match target {
            Target::Task(task) => wants(&shared, task, sig).then_some(task),
            Target::Running(task) if wants(&shared, task, sig) => Some(task),
            Target::Process | Target::Running(_) | Target::Member => {
                threads = process.threads_under(&shared);
                threads.iter().find(|task| wants(&shared, task, sig))
            }
        };
        let fatal = handler == DEFAULT
            && default_is_fatal(sig)
            // One of its threads blocks it, so it was not dropped; others ignore it when they take it.
            && (!shared.unkillable || how == How::Forced)
            // The thread that takes one of these would write the core file and tells what killed the program.
            && !SigSet::COREDUMP.has(sig)
            && chosen.is_some_and(|chosen| {
                sig == SIGKILL
                    || !chosen.trace.is_traced()
                        && !chosen.signals.lock_under(&shared).real_blocked.has(sig)
            });
        if !fatal && let Some(chosen) = chosen {
            wake(chosen, false);
        }
        fatal
    };
    if fatal {
        shared.group_exit = Some(exit::status_of_signal(sig, false));
        kill_threads(process, None);
        return Sent::Queued;
    }
    notify_signalfd(shared);
    Sent::Queued
}

/// What a stop signal and `SIGCONT` do when they are sent, whoever takes them.
fn at_once(process: &Process, shared: &mut ProcessSignals, sig: u32) {
    if sig == SIGCONT {
        resume(process, shared);
    } else {
        discard(process, shared, SigSet::of(&[SIGCONT]));
    }
}

/// [`queue_to_task`] for the leader of a process, which has ended: nobody will take the signal.
pub fn send_to_ended_leader(process: &Process, sig: u32) {
    let mut shared = process.signals.lock();
    if shared.group_exit.is_none() && SigSet::STOP.with(SIGCONT).has(sig) {
        at_once(process, &mut shared, sig);
    }
}

/// Queues a timer's signal, for which a place has been reserved.
#[cold]
#[inline(never)]
pub(super) fn push_prepared(shared: &mut Shared<'_>, task: Option<&Arc<Task>>, info: SigInfo) -> Queued {
    match task {
        Some(task) => task.signals.lock_under(shared).pending.push_own(info),
        None => shared.pending.push_own(info),
    }
}

/// Wakes readers of signalfds after unlocking.
#[inline]
fn notify_signalfd(shared: Shared<'_>) {
    let actions = (!shared.actions.signalfd.is_empty()).then(|| shared.actions.clone());
    drop(shared);
    if let Some(actions) = actions {
        actions.signalfd.wake_all();
    }
}

fn is_blocked(shared: &Shared<'_>, task: &Task, sig: u32) -> bool {
    let own = task.signals.lock_under(shared);
    own.blocked.or(own.real_blocked).has(sig)
}

/// Whether `task` would take `sig` now. A stopped thread, whoever stopped it, takes only `SIGKILL`; it takes
/// others when it continues.
fn wants(shared: &Shared<'_>, task: &Task, sig: u32) -> bool {
    if task.flags().contains(TaskFlags::EXITING) {
        return false;
    }
    let own = task.signals.lock_under(shared);
    let in_stop = || task.trace.is_traced() && task.trace.state_under(shared).is_in_stop();
    sig == SIGKILL || !own.blocked.has(sig) && !own.stopped && !in_stop()
}

/// Drops pending signals of `set` of the process and all its threads.
pub(super) fn discard(process: &Process, shared: &mut ProcessSignals, set: SigSet) {
    shared.pending.discard(set);
    process.with_threads(|threads| {
        for task in threads {
            task.signals.lock().pending.discard(set);
        }
    });
}

/// `SIGCONT` was sent: drops pending stop signals and continues stopped threads, whatever its action.
fn resume(process: &Process, shared: &mut ProcessSignals) {
    let was_stopped = shared.stopped;
    let stopping = shared.stop_signal.is_some();
    shared.stop_signal = None;
    shared.stop_remaining = 0;
    shared.stopped = false;
    if was_stopped || stopping {
        shared.news = StopNews::Continued;
        // If the stop was not complete yet, the signal tells of it, as if it had been the first of two; it no
        // longer says by which signal. `wait` reports the continuation in both cases.
        shared.untold = match was_stopped {
            true => StopNews::Continued,
            false => StopNews::Stopped(0),
        };
    }
    shared.pending.discard(SigSet::STOP);
    process.with_threads(|threads| {
        for task in threads {
            let listened = {
                let mut own = task.signals.lock();
                own.pending.discard(SigSet::STOP);
                own.besides.remove(Besides::STOP | Besides::UNCOUNTED);
                own.stopped = false;
                own.stop_dequeued = false;
                let seized = task.trace.options().contains(ptrace::Options::SEIZED);
                seized && ptrace::notify(task, &mut own, true)
            };
            if listened {
                // Others stay in their tracers' stops, and are not disturbed there: requests look for them.
                sched::wake_task(task, TaskState::TRACED);
            }
            if stopping || was_stopped {
                task.info.work.set(ThreadFlags::SIGPENDING);
                sched::wake_task(task, TaskState::STOPPED);
            }
        }
    });
}

/// Makes `SIGKILL` pending for every thread but `except`, because the process ends or one of its threads
/// calls exec. The process's signals are locked.
pub(crate) fn kill_threads(process: &Process, except: Option<&Task>) -> usize {
    process.with_threads(|threads| {
        let mut count = 0;
        for task in threads {
            if except.is_some_and(|except| core::ptr::eq(except, &raw const **task)) {
                continue;
            }
            count += 1;
            {
                let mut own = task.signals.lock();
                own.pending.mark(SIGKILL);
                own.besides
                    .remove(Besides::STOP | Besides::UNCOUNTED | Besides::TRAP);
                own.stopped = false;
                if task.trace.is_traced() {
                    ptrace::kills(task);
                }
            }
            task.killed.store(true, core::sync::atomic::Ordering::Relaxed);
            wake(task, true);
        }
        count
    })
}
