//! The kernel log: `log!(Level, ...)` and the shorthands, callable from any context. A message goes into the ring behind `dmesg` and
//! `/dev/kmsg` and, if its level says so, to every registered console (`loglevel=`, `quiet`, `debug` on the command line).
//!
//! Nobody waits for a console: who finds another CPU writing leaves the message to it. A holder of a console's own lock must not log.

mod ring;

use crate::sync::IrqSpinLock;
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering, fence};
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

/// Longest message; what is longer is cut.
pub const LINE_MAX: usize = 1000;
/// Most consoles that show the log at once.
const CONSOLES: usize = 4;

/// Where the log is shown.
pub trait Console: Sync {
    /// Writes `bytes` (with `\n` line ends) without sleeping. Interrupts are off; called by one CPU at a time.
    fn write(&self, bytes: &[u8]);
}

/// The architecture's polled serial port, used until (and unless) a driver takes over.
struct Early;

impl Console for Early {
    fn write(&self, bytes: &[u8]) {
        crate::arch::console::write(bytes);
    }
}

/// The consoles, each with its place in the log.
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
static CONSOLE_LEVEL: AtomicU8 = AtomicU8::new(7);
/// Records ever written, and records every console has passed.
static WRITTEN: AtomicU64 = AtomicU64::new(0);
static SHOWN: AtomicU64 = AtomicU64::new(0);
static PANICKING: AtomicBool = AtomicBool::new(false);

/// A message being put together on the stack.
struct Line<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Write for Line<N> {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        let mut n = s.len().min(N - self.len);
        while !s.is_char_boundary(n) {
            n -= 1;
        }
        self.bytes[self.len..self.len + n].copy_from_slice(&s.as_bytes()[..n]);
        self.len += n;
        Ok(())
    }
}

/// Writes one message; called through the macros.
pub fn write(level: Level, args: fmt::Arguments<'_>) {
    let mut line = Line::<LINE_MAX> {
        bytes: [0; LINE_MAX],
        len: 0,
    };
    let _ = line.write_fmt(args);
    write_bytes(level, 0, &line.bytes[..line.len]);
}

/// Writes one message of user space (facility 1) or the kernel (0).
pub fn write_bytes(level: Level, facility: u8, text: &[u8]) {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    let now = crate::arch::time::now_ns();
    let Some(mut ring) = lock_patiently(&RING) else {
        // A fault inside the log itself: better late and unrecorded than silent.
        crate::arch::console::write(text);
        crate::arch::console::write(b"\n");
        return;
    };
    ring.push(level, facility, now, text);
    WRITTEN.store(ring.end().seq, Ordering::Release);
    drop(ring);
    flush();
    readers_wake();
}

/// Takes a lock that this very CPU may already hold (an NMI or a fault on top of the log): gives up after a while.
pub(crate) fn lock_patiently<T>(lock: &IrqSpinLock<T>) -> Option<crate::sync::IrqSpinGuard<'_, T>> {
    for _ in 0..10_000_000 {
        if let Some(guard) = lock.try_lock() {
            return Some(guard);
        }
        crate::arch::irq::spin_hint();
    }
    None
}

