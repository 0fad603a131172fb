//! Delivery: what a thread does with its signals on the way to user mode.

use super::{
    Action, ActionFlags, AltStack, Besides, DEFAULT, IGNORE, ProcessSignals, SIGSEGV, SIGSTOP, SigInfo,
    SigSet, StopNews, TaskSignals, fatal, send, stop, wake,
};
use crate::arch::{frame::Frame, signal as arch, syscalls};
use crate::signal::Delivery;
use crate::sync::{InnerGuard, IrqSpinGuard};
use crate::task::{CurrentTask, coredump, current, exit, ptrace, timers};
use core::hint::black_box;
use limen_entry::Cause;
use limen_linux_abi::{Errno, Restart};

/// `SS_ONSTACK`.
pub const SS_ONSTACK: u32 = 1;
/// `SS_DISABLE`.
pub const SS_DISABLE: u32 = 2;
/// `SS_AUTODISARM`.
pub const SS_AUTODISARM: u32 = 1 << 31;

/// A signal with a handler to be run. The thread's mask and alternate stack have already been replaced by
/// those for the handler; this has the former ones.
struct Caught {
    info: SigInfo,
    action: Action,
    blocked: SigSet,
    saved: Option<SigSet>,
    altstack: AltStack,
}

impl Caught {
    const NOTHING: Self = Self {
        info: SigInfo::NOTHING,
        action: Action::DEFAULT,
        blocked: SigSet::EMPTY,
        saved: None,
        altstack: AltStack::NONE,
    };
}

/// What is done for areas of restartable sequences.
pub trait Areas {
    /// The running thread, which has a legacy area, is about to take a signal: whether
    /// [`Areas::before_handler`] would find nothing to do. Interrupts may be off.
    fn is_settled(&self, task: &CurrentTask) -> bool;
    /// The running thread, which has an area, is about to enter a handler. Interrupts are on.
    fn before_handler(&self, task: &CurrentTask, frame: &mut Frame, cause: Cause) -> Result<(), Errno>;
}

/// Delivers the running thread's pending signals before it returns to user mode. See
/// [`limen_entry::ThreadWork::signals`]. May sleep.
pub fn deliver_pending(frame: &mut Frame, cause: Cause, areas: impl Areas) {
    let task = current();
    let mut caught = Caught::NOTHING;
    let call = frame.interrupt_syscall();
    // A tracer reads and changes it meanwhile.
    black_box(&mut *frame);
    let next = next(&task, &mut caught, &areas);
    black_box(&mut *frame);
    let restart = frame.resume_syscall(call);
    match next {
        Next::Nothing => {
            if restart.is_some() && limen_entry::Frame::restart(frame).is_none() {
                // A tracer has put in what is no number: user mode makes the call again with that.
                frame.rewind_syscall();
            }
            return restore_saved_mask(&task);
        }
        Next::Handler | Next::Stepped { rseq: false } => settle_call(&task, frame, restart, &caught),
        Next::HandlerAfterRseq | Next::Stepped { rseq: true } => {
            settle_call(&task, frame, restart, &caught);
            if areas.before_handler(&task, frame, cause).is_err() {
                return no_room(&task, &caught);
            }
        }
    }
    let stops = matches!(next, Next::Stepped { .. }) && ptrace::before_handler(&task, frame);
    if enter_handler(&task, frame, &caught) && stops {
        ptrace::handler_entered(&task, frame);
    }
}

/// What the thread does next. A handler of a thread with a registered `struct rseq` may need work for
/// restartable sequences first; that is decided where the signal is taken, and not asked again for other
/// threads.
#[derive(Clone, Copy)]
enum Next {
    Nothing,
    Handler,
    HandlerAfterRseq,
    /// A handler of a thread that its tracer steps, which stops at its entry.
    Stepped {
        rseq: bool,
    },
}

/// If a system call replaced the mask and no handler runs, the old mask comes back now.
fn restore_saved_mask(task: &CurrentTask) {
    let saved = task.signals.lock().saved.take();
    if let Some(mask) = saved {
        set_mask(task, mask);
    }
}

