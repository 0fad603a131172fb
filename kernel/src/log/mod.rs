//! The kernel log: `log!(Level, ...)` and the macros for each level, in any context. A message goes into the
//! ring that `dmesg` and `/dev/kmsg` read. If its level says so, it is also written to every registered
//! console (`loglevel=`, `quiet`, `debug` on the command line).
//!
//! No CPU waits for a console: if another CPU is writing, that one also writes the new message. Code that
//! holds a console's own lock must not log.

#![forbid(unsafe_code)]

mod line;
mod ring;

use crate::sync::{IrqSpinLock, Once};
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering, fence};
pub use line::Line;
pub use ring::{Cursor, Record, SIZE};

/// Severity, numbered as in syslog.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// The system is unusable.
    Emerg = 0,
    /// Action must be taken.
    Alert = 1,
    /// Critical condition.
    Crit = 2,
    /// Error.
    Err = 3,
    /// Warning.
    Warning = 4,
    /// Normal but noteworthy.
    Notice = 5,
    /// Information.
    Info = 6,
    /// Debugging.
    Debug = 7,
}

impl Level {
    /// From the low three bits of a syslog priority.
    pub fn from_priority(priority: u32) -> Self {
        match priority & 7 {
            0 => Self::Emerg,
            1 => Self::Alert,
            2 => Self::Crit,
            3 => Self::Err,
            4 => Self::Warning,
            5 => Self::Notice,
            6 => Self::Info,
            _ => Self::Debug,
        }
    }
}

/// How many bytes a message may have. A longer one is cut.
pub const LINE_MAX: usize = 1000;
/// How many consoles can show the log at the same time.
const CONSOLES: usize = 4;

/// A device on which the log is shown.
pub trait Console: Sync {
    /// Writes `bytes` (lines end with `\n`) without sleeping. Interrupts are off, and only one CPU at a time
    /// calls it.
    fn write(&self, bytes: &[u8]);
}

/// What the log needs of the machine.
pub struct Machine {
    /// Writes to a polled serial port, used until a driver takes it over.
    pub write: fn(&[u8]),
    /// Nanoseconds since boot.
    pub now_ns: fn() -> u64,
}

/// Set by [`init`] or [`enter_panic`]. Before, messages are only recorded.
static MACHINE: Once<&'static Machine> = Once::new();

/// The architecture's polled serial port. Used until a driver takes it over.
struct Early;

impl Console for Early {
    fn write(&self, bytes: &[u8]) {
        if let Some(machine) = MACHINE.get() {
            (machine.write)(bytes);
        }
    }
}

