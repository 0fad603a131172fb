//! Sending signals. Everything here may run in an interrupt (terminals, timers) unless it says otherwise.
//!
//! Locks: the process's `signals`, then its thread list, then a thread's `signals`.

use super::{
    Besides, DEFAULT, IGNORE, Pending, ProcessSignals, Queued, Room, SIGCONT, SIGKILL, SigInfo, SigSet,
    StopNews, TaskSignals, fatal,
};
use crate::arch::{interrupt, smp};
use crate::sched::{self, entity::TaskState, preempt};
use crate::sync::IrqSpinGuard;
use crate::task::{Process, Task, TaskFlags, pid, rlimit};
use alloc::sync::Arc;
use limen_entry::ThreadFlags;
use limen_linux_abi::Errno;

/// A process's signals, locked.
type Shared<'a> = IrqSpinGuard<'a, ProcessSignals>;

/// Whom a signal is for.
#[derive(Clone, Copy)]
enum Target<'a> {
    Process,
    Task(&'a Arc<Task>),
}

/// On what terms.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    /// As the process's actions and limits say.
    Ordinary,
    /// It must arrive.
    Forced,
    /// There is a place for it (a timer's).
    Prepared,
}

/// What became of it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sent {
    /// Somebody will take it, or the process ends.
    Queued,
    /// It is ignored, or pending already.
    Dropped,
    /// A real-time signal for whose details there was no room.
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

/// Sends a signal to a process: any of its threads that does not block it takes it.
pub fn send_to_process(process: &Arc<Process>, sig: u32, info: SigInfo) {
    // A real-time signal that found no room is lost, as for every kernel-made one.
    send(process, Target::Process, sig, info, How::Ordinary);
}

/// Sends a signal to one thread.
pub fn send_to_task(task: &Arc<Task>, sig: u32, info: SigInfo) {
    send(&task.process, Target::Task(task), sig, info, How::Ordinary);
}

/// Like [`send_to_process`]; `EAGAIN` if a queued real-time signal finds no room.
pub fn queue_to_process(process: &Arc<Process>, sig: u32, info: SigInfo) -> Result<(), Errno> {
    send(process, Target::Process, sig, info, How::Ordinary).result()
}

/// Like [`send_to_task`]; `EAGAIN` if a queued real-time signal finds no room.
pub fn queue_to_task(task: &Arc<Task>, sig: u32, info: SigInfo) -> Result<(), Errno> {
    send(&task.process, Target::Task(task), sig, info, How::Ordinary).result()
}

/// Sends the signal of a process's interval timer. Whether it will be taken: else it is ignored, or one is pending already.
pub fn itimer_to_process(process: &Arc<Process>, sig: u32) -> bool {
    send(process, Target::Process, sig, SigInfo::itimer(sig), How::Ordinary) == Sent::Queued
}

/// Sends the signal of a POSIX timer, of which there is only one at a time. Whether it will be taken: else it is ignored.
pub fn timer_to_process(process: &Arc<Process>, info: SigInfo) -> bool {
    send(process, Target::Process, info.signal(), info, How::Prepared) == Sent::Queued
}

/// As [`timer_to_process`], to one thread.
pub fn timer_to_task(task: &Arc<Task>, info: SigInfo) -> bool {
    send(
        &task.process,
        Target::Task(task),
        info.signal(),
        info,
        How::Prepared,
    ) == Sent::Queued
}

/// Sends a signal to every process of a group. `ESRCH` if there is none.
pub fn send_to_pgrp(pgrp: i32, sig: u32, info: SigInfo) -> Result<(), Errno> {
    let group = pid::find_group(pgrp).ok_or(Errno::ESRCH)?;
    let members = group.members();
    if members.is_empty() {
        return Err(Errno::ESRCH);
    }
    for process in &members {
        send_to_process(process, sig, info);
        sent_to_many(process, sig);
    }
    Ok(())
}

/// `sig` was just sent to `process` as one of several: a process that is being made by one of its threads, which nobody could find, gets it, too.
pub fn sent_to_many(process: &Process, sig: u32) {
    process.with_threads(|threads| {
        for task in threads {
            if let Some(sent) = &mut task.signals.lock().sent_to_many {
                let undone = match sig {
                    SIGCONT => SigSet::STOP,
                    _ if SigSet::STOP.has(sig) => SigSet::of(&[SIGCONT]),
                    _ => SigSet::EMPTY,
                };
                *sent = sent.minus(undone).with(sig);
            }
        }
    });
}

/// The running thread begins to make a process: from now on what is sent to several is kept for it, until one of the two below.
pub fn keep_sent_to_many(task: &Task) {
    task.signals.lock().sent_to_many = Some(SigSet::EMPTY);
}

/// Nothing more is kept; the new process, whose only thread `new` has not started, gets what was.
pub fn give_sent_to_many(task: &Task, new: &Task) {
    let sent = task.signals.lock().sent_to_many.take();
    if let Some(sent) = sent
        && !sent.is_empty()
    {
        new.process.signals.lock().pending.mark_all(sent);
        new.info.work.set(ThreadFlags::SIGPENDING);
    }
}

