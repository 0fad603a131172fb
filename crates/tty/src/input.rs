//! Input processing: flow control, signals, line editing, echo.

use crate::termios::cc;
use crate::{Discipline, Fault, INPUT_SIZE, InputFlags, Line, LineEnd, LocalFlags, Signal};

impl Discipline {
    fn is(&self, which: usize, byte: u8) -> bool {
        // 0 means "none" (`_POSIX_VDISABLE`).
        byte != 0 && self.termios.chars[which] == byte
    }

    fn local(&self, flag: LocalFlags) -> bool {
        self.termios.local.contains(flag)
    }

    fn input(&self, flag: InputFlags) -> bool {
        self.termios.input.contains(flag)
    }

    /// The line received bytes. A caller that can hold them back gives no more than [`Discipline::room`];
    /// what does not fit is lost.
    pub fn receive(&mut self, bytes: &[u8], line: &mut impl Line) {
        let special = InputFlags::ISTRIP | InputFlags::IXON | InputFlags::INLCR | InputFlags::IGNCR;
        let special = special | InputFlags::ICRNL | InputFlags::IUCLC | InputFlags::PARMRK;
        let editing = LocalFlags::ICANON | LocalFlags::ISIG | LocalFlags::ECHO | LocalFlags::EXTPROC;
        if !self.termios.input.intersects(special) && !self.termios.local.intersects(editing) && !self.literal
        {
            // Raw mode without any processing: the bytes are copied.
            let n = bytes.len().min(INPUT_SIZE.saturating_sub(self.bytes.len()));
            self.bytes.extend(&bytes[..n]);
            self.line_start = self.tail();
            return;
        }
        for byte in bytes {
            self.receive_byte(*byte, line);
        }
    }

    /// The line received something that is not a good byte.
    pub fn receive_fault(&mut self, fault: Fault, line: &mut impl Line) {
        match fault {
            Fault::Break if self.input(InputFlags::IGNBRK) => {}
            Fault::Break if self.input(InputFlags::BRKINT) => self.signal(Signal::Interrupt, line),
            Fault::Break if self.input(InputFlags::PARMRK) => {
                [0xff, 0, 0].into_iter().for_each(|b| self.put(b))
            }
            Fault::Break => self.put(0),
            Fault::Overrun => {}
            Fault::Parity(byte) if !self.input(InputFlags::INPCK) => self.receive_byte(byte, line),
            Fault::Parity(_) if self.input(InputFlags::IGNPAR) => {}
            Fault::Parity(byte) if self.input(InputFlags::PARMRK) => {
                [0xff, 0, byte].into_iter().for_each(|b| self.put(b));
            }
            Fault::Parity(_) => self.put(0),
        }
    }

    fn put(&mut self, byte: u8) {
        if self.bytes.len() < INPUT_SIZE {
            self.bytes.push_back(byte);
            if !self.canonical() {
                self.line_start = self.tail();
            }
        }
    }

    fn signal(&mut self, signal: Signal, line: &mut impl Line) {
        if !self.local(LocalFlags::NOFLSH) {
            self.flush_input();
            line.input_flushed();
            line.flush_output();
        }
        line.signal(signal);
    }

