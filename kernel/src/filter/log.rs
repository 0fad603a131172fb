//! What is recorded of calls about which seccomp decided.

use crate::audit;
use crate::task::seccomp::ACTIONS_LOGGED;
use core::sync::atomic::Ordering::Relaxed;
use limen_bpf::{Action, Data, Logged};

/// Makes a record of the running thread's call if its action is to be logged: always for kills and
/// [`Action::Log`], else if `requested`; and if `kernel.seccomp.actions_logged` says so. `signal`: what the
/// thread gets, or 0. May sleep.
pub fn call(data: &Data, signal: u32, action: Action, requested: bool) {
    let logged = Logged::from_bits(ACTIONS_LOGGED.load(Relaxed));
    if logged.logs(action, requested) {
        audit::call::seccomp(data, signal, action);
    }
}
