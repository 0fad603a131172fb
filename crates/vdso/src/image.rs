//! The ELF shared object around the vDSO's code: header page with program headers, symbol table, hash table,
//! version definition and dynamic section (System V gABI chapters 4 and 5; symbol versioning as in the GNU
//! specification). 32 or 64 bits, little-endian.

use crate::unwind::{self, SignalFrame};

/// A function of the vDSO.
#[derive(Clone, Copy, Debug)]
pub struct Symbol {
    /// Its name.
    pub name: &'static str,
    /// The offset from the start of the code.
    pub offset: usize,
    /// Size in bytes.
    pub size: usize,
}

/// The properties of the object.
#[derive(Clone, Copy, Debug)]
pub struct Description<'a> {
    /// Whether it is a 64-bit object; if not, a 32-bit one.
    pub wide: bool,
    /// `e_machine`.
    pub machine: u16,
    /// `DT_SONAME`, for example `linux-vdso.so.1`.
    pub soname: &'a str,
    /// The version of all symbols, for example `LINUX_2.6`.
    pub version: &'a str,
    /// Its functions.
    pub symbols: &'a [Symbol],
    /// The offset of the code in the object, a multiple of the page size. Everything before it is the header.
    pub code_offset: usize,
    /// The size of the code in bytes.
    pub code_size: usize,
    /// The trampoline's offset from the start of the code, and what unwinders are told of it.
    pub signal_frame: Option<(usize, &'a SignalFrame)>,
}

/// The header does not fit in front of the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooBig;

/// Sizes that differ between the two classes.
struct Sizes {
    ehdr: usize,
    phdr: usize,
    sym: usize,
    dynamic: usize,
}

const NARROW: Sizes = Sizes {
    ehdr: 52,
    phdr: 32,
    sym: 16,
    dynamic: 8,
};
const WIDE: Sizes = Sizes {
    ehdr: 64,
    phdr: 56,
    sym: 24,
    dynamic: 16,
};

const VERDEF: usize = 20;
const VERDAUX: usize = 8;
const DYNAMIC_ENTRIES: usize = 10;

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_GNU_EH_FRAME: u32 = 0x6474_e550;

/// The System V hash of a symbol name.
const fn sysv_hash(name: &str) -> u32 {
    let bytes = name.as_bytes();
    let mut h: u32 = 0;
    let mut i = 0;
    while i < bytes.len() {
        h = (h << 4).wrapping_add(bytes[i] as u32);
        let g = h & 0xf000_0000;
        h ^= g >> 24;
        h &= !g;
        i += 1;
    }
    h
}

/// Writes little-endian fields, one after the other.
struct Writer<'a> {
    out: &'a mut [u8],
    at: usize,
    wide: bool,
}

impl Writer<'_> {
    fn bytes(&mut self, b: &[u8]) {
        if let Some(to) = self.out.get_mut(self.at..self.at + b.len()) {
            to.copy_from_slice(b);
        }
        self.at += b.len();
    }
    fn u16(&mut self, v: u16) {
        self.bytes(&v.to_le_bytes());
    }
    fn u32(&mut self, v: u32) {
        self.bytes(&v.to_le_bytes());
    }
    /// A number of the class's width.
    fn word(&mut self, v: usize) {
        if self.wide {
            self.bytes(&(v as u64).to_le_bytes());
        } else {
            self.u32(v as u32);
        }
    }
    fn align(&mut self, to: usize) {
        self.at = self.at.next_multiple_of(to);
    }
    fn program_header(&mut self, kind: u32, flags: u32, offset: usize, size: usize, align: usize) {
        self.u32(kind);
        if self.wide {
            self.u32(flags);
        }
        self.word(offset);
        self.word(offset);
        self.word(offset);
        self.word(size);
        self.word(size);
        if !self.wide {
            self.u32(flags);
        }
        self.word(align);
    }
}

