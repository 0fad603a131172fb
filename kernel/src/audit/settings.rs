//! What is set: whether audit is on, its limits, the daemon.

use super::{queue, rules};
use crate::net::netlink::Remembered;
use crate::sync::SpinLock;
use crate::task::audit::{audit_calls, note_aims, turned_on};
use crate::time::now_ns;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use limen_audit::{Features, TtyStatus};

/// `enabled`: off, on, on for ever.
pub const OFF: u32 = 0;
pub const ON: u32 = 1;
pub const LOCKED: u32 = 2;
/// `failure`: what happens if a record is lost.
pub const SILENT: u32 = 0;
pub const PRINTS: u32 = 1;
pub const PANICS: u32 = 2;

/// How many records may wait at first, and how many ticks of 1/[`HZ`] s who makes one then waits.
const BACKLOG: u32 = 64;
const BACKLOG_WAIT: u32 = 60 * HZ;
/// Ticks per second of the times in `struct audit_status`.
pub const HZ: u32 = 250;

/// Whether there is audit at all.
static EXISTS: AtomicBool = AtomicBool::new(false);
pub static ENABLED: AtomicU32 = AtomicU32::new(OFF);
pub static FAILURE: AtomicU32 = AtomicU32::new(PRINTS);
pub static RATE_LIMIT: AtomicU32 = AtomicU32::new(0);
pub static BACKLOG_LIMIT: AtomicU32 = AtomicU32::new(BACKLOG);
pub static BACKLOG_WAIT_TIME: AtomicU32 = AtomicU32::new(BACKLOG_WAIT);
/// Features that are on, and those that are locked.
pub static FEATURES: SpinLock<Features> = SpinLock::new(Features {
    mask: 0,
    on: 0,
    lock: 0,
});
/// What new sessions record of terminals.
pub static TTY: SpinLock<TtyStatus> = SpinLock::new(TtyStatus {
    enabled: 0,
    log_passwd: 0,
});

/// The daemon.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Daemon {
    /// Its process.
    pub pid: i32,
    /// Its socket.
    pub socket: Remembered,
}

static DAEMON: SpinLock<Option<Daemon>> = SpinLock::new(None);

pub fn exists() -> bool {
    EXISTS.load(Relaxed)
}

pub fn disable() {
    crate::info!("audit: disabled (until reboot)");
}

pub fn init(on: bool, backlog: Option<u32>) {
    crate::info!(
        "audit: initializing netlink subsys ({})",
        if on { "enabled" } else { "disabled" }
    );
    if on {
        turned_on(0);
        ENABLED.store(ON, Relaxed);
    }
    if let Some(backlog) = backlog {
        BACKLOG_LIMIT.store(backlog, Relaxed);
    }
    EXISTS.store(true, Relaxed);
}

pub fn enabled() -> u32 {
    ENABLED.load(Relaxed)
}

/// Threads audit their calls if audit is on and there are rules for that. After each change. May sleep.
pub fn apply() {
    if enabled() != OFF {
        turned_on(now_ns());
    }
    let calls = enabled() != OFF && rules::any_for_calls();
    note_aims(rules::any_for_signals());
    if audit_calls(calls, rules::any_watches()).is_err() {
        queue::lost("out of memory in audit");
    }
}

pub fn daemon() -> Option<Daemon> {
    *DAEMON.lock()
}

/// There is another daemon, or none.
pub fn set_daemon(daemon: Option<Daemon>) {
    *DAEMON.lock() = daemon;
    crate::task::audit::set_daemon(daemon.map_or(0, |daemon| daemon.pid));
    // Who sends it signals is to be noted.
    apply();
    queue::daemon_changed();
}

/// The daemon `gone` does not answer any more.
pub fn lose_daemon(gone: Daemon) {
    let mut daemon = DAEMON.lock();
    if *daemon == Some(gone) {
        *daemon = None;
        crate::task::audit::set_daemon(0);
    }
}
