//! What the log says of calls about which seccomp decided: lines as Linux's audit writes them when no daemon
//! listens.

use crate::arch::time;
use crate::sync::SpinLock;
use crate::task::current;
use crate::task::seccomp::ACTIONS_LOGGED;
use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use limen_bpf::{Action, Data, Logged};

/// At most so many lines (`kernel.printk_ratelimit_burst`) are written in so many nanoseconds
/// (`kernel.printk_ratelimit`).
const BURST: u32 = 10;
const INTERVAL_NS: u64 = 5_000_000_000;

struct Limit {
    /// When the present interval began.
    begun_ns: u64,
    written: u32,
    left_out: u32,
}

static LIMIT: SpinLock<Limit> = SpinLock::new(Limit {
    begun_ns: 0,
    written: 0,
    left_out: 0,
});

/// The number of the last line.
static SERIAL: AtomicU32 = AtomicU32::new(0);

/// Whether one more line may be written, and how many were left out before it.
fn may_write() -> Option<u32> {
    let now = time::now_ns();
    let mut limit = LIMIT.lock();
    if limit.begun_ns == 0 || now.saturating_sub(limit.begun_ns) > INTERVAL_NS {
        limit.begun_ns = now.max(1);
        limit.written = 0;
    }
    if limit.written == BURST {
        limit.left_out = limit.left_out.saturating_add(1);
        return None;
    }
    limit.written += 1;
    Some(core::mem::take(&mut limit.left_out))
}

/// A name as audit shows it: quoted, or in hexadecimal if it has a byte that would not be read back.
struct Name<'a>(&'a [u8]);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = self.0.iter().all(|b| (0x21..=0x7e).contains(b) && *b != b'"');
        match core::str::from_utf8(self.0) {
            Ok(name) if plain => write!(f, "\"{name}\""),
            _ => self.0.iter().try_for_each(|byte| write!(f, "{byte:02X}")),
        }
    }
}

/// Writes a line about the running thread's call if its action is to be logged: always for kills and
/// [`Action::Log`], else if `requested`; and if `kernel.seccomp.actions_logged` says so. `signal`: what the
/// thread gets, or 0. May sleep.
pub fn call(data: &Data, signal: u32, action: Action, requested: bool) {
    let logged = Logged::from_bits(ACTIONS_LOGGED.load(Relaxed));
    if logged.logs(action, requested) {
        write(data, signal, action);
    }
}

#[cold]
#[inline(never)]
fn write(data: &Data, signal: u32, action: Action) {
    let Some(left_out) = may_write() else { return };
    if left_out != 0 {
        log!(Warning, "audit: {left_out} lines suppressed");
    }
    let task = current();
    let (uid, gid) = task.with_creds(|creds| (creds.uid, creds.gid));
    let comm = task.comm();
    let comm = comm.split(|byte| *byte == 0).next().unwrap_or_default();
    let exe = task.process.exe().and_then(|exe| exe.path.display().ok());
    let now_ms = crate::time::realtime_ns() / 1_000_000;
    log!(
        Notice,
        "audit: type=1326 audit({}.{:03}:{}): auid=4294967295 uid={uid} gid={gid} ses=4294967295 pid={} \
         comm={} exe={} sig={signal} arch={:x} syscall={} compat=0 ip={:#x} code={:#x}",
        now_ms / 1000,
        now_ms % 1000,
        SERIAL.fetch_add(1, Relaxed).wrapping_add(1),
        task.tgid(),
        Name(comm),
        Name(exe.as_deref().unwrap_or(b"(null)")),
        data.arch,
        data.nr,
        data.instruction_pointer,
        action.raw(),
    );
}
