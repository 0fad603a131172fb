//! Audit (`docs/audit.md`): records of what programs do, for a daemon (`auditd`) or the log. Rules and
//! settings come over netlink (`requests`); which calls have records is decided at their end (`call`).
//! Records wait in `queue` for a thread of the kernel.

#![forbid(unsafe_code)]

pub mod call;
mod changes;
mod login;
mod parts;
mod queue;
mod record;
mod requests;
mod rules;
mod serving;
mod settings;
mod trees;
mod watches;

use crate::cmdline;

/// Audit begins, as the command line says: `audit=0`: never; `audit=1`: on, and records are kept for a daemon
/// that starts later; `audit_backlog_limit=`. With threads.
pub fn init() {
    let wanted = match cmdline::value("audit") {
        Some("0" | "off") => return settings::disable(),
        Some("1" | "on") => true,
        _ => false,
    };
    let backlog = cmdline::value("audit_backlog_limit").and_then(|limit| limit.parse().ok());
    settings::init(wanted, backlog);
    queue::start(wanted);
    login::init();
    requests::init();
    changes::init();
    crate::task::audit::when_programs_crash(call::crash);
    crate::task::audit::when_threads_begin(rules::never);
    crate::task::audit::names::when_names_change(watches::changed);
    record::initialized(wanted);
}
