//! The ring of log records that `dmesg`, `/dev/kmsg` and the consoles read. Only `log` and its readers use
//! it.

use super::Level;

/// How many bytes are kept (Linux's default for small machines, `CONFIG_LOG_BUF_SHIFT=17`).
pub const SIZE: usize = 1 << 17;
/// How many bytes precede a record's text: length (2), level (1), facility (1), time (8).
const HEADER: usize = 12;

/// A record without its text.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// Its number, counting from 0 at boot.
    pub seq: u64,
    /// Its severity.
    pub level: u8,
    /// Its syslog facility: 0 for the kernel, 1 for programs that wrote to `/dev/kmsg`.
    pub facility: u8,
    /// When it was written, nanoseconds since boot.
    pub time_ns: u64,
    /// How many bytes of text were copied.
    pub len: usize,
}

/// A position in the log: the next record to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Number of the next record.
    pub seq: u64,
    /// The offset at which it begins, counted in all bytes ever written.
    pos: u64,
}

impl Cursor {
    /// The first record since boot.
    pub const START: Self = Self { seq: 0, pos: 0 };
}

/// The records. The oldest are dropped first.
pub struct Ring {
    bytes: [u8; SIZE],
    first: Cursor,
    next: Cursor,
}

impl Ring {
    /// An empty log.
    pub const fn new() -> Self {
        Self {
            bytes: [0; SIZE],
            first: Cursor::START,
            next: Cursor::START,
        }
    }

    /// The oldest record that is still kept.
    pub fn first(&self) -> Cursor {
        self.first
    }

    /// The position of the next record to be written.
    pub fn end(&self) -> Cursor {
        self.next
    }

    fn put(&mut self, pos: u64, from: &[u8]) {
        let at = pos as usize % SIZE;
        let head = from.len().min(SIZE - at);
        self.bytes[at..at + head].copy_from_slice(&from[..head]);
        self.bytes[..from.len() - head].copy_from_slice(&from[head..]);
    }

    fn get(&self, pos: u64, to: &mut [u8]) {
        let at = pos as usize % SIZE;
        let n = to.len();
        let head = n.min(SIZE - at);
        to[..head].copy_from_slice(&self.bytes[at..at + head]);
        to[head..].copy_from_slice(&self.bytes[..n - head]);
    }

    fn text_len(&self, pos: u64) -> usize {
        let mut len = [0; 2];
        self.get(pos, &mut len);
        usize::from(u16::from_le_bytes(len))
    }

    /// Appends a record and drops the oldest ones to make room. `text` is cut at 64 KiB.
    pub fn push(&mut self, level: Level, facility: u8, time_ns: u64, text: &[u8]) {
        let text = &text[..text.len().min(usize::from(u16::MAX))];
        let need = (HEADER + text.len()) as u64;
        while self.next.pos + need - self.first.pos > SIZE as u64 {
            self.first.pos += (HEADER + self.text_len(self.first.pos)) as u64;
            self.first.seq += 1;
        }
        let pos = self.next.pos;
        let mut header = [0; HEADER];
        header[..2].copy_from_slice(&(text.len() as u16).to_le_bytes());
        header[2] = level as u8;
        header[3] = facility;
        header[4..].copy_from_slice(&time_ns.to_le_bytes());
        self.put(pos, &header);
        self.put(pos + HEADER as u64, text);
        self.next = Cursor {
            seq: self.next.seq + 1,
            pos: pos + need,
        };
    }

    /// Reads the record at `cursor` and moves the cursor behind it. `None`: the log ends here. If the record
    /// was dropped, the cursor first moves to the oldest one.
    pub fn read(&self, cursor: &mut Cursor, text: &mut [u8]) -> Option<Record> {
        if cursor.seq < self.first.seq {
            *cursor = self.first;
        }
        if cursor.seq >= self.next.seq {
            return None;
        }
        let mut header = [0; HEADER];
        self.get(cursor.pos, &mut header);
        let stored = usize::from(u16::from_le_bytes([header[0], header[1]]));
        let len = stored.min(text.len());
        self.get(cursor.pos + HEADER as u64, &mut text[..len]);
        let mut time = [0; 8];
        time.copy_from_slice(&header[4..]);
        let record = Record {
            seq: cursor.seq,
            level: header[2],
            facility: header[3],
            time_ns: u64::from_le_bytes(time),
            len,
        };
        cursor.pos += (HEADER + stored) as u64;
        cursor.seq += 1;
        Some(record)
    }
}