/// Writes the header to `out`, the zeroed memory in front of the code (`code_offset` bytes).
pub fn build(out: &mut [u8], d: &Description<'_>) -> Result<(), TooBig> {
    if out.len() < d.code_offset {
        return Err(TooBig);
    }
    let symbols = d.symbols.len() + 1;
    let sizes = if d.wide { &WIDE } else { &NARROW };
    // The offsets of all parts.
    let segments = 2 + usize::from(d.signal_frame.is_some());
    let hash = sizes.ehdr + segments * sizes.phdr;
    let dynsym = (hash + 4 * (2 + 1 + symbols)).next_multiple_of(8);
    let dynstr = dynsym + symbols * sizes.sym;
    let names: usize = d.symbols.iter().map(|s| s.name.len() + 1).sum();
    let soname_at = 1 + names;
    let version_at = soname_at + d.soname.len() + 1;
    let dynstr_size = version_at + d.version.len() + 1;
    let versym = (dynstr + dynstr_size).next_multiple_of(2);
    let verdef = (versym + 2 * symbols).next_multiple_of(8);
    let dynamic = (verdef + 2 * (VERDEF + VERDAUX)).next_multiple_of(8);
    let mut end = dynamic + DYNAMIC_ENTRIES * sizes.dynamic;
    let unwinding = end.next_multiple_of(8);
    if let Some((offset, frame)) = d.signal_frame {
        let room = &mut out[..d.code_offset];
        end = unwind::write(room, unwinding, d.code_offset + offset, frame);
    }
    if end > d.code_offset {
        return Err(TooBig);
    }
    let total = d.code_offset + d.code_size;

    let mut w = Writer {
        out,
        at: 0,
        wide: d.wide,
    };
    w.bytes(&[
        0x7f,
        b'E',
        b'L',
        b'F',
        1 + u8::from(d.wide),
        1,
        1,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
    ]);
    w.u16(3); // ET_DYN
    w.u16(d.machine);
    w.u32(1);
    w.word(d.code_offset); // e_entry
    w.word(sizes.ehdr); // e_phoff
    w.word(0); // e_shoff
    w.u32(0);
    w.u16(sizes.ehdr as u16);
    w.u16(sizes.phdr as u16);
    w.u16(segments as u16);
    w.u16(if d.wide { 64 } else { 40 });
    w.u16(0);
    w.u16(0);

    w.program_header(PT_LOAD, 5, 0, total, d.code_offset);
    w.program_header(PT_DYNAMIC, 4, dynamic, DYNAMIC_ENTRIES * sizes.dynamic, 8);
    if d.signal_frame.is_some() {
        w.program_header(PT_GNU_EH_FRAME, 4, unwinding, unwind::HEAD, 4);
    }

    // A single bucket: a chain through all symbols. Each program looks a symbol up once.
    w.u32(1);
    w.u32(symbols as u32);
    w.u32(if symbols > 1 { 1 } else { 0 });
    w.u32(0);
    for i in 1..symbols {
        w.u32(if i + 1 < symbols { i as u32 + 1 } else { 0 });
    }

    w.at = dynsym + sizes.sym;
    let mut name_at = 1;
    for s in d.symbols {
        w.u32(name_at as u32);
        if !d.wide {
            w.word(d.code_offset + s.offset);
            w.word(s.size);
        }
        w.bytes(&[0x12, 0]); // STB_GLOBAL, STT_FUNC
        w.u16(1); // in a section: defined, and relative to the load address
        if d.wide {
            w.word(d.code_offset + s.offset);
            w.word(s.size);
        }
        name_at += s.name.len() + 1;
    }

    w.at = dynstr + 1;
    for name in d.symbols.iter().map(|s| s.name).chain([d.soname, d.version]) {
        w.bytes(name.as_bytes());
        w.bytes(&[0]);
    }

    w.at = versym;
    w.u16(0);
    for _ in d.symbols {
        w.u16(2);
    }

    w.align(8);
    for (flags, index, name, name_at, next) in [
        (1, 1, d.soname, soname_at, VERDEF + VERDAUX),
        (0, 2, d.version, version_at, 0),
    ] {
        w.u16(1);
        w.u16(flags);
        w.u16(index);
        w.u16(1);
        w.u32(sysv_hash(name));
        w.u32(VERDEF as u32);
        w.u32(next as u32);
        w.u32(name_at as u32);
        w.u32(0);
    }

    w.at = dynamic;
    for (tag, value) in [
        (14usize, soname_at),  // DT_SONAME
        (4, hash),             // DT_HASH
        (5, dynstr),           // DT_STRTAB
        (6, dynsym),           // DT_SYMTAB
        (10, dynstr_size),     // DT_STRSZ
        (11, sizes.sym),       // DT_SYMENT
        (0x6fff_fff0, versym), // DT_VERSYM
        (0x6fff_fffc, verdef), // DT_VERDEF
        (0x6fff_fffd, 2),      // DT_VERDEFNUM
        (0, 0),
    ] {
        w.word(tag);
        w.word(value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::read::elf::{FileHeader, ProgramHeader, Sym};
    use object::{Endianness, elf};

    const SYMBOLS: &[Symbol] = &[
        Symbol {
            name: "__vdso_clock_gettime",
            offset: 0,
            size: 100,
        },
        Symbol {
            name: "__vdso_gettimeofday",
            offset: 112,
            size: 60,
        },
        Symbol {
            name: "__vdso_getcpu",
            offset: 200,
            size: 30,
        },
    ];

    fn description() -> Description<'static> {
        Description {
            wide: true,
            machine: elf::EM_X86_64,
            soname: "linux-vdso.so.1",
            version: "LINUX_2.6",
            symbols: SYMBOLS,
            code_offset: 4096,
            code_size: 500,
            signal_frame: None,
        }
    }

    #[test]
    fn a_reader_finds_everything() {
        let mut out = vec![0u8; 8192];
        build(&mut out, &description()).unwrap();
        let e = Endianness::Little;
        let header = elf::FileHeader64::<Endianness>::parse(&*out).unwrap();
        let segments = header.program_headers(e, &*out).unwrap();
        assert_eq!(segments[0].p_memsz(e), 4096 + 500);
        let mut tags = std::collections::BTreeMap::new();
        let dynamic = segments
            .iter()
            .find_map(|s| s.dynamic(e, &*out).unwrap())
            .unwrap();
        for d in dynamic {
            tags.insert(d.d_tag.get(e), d.d_val.get(e) as usize);
        }
        let string = |at: usize| {
            let at = tags[&5] + at;
            let end = out[at..].iter().position(|&b| b == 0).unwrap();
            std::str::from_utf8(&out[at..at + end]).unwrap()
        };
        assert_eq!(string(tags[&14]), "linux-vdso.so.1");
        let symbols: &[elf::Sym64<Endianness>] =
            object::slice_from_bytes(&out[tags[&6]..], SYMBOLS.len() + 1)
                .unwrap()
                .0;
        for (got, want) in symbols[1..].iter().zip(SYMBOLS) {
            assert_eq!(string(got.st_name(e) as usize), want.name);
            assert_eq!(got.st_value(e) as usize, 4096 + want.offset);
            assert_eq!(got.st_size(e) as usize, want.size);
        }
        // The hash chain reaches every symbol.
        let word = |at: usize| u32::from_le_bytes(out[at..at + 4].try_into().unwrap()) as usize;
        let hash = tags[&4];
        assert_eq!((word(hash), word(hash + 4)), (1, 4));
        let mut i = word(hash + 8);
        let mut found = vec![];
        while i != 0 {
            found.push(i);
            i = word(hash + 12 + 4 * i);
        }
        assert_eq!(found, [1, 2, 3]);
        // Versions: every symbol has index 2, and index 2 is the version asked for.
        let half = |at: usize| u16::from_le_bytes(out[at..at + 2].try_into().unwrap()) as usize;
        let (versym, verdef) = (tags[&0x6fff_fff0], tags[&0x6fff_fffc]);
        assert_eq!((half(versym), half(versym + 2), half(versym + 6)), (0, 2, 2));
        let second = verdef + word(verdef + 16);
        assert_eq!(half(second + 4), 2);
        assert_eq!(word(second + 8), 0x3ae75f6); // readelf -V of any vDSO shows this hash for LINUX_2.6
        assert_eq!(string(word(second + 20)), "LINUX_2.6");
    }

    #[test]
    fn a_reader_finds_the_symbols_of_a_narrow_object() {
        let mut out = vec![0u8; 8192];
        let narrow = Description {
            wide: false,
            machine: elf::EM_ARM,
            ..description()
        };
        build(&mut out, &narrow).unwrap();
        let e = Endianness::Little;
        let header = elf::FileHeader32::<Endianness>::parse(&*out).unwrap();
        let segments = header.program_headers(e, &*out).unwrap();
        assert_eq!((segments[0].p_memsz(e), segments[0].p_flags(e)), (4096 + 500, 5));
        let dynamic = segments
            .iter()
            .find_map(|s| s.dynamic(e, &*out).unwrap())
            .unwrap();
        let tag = |want| {
            let entry = dynamic.iter().find(|d| d.d_tag.get(e) == want).unwrap();
            entry.d_val.get(e) as usize
        };
        let symbols: &[elf::Sym32<Endianness>] = object::slice_from_bytes(&out[tag(6)..], SYMBOLS.len() + 1)
            .unwrap()
            .0;
        for (got, want) in symbols[1..].iter().zip(SYMBOLS) {
            let at = tag(5) + got.st_name(e) as usize;
            assert!(out[at..].starts_with(want.name.as_bytes()));
            assert_eq!(got.st_value(e) as usize, 4096 + want.offset);
            assert_eq!((got.st_size(e) as usize, got.st_info()), (want.size, 0x12));
        }
    }

    #[test]
    fn too_small_a_header_is_refused() {
        let mut out = vec![0u8; 8192];
        assert_eq!(
            build(
                &mut out,
                &Description {
                    code_offset: 256,
                    ..description()
                }
            ),
            Err(TooBig)
        );
        assert_eq!(build(&mut out[..100], &description()), Err(TooBig));
    }
}
