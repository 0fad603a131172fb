//! A streaming, checked reader of "newc" cpio archives, the format of initramfs images (Linux's
//! `Documentation/driver-api/early-userspace/buffer-format.rst`).
//!
//! Bytes are pushed in pieces of any size, as a decompressor produces them. Entries and their data are handed
//! to [`Unpack`]. Nothing in an archive is trusted: names have a maximal length, numbers are checked, and
//! data never has to fit into memory.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::vec::Vec;

/// The size of a header in bytes.
const HEADER: usize = 110;
/// The longest name in bytes, with its NUL (`PATH_MAX`).
const MAX_NAME: u32 = 4096;

/// The header of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Inode number.
    pub ino: u32,
    /// Type and permissions (`st_mode`).
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// How many names the file has in the archive.
    pub nlink: u32,
    /// Modification time, seconds.
    pub mtime: u32,
    /// Bytes of data.
    pub size: u32,
    /// The device on which the file was.
    pub dev: (u32, u32),
    /// Device number of a device node: major and minor.
    pub rdev: (u32, u32),
}

/// What is wrong with an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// No newc magic where a header should be.
    Magic,
    /// A header field that is no hexadecimal number.
    Number,
    /// A name that is empty, too long, or without a NUL.
    Name,
}

/// Receives the entries.
pub trait Unpack {
    /// An entry begins. Its data, if any, follows through [`Unpack::data`].
    fn entry(&mut self, header: &Header, name: &[u8]);
    /// A piece of the present entry's data.
    fn data(&mut self, bytes: &[u8]);
    /// The present entry is complete.
    fn end(&mut self);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Header,
    Name {
        len: u32,
    },
    Data {
        left: u32,
    },
    /// Bytes to skip to the next multiple of four.
    Pad {
        left: u32,
        then: Next,
    },
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Data,
    Header,
}

/// An archive being read.
#[derive(Debug)]
pub struct Reader {
    state: State,
    /// Bytes of the present field that have been seen.
    partial: Vec<u8>,
    header: Header,
    /// How many bytes of the archive were used, modulo four.
    offset: u32,
}

impl Default for Reader {
    fn default() -> Self {
        Self {
            state: State::Header,
            partial: Vec::new(),
            header: Header::default(),
            offset: 0,
        }
    }
}

