//! Reading a relocatable object: its sections, symbols and relocations, all checked once.

use alloc::vec::Vec;
use core::marker::PhantomData;

use crate::machine::{Addends, Class, Machine};
use crate::read::{range, room, string, u16_at, u32_at, u64_at};
use crate::{Error, Fault};

/// `ET_REL`.
const RELOCATABLE: u16 = 1;

const SYMTAB: u32 = 2;
const STRTAB: u32 = 3;
const RELA: u32 = 4;
const NOBITS: u32 = 8;
const REL: u32 = 9;
const SYMTAB_SHNDX: u32 = 18;

pub(crate) const WRITE: u64 = 1;
pub(crate) const ALLOC: u64 = 2;
pub(crate) const EXECUTE: u64 = 4;
const TLS: u64 = 0x400;
const COMPRESSED: u64 = 0x800;

const LORESERVE: u16 = 0xff00;
const ABS: u16 = 0xfff1;
const COMMON: u16 = 0xfff2;
const XINDEX: u16 = 0xffff;

/// A section.
#[derive(Clone, Copy, Debug)]
pub struct Section<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// `sh_type`.
    pub kind: u32,
    /// `sh_flags`.
    pub flags: u64,
    /// Its size in memory, in bytes.
    pub size: u64,
    /// Its alignment in bytes, a power of two.
    pub align: u64,
    /// Its content; empty for one that is all zeros (`SHT_NOBITS`).
    pub data: &'a [u8],
    offset: u64,
    link: u32,
    info: u32,
    entry: u64,
}

impl Section<'_> {
    /// Whether the file has no content for it.
    pub fn is_zeros(&self) -> bool {
        self.kind == NOBITS
    }
}

/// Where a symbol is defined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    Undefined,
    Absolute,
    Section(usize),
}

/// A symbol.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Symbol {
    pub name: usize,
    pub value: u64,
    pub size: u64,
    info: u8,
    pub other: u8,
    home: u16,
}

/// Kinds of symbols.
pub(crate) const NOTYPE: u8 = 0;
pub(crate) const OBJECT: u8 = 1;
pub(crate) const FUNC: u8 = 2;
const TLS_SYMBOL: u8 = 6;
const IFUNC: u8 = 10;

impl Symbol {
    fn read(bytes: &[u8], class: Class) -> Option<Self> {
        Some(match class {
            Class::Bits32 => Self {
                name: u32_at(bytes, 0)? as usize,
                value: u32_at(bytes, 4)?.into(),
                size: u32_at(bytes, 8)?.into(),
                info: *bytes.get(12)?,
                other: *bytes.get(13)?,
                home: u16_at(bytes, 14)?,
            },
            Class::Bits64 => Self {
                name: u32_at(bytes, 0)? as usize,
                value: u64_at(bytes, 8)?,
                size: u64_at(bytes, 16)?,
                info: *bytes.get(4)?,
                other: *bytes.get(5)?,
                home: u16_at(bytes, 6)?,
            },
        })
    }
    pub fn kind(&self) -> u8 {
        self.info & 15
    }
    pub fn is_local(&self) -> bool {
        self.info >> 4 == 0
    }
    pub fn is_weak(&self) -> bool {
        self.info >> 4 == 2
    }
}

/// A relocation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Relocation {
    pub offset: u64,
    pub kind: u32,
    pub symbol: usize,
    pub addend: i64,
}

/// A relocatable object for the processor `M`.
#[derive(Debug)]
pub struct Object<'a, M> {
    sections: Vec<Section<'a>>,
    symtab: &'a [u8],
    symtab_index: usize,
    strings: &'a [u8],
    /// `SHT_SYMTAB_SHNDX`: the sections of symbols that have `SHN_XINDEX`.
    homes: &'a [u8],
    machine: PhantomData<M>,
}

/// The sizes of structures, by class.
struct Sizes {
    header: usize,
    section: usize,
    symbol: usize,
    relocation: usize,
}

