//! Signals: generation, delivery, masks, stops, alternate stacks.
//!
//! * [`send`]: which thread gets a signal;
//! * [`many`]: signals to several processes, one of which is just making another;
//! * [`mod@wake`]: waking the thread that is to look at its signals;
//! * [`deliver`]: what a thread does with its signals on the way to user mode;
//! * [`fatal`]: what the log says of programs that a signal ends;
//! * [`frame`]: what an architecture that builds a signal frame is told;
//! * [`stop`]: job control;
//! * [`mask`]: system calls that replace the mask while they run or wait for signals;
//! * [`timer`]: signals of POSIX timers.

#![forbid(unsafe_code)]

pub(crate) mod altstack;
pub(crate) mod deliver;
mod events;
pub mod fatal;
mod frame;
pub mod info;
mod many;
pub mod mask;
mod pending;
mod send;
mod set;
mod state;
pub(crate) mod stop;
mod timer;
mod wake;

pub(crate) use deliver::shown_flags;
pub use deliver::{Areas, deliver_pending, set_mask, sigreturn, sigreturn_compat};
#[allow(unused_imports, reason = "not every ABI's handlers return through the vDSO")]
pub use frame::{CompatRestored, Delivery, Restored, mapped_sigreturn, vdso_sigreturn};
pub use info::{SigInfo, parse_signal};
pub use many::{forget_sent_to_many, give_sent_to_many, keep_sent_to_many};
pub use pending::{Pending, Queued};
pub(crate) use send::kill_threads;
pub use send::{
    charge_to_user, end_by, force, force_fatal, force_fault, itimer_to_process, queue_to_member,
    queue_to_process, queue_to_task, send_forced, send_to_ended_leader, send_to_pgrp, send_to_process,
    send_to_running, send_to_task,
};
pub use set::*;
pub use state::{
    Action, ActionFlags, Actions, AltStack, Besides, DEFAULT, IGNORE, ProcessSignals, StopNews, TaskSignals,
};
pub use timer::{timer_deleted, timer_heeded, timer_to};
pub(crate) use wake::{recalculate, wake};
