//! The signal state of threads and processes.

use super::{NSIG, Pending, SigSet};
use crate::sched::WaitQueue;
use crate::sync::IrqSpinLock;
use crate::task::coredump::Dump;
use crate::task::user::Counts;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bitflags::bitflags;
use limen_linux_abi::Errno;

bitflags! {
    /// `sa_flags` (`asm-generic/signal-defs.h`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct ActionFlags: u32 {
        /// No `SIGCHLD` when children stop.
        const NOCLDSTOP = 1;
        /// Children do not become zombies.
        const NOCLDWAIT = 2;
        /// The handler takes three arguments.
        const SIGINFO = 4;
        /// A call of 32-bit programs has set it, so that its handler gets their frame. The kernel's own:
        /// programs neither see nor set it (Linux: `SA_IA32_ABI`).
        const COMPAT = 0x0200_0000;
        /// `sa_restorer` is given.
        const RESTORER = 0x0400_0000;
        /// Run the handler on the alternate stack.
        const ONSTACK = 0x0800_0000;
        /// Interrupted system calls are restarted.
        const RESTART = 0x1000_0000;
        /// The signal is not blocked while its handler runs.
        const NODEFER = 0x4000_0000;
        /// The action becomes the default one when the handler is entered.
        const RESETHAND = 0x8000_0000;
    }
}

impl ActionFlags {
    /// What a program says.
    pub const fn of(flags: u32) -> Self {
        Self::from_bits_truncate(flags & !Self::COMPAT.bits())
    }
    /// What programs see.
    pub const fn shown(self) -> u32 {
        self.difference(Self::COMPAT).bits()
    }
}

/// `SIG_DFL`.
pub const DEFAULT: usize = 0;
/// `SIG_IGN`.
pub const IGNORE: usize = 1;

