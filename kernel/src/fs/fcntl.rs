//! Signals that files send.

use crate::fs::file::Owner;
use crate::signal::{self, SigInfo};
use crate::task;

/// Sends `sig` to the running thread as the kernel (`SIGPIPE`, `SIGXFSZ`).
pub fn signal_current(sig: u32) {
    signal::send_to_task(&task::current(), sig, SigInfo::kernel(sig));
}

/// Sends a file's owner its signal.
pub fn signal_owner(owner: Owner) {
    let sig = if owner.signal == 0 { 29 } else { owner.signal };
    match owner.pid {
        0 => {}
        pid if pid < 0 => {
            let _ = signal::send_to_pgrp(-pid, sig, SigInfo::kernel(sig));
        }
        tid if owner.thread => {
            if let Some(t) = task::find_task(tid) {
                signal::send_to_task(&t, sig, SigInfo::kernel(sig));
            }
        }
        pid => {
            if let Some(p) = task::find_process(pid) {
                signal::send_to_process(&p, sig, SigInfo::kernel(sig));
            }
        }
    }
}
