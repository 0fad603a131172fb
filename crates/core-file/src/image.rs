//! The headers: the file's, one for the notes, and one for each mapping.

use crate::{NoMemory, add};
use alloc::vec::Vec;

/// The program's processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// `e_machine`.
    pub number: u16,
    /// `e_flags`.
    pub flags: u32,
    /// Whether addresses have 64 bits.
    pub wide: bool,
    /// Bytes in a page, a power of two.
    pub page: u64,
}

/// A mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its first address.
    pub start: u64,
    /// One past the last.
    pub end: u64,
    /// `PF_*`: 1 may be executed, 2 written, 4 read.
    pub flags: u32,
    /// How many bytes of it are in the file: whole pages, at most all.
    pub kept: u64,
}

/// What comes before the memory.
#[derive(Debug, PartialEq, Eq)]
pub struct Headers {
    /// The file's first bytes, up to the notes.
    pub bytes: Vec<u8>,
    /// Where in the file the memory begins.
    pub data: u64,
}

const PT_LOAD: u32 = 1;
const PT_NOTE: u32 = 4;
/// `PN_XNUM`: the number of program headers is in the first section header.
const XNUM: usize = 0xffff;

impl Machine {
    /// Sizes of the file's header, a program header, a section header.
    const fn sizes(self) -> [usize; 3] {
        if self.wide { [64, 56, 64] } else { [52, 32, 40] }
    }

    /// Adds a number as wide as an address.
    pub(crate) fn word(self, out: &mut Vec<u8>, word: u64) -> Result<(), NoMemory> {
        if self.wide {
            add(out, &word.to_le_bytes())
        } else {
            add(out, &(word as u32).to_le_bytes())
        }
    }

    /// How many bytes an address has.
    pub(crate) const fn width(self) -> usize {
        if self.wide { 8 } else { 4 }
    }

    fn program_header(
        self,
        out: &mut Vec<u8>,
        kind: u32,
        flags: u32,
        // Offset, address, bytes in the file, bytes in memory, alignment.
        [offset, address, kept, size, align]: [u64; 5],
    ) -> Result<(), NoMemory> {
        add(out, &kind.to_le_bytes())?;
        if self.wide {
            add(out, &flags.to_le_bytes())?;
        }
        for word in [offset, address, 0, kept, size] {
            self.word(out, word)?;
        }
        if !self.wide {
            add(out, &flags.to_le_bytes())?;
        }
        self.word(out, align)
    }

    /// The headers of a file with `notes` bytes of notes, which come behind them, and then these mappings.
    pub fn headers(self, notes: usize, segments: &[Segment]) -> Result<Headers, NoMemory> {
        let [file, program, section] = self.sizes();
        let count = segments.len() + 1;
        let extended = count >= XNUM;
        let at_notes = (file + count * program) as u64;
        let data = (at_notes + notes as u64).next_multiple_of(self.page);
        let memory: u64 = segments.iter().map(|segment| segment.kept).sum();
        let sections = if extended { data + memory } else { 0 };
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(at_notes as usize)?;
        let class = if self.wide { 2 } else { 1 };
        add(&mut bytes, &[0x7f, b'E', b'L', b'F', class, 1, 1, 0])?;
        add(&mut bytes, &[0; 8])?;
        // `ET_CORE`.
        for half in [4, self.number] {
            add(&mut bytes, &half.to_le_bytes())?;
        }
        add(&mut bytes, &1u32.to_le_bytes())?;
        for word in [0, file as u64, sections] {
            self.word(&mut bytes, word)?;
        }
        add(&mut bytes, &self.flags.to_le_bytes())?;
        let shown = count.min(XNUM) as u16;
        let sections = u16::from(extended);
        for half in [
            file as u16,
            program as u16,
            shown,
            sections * section as u16,
            sections,
            0,
        ] {
            add(&mut bytes, &half.to_le_bytes())?;
        }
        self.program_header(&mut bytes, PT_NOTE, 0, [at_notes, 0, notes as u64, 0, 4])?;
        let mut at = data;
        for segment in segments {
            let size = segment.end - segment.start;
            let place = [at, segment.start, segment.kept, size, self.page];
            self.program_header(&mut bytes, PT_LOAD, segment.flags, place)?;
            at += segment.kept;
        }
        Ok(Headers { bytes, data })
    }

