//! What was wrong with what programs wrote to an instance's files (`error_log`): the last few.

use super::Instance;
use crate::mm::reserve::room_exact;
use crate::time::now_ns;
use alloc::vec::Vec;

/// How many are kept.
const MOST: usize = 8;

/// An error.
struct One {
    /// When, nanoseconds.
    time: u64,
    /// What it was about.
    about: &'static str,
    what: &'static str,
    command: Vec<u8>,
    /// Where in the command, from 0.
    column: usize,
}

/// The errors of an instance, the oldest first.
pub struct Errors([Option<One>; MOST]);

impl Errors {
    /// None.
    pub const fn new() -> Self {
        Self([const { None }; MOST])
    }
}

impl Instance {
    /// Keeps an error: what `command` was about, what is wrong with it, and where. Without memory it is lost.
    pub fn log_error(&self, about: &'static str, command: &[u8], what: &'static str, column: usize) {
        let mut copy = Vec::new();
        if room_exact(&mut copy, command.len()).is_err() {
            return;
        }
        copy.extend_from_slice(command);
        let one = One { time: now_ns(), about, what, command: copy, column };
        let mut errors = self.errors.lock();
        let all = &mut errors.0;
        let free = all.iter().position(Option::is_none);
        let place = free.unwrap_or_else(|| {
            all.rotate_left(1);
            MOST - 1
        });
        let former = all[place].replace(one);
        drop(errors);
        drop(former);
    }

    /// Forgets all errors.
    pub fn clear_errors(&self) {
        let former = core::mem::replace(&mut *self.errors.lock(), Errors::new());
        drop(former);
    }

    /// Calls `out` with the errors' text, piece by piece. It allocates, so the errors are taken meanwhile:
    /// what fails in between comes behind them.
    pub fn write_errors(&self, mut out: impl FnMut(&[u8])) {
        let mut taken = core::mem::replace(&mut *self.errors.lock(), Errors::new());
        for one in taken.0.iter().flatten() {
            let (seconds, rest) = (one.time / 1_000_000_000, one.time % 1_000_000_000 / 1000);
            out(alloc::format!("[{seconds:5}.{rest:06}] ").as_bytes());
            for text in [one.about, ": error: ", one.what, "\n  Command: "] {
                out(text.as_bytes());
            }
            out(&one.command);
            out(b"\n           ");
            for _ in 0..one.column.min(one.command.len()) {
                out(b" ");
            }
            out(b"^\n");
        }
        let mut errors = self.errors.lock();
        let new = core::mem::replace(&mut *errors, Errors::new());
        let mut more = new.0.into_iter().flatten();
        for (place, one) in errors.0.iter_mut().zip(taken.0.iter_mut()) {
            *place = one.take().or_else(|| more.next());
        }
    }
}