const fn sizes(class: Class, addends: Addends) -> Sizes {
    let constant = matches!(addends, Addends::Apart) as usize;
    match class {
        Class::Bits32 => Sizes {
            header: 52,
            section: 40,
            symbol: 16,
            relocation: 8 + 4 * constant,
        },
        Class::Bits64 => Sizes {
            header: 64,
            section: 64,
            symbol: 24,
            relocation: 16 + 8 * constant,
        },
    }
}

impl<'a, M: Machine> Object<'a, M> {
    const SIZES: Sizes = sizes(M::CLASS, M::ADDENDS);

    /// Reads an object and checks everything in it that does not depend on addresses, except what relocations
    /// say. The work is at most that of sorting the sections and reading every symbol once.
    pub fn read(file: &'a [u8]) -> Result<Self, Error<'a>> {
        let header = file
            .get(..Self::SIZES.header)
            .ok_or(Error::Foreign("the file is too short for an ELF header"))?;
        let (class, order) = (header.get(4), header.get(5));
        if !header.starts_with(b"\x7fELF") {
            return Err(Error::Foreign("not an ELF file"));
        }
        if class != Some(&(M::CLASS.word() as u8 / 4)) || order != Some(&1) || header.get(6) != Some(&1) {
            return Err(Error::Foreign(
                "an ELF file of another class, byte order or version",
            ));
        }
        if u16_at(header, 16) != Some(RELOCATABLE) {
            return Err(Error::Foreign("not a relocatable object"));
        }
        if u16_at(header, 18) != Some(M::NUMBER) {
            return Err(Error::Foreign("an object for another processor"));
        }
        let flags = match M::CLASS {
            Class::Bits32 => u32_at(header, 36),
            Class::Bits64 => u32_at(header, 48),
        };
        if !flags.is_some_and(M::flags_fit) {
            return Err(Error::Foreign("an object for another ABI of this processor"));
        }
        let (sections, table) = Self::read_sections(file, header)?;
        Self::check_overlaps(file, &sections, table)?;
        Self {
            sections,
            symtab: &[],
            symtab_index: 0,
            strings: &[],
            homes: &[],
            machine: PhantomData,
        }
        .with_symbols()
    }

    /// All sections, and where the table of their headers is in the file.
    fn read_sections(file: &'a [u8], header: &[u8]) -> Result<(Vec<Section<'a>>, (u64, u64)), Error<'a>> {
        const NO_HEADERS: Error<'_> = Error::Broken("the section headers lie outside the file");
        let size = Self::SIZES.section;
        let (offset, at) = match M::CLASS {
            Class::Bits32 => (u32_at(header, 32).map(u64::from), 46),
            Class::Bits64 => (u64_at(header, 40), 58),
        };
        let offset = offset.ok_or(NO_HEADERS)?;
        if u16_at(header, at).map(usize::from) != Some(size) {
            return Err(Error::Broken("the section headers have another size"));
        }
        let first = range(file, offset, size as u64).ok_or(NO_HEADERS)?;
        let first = Self::section(first).ok_or(NO_HEADERS)?;
        if first.kind != 0 {
            return Err(Error::Broken("section 0 is not empty"));
        }
        // Numbers that are too large for the header are in section 0.
        let count = match u16_at(header, at + 2) {
            Some(0) => first.size,
            count => count.unwrap_or(0).into(),
        };
        let names = match u16_at(header, at + 4) {
            Some(XINDEX) => first.link as usize,
            names => names.unwrap_or(0).into(),
        };
        let bytes = count.checked_mul(size as u64).ok_or(NO_HEADERS)?;
        let table = range(file, offset, bytes).ok_or(NO_HEADERS)?;
        let mut sections: Vec<Section<'a>> = room(table.len() / size)?;
        for header in table.chunks_exact(size) {
            sections.push(Self::section(header).ok_or(NO_HEADERS)?);
        }
        // Section 0 has no content; its other fields have been read.
        if let Some(first) = sections.first_mut() {
            first.size = 0;
            first.align = 1;
        }
        for (index, section) in sections.iter_mut().enumerate() {
            if !section.is_zeros() && section.size != 0 {
                section.data = range(file, section.offset, section.size).ok_or(Error::Section {
                    section: b"",
                    index,
                    what: "lies outside the file",
                })?;
            }
        }
        let names = sections
            .get(names)
            .filter(|s| s.kind == STRTAB && s.data.last() == Some(&0))
            .ok_or(Error::Broken("there is no table of section names"))?
            .data;
        for (index, section) in sections.iter_mut().enumerate() {
            let wrong = |section, what| Err(Error::Section { section, index, what });
            // So far it holds the offset in the table of names.
            let Some(name) = string(names, section.name_offset()) else {
                return wrong(b"", "has a bad name");
            };
            section.name = name;
            section.align = section.align.max(1);
            if !section.align.is_power_of_two() {
                return wrong(name, "has a bad alignment");
            }
            if section.flags & ALLOC != 0 && section.flags & (TLS | COMPRESSED) != 0 {
                return wrong(name, "is for threads or compressed");
            }
        }
        Ok((sections, (offset, bytes)))
    }

