//! Delivery: what a thread does with its signals on the way to user mode.

use super::{
    ActionFlags, AltStack, Besides, DEFAULT, IGNORE, ProcessSignals, SIGSEGV, SIGSTOP, SigInfo, SigSet,
    StopNews, TaskSignals, fatal, send, stop,
};
use crate::arch::{frame::Frame, signal as arch};
use crate::signal::Delivery;
use crate::sync::{InnerGuard, IrqSpinGuard};
use crate::task::{CurrentTask, current, exit};
use limen_entry::{Frame as _, Interrupted};
use limen_linux_abi::{Errno, Restart};

/// `SS_ONSTACK`.
pub const SS_ONSTACK: u32 = 1;
/// `SS_DISABLE`.
pub const SS_DISABLE: u32 = 2;
/// `SS_AUTODISARM`.
pub const SS_AUTODISARM: u32 = 1 << 31;

/// A signal with a handler to run. The thread's mask and alternate stack are those for the handler already; here is what they were.
struct Caught {
    info: SigInfo,
    action: super::Action,
    blocked: SigSet,
    saved: Option<SigSet>,
    altstack: AltStack,
}

impl Caught {
    const NOTHING: Self = Self {
        info: SigInfo::NOTHING,
        action: super::Action::DEFAULT,
        blocked: SigSet::EMPTY,
        saved: None,
        altstack: AltStack::NONE,
    };
}

/// Delivers what is pending for the running thread before it returns to user mode; see `limen_entry::Kernel::signals`.
pub fn deliver_pending(frame: &mut Frame, interrupted: Interrupted) {
    let task = current();
    let mut caught = Caught::NOTHING;
    let next = next(&task, &mut caught);
    if caught.info.may_be_awaited() {
        crate::time::process::signal_taken(&mut caught.info);
    }
    match next {
        Next::Nothing => return restore_saved_mask(&task),
        Next::Handler => settle_call(&task, frame, &caught),
        Next::HandlerAfterRseq => {
            settle_call(&task, frame, &caught);
            if crate::rseq::before_handler(&task, frame, interrupted).is_err() {
                return no_room(&task, &caught);
            }
        }
    }
    enter_handler(&task, frame, &caught);
}

/// What a thread does with its signals. Threads with an area of restartable sequences that may be in need go another way from where it is known, so
/// that others are not asked again.
#[derive(Clone, Copy)]
enum Next {
    Nothing,
    Handler,
    HandlerAfterRseq,
}

/// The mask a call replaced for its duration comes back when no handler takes care of it.
fn restore_saved_mask(task: &CurrentTask) {
    let saved = task.signals.lock().saved.take();
    if let Some(mask) = saved {
        set_mask(task, mask);
    }
}

