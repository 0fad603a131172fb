//! Moves bytes between two descriptors, one of which may be a blocking one that others share (our own standard
//! streams): never writes more to those than a pipe that is ready takes at once. Used by `session.rs`.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;

const BUFFER: usize = 64 * 1024;
/// A pipe that polls as writable has room for this much (`PIPE_BUF`).
pub const PIPE_ROOM: usize = 4096;
/// How much a patient relay keeps.
const PATIENCE: usize = 64 << 20;

/// One direction of bytes.
pub struct Relay {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes that came in, and bytes that went out.
    pub taken: u64,
    pub given: u64,
    /// The source has ended.
    pub ended: bool,
    /// The sink takes no more; what comes is thrown away.
    pub broken: bool,
    /// Why, if not because its reader went away.
    pub failed: Option<Errno>,
    /// How much may wait here: more is read only when that has been written.
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

    /// One whose source loses what is not read at once: it is read whether or not the sink keeps up.
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

    /// Whether there is something to write.
    pub fn pending(&self) -> bool {
        self.end > self.start
    }

    /// Whether it should be polled for reading.
    pub fn wants(&self) -> bool {
        !self.ended && (!self.pending() || self.end - self.start < self.room)
    }

    /// Reads what there is.
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
            // EIO: a terminal that hung up; ECONNRESET: QEMU is gone. Both are the end.
            Err(_) => self.ended = true,
        }
    }

    /// Writes what fits without waiting.
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

    /// The bytes that wait, for a source that is looked through before it goes on.
    pub fn waiting(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Keeps only the first `n` waiting bytes.
    pub fn truncate(&mut self, n: usize) {
        self.end = self.end.min(self.start + n);
    }
}
