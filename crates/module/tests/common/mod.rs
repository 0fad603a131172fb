//! A writer of objects, byte by byte, and a kernel that loads them.

#![allow(dead_code)] // Each test uses a part of it.

use std::collections::BTreeMap;

use limen_module::*;

pub const PROGBITS: u32 = 1;
pub const NOBITS: u32 = 8;
pub const W: u64 = 1;
pub const A: u64 = 2;
pub const X: u64 = 4;

pub const LOCAL: u8 = 0;
pub const GLOBAL: u8 = 1;
pub const WEAK: u8 = 2;
pub const NOTYPE: u8 = 0;
pub const OBJECT: u8 = 1;
pub const FUNC: u8 = 2;
pub const SECTION: u8 = 3;

pub const UNDEFINED: u16 = 0;
pub const ABS: u16 = 0xfff1;
pub const COMMON: u16 = 0xfff2;

pub const PAGE: u64 = 4096;

pub struct Sec {
    pub name: String,
    pub kind: u32,
    pub flags: u64,
    pub align: u64,
    pub data: Vec<u8>,
    /// For one without content.
    pub size: u64,
    pub link: u32,
    pub info: u32,
    pub entry: u64,
}

pub struct Sym {
    pub name: String,
    pub info: u8,
    pub other: u8,
    pub home: u16,
    pub value: u64,
    pub size: u64,
}

/// An object that is written. Sections have numbers from 1, as symbols.
pub struct Writer {
    pub class: Class,
    pub addends: Addends,
    pub machine: u16,
    pub flags: u32,
    pub sections: Vec<Sec>,
    pub symbols: Vec<Sym>,
    pub relocations: BTreeMap<usize, Vec<(u64, u32, usize, i64)>>,
}

pub fn flags<M: Machine>() -> u32 {
    match M::NUMBER {
        40 => 0x0500_0000,
        21 => 2,
        _ => 0,
    }
}

fn word(out: &mut Vec<u8>, class: Class, value: u64) {
    match class {
        Class::Bits32 => out.extend((value as u32).to_le_bytes()),
        Class::Bits64 => out.extend(value.to_le_bytes()),
    }
}

impl Writer {
    pub fn new<M: Machine>() -> Self {
        Self {
            class: M::CLASS,
            addends: M::ADDENDS,
            machine: M::NUMBER,
            flags: flags::<M>(),
            sections: Vec::new(),
            symbols: Vec::new(),
            relocations: BTreeMap::new(),
        }
    }

    /// One with the `.modinfo` that a module must have.
    pub fn module<M: Machine>() -> Self {
        let mut writer = Self::new::<M>();
        writer.section(
            ".modinfo",
            A,
            1,
            b"name=test\0license=GPL\0limen_abi=1\0depends=\0",
        );
        writer
    }

    pub fn section(&mut self, name: &str, flags: u64, align: u64, data: &[u8]) -> usize {
        self.sections.push(Sec {
            name: name.into(),
            kind: PROGBITS,
            flags,
            align,
            data: data.to_vec(),
            size: data.len() as u64,
            link: 0,
            info: 0,
            entry: 0,
        });
        self.sections.len()
    }

    pub fn zeros(&mut self, name: &str, align: u64, size: u64) -> usize {
        let index = self.section(name, A | W, align, b"");
        let section = self.sections.last_mut().unwrap();
        (section.kind, section.size) = (NOBITS, size);
        index
    }

    pub fn symbol(&mut self, name: &str, bind: u8, kind: u8, home: usize, value: u64) -> usize {
        self.symbols.push(Sym {
            name: name.into(),
            info: bind << 4 | kind,
            other: 0,
            home: home as u16,
            value,
            size: 4,
        });
        self.symbols.len()
    }

    pub fn undefined(&mut self, name: &str) -> usize {
        self.symbol(name, GLOBAL, NOTYPE, 0, 0)
    }

    pub fn relocate(&mut self, section: usize, offset: u64, kind: u32, symbol: usize, addend: i64) {
        let list = self.relocations.entry(section).or_default();
        list.push((offset, kind, symbol, addend));
    }

    fn table(&self, relocations: &[(u64, u32, usize, i64)]) -> Vec<u8> {
        let mut out = Vec::new();
        for &(offset, kind, symbol, addend) in relocations {
            word(&mut out, self.class, offset);
            let info = match self.class {
                Class::Bits32 => (symbol as u64) << 8 | u64::from(kind),
                Class::Bits64 => (symbol as u64) << 32 | u64::from(kind),
            };
            word(&mut out, self.class, info);
            if self.addends == Addends::Apart {
                word(&mut out, self.class, addend as u64);
            }
        }
        out
    }