/// Shows what the consoles have not seen yet, unless another CPU is at it (which then also shows the newest).
pub fn flush() {
    loop {
        // Pairs with the fence below: either we get the lock, or its holder sees our record after unlocking.
        fence(Ordering::SeqCst);
        let guard = if PANICKING.load(Ordering::Relaxed) {
            lock_patiently(&OUTPUT)
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
    /// Shows at most one record on each console (so interrupts are off only that long). Returns whether there was one.
    fn step(&mut self) -> bool {
        let Self { consoles, text } = self;
        let mut any = false;
        let mut shown = WRITTEN.load(Ordering::Acquire);
        for (console, cursor) in consoles.iter_mut().flatten() {
            let Some(ring) = lock_patiently(&RING) else {
                continue;
            };
            let record = ring.read(cursor, text);
            drop(ring);
            shown = shown.min(cursor.seq);
            let Some(record) = record else { continue };
            any = true;
            if record.level < CONSOLE_LEVEL.load(Ordering::Relaxed) {
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

/// Calls `f` with `[    0.123456] ` and the text of each line of a record.
fn for_each_line(record: &Record, text: &[u8], mut f: impl FnMut(&[u8], &[u8])) {
    let mut prefix = Line {
        bytes: [0; 32],
        len: 0,
    };
    let us = record.time_ns / 1000;
    let _ = write!(prefix, "[{:5}.{:06}] ", us / 1_000_000, us % 1_000_000);
    for line in text.split(|b| *b == b'\n') {
        f(&prefix.bytes[..prefix.len], line);
    }
}

/// Reads the command line's wishes; called once it is known. With `console=` naming no serial port, the early console stays silent.
pub fn init() {
    use crate::boot::cmdline;
    if cmdline::flag("debug") {
        set_console_level(10);
    }
    if cmdline::flag("quiet") {
        set_console_level(4);
    }
    if let Some(level) = cmdline::value("loglevel").and_then(|v| v.parse::<u8>().ok()) {
        set_console_level(level);
    }
    let mut named = cmdline::words()
        .filter_map(|w| w.strip_prefix("console="))
        .peekable();
    let early = cmdline::words()
        .any(|w| w.starts_with("earlycon") || w.starts_with("earlyprintk") || w == "keep_bootcon");
    if named.peek().is_some() && !early && !named.any(|c| c.starts_with("tty")) {
        drop_early();
    }
}

/// Sets which messages consoles show: those below `level` (1 to 15).
pub fn set_console_level(level: u8) {
    CONSOLE_LEVEL.store(level.clamp(1, 15), Ordering::Relaxed);
}

/// Which messages consoles show.
pub fn console_level() -> u8 {
    CONSOLE_LEVEL.load(Ordering::Relaxed)
}

/// Adds a console. `replay`: it is shown everything since boot; otherwise only what comes from now on.
/// Returns false if there are too many.
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

/// The early console goes, because a driver has taken over its port or the command line names another console.
pub fn drop_early() {
    // The early console was registered first and nothing else ever takes slot 0 while it is there.
    let mut output = OUTPUT.lock();
    if EARLY.swap(false, Ordering::Relaxed) {
        output.consoles[0] = None;
    }
}

static EARLY: AtomicBool = AtomicBool::new(true);

/// From now on output is forced: called once by the panicking CPU, after the others were stopped. Everything is shown, and if no
/// console is registered the early one shows it.
pub fn enter_panic() {
    PANICKING.store(true, Ordering::Relaxed);
    CONSOLE_LEVEL.store(15, Ordering::Relaxed);
    if let Some(mut output) = lock_patiently(&OUTPUT)
        && output.consoles.iter().all(Option::is_none)
    {
        output.consoles[0] = Some((&Early, RING.lock().end()));
    }
}

/// Runs `f` with the ring, for readers.
pub fn with_ring<R>(f: impl FnOnce(&ring::Ring) -> R) -> R {
    f(&RING.lock())
}

/// Records ever written.
pub fn written() -> u64 {
    WRITTEN.load(Ordering::Acquire)
}

/// Sleeping readers (`/dev/kmsg`, `syslog`).
pub static READERS: crate::sched::WaitQueue = crate::sched::WaitQueue::new();

/// Tells sleeping readers that there is something new. Who logs may hold a lock that waking needs, so outside of plain thread
/// context the news waits for the next timer interrupt.
fn readers_wake() {
    if READERS.is_empty() || PANICKING.load(Ordering::Relaxed) {
        return;
    }
    if crate::arch::irq::enabled() && crate::sched::preempt::count() == 0 {
        READERS.wake_all();
    } else {
        WAKE_DUE.store(true, Ordering::Release);
    }
}

static WAKE_DUE: AtomicBool = AtomicBool::new(false);

/// Does a wake-up that could not be done when its message was logged. Called by the timer interrupt.
pub fn late_wake() {
    if WAKE_DUE.load(Ordering::Relaxed) && WAKE_DUE.swap(false, Ordering::Acquire) {
        READERS.wake_all();
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
