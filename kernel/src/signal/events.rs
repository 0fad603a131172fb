//! Trace events of signals.

use super::{Action, SigInfo};
use crate::task::Task;
use crate::tracepoint;

/// What became of a signal (`TRACE_SIGNAL_*`).
#[derive(Clone, Copy)]
#[repr(i32)]
pub(super) enum Result {
    Delivered = 0,
    Ignored = 1,
    AlreadyPending = 2,
    Overflow = 3,
}

/// A signal is sent to `task`, or (`group`) to its process.
#[inline(always)]
pub(super) fn generated(info: &SigInfo, task: &Task, group: bool, result: Result) {
    tracepoint!(signal::SignalGenerate {
        sig: info.signal() as i32,
        errno: info.errno(),
        code: info.code(),
        comm: task.comm_now(),
        pid: task.tid(),
        group: i32::from(group),
        result: result as i32,
    });
}

/// The running thread takes a signal.
#[inline(always)]
pub(super) fn delivered(info: &SigInfo, action: &Action) {
    tracepoint!(signal::SignalDeliver {
        sig: info.signal() as i32,
        errno: info.errno(),
        code: info.code(),
        sa_handler: action.handler,
        sa_flags: action.flags.bits() as usize,
    });
}
