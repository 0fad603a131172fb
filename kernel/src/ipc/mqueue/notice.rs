//! `mq_notify`: a process is told once that a message has come to the empty queue, for which nobody waited.

use crate::signal::info::code;
use crate::signal::{SigInfo, send_to_process};
use crate::task::ns::pid::Id;
use crate::task::{ExitState, Process, current};
use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use core::sync::atomic::Ordering::Relaxed;

/// What [`Listener`]s are told (`NOTIFY_WOKENUP`): a message has come.
pub const WOKEN: u8 = 1;
/// What [`Listener`]s are told (`NOTIFY_REMOVED`): the process will not be told.
pub const REMOVED: u8 = 2;

/// A socket that gets a word about a queue (`SIGEV_THREAD`).
pub trait Listener: Send + Sync {
    /// Sends it. May sleep for memory.
    fn tell(self: Box<Self>, word: u8);
}

/// How a process is told. The numbers are those of `sigev_notify`.
pub enum How {
    /// By a signal (`SIGEV_SIGNAL`); 0 is none. `value` comes with it.
    Signal {
        /// Its number.
        number: u32,
        /// What comes with it.
        value: usize,
    },
    /// Not at all (`SIGEV_NONE`).
    Nothing,
    /// By a socket (`SIGEV_THREAD`).
    Socket(Box<dyn Listener>),
}

/// A process that is told of messages.
#[derive(Clone)]
pub struct Owner(Weak<Process>);

impl Owner {
    /// Whether it is this one.
    pub fn is(&self, process: &Arc<Process>) -> bool {
        core::ptr::eq(self.0.as_ptr(), Arc::as_ptr(process))
    }
    /// Whether both are the same.
    pub fn is_same(&self, other: &Self) -> bool {
        self.0.ptr_eq(&other.0)
    }
    /// Whether it has not ended. It forgets the notice when it closes the queue's descriptor, unless that is
    /// in a table which it shares with another process. With no spinlock held.
    pub fn is_living(&self) -> bool {
        let process = self.0.upgrade();
        process.is_some_and(|process| process.exit_state() == ExitState::Alive)
    }
}

/// Who is told, and how.
pub struct Notice {
    owner: Owner,
    /// The owner's number, even when it has ended.
    pid: Id,
    /// How many programs it had executed. Another program does not expect the signal.
    execs: u32,
    how: How,
}

/// What the status text says of a notice.
#[derive(Clone, Copy, Default)]
pub struct Shown {
    /// `sigev_notify`.
    pub how: u32,
    /// The signal's number, 0 for none.
    pub signal: u32,
    /// The process.
    pub pid: i32,
}

impl Notice {
    /// Of the running process.
    pub fn new(how: How) -> Self {
        let process = &current().process;
        Self {
            owner: Owner(Arc::downgrade(process)),
            pid: process.id(),
            execs: process.execs.load(Relaxed),
            how,
        }
    }

    /// Who is told.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// What is shown of it.
    pub fn shown(&self) -> Shown {
        let (how, signal) = match self.how {
            How::Signal { number, .. } => (0, number),
            How::Nothing => (1, 0),
            How::Socket(_) => (2, 0),
        };
        Shown {
            how,
            signal,
            pid: self.pid.here(),
        }
    }

    /// The running thread has sent a message. With no spinlock held.
    pub fn tell(self) {
        match self.how {
            How::Nothing | How::Signal { number: 0, .. } => {}
            How::Signal { number, value } => {
                let owner = self.owner.0.upgrade();
                if let Some(owner) = owner.filter(|owner| owner.execs.load(Relaxed) == self.execs) {
                    let me = current();
                    let uid = me.with_creds(|creds| creds.uid);
                    let info =
                        SigInfo::from_sender(number, code::MESGQ, me.process.number_in(&owner.pid_ns), uid);
                    send_to_process(&owner, number, info.with_value(value));
                }
            }
            How::Socket(listener) => listener.tell(WOKEN),
        }
    }

    /// The process is not told any more. With no spinlock held.
    pub fn remove(self) {
        if let How::Socket(listener) = self.how {
            listener.tell(REMOVED);
        }
    }
}