    /// What comes behind the memory: the section header that says how many program headers there are, if
    /// their number does not fit in its place.
    pub fn trailer(self, segments: usize) -> Result<Vec<u8>, NoMemory> {
        let mut bytes = Vec::new();
        let count = segments + 1;
        if count < XNUM {
            return Ok(bytes);
        }
        // All is zero but `sh_size`, the number of sections, and `sh_info`.
        let [_, _, section] = self.sizes();
        bytes.try_reserve_exact(section)?;
        bytes.resize(section, 0);
        let (size, info) = if self.wide { (32, 44) } else { (20, 28) };
        bytes[size] = 1;
        bytes[info..info + 4].copy_from_slice(&(count as u32).to_le_bytes());
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec;

    const WIDE: Machine = Machine {
        number: 62,
        flags: 0,
        wide: true,
        page: 4096,
    };
    const NARROW: Machine = Machine {
        number: 40,
        flags: 7,
        wide: false,
        page: 4096,
    };

    fn number(bytes: &[u8], at: usize, len: usize) -> u64 {
        let mut word = [0; 8];
        word[..len].copy_from_slice(&bytes[at..at + len]);
        u64::from_le_bytes(word)
    }

    #[test]
    fn wide_headers() {
        let segments = [
            Segment {
                start: 0x1000,
                end: 0x4000,
                flags: 5,
                kept: 0x1000,
            },
            Segment {
                start: 0x8000,
                end: 0x9000,
                flags: 6,
                kept: 0x1000,
            },
        ];
        let made = WIDE.headers(100, &segments).unwrap();
        let b = &made.bytes;
        assert_eq!(b.len(), 64 + 3 * 56);
        assert_eq!(made.data, 4096);
        assert_eq!(&b[..7], [0x7f, b'E', b'L', b'F', 2, 1, 1]);
        assert_eq!(
            [number(b, 16, 2), number(b, 18, 2), number(b, 32, 8)],
            [4, 62, 64]
        );
        // Sizes of headers and their number; no sections.
        assert_eq!(
            [
                number(b, 52, 2),
                number(b, 54, 2),
                number(b, 56, 2),
                number(b, 60, 2)
            ],
            [64, 56, 3, 0]
        );
        // Notes: kind, offset, size.
        assert_eq!(
            [number(b, 64, 4), number(b, 72, 8), number(b, 96, 8)],
            [4, 232, 100]
        );
        // The second mapping: kind, flags, offset, address, bytes in the file and in memory, alignment.
        let at = 64 + 2 * 56;
        let found = [(0, 4), (4, 4), (8, 8), (16, 8), (32, 8), (40, 8), (48, 8)];
        let found = found.map(|(offset, len)| number(b, at + offset, len));
        assert_eq!(found, [1, 6, 8192, 0x8000, 0x1000, 0x1000, 4096]);
    }

    #[test]
    fn narrow_headers() {
        let segments = [Segment {
            start: 0x1000,
            end: 0x4000,
            flags: 5,
            kept: 0x2000,
        }];
        let made = NARROW.headers(10, &segments).unwrap();
        let b = &made.bytes;
        assert_eq!(b.len(), 52 + 2 * 32);
        assert_eq!(
            [
                number(b, 4, 1),
                number(b, 18, 2),
                number(b, 28, 4),
                number(b, 36, 4)
            ],
            [1, 40, 52, 7]
        );
        let at = 52 + 32;
        let found = [0, 4, 8, 16, 20, 24, 28].map(|offset| number(b, at + offset, 4));
        assert_eq!(found, [1, 4096, 0x1000, 0x2000, 0x3000, 5, 4096]);
    }

    #[test]
    fn more_mappings_than_fit() {
        for machine in [WIDE, NARROW] {
            let few = vec![
                Segment {
                    start: 0,
                    end: 0x1000,
                    flags: 0,
                    kept: 0x1000
                };
                0xfffd
            ];
            assert_eq!(
                number(
                    &machine.headers(0, &few).unwrap().bytes,
                    machine.sizes()[0] - 8,
                    2
                ),
                0xfffe
            );
            assert!(machine.trailer(few.len()).unwrap().is_empty());
            let many = vec![
                Segment {
                    start: 0,
                    end: 0x1000,
                    flags: 0,
                    kept: 0x1000
                };
                0x1_0000
            ];
            let made = machine.headers(0, &many).unwrap();
            let b = &made.bytes;
            let [file, _, section] = machine.sizes();
            assert_eq!(number(b, file - 8, 2), 0xffff);
            assert_eq!(number(b, file - 4, 2), 1);
            let at = number(b, if machine.wide { 40 } else { 32 }, machine.width());
            assert_eq!(at, made.data + 0x1000_0000);
            let trailer = machine.trailer(many.len()).unwrap();
            assert_eq!(trailer.len(), section);
            assert_eq!(number(&trailer, if machine.wide { 44 } else { 28 }, 4), 0x1_0001);
        }
    }
}
