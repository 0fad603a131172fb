//! A thread's part of audit: who logged in, in which session; the call that it is making; and whether its
//! calls are audited at all. The room `audit` decides and records. What the call does is noted meanwhile:
//! which files it looks up (`names`), and what else records tell of it (`details`).

pub mod details;
pub mod names;

use super::{Creds, Process, Task, all_tasks, current};
use crate::fs::path::Path;
use crate::fs::{inotify, moves};
use crate::jump_label;
use crate::mm::reserve::room_exact;
use crate::signal::{SIGHUP, SIGTERM, SIGUSR1, SIGUSR2};
use crate::sync::{Mutex, Once, SpinLock};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, fence};
use details::Details;
use limen_audit::names::{FileId, Names};
use limen_entry::SyscallWork;
use limen_linux_abi::Errno;

/// No id, no session (`AUDIT_UID_UNSET`).
pub const UNSET: u32 = u32::MAX;

/// Whether calls are audited.
static ON: AtomicBool = AtomicBool::new(false);
/// When audit was first turned on, `CLOCK_MONOTONIC` in nanoseconds. Threads that are older are not audited.
static SINCE_NS: AtomicU64 = AtomicU64::new(u64::MAX);
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
    /// What is noted of its calls. Empty before the first one that is audited. Taken out while it is used.
    context: SpinLock<Vec<Context>>,
}

/// What is noted of a call.
pub struct Context {
    /// The call.
    pub call: Call,
    /// The files that it looked up.
    pub names: Names,
    /// The working directory when it looked up the first one.
    pub cwd: Option<Path>,
    /// The directories of watched trees in which they are.
    pub trees: Vec<FileId>,
    /// Rules that watched a file until the call removed its name, and that file.
    pub former: Vec<(u64, FileId)>,
    /// The rules as they were before it made some go: it is still one that they mean.
    pub rules: Option<Arc<dyn Any + Send + Sync>>,
    /// What else is told of it.
    pub details: Details,
    /// As whom it was begun.
    pub creds: Option<Arc<Creds>>,
    /// There was no memory for some of that.
    pub lost: bool,
}

impl Context {
    fn new(call: Call) -> Self {
        Self {
            call,
            names: Names::new(),
            cwd: None,
            trees: Vec::new(),
            former: Vec::new(),
            rules: None,
            details: Details::default(),
            creds: None,
            lost: false,
        }
    }
    fn clear(&mut self) {
        self.names.clear();
        self.cwd = None;
        self.trees.clear();
        self.former.clear();
        self.rules = None;
        self.details.clear();
        self.creds = None;
        self.lost = false;
    }
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
            context: SpinLock::new(Vec::new()),
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
    /// The thread begins a call, or has begun it. `ENOMEM`.
    fn begin(&self, (arch, number): (u32, usize), arguments: [usize; 4], begun_ms: u64) -> Result<(), Errno> {
        let call = Call {
            arch,
            number,
            arguments,
            begun_ms,
            serial: 0,
        };
        let mut kept = core::mem::take(&mut *self.context.lock());
        match kept.first_mut() {
            Some(context) => {
                context.clear();
                context.call = call;
            }
            None => {
                room_exact(&mut kept, 1)?;
                kept.push(Context::new(call));
            }
        }
        self.give_back(kept);
        self.in_call.store(true, SeqCst);
        Ok(())
    }
    /// Takes out what is noted of the call that the thread, which is running, makes; not empty. `None`: it
    /// makes none whose begin was seen.
    pub fn take(&self) -> Option<Vec<Context>> {
        let is_seen = self.in_call.load(Relaxed);
        is_seen.then(|| core::mem::take(&mut *self.context.lock()))
    }
    /// The opposite.
    pub fn give_back(&self, kept: Vec<Context>) {
        let former = core::mem::replace(&mut *self.context.lock(), kept);
        drop(former);
    }
    /// Uses what is noted of the call that the thread, which is running, makes. `None`: it makes none whose
    /// begin was seen. May sleep.
    pub fn with<R>(&self, f: impl FnOnce(&mut Context) -> R) -> Option<R> {
        let mut kept = self.take()?;
        let result = kept.first_mut().map(f);
        self.give_back(kept);
        result
    }
    /// The call that the thread makes. `None`: it makes none whose begin was seen.
    pub fn call(&self) -> Option<Call> {
        self.with(|context| context.call)
    }
    /// The call has a record with this number.
    pub fn set_serial(&self, serial: u32) {
        self.with(|context| context.call.serial = serial);
    }
}

