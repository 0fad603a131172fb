//! A thread's part of audit: who logged in, in which session; the call that it is making; and whether its
//! calls are audited at all. The room `audit` decides and records.

use super::{Task, all_tasks, current};
use crate::signal::{SIGHUP, SIGTERM, SIGUSR1, SIGUSR2};
use crate::sync::{Mutex, Once};
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, fence};
use limen_entry::SyscallWork;
use limen_linux_abi::Errno;

/// No id, no session (`AUDIT_UID_UNSET`).
pub const UNSET: u32 = u32::MAX;

/// Whether calls are audited.
static ON: AtomicBool = AtomicBool::new(false);
/// Held by who changes it.
static CHANGING: Mutex<()> = Mutex::new(());
/// Decides which new threads never are.
static NEVER: Once<fn(&Task) -> bool> = Once::new();
/// The last session's number.
static SESSIONS: AtomicU32 = AtomicU32::new(0);

/// A thread's part. But for the ids, only the thread itself uses it.
pub struct Audit {
    login: AtomicU32,
    session: AtomicU32,
    /// A rule says that its calls are never audited.
    never: AtomicBool,
    /// Whether it makes a call whose begin was seen. Its end will be, too, whatever is on then.
    in_call: AtomicBool,
    arch: AtomicU32,
    number: AtomicUsize,
    arguments: [AtomicUsize; 4],
    /// When the call began, `CLOCK_REALTIME` in milliseconds.
    begun_ms: AtomicU64,
    /// The number of the call's records; 0: it has none yet.
    serial: AtomicU32,
}

/// A call that is being made.
#[derive(Clone, Copy)]
pub struct Call {
    /// Its ABI (`AUDIT_ARCH_*`).
    pub arch: u32,
    /// Its number.
    pub number: usize,
    /// Its first arguments.
    pub arguments: [usize; 4],
    /// When it began, `CLOCK_REALTIME` in milliseconds.
    pub begun_ms: u64,
    /// The number of its records; 0: it has none yet.
    pub serial: u32,
}

impl Audit {
    /// Nobody has logged in.
    pub const fn new() -> Self {
        Self {
            login: AtomicU32::new(UNSET),
            session: AtomicU32::new(UNSET),
            never: AtomicBool::new(false),
            in_call: AtomicBool::new(false),
            arch: AtomicU32::new(0),
            number: AtomicUsize::new(0),
            arguments: [const { AtomicUsize::new(0) }; 4],
            begun_ms: AtomicU64::new(0),
            serial: AtomicU32::new(0),
        }
    }

    /// The user who logged in, or [`UNSET`].
    pub fn login(&self) -> u32 {
        self.login.load(Relaxed)
    }
    /// The session, or [`UNSET`].
    pub fn session(&self) -> u32 {
        self.session.load(Relaxed)
    }
    /// Another user has logged in, whose session begins; or with [`UNSET`], nobody.
    pub fn log_in(&self, user: u32) {
        let session = match user {
            UNSET => UNSET,
            // No session has the number that means none.
            _ => match SESSIONS.fetch_add(1, Relaxed).wrapping_add(1) {
                UNSET => SESSIONS.fetch_add(1, Relaxed).wrapping_add(1),
                session => session,
            },
        };
        self.login.store(user, Relaxed);
        self.session.store(session, Relaxed);
    }

    /// Whether a rule says that its calls are never audited.
    pub fn is_never(&self) -> bool {
        self.never.load(Relaxed)
    }
    /// The thread begins a call, or has begun it.
    fn begin(&self, (arch, number): (u32, usize), arguments: [usize; 4], now_ms: u64) {
        self.arch.store(arch, Relaxed);
        self.number.store(number, Relaxed);
        for (to, from) in self.arguments.iter().zip(arguments) {
            to.store(from, Relaxed);
        }
        self.begun_ms.store(now_ms, Relaxed);
        self.serial.store(0, Relaxed);
        self.in_call.store(true, SeqCst);
    }
    /// The call that the thread makes. `None`: it makes none whose begin was seen.
    pub fn call(&self) -> Option<Call> {
        self.in_call.load(Relaxed).then(|| Call {
            arch: self.arch.load(Relaxed),
            number: self.number.load(Relaxed),
            arguments: core::array::from_fn(|n| self.arguments[n].load(Relaxed)),
            begun_ms: self.begun_ms.load(Relaxed),
            serial: self.serial.load(Relaxed),
        })
    }
    /// The call has a record with this number.
    pub fn set_serial(&self, serial: u32) {
        self.serial.store(serial, Relaxed);
    }
}

