//! The terminal line discipline (`N_TTY`) as a state machine: bytes of the line go in; bytes for readers,
//! echo and signals come out. It has no locks, does not wait and knows no devices. The kernel's terminals
//! (serial, virtio, pseudo) use it, and tests on the host run it directly. It behaves as POSIX's general
//! terminal interface says and, where POSIX leaves a choice, like Linux.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod input;
mod output;
mod termios;

use alloc::collections::VecDeque;

pub use termios::{
    B9600, ControlFlags, InputFlags, LocalFlags, NCCS, OutputFlags, Termios, cc, speed_to_baud,
};

/// How many bytes of input are kept for readers (as Linux's `N_TTY_BUF_SIZE`).
pub const INPUT_SIZE: usize = 4096;

/// What the discipline asks for. The terminal that contains it implements this.
pub trait Line {
    /// Queues processed `bytes` for the line (echo and written output). What does not fit is lost: echo is
    /// not guaranteed.
    fn output(&mut self, bytes: &[u8]);
    /// Sends `signal` to the foreground process group.
    fn signal(&mut self, signal: Signal);
    /// Drops queued output that has not been sent.
    fn flush_output(&mut self);
    /// Stops or restarts output (`^S`, `^Q`).
    fn set_stopped(&mut self, stopped: bool);
    /// Whether output is stopped now.
    fn stopped(&self) -> bool;
    /// Waiting input was dropped (packet mode reports it to the master).
    fn input_flushed(&mut self) {}
}

/// The signals that input of a terminal can cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// `SIGINT`.
    Interrupt,
    /// `SIGQUIT`.
    Quit,
    /// `SIGTSTP`.
    Suspend,
}

/// The error with which the line received a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A break condition.
    Break,
    /// A parity or framing error, and the byte as it was received.
    Parity(u8),
    /// Bytes were lost.
    Overrun,
}

/// The result of [`Discipline::read`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// There is nothing to read yet.
    Empty,
    /// So many bytes were copied, and there may be more for this call: raw mode, or `to` was full before the
    /// line's end.
    More(usize),
    /// So many bytes were copied, and the call ends here: a line's end or, with 0, the end of the file.
    Done(usize),
}

/// The end of a line in the input: the position behind it, and whether it is a `VEOF`, which readers do not
/// get.
#[derive(Clone, Copy, Debug)]
struct LineEnd {
    pos: u64,
    eof: bool,
}

/// The state of the discipline. Positions count all bytes since the terminal was made.
#[derive(Debug)]
pub struct Discipline {
    termios: Termios,
    /// Input that has not been read: the bytes at positions `head..tail`.
    bytes: VecDeque<u8>,
    head: u64,
    /// The start of the line that is being edited. Everything before it is complete.
    line_start: u64,
    /// The ends of complete lines in `bytes`, the oldest first.
    ends: VecDeque<LineEnd>,
    /// The next byte is taken literally.
    literal: bool,
    /// Inside `\.../` of `ECHOPRT`.
    erasing: bool,
    /// The present output column, and the one at which the edited line began.
    column: u32,
    line_column: u32,
}

impl Discipline {
    /// A terminal with these settings.
    pub fn new(termios: Termios) -> Self {
        Self {
            termios,
            bytes: VecDeque::with_capacity(INPUT_SIZE),
            head: 0,
            line_start: 0,
            ends: VecDeque::with_capacity(64),
            literal: false,
            erasing: false,
            column: 0,
            line_column: 0,
        }
    }

    /// The settings.
    pub fn termios(&self) -> &Termios {
        &self.termios
    }

    fn tail(&self) -> u64 {
        self.head + self.bytes.len() as u64
    }

    fn canonical(&self) -> bool {
        self.termios.local.contains(LocalFlags::ICANON)
    }

    /// Changes the settings. If canonical mode is turned off, waiting input can be read at once; if it is
    /// turned on, waiting input becomes a line.
    pub fn set_termios(&mut self, termios: Termios) {
        let was = self.canonical();
        self.termios = termios;
        if was != self.canonical() {
            self.ends.clear();
            self.line_start = self.head;
            if self.canonical() && !self.bytes.is_empty() {
                self.line_start = self.tail();
                self.ends.push_back(LineEnd {
                    pos: self.line_start,
                    eof: false,
                });
            }
            self.literal = false;
            self.erasing = false;
        }
    }

    /// How many bytes a read would find now (`FIONREAD`): in canonical mode, those of complete lines.
    pub fn readable(&self) -> usize {
        if !self.canonical() {
            return self.bytes.len();
        }
        let Some(last) = self.ends.back() else { return 0 };
        (last.pos - self.head) as usize - self.ends.iter().filter(|e| e.eof).count()
    }

    /// Whether a read would return at once, even with the end of the file. `at_least` matters in raw mode
    /// only.
    pub fn ready(&self, at_least: usize) -> bool {
        if self.canonical() {
            !self.ends.is_empty()
        } else {
            self.bytes.len() >= at_least.max(1)
        }
    }

    /// How many bytes [`Discipline::receive`] takes now without losing any. In canonical mode an unfinished
    /// line never blocks the line (its overflow is dropped instead), so that a line's end can always arrive.
    pub fn room(&self) -> usize {
        let room = (INPUT_SIZE - 1).saturating_sub(self.bytes.len());
        if room == 0 && self.canonical() && self.ends.is_empty() {
            1
        } else {
            room
        }
    }

    /// Copies input for a reader into `to`.
    pub fn read(&mut self, to: &mut [u8]) -> Read {
        if to.is_empty() {
            return Read::Done(0);
        }
        if !self.canonical() {
            let n = self.take(to, to.len());
            return if n == 0 { Read::Empty } else { Read::More(n) };
        }
        let Some(end) = self.ends.front().copied() else {
            return Read::Empty;
        };
        let line = (end.pos - self.head) as usize;
        let text = line - usize::from(end.eof);
        let n = self.take(to, text);
        if n < text {
            return Read::More(n);
        }
        // The whole line, with the invisible end of the file if it has one.
        if end.eof {
            self.bytes.pop_front();
            self.head += 1;
        }
        self.ends.pop_front();
        Read::Done(n)
    }

    fn take(&mut self, to: &mut [u8], limit: usize) -> usize {
        let n = limit.min(to.len()).min(self.bytes.len());
        let (a, b) = self.bytes.as_slices();
        let first = n.min(a.len());
        to[..first].copy_from_slice(&a[..first]);
        to[first..n].copy_from_slice(&b[..n - first]);
        self.bytes.drain(..n);
        self.head += n as u64;
        self.line_start = self.line_start.max(self.head);
        n
    }

    /// Drops all input (`TCIFLUSH`, a signal).
    pub fn flush_input(&mut self) {
        self.head = self.tail();
        self.bytes.clear();
        self.ends.clear();
        self.line_start = self.head;
        self.literal = false;
        self.erasing = false;
    }
}
