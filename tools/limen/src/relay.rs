//! Moves bytes between two descriptors. Our own standard streams may be blocking and shared with other
//! processes: never more is written to them than a pipe that polls as writable takes without blocking. Used
//! by `session.rs`.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;

const BUFFER: usize = 64 * 1024;
/// A pipe that polls as writable has room for this much (`PIPE_BUF`).
pub const PIPE_ROOM: usize = 4096;
/// The most bytes a patient relay keeps.
const PATIENCE: usize = 64 << 20;

/// One direction of bytes.
pub struct Relay {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes that were read, and bytes that were written.
    pub taken: u64,
    pub given: u64,
    /// The source has ended.
    pub ended: bool,
    /// The sink takes no more; further bytes are thrown away.
    pub broken: bool,
    /// The error of the sink, unless it is that its reader went away.
    pub failed: Option<Errno>,
    /// The most bytes that may wait here; more is read only after some have been written.
    room: usize,
}

impl Relay {
    pub fn new() -> Relay {
        Relay {
            buffer: vec![0; BUFFER],
            start: 0,
            end: 0,
            taken: 0,
            given: 0,
            ended: false,
            broken: false,
            failed: None,
            room: 0,
        }
    }

    /// A relay for a source that loses what is not read at once: it is read even when the sink does not keep
    /// up.
    pub fn patient() -> Relay {
        Relay {
            room: PATIENCE,
            ..Relay::new()
        }
    }

    /// A place holder without a buffer.
    pub fn none() -> Relay {
        Relay {
            buffer: Vec::new(),
            start: 0,
            end: 0,
            taken: 0,
            given: 0,
            ended: true,
            broken: true,
            failed: None,
            room: 0,
        }
    }

    /// Whether bytes wait to be written.
    pub fn pending(&self) -> bool {
        self.end > self.start
    }

    /// Whether it should be polled for reading.
    pub fn wants(&self) -> bool {
        !self.ended && (!self.pending() || self.end - self.start < self.room)
    }

    /// Reads the bytes that are there.
    pub fn fill(&mut self, from: BorrowedFd<'_>) {
        if !self.wants() {
            return;
        }
        self.buffer.drain(..self.start);
        (self.start, self.end) = (0, self.end - self.start);
        self.buffer.resize(self.end + BUFFER, 0);
        match rustix::io::read(from, &mut self.buffer[self.end..]) {
            Ok(0) => self.ended = true,
            Ok(n) => {
                self.taken += n as u64;
                if !self.broken {
                    self.end += n;
                }
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            // EIO: a terminal that hung up; ECONNRESET: QEMU has ended. Both are the end of the stream.
            Err(_) => self.ended = true,
        }
    }

    /// Writes as much as fits without blocking.
    pub fn drain(&mut self, to: BorrowedFd<'_>) {
        if !self.pending() {
            return;
        }
        let end = self.end.min(self.start + PIPE_ROOM);
        match rustix::io::write(to, &self.buffer[self.start..end]) {
            Ok(n) => {
                self.start += n;
                self.given += n as u64;
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => {
                self.broken = true;
                self.failed = Some(error).filter(|e| *e != Errno::PIPE);
                self.start = self.end;
            }
        }
    }

    /// The bytes that wait, for a caller that looks at them before they are passed on.
    pub fn waiting(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Keeps only the first `n` waiting bytes.
    pub fn truncate(&mut self, n: usize) {
        self.end = self.end.min(self.start + n);
    }
}
