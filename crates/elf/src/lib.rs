//! ELF headers of 32-bit and 64-bit files, as far as loading a program needs them. Every number comes from an
//! untrusted file and is checked here, so that adding up addresses and sizes of segments cannot overflow.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

/// How many bytes a file header has at most. A file that can be loaded is longer.
pub const HEADER_SIZE: usize = 64;
/// How many bytes all program headers of a file may have, as on Linux.
const MAX_TABLE: usize = 65536;

/// The width of a file's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// `ELFCLASS32`.
    Bits32,
    /// `ELFCLASS64`.
    Bits64,
}

impl Class {
    /// The class of programs for the processor this code runs on.
    pub const NATIVE: Self = if size_of::<usize>() == 8 {
        Self::Bits64
    } else {
        Self::Bits32
    };

    /// Bytes of a program header.
    pub const fn program_header_size(self) -> usize {
        match self {
            Self::Bits32 => 32,
            Self::Bits64 => 56,
        }
    }
}

/// What is wrong with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// Not ELF, or for another machine or purpose: another loader may accept it (`ENOEXEC`).
    NotForUs,
    /// ELF for this machine, but inconsistent (`ENOEXEC`; for an interpreter `ELIBBAD`).
    Broken,
}

/// The type of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It must be loaded at the addresses that it names (`ET_EXEC`).
    Fixed,
    /// It can be loaded anywhere (`ET_DYN`).
    Relocatable,
}

/// The file header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// How wide its addresses are.
    pub class: Class,
    /// Where it can be loaded.
    pub kind: Kind,
    /// The entry point, as linked.
    pub entry: u64,
    /// The offset of the program headers in the file.
    pub program_headers: u64,
    /// How many program headers there are.
    pub count: usize,
    /// `e_flags`.
    pub flags: u32,
}

fn u16_at(b: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([b[at], b[at + 1]])
}
fn u32_at(b: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]])
}
fn u64_at(b: &[u8], at: usize) -> u64 {
    u64::from(u32_at(b, at)) | u64::from(u32_at(b, at + 4)) << 32
}

impl Header {
    /// Reads the header at the start of a little-endian file of `class` for `machine` (`e_machine`).
    pub fn parse(bytes: &[u8], machine: u16, class: Class) -> Result<Self, Error> {
        let wide = class == Class::Bits64;
        if bytes.len() < HEADER_SIZE
            || bytes[..4] != *b"\x7fELF"
            || bytes[4] != if wide { 2 } else { 1 }
            || bytes[5] != 1
        {
            return Err(Error::NotForUs);
        }
        let kind = match u16_at(bytes, 16) {
            2 => Kind::Fixed,
            3 => Kind::Relocatable,
            _ => return Err(Error::NotForUs),
        };
        if u16_at(bytes, 18) != machine {
            return Err(Error::NotForUs);
        }
        // Three addresses of the class's width; then both classes have the same fields.
        let (entry, program_headers, rest) = if wide {
            (u64_at(bytes, 24), u64_at(bytes, 32), 48)
        } else {
            (u32_at(bytes, 24).into(), u32_at(bytes, 28).into(), 36)
        };
        let size = class.program_header_size();
        let count = usize::from(u16_at(bytes, rest + 8));
        if usize::from(u16_at(bytes, rest + 6)) != size || count == 0 || count > MAX_TABLE / size {
            return Err(Error::Broken);
        }
        program_headers
            .checked_add((count * size) as u64)
            .ok_or(Error::Broken)?;
        Ok(Self {
            class,
            kind,
            entry,
            program_headers,
            count,
            flags: u32_at(bytes, rest),
        })
    }

    /// The size in bytes of all program headers.
    pub fn table_size(&self) -> usize {
        self.count * self.class.program_header_size()
    }
}