/// Takes the next signal that has a handler and puts it into `caught`. Carries out the default actions of the
/// signals before it, so the thread may stop, or end and not return.
#[inline(always)]
fn next(task: &CurrentTask, caught: &mut Caught, areas: &impl Areas) -> Next {
    loop {
        let mut shared = task.process.signals.lock();
        if let Some(status) = shared.group_exit {
            drop(shared);
            exit::exit_group_by_signal(status);
        }
        if shared.exec.is_some_and(|tid| tid != task.tid()) {
            drop(shared);
            exit::exit_thread(0);
        }
        if shared.untold != StopNews::None {
            let news = core::mem::take(&mut shared.untold);
            drop(shared);
            stop::tell_parent(&task.process, news);
            continue;
        }
        let own = task.signals.lock_under(&shared);
        let besides = own.besides;
        let plain = besides.is_empty() || besides == Besides::LEGACY_RSEQ && areas.is_settled(task);
        if !plain {
            if besides.contains(Besides::STOP) && !besides.contains(Besides::TRAP) {
                drop(own);
                stop::take_part(task, shared);
            } else if besides.contains(Besides::TRAP) {
                drop((own, shared));
                ptrace::trap(task);
            } else if besides.contains(Besides::TRACED) {
                let rest = besides.difference(Besides::TRACED);
                let plain = rest.is_empty() || rest == Besides::LEGACY_RSEQ && areas.is_settled(task);
                let handler = if plain {
                    Next::Handler
                } else {
                    Next::HandlerAfterRseq
                };
                if let Some(next) = take_traced(task, shared, own, caught, handler) {
                    return next;
                }
            } else if let Some(next) = take_with_rseq(task, shared, own, caught) {
                return next;
            }
            continue;
        }
        if let Some(next) = take(task, shared, own, caught, Next::Handler) {
            return next;
        }
    }
}

/// Takes the next signal. If it has a handler, puts it into `caught` and returns `handler`. Else carries out
/// its default action and returns `None`.
#[inline(always)]
fn take<'a>(
    task: &'a CurrentTask,
    mut shared: IrqSpinGuard<'a, ProcessSignals>,
    mut own: InnerGuard<'a, TaskSignals>,
    caught: &mut Caught,
    handler: Next,
) -> Option<Next> {
    let blocked = own.blocked;
    let synchronous = !own
        .pending
        .set()
        .and(SigSet::SYNCHRONOUS)
        .minus(blocked)
        .is_empty();
    let from_shared = !synchronous && own.pending.set().minus(blocked).is_empty();
    let pending = if from_shared {
        &mut shared.pending
    } else {
        &mut own.pending
    };
    let Some(sig) = pending.next(blocked) else {
        wake::recalculate(task, &shared, &own);
        return Some(Next::Nothing);
    };
    pending.take(sig, &mut caught.info);
    if caught.info.is_awaited() {
        return take_of_timer(task, shared, own, caught, handler);
    }
    act::<false>(task, shared, own, caught, handler)
}

/// [`take`], from where a timer's signal was taken. The timer is told with no lock held. If it has been set
/// or deleted since it sent the signal, there is none.
#[cold]
#[inline(never)]
fn take_of_timer(
    task: &CurrentTask,
    shared: IrqSpinGuard<'_, ProcessSignals>,
    mut own: InnerGuard<'_, TaskSignals>,
    caught: &mut Caught,
    handler: Next,
) -> Option<Next> {
    own.stop_dequeued = true;
    drop((own, shared));
    if !timers::signal_taken(&mut caught.info) {
        return None;
    }
    let shared = task.process.signals.lock();
    let own = task.signals.lock_under(&shared);
    act::<true>(task, shared, own, caught, handler)
}

