//! ptrace, the tracee's side: who traces whom, and the stops. What a tracer asks of a stopped tracee is in
//! the room `ptrace`, which uses this one.
//!
//! Locks. Links between tracers and tracees ([`links`]) change under [`super::process::TREE`], like those
//! between parents and children, since `wait` follows both; a process's list of tracees has its own lock
//! inside. What stops and continues a tracee ([`State`]) is guarded by the lock of its process's signals, and
//! changes inside the state's own lock: process's signals, list of threads, thread's signals, state. A stop
//! and what continues it take neither `TREE` nor any other lock that not only this process uses; the tracer
//! is told with no lock held.
//!
//! A thread that is not traced meets nothing of this: `Besides::TRACED` sends a tracee out of the quick way
//! of signal delivery, bits of the system call work word bring it to its stops there, and the rest asks
//! [`Trace::is_traced`] where it is cold.

mod debug;
mod links;
mod stop;

pub use debug::{before_user, load_debug};
pub use links::{Tracee, attach, detach, is_tracer, traceme};
pub(in crate::task) use links::{
    ended_thread, fork_event, inherit, leader_replaced, reap, room_for_child, seen_by_tracer,
    tell_tracer_of_exit, thread_ends, tracer_ends,
};
pub use stop::{
    before_delivery, before_handler, call_enter, call_exit, event, exec, handler_entered, interrupt, kills,
    listen, notify, resume, seccomp, trap,
};

use super::Task;
use super::creds::{Creds, cap};
use super::ns::user::UserRef;
use crate::arch::{frame::Frame, regset};
use crate::sched::entity::with_current_context;
use crate::signal::{ProcessSignals, SigInfo};
use crate::sync::{InnerGuard, IrqSpinGuard, IrqSpinLock};
use alloc::sync::{Arc, Weak};
use bitflags::bitflags;
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};

bitflags! {
    /// What a tracer asked for (`PTRACE_O_*`), and how it traces.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Options: u32 {
        /// System call stops are told from others by bit 7 of the signal.
        const SYSGOOD = 1;
        /// Events: one bit each, at the event's number.
        const FORK = 1 << 1;
        /// See above.
        const VFORK = 1 << 2;
        /// See above.
        const CLONE = 1 << 3;
        /// See above.
        const EXEC = 1 << 4;
        /// See above.
        const VFORK_DONE = 1 << 5;
        /// See above.
        const EXIT = 1 << 6;
        /// See above.
        const SECCOMP = 1 << 7;
        /// Tracees are killed when their tracer ends.
        const EXITKILL = 1 << 20;
        /// Filters of seccomp are not asked.
        const SUSPEND_SECCOMP = 1 << 21;
        /// Traced, at all.
        const TRACED = 1 << 30;
        /// By `PTRACE_SEIZE`.
        const SEIZED = 1 << 31;
        /// What `PTRACE_SETOPTIONS` may set.
        const SETTABLE = 0xff | 1 << 20 | 1 << 21;
    }
}

/// `PTRACE_EVENT_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are Linux's")]
pub enum Event {
    Fork = 1,
    Vfork = 2,
    Clone = 3,
    Exec = 4,
    VforkDone = 5,
    Exit = 6,
    Seccomp = 7,
    Stop = 128,
}

/// A stop of a tracee.
pub struct Stop {
    /// What `wait` reports, without the lowest byte: a signal, and above it an event.
    pub code: i32,
    /// `wait` has not reported it yet.
    pub untold: bool,
    /// The details, which the tracer may change. None at a group-stop.
    pub info: Option<SigInfo>,
    /// `PTRACE_LISTEN`: it stays stopped, but requests and `wait` no longer see that.
    pub listening: bool,
    /// It is over: the signal that the tracer wants to be delivered, 0 for none.
    over: Option<i32>,
}

/// A tracee's state.
pub struct State {
    tracer: Option<Weak<Task>>,
    /// The credentials with which the tracing was asked for: the tracer's or, if the tracee wanted it, the
    /// tracee's own.
    by: Option<Arc<Creds>>,
    /// The stop that it is in.
    pub stop: Option<Stop>,
    /// It is to stop: for `PTRACE_INTERRUPT`, a group-stop or at its start; because a group-stop began or
    /// ended.
    trap_stop: bool,
    trap_notify: bool,
    /// `PTRACE_GETEVENTMSG`.
    pub message: usize,
}

/// Whose the trap flag in a thread's registers is.
mod step {
    /// The program's, if it is set.
    pub const NONE: u8 = 0;
    /// The tracer's.
    pub const SET: u8 = 1;
    /// That of a tracer which has gone.
    pub const LEFT: u8 = 2;
}