/// Takes the next signal that has a handler into `caught`. Carries out the default actions of those before it. May stop, may not return.
#[inline(always)]
fn next(task: &CurrentTask, caught: &mut Caught) -> Next {
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
        if shared.tell_continued {
            shared.tell_continued = false;
            drop(shared);
            stop::tell_parent(&task.process, StopNews::Continued);
            continue;
        }
        let own = task.signals.lock_under(&shared);
        let besides = own.besides;
        let plain = besides.is_empty() || besides == Besides::LEGACY_RSEQ && crate::rseq::is_settled(task);
        if !plain {
            if besides.contains(Besides::STOP) {
                drop(own);
                stop::take_part(task, shared);
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

/// Takes the next signal. If it has a handler, it is put into `caught`, and the answer is `handler`; else its default action is carried out (`None`).
#[inline(always)]
fn take(
    task: &CurrentTask,
    mut shared: IrqSpinGuard<'_, ProcessSignals>,
    mut own: InnerGuard<'_, TaskSignals>,
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
        send::recalculate(task, &shared, &own);
        return Some(Next::Nothing);
    };
    pending.take(sig, &mut caught.info);
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
        send::recalculate_pending(task, &shared, &own);
        if !shared.pending.set().and(more).is_empty() {
            drop(own);
            send::retarget(task, &shared, more.minus(blocked));
        }
        return Some(handler);
    }
    let ignored = action.handler == IGNORE || SigSet::IGNORED.has(sig) || shared.unkillable;
    drop(own);
    if ignored {
        drop(shared);
    } else {
        default_action(task, shared, &caught.info);
    }
    if caught.info.may_be_awaited() {
        crate::time::process::signal_taken(&mut caught.info);
    }
    None
}

/// [`take`] for a thread whose area may be in need.
#[cold]
#[inline(never)]
fn take_with_rseq(
    task: &CurrentTask,
    shared: IrqSpinGuard<'_, ProcessSignals>,
    own: InnerGuard<'_, TaskSignals>,
    caught: &mut Caught,
) -> Option<Next> {
    take(task, shared, own, caught, Next::HandlerAfterRseq)
}

/// Stops the process or ends it, whose signal lock is given back.
#[inline(never)]
fn default_action(task: &CurrentTask, mut shared: IrqSpinGuard<'_, ProcessSignals>, info: &SigInfo) {
    let sig = info.signal();
    if !SigSet::STOP.has(sig) {
        drop(shared);
        fatal::report(task, info);
        exit::exit_group_by_signal(sig as i32);
    }
    shared.stop_dequeued = true;
    drop(shared);
    if sig == SIGSTOP || !crate::task::exit::is_orphaned(&task.process.group(), None) {
        stop::begin(task, sig);
    }
}

/// What the handler interrupts may be a system call, which is then repeated or fails.
#[inline(always)]
fn settle_call(task: &CurrentTask, frame: &mut Frame, caught: &Caught) {
    if let Some(restart) = frame.restart() {
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

/// Makes the thread enter the handler when it returns to user mode.
#[inline(always)]
fn enter_handler(task: &CurrentTask, frame: &mut Frame, caught: &Caught) {
    let sig = caught.info.signal();
    let flags = caught.action.flags;
    frame.forget_syscall();
    let (mask, altstack) = (caught.saved.unwrap_or(caught.blocked), caught.altstack);
    let sp = frame.sp();
    let stack_top =
        if flags.contains(ActionFlags::ONSTACK) && !on_altstack(&altstack, sp) && altstack.size != 0 {
            // No range was asked for: a stack around the end of the address space is one nothing can be put on.
            altstack.sp.wrapping_add(altstack.size)
        } else {
            sp
        };
    let delivery = Delivery {
        signal: sig,
        info: &caught.info,
        handler: caught.action.handler,
        restorer: flags
            .contains(ActionFlags::RESTORER)
            .then_some(caught.action.restorer),
        siginfo: flags.contains(ActionFlags::SIGINFO),
        mask: mask.0,
        stack_top,
        altstack: (altstack.sp, shown_flags(&altstack, sp), altstack.size),
    };
    if arch::setup(frame, &delivery).is_err() {
        no_room(task, caught);
    }
}

/// There was no room for the frame: the handler can't be told, not even of this.
#[cold]
fn no_room(task: &CurrentTask, caught: &Caught) {
    {
        let shared = task.process.signals.lock();
        let mut own = task.signals.lock_under(&shared);
        own.blocked = caught.blocked;
        own.saved = caught.saved;
        own.altstack = caught.altstack;
        send::recalculate(task, &shared, &own);
    }
    if caught.info.signal() == SIGSEGV {
        send::force_fatal(SIGSEGV);
    } else {
        send::force(SIGSEGV, SigInfo::kernel(SIGSEGV));
    }
}

/// Whether `sp` lies on the alternate stack (never, as far as this goes, on one that disarms itself).
pub(super) fn on_altstack(altstack: &AltStack, sp: usize) -> bool {
    altstack.flags & SS_AUTODISARM == 0 && sp > altstack.sp && sp - altstack.sp <= altstack.size
}

/// The alternate stack's flags as user space sees them.
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

/// `rt_sigreturn`: back to what the handler interrupted. A bad frame ends the process with SIGSEGV.
pub fn sigreturn(frame: &mut Frame) {
    let task = current();
    task.restart.forget();
    match arch::restore(frame) {
        Ok(restored) => {
            let (sp, flags, size) = restored.altstack;
            let stack = AltStack { sp, flags, size };
            replace_mask(&task, SigSet(restored.mask), |own| {
                // As in Linux, a bad stack in the frame is not an error here.
                let _ = own.set_altstack(stack, frame.sp());
            });
        }
        Err(_) => {
            frame.forget_syscall();
            frame.set_result(Ok(0));
            let info = match arch::BAD_FRAME {
                Some(code) => SigInfo::fault(SIGSEGV, code, frame.sp()),
                None => SigInfo::kernel(SIGSEGV),
            };
            send::force(SIGSEGV, info);
        }
    }
}

/// Replaces the running thread's mask. Signals that become blocked for it but wait for the whole process go to another thread.
pub fn set_mask(task: &CurrentTask, mask: SigSet) {
    replace_mask(task, mask, |_| {});
}

/// [`set_mask`], with something else to be changed under the same lock.
#[inline]
fn replace_mask(task: &CurrentTask, mask: SigSet, and: impl FnOnce(&mut TaskSignals)) {
    let mask = mask.minus(SigSet::UNBLOCKABLE);
    let shared = task.process.signals.lock();
    let newly_blocked = {
        let mut own = task.signals.lock_under(&shared);
        let newly = mask.minus(own.blocked);
        own.blocked = mask;
        and(&mut own);
        send::recalculate(task, &shared, &own);
        newly
    };
    send::retarget(task, &shared, newly_blocked);
}