/// Begins to do what the process does on the signal in `caught`, which was taken. If it has a handler, puts
/// that into `caught` and returns `handler`. Else carries out the default action and returns `None`.
///
/// `LATER`: the locks were released since it was taken, with `stop_dequeued` set. Others may have stopped the
/// process meanwhile, or continued it.
#[inline(always)]
fn act<const LATER: bool>(
    task: &CurrentTask,
    shared: IrqSpinGuard<'_, ProcessSignals>,
    mut own: InnerGuard<'_, TaskSignals>,
    caught: &mut Caught,
    handler: Next,
) -> Option<Next> {
    let sig = caught.info.signal();
    let blocked = own.blocked;
    let action = &mut caught.action;
    let handled = {
        let mut table = shared.actions.table.lock_under(&shared);
        let entry = &mut table[sig as usize - 1];
        *action = *entry;
        let handled = action.handler > IGNORE;
        if handled && action.flags.contains(ActionFlags::RESETHAND) {
            entry.handler = DEFAULT;
        }
        handled
    };
    super::events::delivered(&caught.info, action);
    if handled {
        caught.blocked = blocked;
        caught.saved = own.saved.take();
        caught.altstack = own.altstack;
        let mut more = action.mask;
        if !action.flags.contains(ActionFlags::NODEFER) {
            more = more.with(sig);
        }
        own.blocked = blocked.or(more).minus(SigSet::UNBLOCKABLE);
        if own.altstack.flags & SS_AUTODISARM != 0 {
            own.altstack = AltStack::default();
        }
        if LATER {
            wake::recalculate(task, &shared, &own);
        } else {
            wake::recalculate_pending(task, &shared, &own);
        }
        if !shared.pending.set().and(more).is_empty() {
            drop(own);
            wake::retarget(task, &shared, more.minus(blocked));
        }
        return Some(handler);
    }
    let ignored = action.handler == IGNORE
        || SigSet::IGNORED.has(sig)
        || shared.unkillable && !SigSet::UNBLOCKABLE.has(sig);
    if !LATER {
        // A `SIGCONT` from now on cancels the stop of the process.
        own.stop_dequeued = true;
    }
    drop(own);
    if ignored {
        drop(shared);
    } else {
        default_action(task, shared, &caught.info);
    }
    None
}

/// [`take`] for a thread that is traced: its tracer sees the signal first.
#[cold]
#[inline(never)]
fn take_traced<'a>(
    task: &'a CurrentTask,
    mut shared: IrqSpinGuard<'a, ProcessSignals>,
    mut own: InnerGuard<'a, TaskSignals>,
    caught: &mut Caught,
    handler: Next,
) -> Option<Next> {
    let blocked = own.blocked;
    let ready = own.pending.set().minus(blocked);
    let pending = match ready.is_empty() {
        true => &mut shared.pending,
        false => &mut own.pending,
    };
    let Some(sig) = pending.next(blocked) else {
        wake::recalculate(task, &shared, &own);
        return Some(Next::Nothing);
    };
    pending.take(sig, &mut caught.info);
    // A `SIGCONT` during the stop cancels the stop of the process.
    own.stop_dequeued = true;
    if sig != super::SIGKILL {
        drop((own, shared));
        if caught.info.is_awaited() && !timers::signal_taken(&mut caught.info) {
            return None;
        }
        if !ptrace::before_delivery(task, &mut caught.info) {
            return None;
        }
        shared = task.process.signals.lock();
        own = task.signals.lock_under(&shared);
    }
    let next = act::<true>(task, shared, own, caught, handler)?;
    Some(match task.trace.steps() {
        true => Next::Stepped {
            rseq: matches!(next, Next::HandlerAfterRseq),
        },
        false => next,
    })
}

/// [`take`] for a thread whose `struct rseq` may need work before the handler.
#[cold]
#[inline(never)]
fn take_with_rseq<'a>(
    task: &'a CurrentTask,
    shared: IrqSpinGuard<'a, ProcessSignals>,
    own: InnerGuard<'a, TaskSignals>,
    caught: &mut Caught,
) -> Option<Next> {
    take(task, shared, own, caught, Next::HandlerAfterRseq)
}