impl Reader {
    /// At the beginning of an archive.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the archive has ended (its trailer was seen).
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }
    /// Whether no byte of an archive has been seen.
    pub fn is_fresh(&self) -> bool {
        self.state == State::Header && self.partial.is_empty() && self.offset == 0
    }

    /// Uses bytes and returns how many. Fewer than given only if the archive ends there.
    pub fn push(&mut self, bytes: &[u8], out: &mut impl Unpack) -> Result<usize, Error> {
        let mut at = 0;
        while at < bytes.len() && self.state != State::Done {
            at += self.step(&bytes[at..], out)?;
        }
        Ok(at)
    }

    /// Collects up to `want` bytes in `partial`. `true`: they are complete.
    fn collect(&mut self, bytes: &[u8], want: usize) -> (usize, bool) {
        let n = (want - self.partial.len()).min(bytes.len());
        self.partial.extend_from_slice(&bytes[..n]);
        (n, self.partial.len() == want)
    }

    fn advance(&mut self, n: usize) {
        self.offset = (self.offset + (n % 4) as u32) % 4;
    }

    fn pad(&mut self, then: Next) {
        self.state = State::Pad {
            left: (4 - self.offset) % 4,
            then,
        };
        self.settle();
    }

    /// Leaves states that need no further input.
    fn settle(&mut self) {
        if let State::Pad { left: 0, then } = self.state {
            self.state = match then {
                Next::Data => State::Data {
                    left: self.header.size,
                },
                Next::Header => State::Header,
            };
        }
    }

    fn step(&mut self, bytes: &[u8], out: &mut impl Unpack) -> Result<usize, Error> {
        match self.state {
            State::Header => {
                let (n, complete) = self.collect(bytes, HEADER);
                self.advance(n);
                let seen = self.partial.len().min(6);
                let matches = |magic: &[u8; 6]| self.partial[..seen] == magic[..seen];
                if !matches(b"070701") && !matches(b"070702") {
                    return Err(Error::Magic);
                }
                if complete {
                    let len = self.parse()?;
                    self.partial.clear();
                    if len == 0 || len > MAX_NAME {
                        return Err(Error::Name);
                    }
                    self.state = State::Name { len };
                }
                Ok(n)
            }
            State::Name { len } => {
                let (n, complete) = self.collect(bytes, len as usize);
                self.advance(n);
                if complete {
                    let mut name = core::mem::take(&mut self.partial);
                    if name.pop() != Some(0) {
                        return Err(Error::Name);
                    }
                    if name == b"TRAILER!!!" {
                        self.state = State::Done;
                    } else {
                        out.entry(&self.header, &name);
                        self.pad(Next::Data);
                        self.finish_empty(out);
                    }
                    name.clear();
                    self.partial = name;
                }
                Ok(n)
            }
            State::Data { left } => {
                let n = bytes.len().min(left as usize);
                out.data(&bytes[..n]);
                self.advance(n);
                let left = left - n as u32;
                self.state = State::Data { left };
                self.finish_empty(out);
                Ok(n)
            }
            State::Pad { left, then } => {
                let n = bytes.len().min(left as usize);
                self.advance(n);
                self.state = State::Pad {
                    left: left - n as u32,
                    then,
                };
                self.settle();
                self.finish_empty(out);
                Ok(n)
            }
            State::Done => Ok(0),
        }
    }

    /// An entry without (more) data is complete.
    fn finish_empty(&mut self, out: &mut impl Unpack) {
        if self.state == (State::Data { left: 0 }) {
            out.end();
            self.pad(Next::Header);
        }
    }

    /// Decodes the header in `partial`; returns the name's length.
    fn parse(&mut self) -> Result<u32, Error> {
        let mut fields = [0u32; 13];
        for (i, field) in fields.iter_mut().enumerate() {
            for &c in &self.partial[6 + i * 8..14 + i * 8] {
                let digit = (c as char).to_digit(16).ok_or(Error::Number)?;
                *field = *field << 4 | digit;
            }
        }
        let [
            ino,
            mode,
            uid,
            gid,
            nlink,
            mtime,
            size,
            dev_major,
            dev_minor,
            major,
            minor,
            name_len,
            _,
        ] = fields;
        self.header = Header {
            ino,
            mode,
            uid,
            gid,
            nlink,
            mtime,
            size,
            dev: (dev_major, dev_minor),
            rdev: (major, minor),
        };
        Ok(name_len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default, Debug, PartialEq)]
    struct Files(Vec<(String, u32, Vec<u8>, bool)>);

    impl Unpack for Files {
        fn entry(&mut self, h: &Header, name: &[u8]) {
            self.0
                .push((String::from_utf8_lossy(name).into(), h.mode, Vec::new(), false));
        }
        fn data(&mut self, bytes: &[u8]) {
            self.0.last_mut().unwrap().2.extend_from_slice(bytes);
        }
        fn end(&mut self) {
            let last = self.0.last_mut().unwrap();
            assert!(!last.3);
            last.3 = true;
        }
    }

    fn entry(name: &str, mode: u32, data: &[u8]) -> Vec<u8> {
        let mut v = format!(
            "070701{:08x}{mode:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}",
            7,
            0,
            0,
            1,
            99,
            data.len(),
            0,
            0,
            5,
            1,
            name.len() + 1,
            0
        )
        .into_bytes();
        v.extend(name.as_bytes());
        v.push(0);
        v.resize(v.len().next_multiple_of(4), 0);
        v.extend(data);
        v.resize(v.len().next_multiple_of(4), 0);
        v
    }

    fn archive() -> Vec<u8> {
        let mut v = entry("dir", 0o40755, b"");
        v.extend(entry("dir/a", 0o100644, b"hello"));
        v.extend(entry("dir/empty", 0o100600, b""));
        v.extend(entry("four", 0o100600, b"1234"));
        v.extend(entry("TRAILER!!!", 0, b""));
        v
    }

    fn expected() -> Files {
        Files(vec![
            ("dir".into(), 0o40755, vec![], true),
            ("dir/a".into(), 0o100644, b"hello".to_vec(), true),
            ("dir/empty".into(), 0o100600, vec![], true),
            ("four".into(), 0o100600, b"1234".to_vec(), true),
        ])
    }

    #[test]
    fn any_split_gives_the_same() {
        let a = archive();
        for size in 1..a.len() {
            let (mut r, mut out) = (Reader::new(), Files::default());
            for piece in a.chunks(size) {
                let n = r.push(piece, &mut out).unwrap();
                assert!(n == piece.len() || r.is_done());
            }
            assert!(r.is_done());
            assert_eq!(out, expected(), "pieces of {size}");
        }
    }

    #[test]
    fn garbage_is_an_error() {
        let mut out = Files::default();
        assert_eq!(Reader::new().push(b"hello", &mut out), Err(Error::Magic));
        let mut bad = entry("x", 0o100644, b"");
        bad[20] = b'g';
        assert_eq!(Reader::new().push(&bad, &mut out), Err(Error::Number));
        let mut long = entry("x", 0o100644, b"");
        long[94..102].copy_from_slice(b"ffffffff");
        assert_eq!(Reader::new().push(&long, &mut out), Err(Error::Name));
        let mut none = entry("x", 0o100644, b"");
        none[94..102].copy_from_slice(b"00000000");
        assert_eq!(Reader::new().push(&none, &mut out), Err(Error::Name));
    }

    #[test]
    fn stops_at_the_trailer() {
        let mut a = archive();
        let len = a.len();
        a.extend([0; 512]);
        let (mut r, mut out) = (Reader::new(), Files::default());
        let n = r.push(&a, &mut out).unwrap();
        assert!(r.is_done() && n <= len);
    }
}