/// `PT_LOAD`.
pub const LOAD: u32 = 1;
/// `PT_INTERP`.
pub const INTERP: u32 = 3;
/// `PT_PHDR`.
pub const PHDR: u32 = 6;
/// `PT_GNU_STACK`.
pub const GNU_STACK: u32 = 0x6474_e551;
/// `PT_GNU_PROPERTY`.
pub const GNU_PROPERTY: u32 = 0x6474_e553;

/// One program header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// [`LOAD`], [`INTERP`], ...
    pub kind: u32,
    /// Bit 0 execute, bit 1 write, bit 2 read.
    pub flags: u32,
    /// The offset in the file.
    pub offset: u64,
    /// The address, as linked.
    pub address: u64,
    /// The size in the file, in bytes.
    pub file_size: u64,
    /// The size in memory, in bytes.
    pub memory_size: u64,
    /// Alignment.
    pub align: u64,
}

/// The program headers in `table`, of a file of `class`.
pub fn segments(table: &[u8], class: Class) -> impl Iterator<Item = Segment> + '_ {
    table
        .chunks_exact(class.program_header_size())
        .map(move |b| match class {
            Class::Bits32 => Segment {
                kind: u32_at(b, 0),
                flags: u32_at(b, 24),
                offset: u32_at(b, 4).into(),
                address: u32_at(b, 8).into(),
                file_size: u32_at(b, 16).into(),
                memory_size: u32_at(b, 20).into(),
                align: u32_at(b, 28).into(),
            },
            Class::Bits64 => Segment {
                kind: u32_at(b, 0),
                flags: u32_at(b, 4),
                offset: u64_at(b, 8),
                address: u64_at(b, 16),
                file_size: u64_at(b, 32),
                memory_size: u64_at(b, 40),
                align: u64_at(b, 48),
            },
        })
}

/// The addresses that all loadable segments span, as linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first address, rounded down to a page.
    pub start: u64,
    /// The end, rounded up to a page.
    pub end: u64,
    /// The largest alignment that a segment asks for, at least a page.
    pub align: u64,
}