/// The running thread `task` begins a call, or has begun it: the end of this call is seen. `ENOMEM`. May
/// sleep.
pub fn begin_call(task: &Task, call: (u32, usize), arguments: [usize; 4], now_ms: u64) -> Result<(), Errno> {
    task.audit.begin(call, arguments, now_ms)?;
    // Who turns audit off at this moment may have cleared it, and not have seen the call.
    task.info.work.set_syscall_work(SyscallWork::AUDIT);
    Ok(())
}

/// The running thread `task` has ended a call, or makes none that is audited.
pub fn end_call(task: &Task) {
    task.audit.with(Context::clear);
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
    let audited = ON.load(SeqCst) && !task.audit.is_never() && task.start_ns >= SINCE_NS.load(Relaxed);
    audited || task.audit.in_call.load(SeqCst)
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

/// Audit has been turned on at this time, perhaps not for the first time.
pub fn turned_on(now_ns: u64) {
    SINCE_NS.fetch_min(now_ns, Relaxed);
}

/// From now on `never` decides which new threads are never audited. At boot.
pub fn when_threads_begin(never: fn(&Task) -> bool) {
    let _ = NEVER.set(never);
}

/// Whether names that are made and removed are told of ([`names::when_names_change`]).
static HEARS: AtomicBool = AtomicBool::new(false);
/// Whether walks are slow, so that they are noted.
static SLOW: AtomicBool = AtomicBool::new(false);

/// The static key of places that note details.
const KEY: u32 = jump_label::AUDIT;

/// Whether a call's details are noted.
#[inline(always)]
pub fn wants_details() -> bool {
    jump_label::is_on::<KEY>()
}

/// All threads audit their calls from now on, or none does. `hears`: changes of names are told of even if
/// none does. `ENOMEM`: details of calls are not noted. May sleep.
pub fn audit_calls(on: bool, hears: bool) -> Result<(), Errno> {
    let _alone = CHANGING.lock();
    let told = hears_all(on, hears);
    if ON.swap(on, SeqCst) != on {
        for task in all_tasks() {
            mark(&task);
        }
    }
    told
}

/// What the file system and others are to tell.
fn hears_all(on: bool, hears: bool) -> Result<(), Errno> {
    HEARS.store(hears, Relaxed);
    inotify::audit_hears(on || hears);
    if SLOW.swap(on, Relaxed) != on {
        moves::toggle_plain_walks();
    }
    match on || DAEMON.load(Relaxed) != 0 {
        true => jump_label::enable(KEY as usize),
        false => {
            jump_label::disable(KEY as usize);
            Ok(())
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
#[inline(always)]
pub(super) fn signals(to: &Process, sig: Option<u32>) {
    if wants_details() && DAEMON.load(Relaxed) == to.tgid {
        note(sig);
    }
}

/// Whether rules ask for calls that send signals.
static AIMS: AtomicBool = AtomicBool::new(false);

/// Whom signals are for is noted from now on, or no longer.
pub fn note_aims(on: bool) {
    AIMS.store(on, Relaxed);
}

/// The running thread wants to send a signal to a process, which may be refused.
#[inline(always)]
pub fn aims(at: &Process) {
    if wants_details() && AIMS.load(Relaxed) {
        details::target_process(at);
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
