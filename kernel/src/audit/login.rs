//! Who logged in (`/proc/PID/loginuid`).

use super::call;
use super::record::{self, kind};
use super::settings::{self, FEATURES};
use crate::task::audit::UNSET;
use crate::task::creds::cap;
use crate::task::{Task, current};
use limen_audit::Features;
use limen_linux_abi::Errno;

pub fn init() {
    crate::task::audit::when_logged_in(log_in);
}

/// Whether the running thread may set its user to `new`.
fn may(old: u32, new: u32) -> Result<(), Errno> {
    if !record::is_set(old) {
        return Ok(());
    }
    let features = *FEATURES.lock();
    if features.on & Features::LOGINUID_IMMUTABLE != 0 {
        return Err(Errno::EPERM);
    }
    if !current().creds().capable(cap::AUDIT_CONTROL) {
        return Err(Errno::EPERM);
    }
    if features.on & Features::ONLY_UNSET_LOGINUID != 0 && new != UNSET {
        return Err(Errno::EPERM);
    }
    Ok(())
}

/// The running thread `task` sets its user. `EPERM`.
fn log_in(task: &Task, user: u32) -> Result<(), Errno> {
    let (old, old_session) = (task.audit.login(), task.audit.session());
    let result = may(old, user);
    if result.is_ok() {
        task.audit.log_in(user);
    }
    if settings::enabled() == settings::OFF {
        return result;
    }
    let uid = current().creds().uid;
    let session = match result {
        Ok(()) => task.audit.session(),
        // As on Linux: there is no new one.
        Err(_) => UNSET,
    };
    call::notice();
    let tty = call::terminal(task);
    record::write(
        kind::LOGIN,
        format_args!(
            "pid={} uid={uid} old-auid={old} auid={user} tty={tty} old-ses={old_session} ses={session} \
             res={}",
            task.tgid(),
            u32::from(result.is_ok()),
        ),
    );
    result
}
