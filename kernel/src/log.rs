//! The kernel log: `log!(Level, ...)` and the shorthands. Goes to the early console and, once there is one, to the ring
//! buffer behind `dmesg` and `/dev/kmsg` (driver room).

use core::fmt::{self, Write};

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

struct Console;

impl Write for Console {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        crate::arch::console::write(s.as_bytes());
        Ok(())
    }
}

/// Writes one message; called through the macros.
pub fn write(level: Level, args: fmt::Arguments<'_>) {
    let _ = level;
    let _ = Console.write_fmt(args);
    let _ = Console.write_str("\n");
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