    /// Reads a section's header. Its name is left as an offset in `name`'s place.
    fn section(bytes: &'a [u8]) -> Option<Section<'a>> {
        let long = |at: usize| match M::CLASS {
            Class::Bits32 => u32_at(bytes, 8 + at * 4).map(u64::from),
            Class::Bits64 => u64_at(bytes, 8 + at * 8),
        };
        // After four words come two numbers of 32 bits, then two words.
        let middle = 8 + 4 * M::CLASS.word();
        let last = |n: usize| match M::CLASS {
            Class::Bits32 => u32_at(bytes, middle + 8 + n * 4).map(u64::from),
            Class::Bits64 => u64_at(bytes, middle + 8 + n * 8),
        };
        Some(Section {
            name: bytes.get(..4)?,
            kind: u32_at(bytes, 4)?,
            flags: long(0)?,
            offset: long(2)?,
            size: long(3)?,
            link: u32_at(bytes, middle)?,
            info: u32_at(bytes, middle + 4)?,
            align: last(0)?,
            entry: last(1)?,
            data: &[],
        })
    }

    /// No byte of the file belongs to two sections, to a section and the headers, or to both headers: so
    /// work that is linear in the sections' sizes is linear in the file's.
    fn check_overlaps(file: &[u8], sections: &[Section<'a>], table: (u64, u64)) -> Result<(), Error<'a>> {
        let mut taken: Vec<(u64, u64, usize)> = room(sections.len() + 2)?;
        taken.push((0, (Self::SIZES.header.min(file.len())) as u64, usize::MAX));
        taken.push((table.0, table.0 + table.1, usize::MAX));
        for (index, section) in sections.iter().enumerate() {
            if !section.data.is_empty() {
                taken.push((section.offset, section.offset + section.size, index));
            }
        }
        taken.sort_unstable();
        let mut end = 0;
        for (start, next, index) in taken {
            if start < end {
                return Err(match sections.get(index) {
                    Some(section) => Error::Section {
                        section: section.name,
                        index,
                        what: "overlaps what is before it in the file",
                    },
                    None => Error::Broken("the section headers overlap what is before them in the file"),
                });
            }
            end = next;
        }
        Ok(())
    }

    /// Finds and checks the symbol table.
    fn with_symbols(mut self) -> Result<Self, Error<'a>> {
        let mut homes = None;
        let mut found = None;
        for (index, section) in self.sections.iter().enumerate() {
            let wrong = |what| {
                Err(Error::Section {
                    section: section.name,
                    index,
                    what,
                })
            };
            let place = match section.kind {
                SYMTAB => &mut found,
                SYMTAB_SHNDX => &mut homes,
                _ => continue,
            };
            if place.is_some() {
                return wrong("is a second symbol table");
            }
            *place = Some(index);
            let size = if section.kind == SYMTAB {
                Self::SIZES.symbol
            } else {
                4
            };
            if section.entry != size as u64 || section.data.len() % size != 0 {
                return wrong("has entries of another size");
            }
        }
        let index = found.ok_or(Error::Broken("there is no symbol table"))?;
        let symtab = self.get(index)?;
        let strings = self.sections.get(symtab.link as usize);
        let Some(strings) = strings.filter(|s| s.kind == STRTAB && s.data.last() == Some(&0)) else {
            return Err(Error::Section {
                section: symtab.name,
                index,
                what: "has no table of names",
            });
        };
        self.strings = strings.data;
        self.symtab = symtab.data;
        self.symtab_index = index;
        if let Some(homes) = homes {
            let section = self.get(homes)?;
            if section.link as usize != index || section.data.len() / 4 != self.symbol_count() {
                return Err(Error::Section {
                    section: section.name,
                    index: homes,
                    what: "does not belong to the symbol table",
                });
            }
            self.homes = section.data;
        }
        for index in 0..self.symbol_count() {
            let symbol = self.symbol(index)?;
            self.home(index, &symbol)?;
            if symbol.name >= self.strings.len() {
                return Err(Error::Symbol {
                    symbol: b"",
                    what: "has its name outside the table of names",
                });
            }
        }
        Ok(self)
    }

    /// All sections, by number.
    pub fn sections(&self) -> &[Section<'a>] {
        &self.sections
    }

    pub(crate) fn get(&self, index: usize) -> Result<Section<'a>, Error<'a>> {
        let found = self.sections.get(index).copied();
        found.ok_or(Error::Broken("there is no section with this number"))
    }

    /// The content of the first section called `name`.
    pub fn content(&self, name: &[u8]) -> Option<&'a [u8]> {
        self.sections.iter().find(|s| s.name == name).map(|s| s.data)
    }

    pub(crate) fn symbol_count(&self) -> usize {
        self.symtab.len() / Self::SIZES.symbol
    }

    /// The table of the symbols' names.
    pub(crate) fn names(&self) -> &'a [u8] {
        self.strings
    }