/// What a thread has for being traced.
pub struct Trace {
    options: AtomicU32,
    step: AtomicU8,
    state: IrqSpinLock<State>,
}

impl Trace {
    /// Not traced.
    pub const fn new() -> Self {
        Self {
            options: AtomicU32::new(0),
            step: AtomicU8::new(step::NONE),
            state: IrqSpinLock::new(State {
                tracer: None,
                by: None,
                stop: None,
                trap_stop: false,
                trap_notify: false,
                message: 0,
            }),
        }
    }
    /// What the tracer asked for.
    #[inline]
    pub fn options(&self) -> Options {
        Options::from_bits_retain(self.options.load(Ordering::Relaxed))
    }
    /// Whether it is traced. That changes at any time, unless the lock of its process's signals is held.
    #[inline(always)]
    pub fn is_traced(&self) -> bool {
        self.options.load(Ordering::Relaxed) != 0
    }
    /// Sets the options that can be set.
    pub fn set_options(&self, options: Options) {
        // One that has just ended is not traced any more, and stays so.
        let _ = self
            .options
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |now| {
                let kept = Options::from_bits_retain(now).difference(Options::SETTABLE);
                (now != 0).then(|| kept.union(options).bits())
            });
    }
    fn set(&self, options: Options) {
        self.options.store(options.bits(), Ordering::Relaxed);
    }
    /// The state. The process's signals are locked before, unless it is only read.
    pub fn state(&self) -> IrqSpinGuard<'_, State> {
        self.state.lock()
    }
    /// The same, for who has locked the process's signals.
    pub fn state_under(&self, shared: &IrqSpinGuard<'_, ProcessSignals>) -> InnerGuard<'_, State> {
        self.state.lock_under(shared)
    }
    /// The tracer has set the trap flag for a single step.
    pub fn set_step(&self, set: bool) {
        self.step
            .store(if set { step::SET } else { step::NONE }, Ordering::Relaxed);
    }
    /// Whether one has. Forgets it.
    pub fn take_step(&self) -> bool {
        self.step.swap(step::NONE, Ordering::Relaxed) != step::NONE
    }
    /// Whether one has.
    pub fn steps(&self) -> bool {
        self.step.load(Ordering::Relaxed) != step::NONE
    }
    /// The thread no longer has the tracer that set the trap flag.
    fn leave_step(&self) {
        let (set, left) = (step::SET, step::LEFT);
        let _ = self
            .step
            .compare_exchange(set, left, Ordering::Relaxed, Ordering::Relaxed);
    }
    /// The running thread has trapped after a step: whether that was for a tracer which has gone since then,
    /// so that the flag is to be cleared and nothing else. Forgets it.
    pub fn take_left_step(&self) -> bool {
        let (left, none) = (step::LEFT, step::NONE);
        self.step
            .compare_exchange(left, none, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }
    /// The tracer.
    pub fn tracer(&self) -> Option<Arc<Task>> {
        if !self.is_traced() {
            return None;
        }
        self.state.lock().tracer.as_ref()?.upgrade()
    }
    /// Whether the tracer, if there is one, may trace whoever belongs to the user namespace `ns`: then a
    /// program may gain rights there, and what nobody else may read is not hidden from the tracer
    /// (`ptracer_capable`).
    pub fn may_trace_in(&self, ns: &UserRef) -> bool {
        let may = |by: &Arc<Creds>| by.capable_in(ns, cap::SYS_PTRACE);
        !self.is_traced() || self.state.lock().by.as_ref().is_none_or(may)
    }
}

/// The running thread, with the registers `frame`, has trapped after a step: whether its tracer has gone
/// since it asked for that. Then nobody is to hear of it.
pub fn left_step(frame: &mut Frame) -> bool {
    let left = crate::task::current().trace.take_left_step();
    if left {
        with_current_context(|context| regset::stepping(frame, context, None));
    }
    left
}

impl State {
    /// Whether it is in a stop, even in one that requests do not see.
    pub fn is_in_stop(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.over.is_none())
    }
    /// The stop, if requests see it.
    pub fn stopped(&mut self) -> Option<&mut Stop> {
        self.stop
            .as_mut()
            .filter(|stop| stop.over.is_none() && !stop.listening)
    }
    /// What `wait` has to report. Forgets it if `take`.
    pub(in crate::task) fn news(&mut self, take: bool) -> Option<i32> {
        let stop = self.stopped().filter(|stop| stop.untold)?;
        stop.untold = !take;
        Some(stop.code)
    }
}
