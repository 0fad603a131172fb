//! The signal state of threads and processes.

use super::{NSIG, Pending, SigSet};
use crate::sched::WaitQueue;
use crate::sync::IrqSpinLock;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bitflags::bitflags;
use limen_linux_abi::Errno;

bitflags! {
    /// `sa_flags` (`asm-generic/signal-defs.h`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct ActionFlags: u32 {
        /// No SIGCHLD when children stop.
        const NOCLDSTOP = 1;
        /// Children do not become zombies.
        const NOCLDWAIT = 2;
        /// The handler takes three arguments.
        const SIGINFO = 4;
        /// `sa_restorer` is given.
        const RESTORER = 0x0400_0000;
        /// Run the handler on the alternate stack.
        const ONSTACK = 0x0800_0000;
        /// Interrupted calls are restarted.
        const RESTART = 0x1000_0000;
        /// The signal is not blocked while its handler runs.
        const NODEFER = 0x4000_0000;
        /// Back to the default action once the handler runs.
        const RESETHAND = 0x8000_0000;
    }
}

/// `SIG_DFL`.
pub const DEFAULT: usize = 0;
/// `SIG_IGN`.
pub const IGNORE: usize = 1;

/// What a process does on a signal.
#[derive(Clone, Copy, Debug, Default)]
pub struct Action {
    /// [`DEFAULT`], [`IGNORE`] or the handler's address.
    pub handler: usize,
    /// Flags.
    pub flags: ActionFlags,
    /// Where the handler returns to.
    pub restorer: usize,
    /// What is blocked while the handler runs.
    pub mask: SigSet,
}

impl Action {
    /// The default action.
    pub const DEFAULT: Self = Self {
        handler: DEFAULT,
        flags: ActionFlags::empty(),
        restorer: 0,
        mask: SigSet::EMPTY,
    };
}

/// The actions of all signals; shared by threads, and by processes made with `CLONE_SIGHAND`.
pub struct Actions {
    /// One per signal, from signal 1. Two KiB: they never lie on a stack.
    pub table: IrqSpinLock<Box<[Action]>>,
    /// Readers of signalfds of these processes wait here.
    pub signalfd: WaitQueue,
}

impl Actions {
    /// Everything at its default. `ENOMEM`.
    pub fn new() -> Result<Arc<Self>, Errno> {
        Self::make(|table| table.resize(NSIG as usize, Action::default()))
    }
    /// The same actions for another process. `ENOMEM`.
    pub fn copy(&self) -> Result<Arc<Self>, Errno> {
        Self::make(|table| table.extend_from_slice(&self.table.lock()))
    }
    fn make(fill: impl FnOnce(&mut Vec<Action>)) -> Result<Arc<Self>, Errno> {
        let mut table = Vec::new();
        table
            .try_reserve_exact(NSIG as usize)
            .map_err(|_| Errno::ENOMEM)?;
        fill(&mut table);
        Ok(Arc::new(Self {
            table: IrqSpinLock::new(table.into_boxed_slice()),
            signalfd: WaitQueue::new(),
        }))
    }
    /// What a new program starts with: handlers are gone, what is ignored stays ignored.
    pub fn forget_handlers(&self) {
        for action in self.table.lock().iter_mut() {
            let handler = if action.handler == IGNORE { IGNORE } else { DEFAULT };
            *action = Action {
                handler,
                ..Action::default()
            };
        }
    }
    /// One signal's action.
    #[inline]
    pub fn get(&self, sig: u32) -> Action {
        self.table.lock()[sig as usize - 1]
    }
}

/// Where handlers with `SA_ONSTACK` run.
#[derive(Clone, Copy, Debug, Default)]
pub struct AltStack {
    /// Lowest address.
    pub sp: usize,
    /// `SS_DISABLE` or `SS_AUTODISARM`.
    pub flags: u32,
    /// Bytes; 0: there is none.
    pub size: usize,
}

impl AltStack {
    /// None.
    pub const NONE: Self = Self {
        sp: 0,
        flags: 0,
        size: 0,
    };
}

bitflags! {
    /// What a thread must do when it delivers signals, besides that.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct Besides: u8 {
        /// It takes part in a group stop that is under way and has not stopped yet.
        const STOP = 1;
        /// It has a legacy area of restartable sequences, which must be looked at before it enters a handler.
        const LEGACY_RSEQ = 2;
        /// It has a longer area, which must be looked at only if it was interrupted.
        const RSEQ = 4;
    }
}

/// A thread's own signal state.
#[derive(Debug, Default)]
pub struct TaskSignals {
    /// Blocked signals.
    pub blocked: SigSet,
    /// The mask to return to after a call that replaced it for its duration (`RESTORE_SIGMASK`).
    pub saved: Option<SigSet>,
    /// While `rt_sigtimedwait` waits: the mask it lowered for that time. A signal in it counts as blocked when the kernel asks
    /// whether it would be ignored or fatal.
    pub real_blocked: SigSet,
    /// Signals for this thread.
    pub pending: Pending,
    /// The alternate stack.
    pub altstack: AltStack,
    /// What is to be done besides, nearly always nothing.
    pub besides: Besides,
    /// It has stopped (is counted as such).
    pub stopped: bool,
    /// While it makes a process: signals that were sent to several processes meanwhile, this one among them. The new process gets them, too.
    pub sent_to_many: Option<SigSet>,
}

impl TaskSignals {
    /// Nothing blocked, nothing pending.
    pub fn new() -> Self {
        Self::default()
    }
}

/// What a parent may still have to be told about its child's stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum StopNews {
    /// Nothing.
    #[default]
    None,
    /// It stopped, by this signal.
    Stopped(u32),
    /// It continued.
    Continued,
}

/// A process's signal state.
pub struct ProcessSignals {
    /// What it does on each signal.
    pub actions: Arc<Actions>,
    /// Signals for any of its threads.
    pub pending: Pending,
    /// It ends, with this wait status; every thread is on its way out.
    pub group_exit: Option<i32>,
    /// This thread calls exec: all others end.
    pub exec: Option<i32>,
    /// A stop is under way or complete: the signal that caused it.
    pub stop_signal: Option<u32>,
    /// A stop signal was taken and its stop has not begun; a SIGCONT in between cancels it.
    pub stop_dequeued: bool,
    /// How many threads have not stopped yet.
    pub stop_remaining: usize,
    /// Whether all have.
    pub stopped: bool,
    /// What `wait` may report.
    pub news: StopNews,
    /// A continued thread still has to tell the parent.
    pub tell_continued: bool,
    /// SIGKILL and signals at their default action do not reach it (the first process).
    pub unkillable: bool,
}

impl ProcessSignals {
    /// Everything at its default.
    /// Panics without memory: for the first processes.
    pub fn new() -> Self {
        Self::with(Actions::new().expect("memory for the first process"))
    }
    /// With these actions.
    pub fn with(actions: Arc<Actions>) -> Self {
        Self {
            actions,
            pending: Pending::new(),
            group_exit: None,
            exec: None,
            stop_signal: None,
            stop_dequeued: false,
            stop_remaining: 0,
            stopped: false,
            news: StopNews::None,
            tell_continued: false,
            unkillable: false,
        }
    }
}