/// Checks all loadable segments: ascending, inside `0..limit`, file part not larger than the memory part,
/// file offset and address congruent modulo the page. `page` is the page size.
pub fn span(table: &[u8], class: Class, page: u64, limit: u64) -> Result<Span, Error> {
    let mut span: Option<Span> = None;
    let mut last = 0;
    for s in segments(table, class).filter(|s| s.kind == LOAD) {
        let end = s.address.checked_add(s.memory_size).ok_or(Error::Broken)?;
        s.offset.checked_add(s.file_size).ok_or(Error::Broken)?;
        if s.file_size > s.memory_size
            || end > limit
            || s.address < last
            || s.offset % page != s.address % page
            || s.offset > i64::MAX as u64 - s.file_size
        {
            return Err(Error::Broken);
        }
        last = end;
        if s.memory_size == 0 {
            continue;
        }
        let align = if s.align.is_power_of_two() {
            s.align.max(page)
        } else {
            page
        };
        let (start, end) = (s.address / page * page, end.div_ceil(page) * page);
        span = Some(match span {
            None => Span { start, end, align },
            Some(old) => Span {
                start: old.start,
                end,
                align: old.align.max(align),
            },
        });
    }
    let span = span.ok_or(Error::Broken)?;
    if span.end > limit {
        Err(Error::Broken)
    } else {
        Ok(span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(machine: u16, kind: u16, count: u16) -> [u8; 64] {
        let mut b = [0; 64];
        b[..6].copy_from_slice(b"\x7fELF\x02\x01");
        b[16..18].copy_from_slice(&kind.to_le_bytes());
        b[18..20].copy_from_slice(&machine.to_le_bytes());
        b[24..32].copy_from_slice(&0x40_1000u64.to_le_bytes());
        b[32..40].copy_from_slice(&64u64.to_le_bytes());
        b[54..56].copy_from_slice(&56u16.to_le_bytes());
        b[56..58].copy_from_slice(&count.to_le_bytes());
        b
    }

    fn load(address: u64, offset: u64, file: u64, memory: u64) -> Vec<u8> {
        let mut b = vec![0; 56];
        b[..4].copy_from_slice(&LOAD.to_le_bytes());
        for (at, v) in [(8, offset), (16, address), (32, file), (40, memory), (48, 4096)] {
            b[at..at + 8].copy_from_slice(&v.to_le_bytes());
        }
        b
    }

    #[test]
    fn headers() {
        let h = Header::parse(&header(62, 2, 3), 62, Class::Bits64).unwrap();
        assert_eq!((h.kind, h.entry, h.count), (Kind::Fixed, 0x40_1000, 3));
        assert_eq!(
            Header::parse(&header(62, 2, 3), 183, Class::Bits64),
            Err(Error::NotForUs)
        );
        assert_eq!(
            Header::parse(&header(62, 1, 3), 62, Class::Bits64),
            Err(Error::NotForUs)
        );
        assert_eq!(
            Header::parse(&header(62, 3, 0), 62, Class::Bits64),
            Err(Error::Broken)
        );
        assert_eq!(
            Header::parse(&header(62, 3, 65535), 62, Class::Bits64),
            Err(Error::Broken)
        );
        assert_eq!(Header::parse(b"\x7fELF", 62, Class::Bits64), Err(Error::NotForUs));
        let mut far = header(62, 3, 1);
        far[32..40].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(Header::parse(&far, 62, Class::Bits64), Err(Error::Broken));
    }

    #[test]
    fn narrow_files() {
        let mut b = [0; 64];
        b[..6].copy_from_slice(b"\x7fELF\x01\x01");
        b[16..20].copy_from_slice(&[2, 0, 40, 0]);
        b[24..28].copy_from_slice(&0x1_0401u32.to_le_bytes());
        b[28..32].copy_from_slice(&52u32.to_le_bytes());
        b[36..40].copy_from_slice(&0x500_0400u32.to_le_bytes());
        b[42..46].copy_from_slice(&[32, 0, 2, 0]);
        let h = Header::parse(&b, 40, Class::Bits32).unwrap();
        assert_eq!(
            (h.entry, h.program_headers, h.count, h.table_size()),
            (0x1_0401, 52, 2, 64)
        );
        assert_eq!(h.flags, 0x500_0400);
        assert_eq!(Header::parse(&b, 40, Class::Bits64), Err(Error::NotForUs));
        let words: [u32; 8] = [LOAD, 0x1000, 0x1_1000, 0x1_1000, 0x20, 0x3000, 5, 0x1000];
        let table: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let s = segments(&table, Class::Bits32).next().unwrap();
        assert_eq!((s.offset, s.address, s.file_size), (0x1000, 0x1_1000, 0x20));
        assert_eq!((s.memory_size, s.flags, s.align), (0x3000, 5, 0x1000));
        let found = span(&table, Class::Bits32, 4096, 1 << 32).unwrap();
        assert_eq!((found.start, found.end), (0x1_1000, 0x1_4000));
    }

    #[test]
    fn spans() {
        let limit = 1 << 47;
        let two = [load(0x40_0000, 0, 100, 100), load(0x40_1f00, 0xf00, 16, 0x2000)].concat();
        assert_eq!(
            span(&two, Class::Bits64, 4096, limit),
            Ok(Span {
                start: 0x40_0000,
                end: 0x40_4000,
                align: 4096
            })
        );
        for bad in [
            load(u64::MAX - 5, 0, 0, 100),
            load(0x1000, 0, 200, 100),
            load(0x1001, 0, 100, 100),
            load(limit, 0, 0, 4096),
            load(0, !0xfff, 4096, 4096),
            [load(0x3000, 0, 0, 0x1000), load(0x2000, 0, 0, 0x1000)].concat(),
            vec![0; 56],
        ] {
            assert_eq!(span(&bad, Class::Bits64, 4096, limit), Err(Error::Broken));
        }
    }
}