/// Nothing more is kept, and what was is forgotten: there is no new process.
pub fn forget_sent_to_many(task: &Task) {
    task.signals.lock().sent_to_many = None;
}

/// A synchronous fault of the running thread (SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP): if it is blocked or ignored, the default
/// action is taken.
pub fn force_fault(sig: u32, code: i32, addr: usize) {
    force(sig, SigInfo::fault(sig, code, addr));
}

/// [`force_fault`] with any details.
pub fn force(sig: u32, info: SigInfo) {
    let task = crate::task::current();
    {
        let shared = task.process.signals.lock();
        let mut own = task.signals.lock_under(&shared);
        let mut table = shared.actions.table.lock_under(&shared);
        let action = &mut table[sig as usize - 1];
        let blocked = own.blocked.has(sig);
        if blocked || action.handler == IGNORE {
            action.handler = DEFAULT;
            own.blocked = own.blocked.without(sig);
        }
    }
    send(&task.process, Target::Task(&task), sig, info, How::Forced);
}

/// Kills the running thread's process with `sig`, whatever its action is (a fault while the handler's frame is built, a bad
/// signal frame): SIGSEGV through [`force`] unless that is the signal that failed.
pub fn force_fatal(sig: u32) {
    let task = crate::task::current();
    {
        let shared = task.process.signals.lock();
        shared.actions.table.lock()[sig as usize - 1].handler = DEFAULT;
        let mut own = task.signals.lock();
        own.blocked = own.blocked.without(sig);
    }
    send(
        &task.process,
        Target::Task(&task),
        sig,
        SigInfo::kernel(sig),
        How::Forced,
    );
}

/// Whether the default action of `sig` ends the process.
fn default_is_fatal(sig: u32) -> bool {
    !SigSet::IGNORED.or(SigSet::STOP).has(sig)
}

fn send(process: &Arc<Process>, target: Target<'_>, sig: u32, info: SigInfo, how: How) -> Sent {
    let mut shared = process.signals.lock();
    if shared.group_exit.is_some() {
        return Sent::Queued;
    }
    if SigSet::STOP.with(SIGCONT).has(sig) {
        if sig == SIGCONT {
            resume(process, &mut shared);
        } else {
            discard(process, &mut shared, SigSet::of(&[SIGCONT]));
        }
    }
    let handler = shared.actions.table.lock_under(&shared)[sig as usize - 1].handler;
    let would_ignore = handler <= IGNORE
        && (handler == IGNORE || SigSet::IGNORED.has(sig) || shared.unkillable && how != How::Forced);
    let task = match target {
        Target::Task(task) => Some(task),
        Target::Process => None,
    };
    if would_ignore {
        // A blocked signal stays pending: its action may change before it is unblocked.
        let blocked = match task {
            Some(task) => is_blocked(&shared, task, sig),
            None => {
                let threads = process.threads_under(&shared);
                threads.first().is_some_and(|task| is_blocked(&shared, task, sig))
            }
        };
        if !blocked || sig == SIGKILL {
            return Sent::Dropped;
        }
    }
    let room = |pending: &Pending| match how {
        How::Prepared => Room::Own,
        How::Forced => Room::Queue,
        // One always has room.
        How::Ordinary
            if pending.len() == 0
                || pending.len() < process.limits.soft(rlimit::which::SIGPENDING) as usize =>
        {
            Room::Queue
        }
        How::Ordinary => Room::None,
    };
    let queued = match task {
        Some(task) => {
            let mut own = task.signals.lock_under(&shared);
            let room = room(&own.pending);
            own.pending.push(info, room)
        }
        None => {
            let room = room(&shared.pending);
            shared.pending.push(info, room)
        }
    };
    match queued {
        Queued::Already if how == How::Prepared => return Sent::Queued,
        Queued::Already => return Sent::Dropped,
        Queued::NoRoom => return Sent::NoRoom,
        Queued::Yes => {}
    }
    let fatal = {
        let threads;
        let chosen = match task {
            Some(task) => wants(&shared, task, sig).then_some(task),
            None => {
                threads = process.threads_under(&shared);
                threads.iter().find(|task| wants(&shared, task, sig))
            }
        };
        let fatal = handler == DEFAULT
            && default_is_fatal(sig)
            && !fatal::says(sig)
            && chosen.is_some_and(|chosen| {
                sig == SIGKILL || !chosen.signals.lock_under(&shared).real_blocked.has(sig)
            });
        if !fatal && let Some(chosen) = chosen {
            wake(chosen, false);
        }
        fatal
    };
    if fatal {
        shared.group_exit = Some(sig as i32);
        kill_threads(process, None);
        return Sent::Queued;
    }
    notify_signalfd(shared);
    Sent::Queued
}

/// Wakes readers of signalfds, without the lock.
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

