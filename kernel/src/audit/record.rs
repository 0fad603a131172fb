//! Making records.

use super::{call, queue, rules, settings};
use crate::task::audit::{Call, UNSET};
use crate::task::{Task, current};
use crate::time::realtime_ns;
use alloc::vec::Vec;
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use limen_audit::List;
use limen_audit::text::{OrNull, Untrusted};

/// Kinds of records.
pub mod kind {
    pub const LOGIN: u16 = 1006;
    pub const SYSCALL: u16 = 1300;
    pub const PATH: u16 = 1302;
    pub const IPC: u16 = 1303;
    pub const SOCKETCALL: u16 = 1304;
    pub const CONFIG_CHANGE: u16 = 1305;
    pub const SOCKADDR: u16 = 1306;
    pub const CWD: u16 = 1307;
    pub const EXECVE: u16 = 1309;
    pub const IPC_SET_PERM: u16 = 1311;
    pub const MQ_OPEN: u16 = 1312;
    pub const MQ_SENDRECV: u16 = 1313;
    pub const MQ_NOTIFY: u16 = 1314;
    pub const MQ_GETSETATTR: u16 = 1315;
    pub const FD_PAIR: u16 = 1317;
    pub const OBJ_PID: u16 = 1318;
    pub const EOE: u16 = 1320;
    pub const BPRM_FCAPS: u16 = 1321;
    pub const CAPSET: u16 = 1322;
    pub const MMAP: u16 = 1323;
    pub const SECCOMP: u16 = 1326;
    pub const PROCTITLE: u16 = 1327;
    pub const FEATURE_CHANGE: u16 = 1328;
    pub const KERN_MODULE: u16 = 1330;
    pub const EVENT_LISTENER: u16 = 1335;
    pub const OPENAT2: u16 = 1337;
    pub const ANOM_ABEND: u16 = 1701;
    pub const KERNEL: u16 = 2000;
}

/// The numbers of events.
static SERIAL: AtomicU32 = AtomicU32::new(0);

/// The number of an event. Not 0.
fn new_serial() -> u32 {
    match SERIAL.fetch_add(1, Relaxed).wrapping_add(1) {
        0 => SERIAL.fetch_add(1, Relaxed).wrapping_add(1),
        serial => serial,
    }
}

/// A text that grows with what is written; an error is that there is no memory.
#[derive(Default)]
pub struct Text(pub Vec<u8>);

impl Text {
    fn write_bytes(&mut self, bytes: &[u8]) -> fmt::Result {
        crate::mm::reserve::room(&mut self.0, bytes.len()).map_err(|_| fmt::Error)?;
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.write_bytes(text.as_bytes())
    }
}

/// When and in which event a record is.
#[derive(Clone, Copy)]
pub struct Stamp {
    pub ms: u64,
    pub serial: u32,
}

impl Stamp {
    /// The event of the call that the running thread makes, if its begin was seen: it has records then. Else
    /// a new one.
    pub fn now() -> Self {
        let task = current();
        match task.audit.call() {
            Some(call) => {
                let serial = match call.serial {
                    0 => new_serial(),
                    serial => serial,
                };
                task.audit.set_serial(serial);
                Self {
                    ms: call.begun_ms,
                    serial,
                }
            }
            None => Self::alone(),
        }
    }

    /// The event of a call that ends.
    pub fn of(call: &Call) -> Self {
        match call.serial {
            0 => Self {
                ms: call.begun_ms,
                serial: new_serial(),
            },
            serial => Self {
                ms: call.begun_ms,
                serial,
            },
        }
    }

    /// A new event.
    pub fn alone() -> Self {
        Self {
            ms: realtime_ns() / 1_000_000,
            serial: new_serial(),
        }
    }
}

/// Makes a record. May sleep, if too many wait.
pub fn write(kind: u16, args: fmt::Arguments<'_>) {
    if is_wanted(kind) {
        write_in(Stamp::now(), kind, args);
    }
}

/// Whether a record of a kind by the running thread is made at all.
fn is_wanted(kind: u16) -> bool {
    settings::exists() && !rules::leave_out(List::Exclude, kind)
}

/// [`write()`] of what the running thread changes, with the call in which it does.
pub fn write_change(kind: u16, args: fmt::Arguments<'_>) {
    call::notice();
    write(kind, args);
}

/// [`write()`] of what a program says: not in the event of the call in which it says so.
pub fn write_alone(kind: u16, args: fmt::Arguments<'_>) {
    if is_wanted(kind) {
        write_in(Stamp::alone(), kind, args);
    }
}

/// [`write_alone()`] of a text as it is, between two others.
pub fn write_with_bytes(kind: u16, before: fmt::Arguments<'_>, bytes: &[u8], after: &str) {
    if is_wanted(kind) {
        make(Stamp::alone(), kind, |text| {
            text.write_fmt(before)?;
            text.write_bytes(bytes)?;
            text.write_str(after)
        });
    }
}

/// [`write()`] in an event, whatever rules say.
pub fn write_in(stamp: Stamp, kind: u16, args: fmt::Arguments<'_>) {
    make(stamp, kind, |text| text.write_fmt(args));
}

fn make(stamp: Stamp, kind: u16, say: impl FnOnce(&mut Text) -> fmt::Result) {
    let mut text = Text::default();
    let Stamp { ms, serial } = stamp;
    let header = format_args!("audit({}.{:03}:{serial}): ", ms / 1000, ms % 1000);
    match text.write_fmt(header).and_then(|()| say(&mut text)) {
        Ok(()) => queue::put(kind, text.0),
        Err(fmt::Error) => queue::lost("out of memory in audit_log_start"),
    }
}

/// `auid=... ses=...` of the running thread.
pub struct Session;

impl fmt::Display for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let task = current();
        write!(f, "auid={} ses={}", task.audit.login(), task.audit.session())
    }
}

/// `comm=... exe=...` of a thread.
pub struct Program<'a>(pub &'a Task);

impl fmt::Display for Program<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let comm = self.0.comm();
        let comm = comm.split(|byte| *byte == 0).next().unwrap_or_default();
        let exe = self.0.process.exe().and_then(|exe| exe.path.display().ok());
        write!(f, "comm={} exe={}", Untrusted(comm), OrNull(exe.as_deref()))
    }
}

/// The running thread changes a setting, or may not.
pub fn config_change(what: &str, new: u32, old: u32, allowed: bool) {
    write_change(
        kind::CONFIG_CHANGE,
        format_args!(
            "op=set {what}={new} old={old} {Session} res={}",
            u32::from(allowed)
        ),
    );
}

/// Audit has begun.
pub fn initialized(on: bool) {
    write_in(
        Stamp::alone(),
        kind::KERNEL,
        format_args!("state=initialized audit_enabled={} res=1", u32::from(on)),
    );
}

/// Whether a user is one.
pub fn is_set(user: u32) -> bool {
    user != UNSET
}