    /// The file, and where its section headers are.
    pub fn build(&self) -> Vec<u8> {
        let wide = self.class == Class::Bits64;
        let (header_size, section_size) = if wide { (64, 64) } else { (52, 40) };
        let mut strings = vec![0u8];
        let mut symtab = vec![0u8; if wide { 24 } else { 16 }];
        let symbol_size = symtab.len() as u64;
        for s in &self.symbols {
            let name = if s.name.is_empty() {
                0
            } else {
                strings.len() as u32
            };
            if name != 0 {
                strings.extend(s.name.as_bytes());
                strings.push(0);
            }
            symtab.extend(name.to_le_bytes());
            if wide {
                symtab.extend([s.info, s.other]);
                symtab.extend(s.home.to_le_bytes());
                symtab.extend(s.value.to_le_bytes());
                symtab.extend(s.size.to_le_bytes());
            } else {
                symtab.extend((s.value as u32).to_le_bytes());
                symtab.extend((s.size as u32).to_le_bytes());
                symtab.extend([s.info, s.other]);
                symtab.extend(s.home.to_le_bytes());
            }
        }
        let symtab_index = self.sections.len() + self.relocations.len() + 1;
        let apart = self.addends == Addends::Apart;
        // Name, kind, flags, data, size, link, info, align, entry size.
        type Row = (String, u32, u64, Vec<u8>, u64, u32, u32, u64, u64);
        let mut rows: Vec<Row> = vec![(String::new(), 0, 0, Vec::new(), 0, 0, 0, 0, 0)];
        for s in &self.sections {
            let (name, data) = (s.name.clone(), s.data.clone());
            rows.push((
                name, s.kind, s.flags, data, s.size, s.link, s.info, s.align, s.entry,
            ));
        }
        for (section, list) in &self.relocations {
            let data = self.table(list);
            let (prefix, kind) = if apart { (".rela", 4) } else { (".rel", 9) };
            let name = format!("{prefix}{}", self.sections[section - 1].name);
            let (size, entry) = (data.len() as u64, (data.len() / list.len()) as u64);
            let (link, info) = (symtab_index as u32, *section as u32);
            rows.push((name, kind, 0x40, data, size, link, info, 8, entry));
        }
        let size = symtab.len() as u64;
        let link = symtab_index as u32 + 1;
        rows.push((".symtab".into(), 2, 0, symtab, size, link, 1, 8, symbol_size));
        let size = strings.len() as u64;
        rows.push((".strtab".into(), 3, 0, strings, size, 0, 0, 1, 0));
        rows.push((".shstrtab".into(), 3, 0, Vec::new(), 0, 0, 0, 1, 0));
        let mut names = vec![0u8];
        let mut offsets = Vec::new();
        for row in &rows {
            offsets.push(if row.0.is_empty() { 0 } else { names.len() as u32 });
            if !row.0.is_empty() {
                names.extend(row.0.as_bytes());
                names.push(0);
            }
        }
        let last = rows.last_mut().unwrap();
        last.4 = names.len() as u64;
        last.3 = names;

        let mut file = vec![0u8; header_size];
        let mut headers = Vec::new();
        for (row, name) in rows.iter().zip(offsets) {
            let (_, kind, flags, data, size, link, info, align, entry) = row;
            while file.len() % 8 != 0 {
                file.push(0);
            }
            let offset = if *kind == 0 { 0 } else { file.len() as u64 };
            file.extend(data);
            headers.extend(name.to_le_bytes());
            headers.extend(kind.to_le_bytes());
            for value in [*flags, 0, offset, *size] {
                word(&mut headers, self.class, value);
            }
            headers.extend(link.to_le_bytes());
            headers.extend(info.to_le_bytes());
            for value in [*align, *entry] {
                word(&mut headers, self.class, value);
            }
        }
        while file.len() % 8 != 0 {
            file.push(0);
        }
        let at = file.len() as u64;
        file.extend(headers);
        let mut h = b"\x7fELF".to_vec();
        h.extend([if wide { 2 } else { 1 }, 1, 1]);
        h.resize(16, 0);
        h.extend(1u16.to_le_bytes());
        h.extend(self.machine.to_le_bytes());
        h.extend(1u32.to_le_bytes());
        for value in [0, 0, at] {
            word(&mut h, self.class, value);
        }
        h.extend(self.flags.to_le_bytes());
        let count = rows.len() as u16;
        for value in [header_size as u16, 0, 0, section_size, count, count - 1] {
            h.extend(value.to_le_bytes());
        }
        file[..header_size].copy_from_slice(&h);
        file
    }
}

