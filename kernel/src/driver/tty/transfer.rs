//! Reading and writing a terminal: sleeping, `VMIN` and `VTIME`, job control.

use super::{OUTPUT_SIZE, State, Tty};
use crate::fs::file::File;
use crate::fs::io::{IoDst, IoSrc};
use core::sync::atomic::Ordering;
use limen_linux_abi::{Errno, SysResult};
use limen_tty::{LocalFlags, OutputFlags, Read, cc};

/// How many bytes are moved at a time, through the kernel stack.
const CHUNK: usize = 1024;
/// A unit of `VTIME` in nanoseconds.
const DECISECOND_NS: u64 = 100_000_000;

impl Tty {
    /// `read`.
    pub(super) fn read(&self, file: &File, dst: &mut IoDst<'_>) -> SysResult {
        self.check_background_read()?;
        let mut buf = [0; CHUNK];
        let (minimum, between, first) = {
            let state = self.state.lock();
            let termios = state.disc.termios();
            let time = u64::from(termios.chars[cc::VTIME]) * DECISECOND_NS;
            match (
                termios.local.contains(LocalFlags::ICANON),
                termios.chars[cc::VMIN],
            ) {
                (true, _) => (1, None, None),
                // The whole read has `VTIME` to get a single byte.
                (false, 0) => (1, None, Some(time)),
                (false, min) => (usize::from(min), Some(time).filter(|t| *t > 0), None),
            }
        };
        let mut total = 0;
        let mut deadline = first.map(|t| crate::time::now_ns() + t);
        while dst.remaining() > 0 {
            let mut state = self.state.lock();
            let want = dst.remaining().min(CHUNK);
            let was_full = state.disc.room() == 0;
            let result = state.disc.read(&mut buf[..want]);
            let (hung_up, room) = (state.hung_up, state.disc.room());
            drop(state);
            if room > 0 && (was_full || room >= limen_tty::INPUT_SIZE / 2) {
                self.driver.unthrottle(self);
            }
            let (n, done) = match result {
                Read::Done(n) => (n, true),
                Read::More(n) => (n, false),
                Read::Empty => {
                    if hung_up || total >= minimum || deadline.is_some_and(|d| crate::time::now_ns() >= d) {
                        break;
                    }
                    if file.nonblocking() {
                        return if total > 0 { Ok(total) } else { Err(Errno::EAGAIN) };
                    }
                    let ready = || {
                        let state = self.state.lock();
                        state.disc.ready(1) || state.hung_up
                    };
                    match self
                        .input
                        .wait_until_deadline(deadline.unwrap_or(u64::MAX), ready)
                    {
                        Ok(true) => {}
                        Ok(false) => break,
                        Err(e) => return if total > 0 { Ok(total) } else { Err(e) },
                    }
                    self.check_background_read()?;
                    continue;
                }
            };
            match dst.put(&buf[..n]) {
                Ok(put) => total += put,
                Err(e) => return if total > 0 { Ok(total) } else { Err(e) },
            }
            if done {
                break;
            }
            if let Some(between) = between {
                deadline = Some(crate::time::now_ns() + between);
            }
            // If the chunk is full, there may be more; else the read ends when it has the minimum.
            if n < want && total >= minimum {
                break;
            }
        }
        Ok(total)
    }

    /// `write`.
    pub(super) fn write(&self, file: &File, src: &mut IoSrc<'_>) -> SysResult {
        if self
            .state
            .lock()
            .disc
            .termios()
            .local
            .contains(LocalFlags::TOSTOP)
        {
            self.check_background(22)?;
        }
        let mut buf = [0; CHUNK];
        let mut total = 0;
        loop {
            if self.state.lock().hung_up {
                return Err(Errno::EIO);
            }
            if src.remaining() == 0 {
                return Ok(total);
            }
            let n = match src.take_whole(&mut buf) {
                Ok(n) => n,
                Err(e) => return if total > 0 { Ok(total) } else { Err(e) },
            };
            let mut done = 0;
            while done < n {
                let used = self.queue_output(&buf[done..n]);
                done += used;
                total += used;
                if used > 0 {
                    continue;
                }
                if file.nonblocking() {
                    if self.owners.any() {
                        self.wants_room.store(true, Ordering::Relaxed);
                    }
                    return if total > 0 { Ok(total) } else { Err(Errno::EAGAIN) };
                }
                if let Err(e) = self.output.wait_until(|| self.writable()) {
                    return if total > 0 { Ok(total) } else { Err(e) };
                }
                if self.state.lock().hung_up {
                    return if total > 0 { Ok(total) } else { Err(Errno::EIO) };
                }
            }
        }
    }

    /// Processes and queues as much of `bytes` as fits, and starts the device.
    pub(super) fn queue_output(&self, bytes: &[u8]) -> usize {
        let mut state = self.state.lock();
        let State { disc, line, .. } = &mut *state;
        let room = OUTPUT_SIZE.saturating_sub(line.out.len());
        let (used, made) = disc.write(bytes, room, line);
        drop(state);
        if made > 0 {
            self.driver.start(self);
        }
        used
    }

    /// Whether a write would take at least one byte.
    pub(super) fn writable(&self) -> bool {
        let state = self.state.lock();
        let need = if state.disc.termios().output.contains(OutputFlags::OPOST) {
            8
        } else {
            1
        };
        state.hung_up || state.line.out.len() + need <= OUTPUT_SIZE
    }

    /// How many bytes of output have not been sent. 0 for a pseudo-terminal: what its master has not read
    /// counts as sent.
    pub(super) fn unsent(&self) -> usize {
        match self.driver.as_pty() {
            Some(_) => 0,
            None => self.state.lock().line.out.len(),
        }
    }

    /// Sleeps until all output has left the device.
    pub(super) fn drain(&self) -> Result<(), Errno> {
        // Drivers wake writers when they take output, not when it has been sent: so look again from time to
        // time.
        loop {
            self.output
                .wait_until(|| self.unsent() == 0 || self.state.lock().hung_up)?;
            if self.driver.drained() || self.state.lock().hung_up {
                return Ok(());
            }
            crate::time::sleep_until(crate::time::now_ns() + 1_000_000)?;
        }
    }
}
