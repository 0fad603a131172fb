//! System calls that replace the signal mask while they run, and waiting for signals.

use super::{Action, DEFAULT, IGNORE, NSIG, SigInfo, SigSet, send, set_mask, wake};
use crate::arch::index;
use crate::sched;
use crate::task::{CurrentTask, current, timers};
use limen_linux_abi::Errno;
use limen_linux_abi::SysResult;

/// Runs `call` with another signal mask (`ppoll`, `pselect6`, `epoll_pwait`). The old mask comes back at
/// once; if a signal interrupted the call, only after that signal's handler was entered.
pub fn with_mask(mask: Option<SigSet>, call: impl FnOnce() -> SysResult) -> SysResult {
    let Some(mask) = mask else { return call() };
    let task = current();
    let old = task.signals.lock().blocked;
    set_mask(&task, mask);
    let result = call();
    let interrupted = matches!(result, Err(e) if e == Errno::EINTR || e.restart().is_some());
    if interrupted && task.signal_pending() {
        task.signals.lock().saved = Some(old);
    } else {
        set_mask(&task, old);
    }
    result
}

/// `rt_sigsuspend`: waits with another mask until a signal is delivered.
pub fn suspend(mask: SigSet) -> SysResult {
    let task = current();
    let old = task.signals.lock().blocked;
    set_mask(&task, mask);
    let _ = sched::WaitQueue::new().wait_until(|| false);
    task.signals.lock().saved = Some(old);
    Err(Errno::ERESTARTNOHAND)
}

/// `pause`.
pub fn pause() -> SysResult {
    let _ = sched::WaitQueue::new().wait_until(|| false);
    Err(Errno::ERESTARTNOHAND)
}

/// Takes a pending signal of `set`; the thread's own before the process's.
pub fn take(task: &CurrentTask, set: SigSet) -> Option<SigInfo> {
    loop {
        let taken = {
            let mut shared = task.process.signals.lock();
            let mut own = task.signals.lock();
            let not = SigSet(!set.0);
            let taken = own
                .pending
                .take_next(not)
                .or_else(|| shared.pending.take_next(not));
            wake::recalculate(task, &shared, &own);
            taken
        };
        if let Some(info) = tell_timer(taken?) {
            return Some(info);
        }
    }
}

/// Tells the timer that sent the taken signal, if one did, and returns what programs may see. `None`: the
/// timer has been set or deleted since, so there is no signal.
fn tell_timer(mut info: SigInfo) -> Option<SigInfo> {
    (!info.is_awaited() || timers::signal_taken(&mut info)).then_some(info)
}

/// `rt_sigtimedwait`: takes a signal of `set`, and waits for one until `deadline_ns` (`CLOCK_MONOTONIC`) or,
/// with `None`, for ever. `EAGAIN`: the deadline came; `EINTR`: another signal came.
pub fn timed_wait(set: SigSet, deadline_ns: Option<u64>) -> Result<SigInfo, Errno> {
    let task = current();
    let set = set.minus(SigSet::UNBLOCKABLE);
    if let Some(info) = take(&task, set) {
        return Ok(info);
    }
    let now = crate::time::now_ns();
    if deadline_ns.is_some_and(|deadline| deadline <= now) {
        return Err(Errno::EAGAIN);
    }
    // Signals of the set are unblocked meanwhile, so that they wake this thread. `real_blocked` keeps senders
    // from taking them for signals that are not blocked.
    {
        let shared = task.process.signals.lock();
        let mut own = task.signals.lock();
        own.real_blocked = own.blocked;
        own.blocked = own.blocked.minus(set);
        wake::recalculate(&task, &shared, &own);
    }
    let queue = sched::WaitQueue::new();
    let slept = match deadline_ns {
        Some(deadline) => queue.wait_until_deadline(deadline, || false).map(|_| ()),
        None => queue.wait_until(|| false),
    };
    let info = {
        let mut shared = task.process.signals.lock();
        let mut own = task.signals.lock();
        own.blocked = core::mem::take(&mut own.real_blocked);
        let newly_blocked = own.blocked.and(set);
        let not = SigSet(!set.0);
        let taken = own
            .pending
            .take_next(not)
            .or_else(|| shared.pending.take_next(not));
        wake::recalculate(&task, &shared, &own);
        drop(own);
        wake::retarget(&task, &shared, newly_blocked);
        taken
    };
    let info = match info {
        Some(info) => tell_timer(info).or_else(|| take(&task, set)),
        None => None,
    };
    match (info, slept) {
        (Some(info), _) => Ok(info),
        (None, Err(_)) => Err(Errno::EINTR),
        (None, Ok(())) => Err(Errno::EAGAIN),
    }
}

/// `rt_sigaction`: returns the old action and sets the new one.
pub fn action(sig: u32, new: Option<Action>) -> Result<Action, Errno> {
    if new.is_some() && SigSet::UNBLOCKABLE.has(sig) {
        return Err(Errno::EINVAL);
    }
    let task = current();
    let index = index::within::<{ NSIG as usize }>(sig as usize - 1);
    let mut shared = task.process.signals.lock();
    let old;
    {
        let mut table = shared.actions.table.lock();
        old = table[index];
        let Some(mut new) = new else { return Ok(old) };
        new.mask = new.mask.minus(SigSet::UNBLOCKABLE);
        table[index] = new;
        if new.handler > IGNORE || new.handler == DEFAULT && !SigSet::IGNORED.has(sig) {
            drop(table);
            drop(shared);
            if old.handler <= IGNORE {
                timers::signal_heeded(sig);
            }
            return Ok(old);
        }
    }
    // The signal is ignored now: those that are pending are dropped.
    send::discard(&task.process, &mut shared, SigSet::of(&[sig]));
    drop(shared);
    timers::signal_discarded(sig);
    Ok(old)
}

/// Drops the pending signals of the running process's POSIX timers, which are gone. It has one thread.
pub fn forget_timers() {
    let task = current();
    let mut shared = task.process.signals.lock();
    shared.pending.discard_timers();
    let mut own = task.signals.lock();
    own.pending.discard_timers();
    wake::recalculate(&task, &shared, &own);
}

/// The signals that are pending for the running thread or its process and that the thread blocks.
pub fn pending() -> SigSet {
    let task = current();
    let shared = task.process.signals.lock();
    let own = task.signals.lock();
    own.pending.set().or(shared.pending.set()).and(own.blocked)
}