    fn receive_byte(&mut self, byte: u8, line: &mut impl Line) {
        let mut byte = byte;
        if self.input(InputFlags::ISTRIP) {
            byte &= 0x7f;
        }
        if self.input(InputFlags::IUCLC) && self.local(LocalFlags::IEXTEN) {
            byte = byte.to_ascii_lowercase();
        }
        if self.local(LocalFlags::EXTPROC) {
            return self.put(byte);
        }
        if core::mem::take(&mut self.literal) {
            return self.ordinary(byte, line);
        }
        if self.input(InputFlags::IXON) {
            if self.is(cc::VSTART, byte) {
                return line.set_stopped(false);
            }
            if self.is(cc::VSTOP, byte) {
                return line.set_stopped(true);
            }
            if self.input(InputFlags::IXANY) && line.stopped() {
                line.set_stopped(false);
            }
        }
        if self.local(LocalFlags::ISIG) {
            let signal = if self.is(cc::VINTR, byte) {
                Some(Signal::Interrupt)
            } else if self.is(cc::VQUIT, byte) {
                Some(Signal::Quit)
            } else if self.is(cc::VSUSP, byte) {
                Some(Signal::Suspend)
            } else {
                None
            };
            if let Some(signal) = signal {
                self.signal(signal, line);
                if self.input(InputFlags::IXON) {
                    line.set_stopped(false);
                }
                if self.local(LocalFlags::ECHO) {
                    self.echo(byte, line);
                }
                return;
            }
        }
        if byte == b'\r' {
            if self.input(InputFlags::IGNCR) {
                return;
            }
            if self.input(InputFlags::ICRNL) {
                byte = b'\n';
            }
        } else if byte == b'\n' && self.input(InputFlags::INLCR) {
            byte = b'\r';
        }
        if self.canonical() && self.edit(byte, line) {
            return;
        }
        self.ordinary(byte, line);
    }

    /// Handles the special characters of canonical mode. `false`: `byte` is an ordinary one.
    fn edit(&mut self, byte: u8, line: &mut impl Line) -> bool {
        let extended = self.local(LocalFlags::IEXTEN);
        let echo = self.local(LocalFlags::ECHO);
        if self.is(cc::VERASE, byte) || self.is(cc::VKILL, byte) || extended && self.is(cc::VWERASE, byte) {
            self.erase(byte, line);
        } else if extended && self.is(cc::VLNEXT, byte) {
            self.literal = true;
            if echo {
                self.finish_erasing(line);
                if self.local(LocalFlags::ECHOCTL) {
                    self.echo_raw(b"^\x08", line);
                }
            }
        } else if extended && echo && self.is(cc::VREPRINT, byte) {
            self.finish_erasing(line);
            self.echo(byte, line);
            self.echo_raw(b"\n", line);
            self.line_column = 0;
            let start = (self.line_start - self.head) as usize;
            for i in start..self.bytes.len() {
                let byte = self.bytes[i];
                self.echo(byte, line);
            }
        } else if byte == b'\n' {
            if echo || self.local(LocalFlags::ECHONL) {
                self.finish_erasing(line);
                self.echo_raw(b"\n", line);
            }
            self.end_line(b'\n', false, line);
        } else if self.is(cc::VEOF, byte) {
            self.end_line(0, true, line);
        } else if self.is(cc::VEOL, byte) || extended && self.is(cc::VEOL2, byte) {
            if echo {
                self.finish_erasing(line);
                self.echo(byte, line);
            }
            if byte == 0xff && self.input(InputFlags::PARMRK) {
                self.put(byte);
            }
            self.end_line(byte, false, line);
        } else {
            return false;
        }
        true
    }

    /// The line is complete. Its end always fits: in a full buffer it replaces the last byte.
    fn end_line(&mut self, byte: u8, eof: bool, line: &mut impl Line) {
        self.erasing = false;
        if self.bytes.len() >= INPUT_SIZE {
            if self.line_start == self.tail() {
                // The buffer is full of complete lines that nobody reads.
                return self.bell(line);
            }
            self.bytes.pop_back();
        }
        self.bytes.push_back(byte);
        self.line_start = self.tail();
        self.ends.push_back(LineEnd {
            pos: self.line_start,
            eof,
        });
    }

    fn bell(&mut self, line: &mut impl Line) {
        if self.input(InputFlags::IMAXBEL) {
            line.output(b"\x07");
        }
    }

    fn ordinary(&mut self, byte: u8, line: &mut impl Line) {
        // In canonical mode a byte is kept free for the line's end.
        let limit = if self.canonical() {
            INPUT_SIZE - 1
        } else {
            INPUT_SIZE
        };
        if self.bytes.len() >= limit {
            return self.bell(line);
        }
        if self.local(LocalFlags::ECHO) {
            self.finish_erasing(line);
            if byte == b'\n' {
                self.echo_raw(b"\n", line);
            } else {
                if self.line_start == self.tail() {
                    self.line_column = self.column;
                }
                self.echo(byte, line);
            }
        }
        if byte == 0xff && self.input(InputFlags::PARMRK) {
            self.put(byte);
        }
        self.put(byte);
    }