    pub(crate) fn symbol(&self, index: usize) -> Result<Symbol, Error<'a>> {
        let size = Self::SIZES.symbol;
        let bytes = index
            .checked_mul(size)
            .and_then(|at| self.symtab.get(at..)?.get(..size));
        bytes
            .and_then(|bytes| Symbol::read(bytes, M::CLASS))
            .ok_or(Error::Broken("there is no symbol with this number"))
    }

    /// A symbol's name; empty if it has none, or one that cannot be read.
    pub(crate) fn symbol_name(&self, symbol: &Symbol) -> &'a [u8] {
        string(self.strings, symbol.name).unwrap_or(b"")
    }

    /// How a log names a symbol: one without a name by its section's.
    pub(crate) fn label(&self, index: usize) -> &'a [u8] {
        let Ok(symbol) = self.symbol(index) else {
            return b"";
        };
        match (self.symbol_name(&symbol), self.home(index, &symbol)) {
            (b"", Ok(Home::Section(section))) => self.sections.get(section).map_or(b"", |s| s.name),
            (name, _) => name,
        }
    }

    /// Where a symbol is defined.
    pub(crate) fn home(&self, index: usize, symbol: &Symbol) -> Result<Home, Error<'a>> {
        let wrong = |what| {
            Err(Error::Symbol {
                symbol: self.symbol_name(symbol),
                what,
            })
        };
        let section = match symbol.home {
            0 => return Ok(Home::Undefined),
            ABS => return Ok(Home::Absolute),
            COMMON => return wrong("is common: the module must be compiled with -fno-common"),
            XINDEX => u32_at(self.homes, index.saturating_mul(4)).unwrap_or(0) as usize,
            LORESERVE.. => return wrong("is in a section of an unknown kind"),
            section => section.into(),
        };
        match section {
            0 => wrong("has no section"),
            _ if section >= self.sections.len() => wrong("is in a section that does not exist"),
            _ if matches!(symbol.kind(), TLS_SYMBOL | IFUNC) => {
                wrong("is of a kind that modules cannot have")
            }
            _ => Ok(Home::Section(section)),
        }
    }

    /// The relocations of sections that `wanted` accepts, by number: the number of the changed section and
    /// the relocations' bytes. Checks links, sizes of entries and formats.
    pub(crate) fn relocated(
        &self,
        wanted: impl Fn(usize) -> bool,
    ) -> impl Iterator<Item = Result<(usize, &'a [u8]), Error<'a>>> {
        let tables = self.sections.iter().enumerate();
        tables.filter_map(move |(index, section)| {
            if !matches!(section.kind, RELA | REL) || !wanted(section.info as usize) {
                return None;
            }
            let wrong = |what| {
                Some(Err(Error::Section {
                    section: section.name,
                    index,
                    what,
                }))
            };
            if (section.kind == RELA) != (M::ADDENDS == Addends::Apart) {
                return wrong("has relocations of another format");
            }
            if section.link as usize != self.symtab_index {
                return wrong("is not for the symbol table");
            }
            let size = Self::SIZES.relocation;
            if section.entry != size as u64 || section.data.len() % size != 0 {
                return wrong("has entries of another size");
            }
            let changed = self.sections.get(section.info as usize);
            if !section.data.is_empty() && changed.is_none_or(Section::is_zeros) {
                return wrong("changes a section without content");
            }
            Some(Ok((section.info as usize, section.data)))
        })
    }

    /// The relocations in `bytes`.
    pub(crate) fn relocations(bytes: &[u8]) -> impl Iterator<Item = Relocation> + '_ {
        bytes.chunks_exact(Self::SIZES.relocation).filter_map(|bytes| {
            Some(match M::CLASS {
                Class::Bits32 => Relocation {
                    offset: u32_at(bytes, 0)?.into(),
                    kind: u32_at(bytes, 4)? & 0xff,
                    symbol: (u32_at(bytes, 4)? >> 8) as usize,
                    addend: u32_at(bytes, 8).unwrap_or(0).cast_signed().into(),
                },
                Class::Bits64 => Relocation {
                    offset: u64_at(bytes, 0)?,
                    kind: u32_at(bytes, 8)?,
                    symbol: u32_at(bytes, 12)? as usize,
                    addend: u64_at(bytes, 16).unwrap_or(0).cast_signed(),
                },
            })
        })
    }

    /// What is wrong with a relocation of section `section`.
    pub(crate) fn fault(&self, section: usize, relocation: &Relocation, fault: Fault) -> Error<'a> {
        Error::Relocation {
            section: self.sections.get(section).map_or(b"", |s| s.name),
            offset: relocation.offset,
            symbol: self.label(relocation.symbol),
            kind: relocation.kind,
            fault,
        }
    }

    /// Whether the list of the module's own symbols has this one: functions, objects, and labels in `code`.
    pub(crate) fn is_listed(symbol: &Symbol, name: &[u8], code: bool) -> bool {
        let kind = symbol.kind();
        let named = matches!(kind, FUNC | OBJECT) || kind == NOTYPE && code;
        named && !name.is_empty() && !name.starts_with(b".L") && !M::is_marker(name)
    }
}

impl Section<'_> {
    /// The offset of its name, as long as `name` is its field in the header.
    fn name_offset(&self) -> usize {
        u32_at(self.name, 0).unwrap_or(0) as usize
    }
}