/// Whether `task` would take `sig` now. A stopped thread takes only what nobody can keep waiting; the rest is for when it goes on.
fn wants(shared: &Shared<'_>, task: &Task, sig: u32) -> bool {
    if task.flags().contains(TaskFlags::EXITING) {
        return false;
    }
    let own = task.signals.lock_under(shared);
    sig == SIGKILL || !own.blocked.has(sig) && !own.stopped
}

/// Forgets pending signals of `set` everywhere in the process.
pub(super) fn discard(process: &Process, shared: &mut ProcessSignals, set: SigSet) {
    shared.pending.discard(set);
    process.with_threads(|threads| {
        for task in threads {
            task.signals.lock().pending.discard(set);
        }
    });
}

/// SIGCONT was sent: pending stops are forgotten and stopped threads go on, whatever its action is.
fn resume(process: &Process, shared: &mut ProcessSignals) {
    let was_stopped = shared.stopped;
    let stopping = shared.stop_signal.is_some();
    shared.stop_signal = None;
    shared.stop_dequeued = false;
    shared.stop_remaining = 0;
    shared.stopped = false;
    if was_stopped {
        shared.news = StopNews::Continued;
        shared.tell_continued = true;
    } else if stopping {
        // The stop was not complete yet: the parent hears of a stop and a continuation at once.
        shared.tell_continued = true;
        shared.news = StopNews::Continued;
    }
    shared.pending.discard(SigSet::STOP);
    process.with_threads(|threads| {
        for task in threads {
            {
                let mut own = task.signals.lock();
                own.pending.discard(SigSet::STOP);
                own.besides.remove(Besides::STOP);
                own.stopped = false;
            }
            if stopping || was_stopped {
                task.info.work.set(ThreadFlags::SIGPENDING);
                sched::wake_task(task, TaskState::STOPPED);
            }
        }
    });
}

/// Gives every thread but `except` a SIGKILL: the process ends, or one of its threads calls exec. The process's lock is held.
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
                own.besides.remove(Besides::STOP);
                own.stopped = false;
            }
            task.killed.store(true, core::sync::atomic::Ordering::Relaxed);
            wake(task, true);
        }
        count
    })
}

/// Makes a thread look at its signals: wakes it from a sleep that signals (or, `fatal`, only death) may end, or interrupts the CPU it
/// runs on.
pub(crate) fn wake(task: &Arc<Task>, fatal: bool) {
    task.info.work.set(ThreadFlags::SIGPENDING);
    if Arc::ptr_eq(task, &sched::current()) {
        // It is here and awake, and looks at its flags on its way out.
        return;
    }
    let mask = if fatal {
        TaskState::FOR_KILL
    } else {
        TaskState::INTERRUPTIBLE
    };
    if !sched::wake_task(task, mask) {
        kick(task);
    }
}

/// Interrupts the CPU `task` runs on, so that it looks at its flags. If it does not run there any more, little is lost.
fn kick(task: &Task) {
    preempt::disable();
    let cpu = task.info.cpu.load(core::sync::atomic::Ordering::Relaxed) as usize;
    if cpu != smp::cpu_id() {
        interrupt::send_ipi(cpu, interrupt::Ipi::Reschedule);
    }
    preempt::enable();
}

/// Recomputes the flag that brings the running thread here. Both locks are held.
#[inline]
pub(super) fn recalculate(task: &Task, shared: &ProcessSignals, own: &TaskSignals) {
    let deliverable = own.pending.set().or(shared.pending.set()).minus(own.blocked);
    if deliverable.is_empty()
        && !own.besides.contains(Besides::STOP)
        && !shared.tell_continued
        && shared.group_exit.is_none()
        && shared.exec.is_none()
    {
        task.info.work.clear(ThreadFlags::SIGPENDING);
    } else {
        task.info.work.set(ThreadFlags::SIGPENDING);
    }
}

/// [`recalculate`] where all but pending signals was just found not to be there.
#[inline]
pub(super) fn recalculate_pending(task: &Task, shared: &ProcessSignals, own: &TaskSignals) {
    if own
        .pending
        .set()
        .or(shared.pending.set())
        .minus(own.blocked)
        .is_empty()
    {
        task.info.work.clear(ThreadFlags::SIGPENDING);
    } else {
        task.info.work.set(ThreadFlags::SIGPENDING);
    }
}

/// `task` no longer takes signals of `set`: wakes another thread for each that waits for the process, since it may have been `task` that was woken for it.
#[inline]
pub(super) fn retarget(task: &Arc<Task>, shared: &ProcessSignals, set: SigSet) {
    let orphans = shared.pending.set().and(set);
    if !orphans.is_empty() {
        wake_others(task, orphans);
    }
}

#[cold]
#[inline(never)]
fn wake_others(task: &Arc<Task>, mut left: SigSet) {
    task.process.with_threads(|threads| {
        for other in threads.iter().filter(|other| !Arc::ptr_eq(other, task)) {
            if left.is_empty() {
                break;
            }
            if other.flags().contains(TaskFlags::EXITING) {
                continue;
            }
            let takes = left.minus(other.signals.lock().blocked);
            if !takes.is_empty() {
                left = left.minus(takes);
                wake(other, false);
            }
        }
    });
}