    fn finish_erasing(&mut self, line: &mut impl Line) {
        if core::mem::take(&mut self.erasing) {
            self.echo_raw(b"/", line);
        }
    }

    /// `VERASE`, `VWERASE` or `VKILL`.
    fn erase(&mut self, byte: u8, line: &mut impl Line) {
        let local = |f| self.termios.local.contains(f);
        if self.line_start == self.tail() {
            return;
        }
        let (echo, echoe) = (local(LocalFlags::ECHO), local(LocalFlags::ECHOE));
        let whole_line = self.is(cc::VKILL, byte);
        if whole_line {
            if !echo {
                return self.truncate_line();
            }
            if !(local(LocalFlags::ECHOK) && local(LocalFlags::ECHOKE) && echoe) {
                let newline = local(LocalFlags::ECHOK);
                self.truncate_line();
                self.finish_erasing(line);
                self.echo(byte, line);
                if newline {
                    self.echo_raw(b"\n", line);
                }
                return;
            }
        }
        let word = self.is(cc::VWERASE, byte);
        let print = local(LocalFlags::ECHOPRT);
        let mut seen_word = false;
        while self.line_start != self.tail() {
            // One character: in UTF-8, a first byte and those that continue it.
            let line_len = (self.tail() - self.line_start) as usize;
            let mut len = 1;
            if self.utf8() {
                while len < line_len && self.bytes[self.bytes.len() - len] & 0xc0 == 0x80 {
                    len += 1;
                }
                if self.bytes[self.bytes.len() - len] & 0xc0 == 0x80 {
                    break; // only continuation bytes: not a character
                }
            }
            let first = self.bytes[self.bytes.len() - len];
            if word {
                // As on Linux, letters, digits, underscores and all characters beyond ASCII make words.
                let in_word = first.is_ascii_alphanumeric() || first == b'_' || first >= 0x80;
                if in_word {
                    seen_word = true;
                } else if seen_word {
                    break;
                }
            }
            let mut removed = [0; 8];
            let kept = len.min(8);
            for (i, slot) in removed.iter_mut().enumerate().take(kept) {
                *slot = self.bytes[self.bytes.len() - len + i];
            }
            self.bytes.truncate(self.bytes.len() - len);
            if echo {
                if print {
                    if !self.erasing {
                        self.echo_raw(b"\\", line);
                        self.erasing = true;
                    }
                    removed[..kept].iter().for_each(|b| self.echo(*b, line));
                } else if self.is(cc::VERASE, byte) && !echoe {
                    self.echo(byte, line);
                } else if first == b'\t' {
                    let back = self.column.saturating_sub(self.column_of_tail());
                    for _ in 0..back {
                        self.echo_raw(b"\x08", line);
                    }
                } else {
                    let mut columns = 1;
                    if self.shown_as_caret(first) {
                        columns = 2;
                    } else if first < b' ' || first == 0x7f {
                        columns = 0;
                    }
                    for _ in 0..columns {
                        self.echo_raw(b"\x08 \x08", line);
                    }
                }
            }
            if !whole_line && !word {
                break;
            }
        }
        if self.line_start == self.tail() {
            self.finish_erasing(line);
        }
    }

    fn truncate_line(&mut self) {
        let keep = (self.line_start - self.head) as usize;
        self.bytes.truncate(keep);
    }

    /// The column behind the line that is being edited, as it was echoed.
    fn column_of_tail(&self) -> u32 {
        let mut column = self.line_column;
        let start = (self.line_start - self.head) as usize;
        for byte in self.bytes.range(start..) {
            column = match *byte {
                b'\t' => (column | 7) + 1,
                b if self.shown_as_caret(b) => column + 2,
                b if b < b' ' || b == 0x7f => column,
                b if self.utf8() && b & 0xc0 == 0x80 => column,
                _ => column + 1,
            };
        }
        column
    }
}
