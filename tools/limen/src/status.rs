//! The exit statuses of `limen run` that are not the program's own, and the error type that carries one.
//! `docs/running.md` documents them; scripts rely on them.

use std::any::Any;
use std::fmt;

/// The kernel panicked.
pub const PANIC: i32 = 123;
/// `--timeout` ran out.
pub const TIMEOUT: i32 = 124;
/// A failure on the host: a missing package, an unreadable file, QEMU itself.
pub const HOST: i32 = 125;
/// The machine ended and the program's status is unknown (a reset, a triple fault, QEMU killed).
pub const NO_STATUS: i32 = 122;
/// The program was found but cannot run: not executable, of another architecture, or its interpreter is
/// missing.
pub const CANNOT_RUN: i32 = 126;
/// The program was not found.
pub const NOT_FOUND: i32 = 127;
/// The reader of the output went away (`limen test | head`): the status a shell shows for a program that
/// SIGPIPE ended.
pub const CLOSED_OUTPUT: i32 = 128 + 13;

/// An error whose exit status is not [`HOST`].
#[derive(Debug)]
pub struct WithStatus {
    /// The exit status of `limen`.
    pub status: i32,
    /// What went wrong and what the user can do, on one line.
    pub message: String,
    /// The program is for another architecture.
    foreign: bool,
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
        foreign: false,
    }
    .into()
}

/// The error of a program that is for another processor.
pub fn foreign(message: impl Into<String>) -> anyhow::Error {
    WithStatus {
        status: CANNOT_RUN,
        message: message.into(),
        foreign: true,
    }
    .into()
}

/// Whether the program is for another architecture: another folder of `PATH` may have one that fits.
pub fn is_foreign(error: &anyhow::Error) -> bool {
    error.downcast_ref::<WithStatus>().is_some_and(|e| e.foreign)
}

/// The exit status that belongs to an error.
pub fn of_error(error: &anyhow::Error) -> i32 {
    error.downcast_ref::<WithStatus>().map_or(HOST, |e| e.status)
}

/// Whether a panic, of which this is the payload, only says that the reader of the output went away (the
/// standard library's `print` panics then). The panic is let unwind, so that machines and files are cleaned
/// up.
pub fn is_closed_output(payload: &(dyn Any + Send)) -> bool {
    payload.downcast_ref::<String>().is_some_and(|message| {
        message.starts_with("failed printing to std") && message.contains("Broken pipe")
    })
}

#[cfg(test)]
mod tests {
    use super::is_closed_output;

    #[test]
    fn only_a_closed_output_is_one() {
        let says = |message: &str| is_closed_output(&message.to_string());
        assert!(says("failed printing to stdout: Broken pipe (os error 32)"));
        assert!(!says(
            "failed printing to stdout: No space left on device (os error 28)"
        ));
        assert!(!says("index out of bounds: Broken pipe"));
    }
}
