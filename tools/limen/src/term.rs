//! The host's terminal: raw while a run owns it, restored at every ending; its size.

use std::io::IsTerminal;
use std::os::fd::BorrowedFd;

use anyhow::{Context, Result};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// Which of this process's standard descriptors are terminals: bit 0 for stdin, 1 for stdout, 2 for stderr.
pub fn standard_terminals() -> u32 {
    u32::from(std::io::stdin().is_terminal())
        | u32::from(std::io::stdout().is_terminal()) << 1
        | u32::from(std::io::stderr().is_terminal()) << 2
}

/// The descriptor through which the terminal is written to, when there is one.
pub fn output(terminals: u32) -> Option<BorrowedFd<'static>> {
    match terminals {
        t if t & 2 != 0 => Some(rustix::stdio::stdout()),
        t if t & 4 != 0 => Some(rustix::stdio::stderr()),
        t if t & 1 != 0 => Some(rustix::stdio::stdin()),
        _ => None,
    }
}

/// Rows and columns of the terminal, or the size of a VT100.
pub fn size(terminals: u32) -> (u16, u16) {
    let size = output(terminals).and_then(|fd| tcgetwinsize(fd).ok());
    match size {
        Some(size) if size.ws_row > 0 && size.ws_col > 0 => (size.ws_row, size.ws_col),
        _ => (24, 80),
    }
}

/// A terminal in raw mode. Dropping the value restores it.
pub struct Raw {
    before: Termios,
    fd: BorrowedFd<'static>,
}

impl Raw {
    /// Makes the terminal raw if stdin is one: then everything typed belongs to the guest. If only an output
    /// is a terminal, its mode is left alone: other programs may write to it and change it at the same time
    /// (`limen run -- seq 5 | limen run -- sort`), and an additional carriage return is not visible.
    pub fn enter(terminals: u32) -> Result<Option<Raw>> {
        if terminals & 1 == 0 {
            return Ok(None);
        }
        let fd = rustix::stdio::stdin();
        let before = tcgetattr(fd).context("cannot read the terminal's settings")?;
        let mut raw = before.clone();
        raw.make_raw();
        // From the background, `tcsetattr` would stop us by SIGTTOU; a terminal we do not own stays as it is.
        let foreground = rustix::termios::tcgetpgrp(fd).ok() == Some(rustix::process::getpgrp());
        if !foreground {
            return Ok(None);
        }
        tcsetattr(fd, OptionalActions::Drain, &raw).context("cannot set the terminal to raw mode")?;
        Ok(Some(Raw { before, fd }))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = tcsetattr(self.fd, OptionalActions::Drain, &self.before);
    }
}
