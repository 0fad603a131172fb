//! Signals that files send.

use crate::signal::{self, SigInfo};
use crate::task;

/// Sends `sig` to the running thread as the kernel (`SIGPIPE`, `SIGXFSZ`).
pub fn signal_current(sig: u32) {
    signal::send_to_task(&task::current(), sig, SigInfo::kernel(sig));
}