/// What a process does when it gets a signal.
#[derive(Clone, Copy, Debug, Default)]
pub struct Action {
    /// [`DEFAULT`], [`IGNORE`] or the handler's address.
    pub handler: usize,
    /// Flags.
    pub flags: ActionFlags,
    /// The address to which the handler returns (`sa_restorer`).
    pub restorer: usize,
    /// Which signals are blocked while the handler runs.
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

/// The actions of all signals. Threads share them, and processes made with `CLONE_SIGHAND`.
pub struct Actions {
    /// One per signal, from signal 1. On the heap, as their 2 KiB are too much for a stack.
    pub table: IrqSpinLock<Box<[Action]>>,
    /// Readers of signalfds of these processes wait here.
    pub signalfd: WaitQueue,
}

impl Actions {
    /// All actions are the default ones. `ENOMEM`.
    pub fn new() -> Result<Arc<Self>, Errno> {
        Self::make(|table| table.resize(NSIG as usize, Action::default()))
    }
    /// A copy for another process. `ENOMEM`.
    pub fn copy(&self) -> Result<Arc<Self>, Errno> {
        Self::make(|table| table.extend_from_slice(&self.table.lock()))
    }
    fn make(fill: impl FnOnce(&mut Vec<Action>)) -> Result<Arc<Self>, Errno> {
        let mut table = Vec::new();
        crate::mm::reserve::room_exact(&mut table, NSIG as usize)?;
        fill(&mut table);
        Ok(Arc::new(Self {
            table: IrqSpinLock::new(table.into_boxed_slice()),
            signalfd: WaitQueue::new(),
        }))
    }
    /// For exec: handlers become the default action, ignored signals stay ignored.
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

/// The alternate stack (`sigaltstack`), on which handlers with `SA_ONSTACK` run.
#[derive(Clone, Copy, Debug, Default)]
pub struct AltStack {
    /// The lowest address.
    pub sp: usize,
    /// `SS_DISABLE` or `SS_AUTODISARM`.
    pub flags: u32,
    /// The size in bytes. 0: there is no alternate stack.
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
    /// What a thread has to do when it delivers signals, other than delivering them.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct Besides: u8 {
        /// Stop: its process is stopping, and this thread has not stopped yet.
        const STOP = 1;
        /// Before a handler, look at the thread's `struct rseq` of the original 32 bytes.
        const LEGACY_RSEQ = 2;
        /// Before a handler, look at the thread's longer `struct rseq`; needed only if it was interrupted in
        /// user mode.
        const RSEQ = 4;
        /// It is traced: its tracer sees its signals first.
        const TRACED = 8;
        /// Stop for its tracer, other than for a signal.
        const TRAP = 16;
        /// The stop of its process does not wait for it ([`Besides::STOP`]).
        const UNCOUNTED = 32;
    }
}

/// A thread's own signal state.
#[derive(Debug, Default)]
pub struct TaskSignals {
    /// Blocked signals.
    pub blocked: SigSet,
    /// The mask from before a system call that replaced it while it runs (Linux: `RESTORE_SIGMASK`).
    pub saved: Option<SigSet>,
    /// The mask from before `rt_sigtimedwait` unblocked the signals for which it waits. A sender treats a
    /// signal in it as blocked when it decides whether the signal is ignored or fatal.
    pub real_blocked: SigSet,
    /// Signals that were sent to this thread.
    pub pending: Pending,
    /// The alternate stack.
    pub altstack: AltStack,
    /// What to do when signals are delivered, other than delivering them. Nearly always nothing.
    pub besides: Besides,
    /// It has stopped, and counts as stopped.
    pub stopped: bool,
    /// It has taken a stop signal and not begun the stop. A `SIGCONT` in between cancels the stop.
    pub stop_dequeued: bool,
    /// While the thread makes a process: the signals that were sent meanwhile to several processes of which
    /// its own was one. The new process gets them, too.
    pub sent_to_many: Option<SigSet>,
}

impl TaskSignals {
    /// Nothing is blocked or pending. What will be queued is counted on `account`.
    #[inline]
    pub fn new(account: Option<Arc<Counts>>) -> Self {
        Self {
            blocked: SigSet::EMPTY,
            saved: None,
            real_blocked: SigSet::EMPTY,
            pending: Pending::counting(account),
            altstack: AltStack::default(),
            besides: Besides::empty(),
            stopped: false,
            stop_dequeued: false,
            sent_to_many: None,
        }
    }
}

/// What a parent may still have to be told about a child's stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum StopNews {
    /// Nothing.
    #[default]
    None,
    /// The child was stopped by this signal.
    Stopped(u32),
    /// The child continued.
    Continued,
}

/// A process's signal state.
pub struct ProcessSignals {
    /// What the process does on each signal.
    pub actions: Arc<Actions>,
    /// Signals that were sent to the process; any of its threads may take them.
    pub pending: Pending,
    /// The process ends with this wait status; all its threads are ending.
    pub group_exit: Option<i32>,
    /// The thread with this id calls exec; all others end.
    pub exec: Option<i32>,
    /// The signal because of which the process is stopping or has stopped.
    pub stop_signal: Option<u32>,
    /// How many threads have not stopped yet.
    pub stop_remaining: usize,
    /// Whether all threads have stopped.
    pub stopped: bool,
    /// What `wait` may report.
    pub news: StopNews,
    /// `SIGCONT` was sent to the stopped or stopping process: what one of its threads has to tell the parent.
    pub untold: StopNews,
    /// Neither `SIGKILL` nor a signal with its default action reaches the process (the first one).
    pub unkillable: bool,
    /// Its core file is being written.
    pub dump: Option<Arc<Dump>>,
}

impl ProcessSignals {
    /// All actions are the default ones.
    ///
    /// # Panics
    /// If there is no memory. For the first processes.
    pub fn new() -> Self {
        Self::with(Actions::new().expect("memory for the first process"), None)
    }
    /// With the given actions. What is queued is counted on `account`.
    pub fn with(actions: Arc<Actions>, account: Option<Arc<Counts>>) -> Self {
        Self {
            actions,
            pending: Pending::counting(account),
            group_exit: None,
            exec: None,
            stop_signal: None,
            stop_remaining: 0,
            stopped: false,
            news: StopNews::None,
            untold: StopNews::None,
            unkillable: false,
            dump: None,
        }
    }
}
