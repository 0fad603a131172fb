//! Calls that replace the signal mask while they run, and waiting for signals.

use super::{Action, DEFAULT, IGNORE, SigInfo, SigSet, send, set_mask};
use crate::sched;
use crate::syscall::SysResult;
use crate::task::{CurrentTask, current};
use limen_linux_abi::Errno;

/// Runs `call` with another signal mask (`ppoll`, `pselect6`, `epoll_pwait`). If a signal interrupted it, the old mask comes back only
/// after that signal's handler was entered; else at once.
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

/// Takes a pending signal of `set`, private ones first.
pub fn take(task: &CurrentTask, set: SigSet) -> Option<SigInfo> {
    let mut shared = task.process.signals.lock();
    let mut own = task.signals.lock();
    let not = SigSet(!set.0);
    let taken = own
        .pending
        .take_next(not)
        .or_else(|| shared.pending.take_next(not));
    send::recalculate(task, &shared, &own);
    drop(own);
    drop(shared);
    taken.map(tell_timer)
}

/// What was taken, when the timer that made it, if one did, has heard of that.
fn tell_timer(mut info: SigInfo) -> SigInfo {
    if info.may_be_awaited() {
        crate::time::process::signal_taken(&mut info);
    }
    info
}

/// `rt_sigtimedwait`: takes a signal of `set`, waiting until `deadline_ns` (CLOCK_MONOTONIC) if need be; `None` waits for ever.
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
    // Signals of the set are unblocked meanwhile, so that their arrival wakes this thread; `real_blocked` says that they are not
    // to be taken for deliverable.
    {
        let shared = task.process.signals.lock();
        let mut own = task.signals.lock();
        own.real_blocked = own.blocked;
        own.blocked = own.blocked.minus(set);
        send::recalculate(&task, &shared, &own);
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
        send::recalculate(&task, &shared, &own);
        drop(own);
        send::retarget(&task, &shared, newly_blocked);
        taken
    };
    match (info, slept) {
        (Some(info), _) => Ok(tell_timer(info)),
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
    let mut shared = task.process.signals.lock();
    let old;
    {
        let mut table = shared.actions.table.lock();
        old = table[sig as usize - 1];
        let Some(mut new) = new else { return Ok(old) };
        new.mask = new.mask.minus(SigSet::UNBLOCKABLE);
        table[sig as usize - 1] = new;
        if new.handler > IGNORE || new.handler == DEFAULT && !SigSet::IGNORED.has(sig) {
            return Ok(old);
        }
    }
    // Now ignored: what is pending is forgotten.
    send::discard(&task.process, &mut shared, SigSet::of(&[sig]));
    drop(shared);
    crate::time::process::signal_discarded(sig);
    Ok(old)
}

/// The signals that are pending for the running thread or its process and blocked by it.
pub fn pending() -> SigSet {
    let task = current();
    let shared = task.process.signals.lock();
    let own = task.signals.lock();
    own.pending.set().or(shared.pending.set()).and(own.blocked)
}
