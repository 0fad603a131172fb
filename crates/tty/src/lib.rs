//! The terminal line discipline (`N_TTY`) as a pure state machine: bytes from the line go in, bytes for readers, echo and
//! signals come out. No locks, no waiting, no devices: the kernel's terminals (serial, virtio, pseudo) wrap it, and the host tests drive it
//! directly. Behaviour follows POSIX's general terminal interface and, where POSIX leaves room, Linux.

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

/// Bytes of input kept for readers (as Linux's `N_TTY_BUF_SIZE`).
pub const INPUT_SIZE: usize = 4096;

/// What the discipline wants done; implemented by the terminal that embeds it.
pub trait Line {
    /// Queues `bytes`, already processed, for the line (echo and written output). What does not fit is lost: echo is best effort.
    fn output(&mut self, bytes: &[u8]);
    /// Sends `signal` to the foreground process group.
    fn signal(&mut self, signal: Signal);
    /// Drops output that is queued but not sent.
    fn flush_output(&mut self);
    /// Stops or restarts output (`^S`, `^Q`).
    fn set_stopped(&mut self, stopped: bool);
    /// Whether output is stopped now.
    fn stopped(&self) -> bool;
    /// Input that was waiting has been dropped (packet mode tells the master).
    fn input_flushed(&mut self) {}
}

/// The signals a terminal makes from input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// `SIGINT`.
    Interrupt,
    /// `SIGQUIT`.
    Quit,
    /// `SIGTSTP`.
    Suspend,
}

/// What went wrong on the line with a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A break condition.
    Break,
    /// A parity or framing error; the byte as received.
    Parity(u8),
    /// Bytes were lost.
    Overrun,
}

/// What [`Discipline::read`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// Nothing to read (yet).
    Empty,
    /// That many bytes were copied, and the read call may take more: raw mode, or `to` was full before the line's end.
    More(usize),
    /// That many bytes were copied, and the read call ends here: a line's end, or (with 0) end of file.
    Done(usize),
}

/// A line end in the input: the position after it, and whether it is a `VEOF`, which readers do not see.
#[derive(Clone, Copy, Debug)]
struct LineEnd {
    pos: u64,
    eof: bool,
}

/// The discipline's state. Positions count bytes since the terminal was made.
#[derive(Debug)]
pub struct Discipline {
    termios: Termios,
    /// Input not read yet: the bytes at positions `head..tail`.
    bytes: VecDeque<u8>,
    head: u64,
    /// Start of the line being edited; what is before it is complete.
    line_start: u64,
    /// Complete lines in `bytes`, oldest first.
    ends: VecDeque<LineEnd>,
    /// The next byte is literal.
    literal: bool,
    /// Inside `\.../` of `ECHOPRT`.
    erasing: bool,
    /// Output column now, and where the line being edited began.
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

    /// Changes the settings. Input that waits stays readable when canonical mode goes; when it comes, what waits becomes one line.
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

    /// Bytes a read would find now: complete lines in canonical mode (what `FIONREAD` tells).
    pub fn readable(&self) -> usize {
        if !self.canonical() {
            return self.bytes.len();
        }
        let Some(last) = self.ends.back() else { return 0 };
        (last.pos - self.head) as usize - self.ends.iter().filter(|e| e.eof).count()
    }

    /// Whether a read would return something at once (end of file included); `at_least` counts only in raw mode.
    pub fn ready(&self, at_least: usize) -> bool {
        if self.canonical() {
            !self.ends.is_empty()
        } else {
            self.bytes.len() >= at_least.max(1)
        }
    }

    /// How many bytes [`Discipline::receive`] takes now without losing any. In canonical mode an unfinished line never blocks the line (its
    /// overflow is dropped instead), so that a line's end can always arrive.
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
        // The whole line, with its invisible end of file if it has one.
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