/// The running thread `task` begins a call (its ABI, its number), or has begun it: the end of this call is
/// seen.
pub fn begin_call(task: &Task, call: (u32, usize), arguments: [usize; 4], now_ms: u64) {
    task.audit.begin(call, arguments, now_ms);
    // Who turns audit off at this moment may have cleared it, and not have seen the call.
    task.info.work.set_syscall_work(SyscallWork::AUDIT);
}

/// The running thread `task` has ended a call, or makes none that is audited.
pub fn end_call(task: &Task) {
    task.audit.in_call.store(false, SeqCst);
    if !is_wanted(task) {
        mark(task);
    }
}

/// A new thread, which nobody has seen yet, has the ids of `parent`.
pub(super) fn inherit(parent: &Task, new: &Task) {
    new.audit.login.store(parent.audit.login(), Relaxed);
    new.audit.session.store(parent.audit.session(), Relaxed);
}

/// `task`, which can be found by now, audits its calls if all do.
#[inline(always)]
pub(super) fn may_begin(task: &Task) {
    if ON.load(Relaxed) {
        begin(task);
    }
}

#[cold]
#[inline(never)]
fn begin(task: &Task) {
    task.audit
        .never
        .store(NEVER.get().is_some_and(|never| never(task)), Relaxed);
    mark(task);
    // Somebody may have turned it off meanwhile, and not have seen the thread.
    mark(task);
}

/// Whether the next begin of a call, or the end of the present one, is to be seen.
fn is_wanted(task: &Task) -> bool {
    ON.load(SeqCst) && !task.audit.is_never() || task.audit.in_call.load(SeqCst)
}

fn mark(task: &Task) {
    let work = &task.info.work;
    if !is_wanted(task) {
        work.clear_syscall_work(SyscallWork::AUDIT);
        // Whoever wants it since has perhaps set it before.
        fence(SeqCst);
    }
    if is_wanted(task) {
        work.set_syscall_work(SyscallWork::AUDIT);
    }
}

/// From now on `never` decides which new threads are never audited. At boot.
pub fn when_threads_begin(never: fn(&Task) -> bool) {
    let _ = NEVER.set(never);
}

/// All threads audit their calls from now on, or none does. May sleep.
pub fn audit_calls(on: bool) {
    let _alone = CHANGING.lock();
    if ON.swap(on, SeqCst) != on {
        for task in all_tasks() {
            mark(&task);
        }
    }
}

/// Decides about a login of a thread, and carries it out.
type LogIn = fn(&Task, u32) -> Result<(), Errno>;
static LOG_IN: Once<LogIn> = Once::new();

/// From now on `log_in` decides about logins. At boot.
pub fn when_logged_in(log_in: LogIn) {
    let _ = LOG_IN.set(log_in);
}

/// The running thread `task` is of this user from now on (`/proc/PID/loginuid`), or of none ([`UNSET`]).
/// `EPERM`. May sleep.
pub fn log_in(task: &Task, user: u32) -> Result<(), Errno> {
    match LOG_IN.get() {
        Some(log_in) => log_in(task, user),
        None => Err(Errno::EPERM),
    }
}

/// Records that the running thread's program is ended by a signal that means a fault of it.
static CRASH: Once<fn(u32)> = Once::new();

/// From now on `crash` is told of such signals. At boot.
pub fn when_programs_crash(crash: fn(u32)) {
    let _ = CRASH.set(crash);
}

/// The running thread is being ended by a signal that can leave a core file. May sleep.
pub(super) fn crashes(sig: u32) {
    if let Some(crash) = CRASH.get() {
        crash(sig);
    }
}

/// The process whose signals are noted: the daemon's; 0 without one.
static DAEMON: AtomicI32 = AtomicI32::new(0);
/// The user and the process that last sent it a signal that ends it, or lets it begin anew.
static SENDER: [AtomicU32; 2] = [AtomicU32::new(UNSET), AtomicU32::new(0)];

/// There is another daemon, or none (0).
pub fn set_daemon(pid: i32) {
    DAEMON.store(pid, Relaxed);
}

/// The user and the process that last sent the daemon such a signal.
pub fn sender() -> [u32; 2] {
    [0, 1].map(|n: usize| SENDER[n].load(Relaxed))
}

/// The running thread sends a signal to a process.
#[inline]
pub(super) fn signals(to: i32, sig: Option<u32>) {
    if DAEMON.load(Relaxed) == to {
        note(sig);
    }
}

#[cold]
fn note(sig: Option<u32>) {
    if !matches!(sig, Some(SIGTERM | SIGHUP | SIGUSR1 | SIGUSR2)) {
        return;
    }
    let task = current();
    let user = match task.audit.login() {
        UNSET => task.creds().uid,
        login => login,
    };
    SENDER[0].store(user, Relaxed);
    SENDER[1].store(task.tgid() as u32, Relaxed);
}