/// Stops or ends the process. Its signal lock is released first.
#[inline(never)]
fn default_action(task: &CurrentTask, shared: IrqSpinGuard<'_, ProcessSignals>, info: &SigInfo) {
    let sig = info.signal();
    if !SigSet::STOP.has(sig) {
        drop(shared);
        fatal::report(task, info);
        let dumped = SigSet::COREDUMP.has(sig) && coredump::dump(task, info);
        exit::exit_group_by_signal(exit::status_of_signal(sig, dumped));
    }
    drop(shared);
    if sig == SIGSTOP || !crate::task::exit::is_orphaned(&task.process.group(), None) {
        stop::begin(task, sig);
    }
}

/// If the handler interrupts a system call, decides whether the call is restarted afterwards or fails with
/// `EINTR`.
#[inline(always)]
fn settle_call(task: &CurrentTask, frame: &mut Frame, restart: Option<Restart>, caught: &Caught) {
    if let Some(restart) = restart {
        let again = match restart {
            Restart::NoIntr => true,
            Restart::Sys => caught.action.flags.contains(ActionFlags::RESTART),
            Restart::NoHand | Restart::Block => false,
        };
        if again {
            frame.rewind_syscall();
        } else {
            frame.set_result(Err(Errno::EINTR));
        }
        if restart == Restart::Block {
            task.restart.forget();
        }
    }
}

/// Builds the signal frame, so that the thread enters the handler when it returns to user mode. `false`:
/// there was no room for it.
#[inline(always)]
fn enter_handler(task: &CurrentTask, frame: &mut Frame, caught: &Caught) -> bool {
    frame.forget_syscall();
    let delivery = delivery(frame, caught);
    arch::setup(frame, &delivery).is_ok() || enter_otherwise(task, frame, caught)
}

/// What the architecture is told about `caught`. The handler of a call of 32-bit programs has no restorer
/// here, so that `setup` does not enter it.
#[inline(always)]
fn delivery<'a>(frame: &Frame, caught: &'a Caught) -> Delivery<'a> {
    let flags = caught.action.flags;
    let (mask, altstack) = (caught.saved.unwrap_or(caught.blocked), caught.altstack);
    let sp = frame.sp();
    let stack_top =
        if flags.contains(ActionFlags::ONSTACK) && !on_altstack(&altstack, sp) && altstack.size != 0 {
            // `sigaltstack` does not check the range: on a stack that wraps around the end of the address
            // space, writing the frame fails.
            altstack.sp.wrapping_add(altstack.size)
        } else {
            sp
        };
    let restorer = flags.intersection(ActionFlags::RESTORER.union(COMPAT_ACTION)) == ActionFlags::RESTORER;
    Delivery {
        signal: caught.info.signal(),
        info: &caught.info,
        handler: caught.action.handler,
        restorer: restorer.then_some(caught.action.restorer),
        siginfo: flags.contains(ActionFlags::SIGINFO),
        mask: mask.0,
        stack_top,
        altstack: (altstack.sp, shown_flags(&altstack, sp), altstack.size),
    }
}

/// The flag of actions that calls of 32-bit programs have set, where there are such.
const COMPAT_ACTION: ActionFlags = if syscalls::COMPAT.is_some() {
    ActionFlags::COMPAT
} else {
    ActionFlags::empty()
};

/// There is no native signal frame: it cannot be written, or the handler is one that a call of 32-bit
/// programs has set and needs another. `false`: there was no room for that either.
#[cold]
#[inline(never)]
fn enter_otherwise(task: &CurrentTask, frame: &mut Frame, caught: &Caught) -> bool {
    let Action { flags, restorer, .. } = caught.action;
    if flags.intersects(COMPAT_ACTION) {
        let given = flags.contains(ActionFlags::RESTORER);
        let legacy = !given && !flags.contains(ActionFlags::ONSTACK) && restorer != 0;
        let delivery = Delivery {
            restorer: given.then_some(restorer),
            ..delivery(frame, caught)
        };
        if arch::setup_compat(frame, &delivery, legacy.then_some(restorer)).is_ok() {
            return true;
        }
    }
    no_room(task, caught);
    false
}