/// The consoles, each with its position in the log.
struct Output {
    consoles: [Option<(&'static dyn Console, Cursor)>; CONSOLES],
    text: [u8; LINE_MAX],
}

static RING: IrqSpinLock<ring::Ring> = IrqSpinLock::new(ring::Ring::new());
static OUTPUT: IrqSpinLock<Output> = IrqSpinLock::new(Output {
    consoles: [Some((&Early, Cursor::START)), None, None, None],
    text: [0; LINE_MAX],
});
/// Messages below this level are shown.
pub static CONSOLE_LEVEL: AtomicI32 = AtomicI32::new(7);
/// The level of messages to `/dev/kmsg` that have none. This and the next two are the other values of
/// `kernel.printk`.
pub static DEFAULT_MESSAGE_LEVEL: AtomicI32 = AtomicI32::new(4);
/// The lowest value that `syslog` gives [`CONSOLE_LEVEL`].
pub static LEAST_CONSOLE_LEVEL: AtomicI32 = AtomicI32::new(1);
/// The value with which [`CONSOLE_LEVEL`] began, as `kernel.printk` tells it.
pub static DEFAULT_CONSOLE_LEVEL: AtomicI32 = AtomicI32::new(7);
/// How many records were ever written, and how many all consoles have shown.
static WRITTEN: AtomicU64 = AtomicU64::new(0);
static SHOWN: AtomicU64 = AtomicU64::new(0);
static PANICKING: AtomicBool = AtomicBool::new(false);

/// Writes a message. For the macros.
pub fn write(level: Level, args: fmt::Arguments<'_>) {
    let mut line = Line::<LINE_MAX>::new();
    let _ = line.write_fmt(args);
    write_bytes(level, 0, line.bytes());
}

/// Writes a message of a program (facility 1) or of the kernel (facility 0).
pub fn write_bytes(level: Level, facility: u8, text: &[u8]) {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    if !record(level, facility, text) {
        // A fault inside the log itself: the message is not recorded, but it is shown.
        Early.write(text);
        Early.write(b"\n");
        return;
    }
    flush();
    readers_wake();
}

/// Writes a message of the kernel that the next timer interrupt shows: for code that may hold a console's own
/// lock.
pub fn write_later(level: Level, text: &[u8]) {
    if record(level, 0, text) {
        WAKE_DUE.store(true, Ordering::Release);
    }
}

/// Puts a message into the ring. `false`: this CPU has it locked.
fn record(level: Level, facility: u8, text: &[u8]) -> bool {
    let now = MACHINE.get().map_or(0, |machine| (machine.now_ns)());
    let Some(mut ring) = RING.lock_patiently() else {
        return false;
    };
    ring.push(level, facility, now, text);
    WRITTEN.store(ring.end().seq, Ordering::Release);
    true
}

/// Shows records that the consoles have not shown yet. If another CPU is doing that, it shows the newest,
/// too.
pub fn flush() {
    // Too early: what is in the ring is shown by `init`.
    if MACHINE.get().is_some() {
        console_unlock();
    }
}

/// Shows the records. A function of its own, so that it can be traced by Linux's name.
#[inline(never)]
fn console_unlock() {
    loop {
        // Pairs with the fence below: either this CPU gets the lock, or its holder sees this record after
        // unlocking.
        fence(Ordering::SeqCst);
        let guard = if PANICKING.load(Ordering::Relaxed) {
            OUTPUT.lock_patiently()
        } else {
            OUTPUT.try_lock()
        };
        let Some(mut output) = guard else { return };
        let more = output.step();
        drop(output);
        fence(Ordering::SeqCst);
        if !more && SHOWN.load(Ordering::Acquire) >= WRITTEN.load(Ordering::Acquire) {
            return;
        }
    }
}

impl Output {
    /// Shows at most one record on each console, to keep interrupts off only that long. Returns whether there
    /// was one.
    fn step(&mut self) -> bool {
        let Self { consoles, text } = self;
        let mut any = false;
        let mut shown = WRITTEN.load(Ordering::Acquire);
        for (console, cursor) in consoles.iter_mut().flatten() {
            let Some(ring) = RING.lock_patiently() else {
                continue;
            };
            let record = ring.read(cursor, text);
            drop(ring);
            shown = shown.min(cursor.seq);
            let Some(record) = record else { continue };
            any = true;
            if i32::from(record.level) < CONSOLE_LEVEL.load(Ordering::Relaxed) {
                for_each_line(&record, &text[..record.len], |prefix, line| {
                    console.write(prefix);
                    console.write(line);
                    console.write(b"\n");
                });
            }
        }
        SHOWN.store(shown, Ordering::Release);
        any
    }
}

/// Calls `f` with `[ 0.123456] ` and the text of each line of a record.
fn for_each_line(record: &Record, text: &[u8], mut f: impl FnMut(&[u8], &[u8])) {
    let mut prefix = Line::<32>::new();
    let us = record.time_ns / 1000;
    let _ = write!(prefix, "[{:5}.{:06}] ", us / 1_000_000, us % 1_000_000);
    for line in text.split(|b| *b == b'\n') {
        f(prefix.bytes(), line);
    }
}

/// Reads the command line, once it is known. If `console=` is given and names no serial port, the early
/// console shows nothing more.
pub fn init(machine: &'static Machine) {
    use crate::cmdline;
    let _ = MACHINE.set(machine);
    if cmdline::flag("debug") {
        set_console_level(10);
    }
    if cmdline::flag("quiet") {
        set_console_level(4);
    }
    if let Some(level) = cmdline::value("loglevel").and_then(|v| v.parse::<i32>().ok()) {
        set_console_level(level.clamp(1, 15));
    }
    let mut named = cmdline::words()
        .filter_map(|w| w.strip_prefix("console="))
        .peekable();
    let early = cmdline::words()
        .any(|w| w.starts_with("earlycon") || w.starts_with("earlyprintk") || w == "keep_bootcon");
    if named.peek().is_some() && !early && !named.any(|c| c.starts_with("tty")) {
        drop_early();
    }
    flush();
}

/// Lets consoles show messages below `level`.
pub fn set_console_level(level: i32) {
    CONSOLE_LEVEL.store(level, Ordering::Relaxed);
}

/// The level below which messages are shown on consoles.
pub fn console_level() -> i32 {
    CONSOLE_LEVEL.load(Ordering::Relaxed)
}

/// Adds a console. `replay`: it shows everything since boot, else only later messages. `false`: there are too
/// many consoles.
pub fn register_console(console: &'static dyn Console, replay: bool) -> bool {
    let cursor = if replay { Cursor::START } else { RING.lock().end() };
    let mut output = OUTPUT.lock();
    let Some(free) = output.consoles.iter_mut().find(|c| c.is_none()) else {
        return false;
    };
    *free = Some((console, cursor));
    drop(output);
    flush();
    true
}

/// Removes the early console: a driver has taken over its port, or the command line names another console.
pub fn drop_early() {
    // The early console was registered first, and nothing else uses slot 0 as long as it is there.
    let mut output = OUTPUT.lock();
    if EARLY.swap(false, Ordering::Relaxed) {
        output.consoles[0] = None;
    }
}

static EARLY: AtomicBool = AtomicBool::new(true);

/// Called once by the panicking CPU, after the other CPUs were stopped. From now on every message is shown;
/// if no console is registered, on the early one.
pub fn enter_panic(machine: &'static Machine) {
    let _ = MACHINE.set(machine);
    PANICKING.store(true, Ordering::Relaxed);
    CONSOLE_LEVEL.store(15, Ordering::Relaxed);
    if let Some(mut output) = OUTPUT.lock_patiently()
        && output.consoles.iter().all(Option::is_none)
    {
        output.consoles[0] = Some((&Early, RING.lock().end()));
    }
}

/// Runs `f` with the ring locked, for readers.
pub fn with_ring<R>(f: impl FnOnce(&ring::Ring) -> R) -> R {
    f(&RING.lock())
}

/// How many records were ever written.
pub fn written() -> u64 {
    WRITTEN.load(Ordering::Acquire)
}

/// Wakes readers that sleep; `false` if it may not now, because the caller may hold a lock that waking needs.
/// `in_interrupt`: the timer interrupt calls it.
pub type Wake = fn(in_interrupt: bool) -> bool;

static WAKE: Once<Wake> = Once::new();

/// From now on `wake` is called for each new message.
pub fn on_news(wake: Wake) {
    let _ = WAKE.set(wake);
}

/// Wakes sleeping readers. Code that logs may hold a lock that waking takes, so outside of plain thread
/// context the next timer interrupt wakes them.
fn readers_wake() {
    if let Some(wake) = WAKE.get()
        && !PANICKING.load(Ordering::Relaxed)
        && !wake(false)
    {
        WAKE_DUE.store(true, Ordering::Release);
    }
}

static WAKE_DUE: AtomicBool = AtomicBool::new(false);

/// Shows what was only kept, and wakes readers who could not be woken when a message was logged. Called by
/// the timer interrupt.
pub fn late_wake() {
    if WAKE_DUE.load(Ordering::Relaxed) && WAKE_DUE.swap(false, Ordering::Acquire) {
        flush();
        if let Some(wake) = WAKE.get() {
            wake(true);
        }
    }
}

static WARNED: Once<fn()> = Once::new();

/// From now on `f` is told of each warning that the kernel gives of something wrong in itself, in any
/// context. Boot.
pub fn when_warned(f: fn()) {
    let _ = WARNED.set(f);
}

/// The kernel, or a module, is about to say that something is wrong in itself (Linux's `WARN`). Any context.
pub fn warned() {
    if let Some(f) = WARNED.get() {
        f();
    }
}

/// Logs at a level.
#[macro_export]
macro_rules! log {
    ($level:ident, $($arg:tt)*) => { $crate::log::write($crate::log::Level::$level, format_args!($($arg)*)) };
}

/// Logs information.
#[macro_export]
macro_rules! info {
    ($($arg:tt)*) => { $crate::log!(Info, $($arg)*) };
}

/// Logs a warning.
#[macro_export]
macro_rules! warning {
    ($($arg:tt)*) => { $crate::log!(Warning, $($arg)*) };
}

/// Logs an error.
#[macro_export]
macro_rules! error {
    ($($arg:tt)*) => { $crate::log!(Err, $($arg)*) };
}

/// Logs for debugging.
#[macro_export]
macro_rules! debug {
    ($($arg:tt)*) => { $crate::log!(Debug, $($arg)*) };
}
