//! The exit statuses of `limen run` that are not the program's own, and the error type that carries one.
//! `docs/running.md` documents them; scripts rely on them.

use std::fmt;

/// The kernel panicked.
pub const PANIC: i32 = 123;
/// `--timeout` ran out.
pub const TIMEOUT: i32 = 124;
/// Something on the host failed: a missing package, an unreadable file, QEMU itself.
pub const HOST: i32 = 125;
/// The machine ended without saying how the program ended (a reset, a triple fault, QEMU killed).
pub const NO_STATUS: i32 = 122;
/// The program was found but cannot run: not executable, of another architecture, without its interpreter.
pub const CANNOT_RUN: i32 = 126;
/// The program was not found.
pub const NOT_FOUND: i32 = 127;

/// An error whose exit status is not [`HOST`].
#[derive(Debug)]
pub struct WithStatus {
    /// The exit status of `limen`.
    pub status: i32,
    /// What went wrong and what to do about it, on one line.
    pub message: String,
}

impl fmt::Display for WithStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for WithStatus {}

/// An error that ends `limen` with `status`.
pub fn error(status: i32, message: impl Into<String>) -> anyhow::Error {
    WithStatus {
        status,
        message: message.into(),
    }
    .into()
}

/// The exit status that belongs to an error.
pub fn of_error(error: &anyhow::Error) -> i32 {
    error.downcast_ref::<WithStatus>().map_or(HOST, |e| e.status)
}