/// The signal frame could not be written, so no handler can run, not even one for this.
#[cold]
fn no_room(task: &CurrentTask, caught: &Caught) {
    {
        let shared = task.process.signals.lock();
        let mut own = task.signals.lock_under(&shared);
        own.blocked = caught.blocked;
        own.saved = caught.saved;
        own.altstack = caught.altstack;
        wake::recalculate(task, &shared, &own);
    }
    if caught.info.signal() == SIGSEGV {
        send::force_fatal(SIGSEGV);
    } else {
        send::force(SIGSEGV, SigInfo::kernel(SIGSEGV));
    }
}

/// Whether `sp` lies on the alternate stack. Never, for an alternate stack with `SS_AUTODISARM`.
pub(super) fn on_altstack(altstack: &AltStack, sp: usize) -> bool {
    altstack.flags & SS_AUTODISARM == 0 && sp > altstack.sp && sp - altstack.sp <= altstack.size
}

/// The alternate stack's flags as programs see them.
pub(crate) fn shown_flags(altstack: &AltStack, sp: usize) -> u32 {
    let state = if altstack.size == 0 {
        SS_DISABLE
    } else if on_altstack(altstack, sp) {
        SS_ONSTACK
    } else {
        0
    };
    state | altstack.flags & SS_AUTODISARM
}

/// `rt_sigreturn`: goes back to what the handler interrupted. A bad frame ends the process with `SIGSEGV`.
pub fn sigreturn(frame: &mut Frame) {
    let task = current();
    task.restart.forget();
    match arch::restore(frame) {
        Ok(restored) => {
            let (sp, flags, size) = restored.altstack;
            let stack = AltStack { sp, flags, size };
            replace_mask(&task, SigSet(restored.mask), |own| {
                // As on Linux, a bad alternate stack in the frame is not an error.
                let _ = own.set_altstack(stack, frame.sp());
            });
        }
        Err(_) => bad_frame(frame),
    }
}

/// `sigreturn` of 32-bit programs, or their `rt_sigreturn` if the frame has a `siginfo_t`; as [`sigreturn`].
pub fn sigreturn_compat(frame: &mut Frame, siginfo: bool) {
    let task = current();
    task.restart.forget();
    match arch::restore_compat(frame, siginfo) {
        Ok(restored) => replace_mask(&task, SigSet(restored.mask), |own| {
            if let Some((sp, flags, size)) = restored.altstack {
                // A bad one is no error.
                let _ = own.set_altstack(AltStack { sp, flags, size }, frame.sp());
            }
        }),
        Err(_) => bad_frame(frame),
    }
}

#[cold]
fn bad_frame(frame: &mut Frame) {
    frame.forget_syscall();
    frame.set_result(Ok(0));
    let info = match arch::BAD_FRAME {
        Some(code) => SigInfo::fault(SIGSEGV, code, frame.sp()),
        None => SigInfo::kernel(SIGSEGV),
    };
    send::force(SIGSEGV, info);
}

/// Replaces the running thread's mask. Signals for the process that this thread now blocks are handed to
/// other threads.
pub fn set_mask(task: &CurrentTask, mask: SigSet) {
    replace_mask(task, mask, |_| {});
}

/// [`set_mask`]; `and` changes something else under the same lock.
#[inline]
fn replace_mask(task: &CurrentTask, mask: SigSet, and: impl FnOnce(&mut TaskSignals)) {
    let mask = mask.minus(SigSet::UNBLOCKABLE);
    let shared = task.process.signals.lock();
    let newly_blocked = {
        let mut own = task.signals.lock_under(&shared);
        let newly = mask.minus(own.blocked);
        own.blocked = mask;
        and(&mut own);
        wake::recalculate(task, &shared, &own);
        newly
    };
    wake::retarget(task, &shared, newly_blocked);
}
