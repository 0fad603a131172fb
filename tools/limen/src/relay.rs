//! Moves bytes between two descriptors, one of which may be a blocking one that others share (our own standard
//! streams): never writes more to those than a pipe that is ready takes at once. Used by `session.rs`.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;

const BUFFER: usize = 64 * 1024;
/// A pipe that polls as writable has room for this much (`PIPE_BUF`).
const PIPE_ROOM: usize = 4096;

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
        }
    }

    /// Whether there is something to write.
    pub fn pending(&self) -> bool {
        self.end > self.start
    }

    /// Whether it should be polled for reading.
    pub fn wants(&self) -> bool {
        !self.ended && !self.pending()
    }

    /// Reads what there is.
    pub fn fill(&mut self, from: BorrowedFd<'_>) {
        if self.pending() {
            return;
        }
        match rustix::io::read(from, &mut self.buffer[..]) {
            Ok(0) => self.ended = true,
            Ok(n) => {
                self.taken += n as u64;
                if !self.broken {
                    (self.start, self.end) = (0, n);
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
            Err(_) => {
                self.broken = true;
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
