//! Output processing (`OPOST`) and echo.

use crate::{Discipline, Line, LocalFlags, OutputFlags};

impl Discipline {
    /// Processes `from` for the line until `room` bytes of output have been made. Returns how many bytes of
    /// `from` were used, and how many bytes were made.
    pub fn write(&mut self, from: &[u8], room: usize, line: &mut impl Line) -> (usize, usize) {
        if !self.termios.output.contains(OutputFlags::OPOST) {
            let n = from.len().min(room);
            line.output(&from[..n]);
            return (n, n);
        }
        let mut made = 0;
        let mut used = 0;
        while used < from.len() {
            // Consecutive ordinary characters are output together.
            let run = from[used..]
                .iter()
                .take(room - made)
                .take_while(|b| {
                    **b >= b' ' && **b != 0x7f && !self.termios.output.contains(OutputFlags::OLCUC)
                })
                .count();
            if run > 0 {
                let piece = &from[used..used + run];
                line.output(piece);
                self.column += piece.iter().filter(|b| self.advances(**b)).count() as u32;
                used += run;
                made += run;
                continue;
            }
            let mut bytes = [0; 8];
            let n = self.process(from[used], &mut bytes, room - made);
            let Some(n) = n else { break };
            line.output(&bytes[..n]);
            made += n;
            used += 1;
        }
        (used, made)
    }

    /// Whether a printable byte moves the cursor. A byte that continues a UTF-8 character does not.
    fn advances(&self, byte: u8) -> bool {
        !(self.utf8() && byte & 0xc0 == 0x80)
    }

    pub(crate) fn utf8(&self) -> bool {
        self.termios.input.contains(crate::InputFlags::IUTF8)
    }

    /// The output for a byte. `None`: it has more than `room` bytes.
    fn process(&mut self, byte: u8, out: &mut [u8; 8], room: usize) -> Option<usize> {
        let flags = self.termios.output;
        let column = self.column;
        out[0] = byte;
        let mut n = 1;
        match byte {
            b'\n' => {
                if flags.contains(OutputFlags::ONLRET) {
                    self.column = 0;
                }
                if flags.contains(OutputFlags::ONLCR) {
                    *out = *b"\r\n\0\0\0\0\0\0";
                    n = 2;
                    self.column = 0;
                }
            }
            b'\r' if flags.contains(OutputFlags::ONOCR) && column == 0 => n = 0,
            b'\r' if flags.contains(OutputFlags::OCRNL) => {
                out[0] = b'\n';
                if flags.contains(OutputFlags::ONLRET) {
                    self.column = 0;
                }
            }
            b'\r' => self.column = 0,
            b'\t' => {
                let spaces = 8 - (column & 7);
                if flags.contains(OutputFlags::XTABS) {
                    *out = [b' '; 8];
                    n = spaces as usize;
                }
                self.column = column + spaces;
            }
            8 => self.column = column.saturating_sub(1),
            _ => {
                if flags.contains(OutputFlags::OLCUC) {
                    out[0] = byte.to_ascii_uppercase();
                }
                if byte >= b' ' && byte != 0x7f && self.advances(byte) {
                    self.column += 1;
                }
            }
        }
        if n > room {
            self.column = column;
            return None;
        }
        Some(n)
    }

    /// Echoes bytes as they are, through output processing.
    pub(crate) fn echo_raw(&mut self, bytes: &[u8], line: &mut impl Line) {
        self.write(bytes, usize::MAX, line);
    }

    /// Echoes one input character: control characters as `^X` with `ECHOCTL`.
    pub(crate) fn echo(&mut self, byte: u8, line: &mut impl Line) {
        if self.shown_as_caret(byte) {
            self.echo_raw(&[b'^', byte ^ 0o100], line);
        } else {
            self.echo_raw(&[byte], line);
        }
    }

    pub(crate) fn shown_as_caret(&self, byte: u8) -> bool {
        self.termios.local.contains(LocalFlags::ECHOCTL) && (byte < b' ' && byte != b'\t' || byte == 0x7f)
    }
}