/// What others export.
#[derive(Default, Clone)]
pub struct Kernel(pub BTreeMap<Vec<u8>, Exported<u32>>);

impl Kernel {
    pub fn with(symbols: &[(&str, u64)]) -> Self {
        let mut kernel = Self::default();
        for (name, address) in symbols {
            kernel.add(name, *address, false, None);
        }
        kernel
    }
    pub fn add(&mut self, name: &str, address: u64, gpl_only: bool, owner: Option<u32>) {
        let symbol = Exported {
            address,
            gpl_only,
            owner,
        };
        self.0.insert(name.as_bytes().to_vec(), symbol);
    }
}

impl Exports for Kernel {
    type Owner = u32;
    fn find(&mut self, name: &[u8]) -> Option<Exported<u32>> {
        self.0.get(name).copied()
    }
}

/// A loaded module.
pub struct Loaded {
    pub linked: Linked<u32>,
    pub layout: Layout,
    pub addresses: [u64; PARTS],
    pub memory: [Vec<u8>; PARTS],
}

impl Loaded {
    /// Calls `f` with the module's memory.
    pub fn with<T>(&mut self, f: impl FnOnce(&Linked<u32>, &mut Parts<'_>) -> T) -> T {
        let mut addresses = self.addresses.into_iter();
        let mut parts = self.memory.each_mut().map(|bytes| Memory {
            address: addresses.next().unwrap(),
            bytes,
        });
        f(&self.linked, &mut parts)
    }
    pub fn address(&self, section: usize) -> u64 {
        let place = self.layout.place(section).unwrap();
        self.addresses[place.part as usize] + place.offset
    }
    /// The `len` bytes at an address.
    pub fn at(&self, address: u64, len: usize) -> &[u8] {
        for part in Part::ALL {
            let start = self.addresses[part as usize];
            if address >= start && address + len as u64 <= start + self.memory[part as usize].len() as u64 {
                return &self.memory[part as usize][(address - start) as usize..][..len];
            }
        }
        panic!("{address:#x} is not in the module");
    }
    pub fn u32(&self, address: u64) -> u32 {
        u32::from_le_bytes(self.at(address, 4).try_into().unwrap())
    }
    pub fn u64(&self, address: u64) -> u64 {
        u64::from_le_bytes(self.at(address, 8).try_into().unwrap())
    }
}

/// Loads `file` with its parts at the addresses that `place` returns for their sizes. The error is the text
/// for the log and the number.
pub fn load<M: Machine>(
    file: &[u8],
    place: impl FnOnce([u64; PARTS]) -> [u64; PARTS],
    mut kernel: Kernel,
) -> Result<Loaded, (String, u16)> {
    let told = |e: Error<'_>| (e.to_string(), e.errno().get());
    let object = Object::<M>::read(file).map_err(told)?;
    let info = Info::read(&object).map_err(told)?;
    info.check_version("1").map_err(told)?;
    let layout = Layout::new(&object, PAGE, 1 << 26).map_err(told)?;
    let sizes = Part::ALL.map(|part| layout.size(part));
    let addresses = place(sizes);
    // What was there before must not shine through.
    let mut memory = sizes.map(|size| vec![0xa5; size as usize]);
    let mut at = addresses.into_iter();
    let mut parts = memory.each_mut().map(|bytes| Memory {
        address: at.next().unwrap(),
        bytes,
    });
    let linked = link(&object, &info, &layout, &mut parts, &mut kernel).map_err(told)?;
    Ok(Loaded {
        linked,
        layout,
        addresses,
        memory,
    })
}

/// Puts the parts one after the other.
pub fn from(start: u64) -> impl FnOnce([u64; PARTS]) -> [u64; PARTS] {
    move |sizes| {
        let mut at = start;
        sizes.map(|size| {
            let address = at;
            at += size + PAGE;
            address
        })
    }
}

/// Makes one relocation at `address` of `code` to a symbol.
pub fn one<M: Machine>(
    kind: u32,
    code: &[u8],
    address: u64,
    target: Target,
    addend: i64,
    veneer: Option<u64>,
) -> Result<Vec<u8>, Fault> {
    let mut bytes = code.to_vec();
    let mut site = Site {
        bytes: &mut bytes,
        address,
        addend,
        base: 0,
    };
    M::relocate(&mut site, kind, &target, &mut |_, _| veneer)?;
    Ok(bytes)
}

/// A symbol that the module defines.
pub fn own(value: u64) -> Target {
    Target {
        value,
        own: true,
        code: true,
        other: 0,
    }
}

/// A symbol that another exports.
pub fn other(value: u64) -> Target {
    Target {
        own: false,
        ..own(value)
    }
}
