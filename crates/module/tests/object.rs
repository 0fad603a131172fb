//! What is checked of an object, how it is laid out, and how symbols are found.

mod common;

use common::*;
use limen_module::*;

const BASE: u64 = 0xffff_ffff_c000_0000;

/// A module with something in every part.
fn usual() -> Writer {
    let mut w = Writer::module::<X86_64>();
    let text = w.section(".text", A | X, 16, &[0x90; 100]);
    let more = w.section(".text.unlikely", A | X, 16, &[0x90; 10]);
    let init = w.section(".init.text", A | X, 16, &[0x90; 50]);
    w.section(".rodata", A, 32, b"constants");
    w.section(".data..ro_after_init", A | W, 8, &[1; 8]);
    let data = w.section(".data", A | W, 64, &[2; 70]);
    w.zeros(".bss", 4096, 5000);
    w.section(".data.late", A | W, 8, &[3; 8]);
    w.section(".init.data", A | W, 8, &[4; 8]);
    w.section(".comment", 0, 1, b"not loaded");
    w.symbol("init_module", GLOBAL, FUNC, init, 16);
    w.symbol("cleanup_module", GLOBAL, FUNC, text, 32);
    w.symbol("local", LOCAL, FUNC, more, 4);
    w.symbol("variable", GLOBAL, OBJECT, data, 8);
    w.symbol("", LOCAL, SECTION, data, 0);
    w
}

fn fails(file: &[u8]) -> (String, u16) {
    match load::<X86_64>(file, from(BASE), Kernel::default()) {
        Err(told) => told,
        Ok(_) => panic!("it is loaded"),
    }
}

#[test]
fn every_part() {
    let file = usual().build();
    let m = load::<X86_64>(&file, from(BASE), Kernel::default()).unwrap();
    let place = |index| m.layout.place(index).map(|p| (p.part, p.offset));
    assert_eq!(place(0), None);
    assert_eq!(place(1), None, ".modinfo is not loaded");
    assert_eq!(place(2), Some((Part::Text, 0)));
    assert_eq!(place(3), Some((Part::Text, 112)));
    assert_eq!(place(4), Some((Part::InitText, 0)));
    assert_eq!(place(5), Some((Part::Rodata, 0)));
    assert_eq!(place(6), Some((Part::AfterInit, 0)));
    assert_eq!(place(7), Some((Part::Data, 0)));
    assert_eq!(place(8), Some((Part::Data, 4096)), "zeros come last");
    assert_eq!(place(9), Some((Part::Data, 72)));
    assert_eq!(place(10), Some((Part::InitData, 0)));
    assert_eq!(place(11), None);
    assert_eq!(m.layout.used(Part::Data), 4096 + 5000);
    assert_eq!(
        Part::ALL.map(|p| m.layout.size(p)),
        [4096, 4096, 4096, 12288, 4096, 4096]
    );
    let data = &m.memory[Part::Data as usize];
    assert_eq!(data[..70], [2; 70]);
    assert_eq!(data[72..80], [3; 8]);
    assert!(data[80..].iter().all(|b| *b == 0));
    assert_eq!(m.memory[Part::Rodata as usize][..9], *b"constants");
    assert!(m.memory[Part::Text as usize][122..].iter().all(|b| *b == 0));
    assert_eq!(m.linked.init, Some(m.addresses[Part::InitText as usize] + 16));
    assert_eq!(m.linked.exit, Some(BASE + 32));
    assert_eq!((m.linked.veneers, m.layout.veneer_count()), (0, 0));
}

#[test]
fn own_symbols() {
    let mut m = load::<X86_64>(&usual().build(), from(BASE), Kernel::default()).unwrap();
    let shown: Vec<_> = m
        .linked
        .symbols
        .iter()
        .map(|s| (s.name.to_vec(), s.letter))
        .collect();
    let is = |name: &str, letter| (name.as_bytes().to_vec(), letter);
    let (exit, local) = (is("cleanup_module", 'T'), is("local", 't'));
    let (variable, init) = (is("variable", 'D'), is("init_module", 'T'));
    assert_eq!(shown, [exit, local, variable, init]);
    let found = m.linked.symbols.find(BASE + 33).unwrap();
    assert_eq!(
        (found.name, found.address),
        (b"cleanup_module".as_slice(), BASE + 32)
    );
    assert!(m.linked.symbols.find(BASE + 36).is_none(), "it has 4 bytes");
    assert!(m.linked.symbols.find(BASE).is_none());
    let init = m.linked.init.unwrap();
    assert!(m.linked.symbols.find(init).is_some());
    m.linked.symbols.drop_init();
    assert!(m.linked.symbols.find(init).is_none());
    assert_eq!(m.linked.symbols.iter().count(), 3);
}

#[test]
fn foreign_files() {
    let good = usual().build();
    let with = |at: usize, byte: u8| {
        let mut file = good.clone();
        file[at] = byte;
        fails(&file)
    };
    assert_eq!(fails(b"").1, 8);
    assert_eq!(fails(&good[..63]).1, 8);
    assert_eq!(with(0, 0).0, "not an ELF file");
    assert!(with(4, 1).0.contains("another class"));
    assert!(with(5, 2).0.contains("another class"));
    assert!(with(16, 3).0.contains("not a relocatable object"));
    assert!(with(18, 40).0.contains("another processor"));
    // The other processors' objects are refused by their flags, too.
    let mut arm = Writer::module::<Arm>();
    assert!(Object::<Arm>::read(&arm.build()).is_ok());
    for flags in [0x0400_0000, 0x0580_0000, 0] {
        arm.flags = flags;
        assert!(matches!(
            Object::<Arm>::read(&arm.build()),
            Err(Error::Foreign(_))
        ));
    }
    let mut power = Writer::module::<Powerpc64>();
    assert!(Object::<Powerpc64>::read(&power.build()).is_ok());
    power.flags = 1;
    assert!(matches!(
        Object::<Powerpc64>::read(&power.build()),
        Err(Error::Foreign(_))
    ));
}

#[test]
fn every_truncation_is_refused() {
    let file = usual().build();
    for len in 0..file.len() {
        assert_eq!(fails(&file[..len]).1, 8, "{len}");
    }
}

/// The offset of a field of section `index`'s header.
fn field(file: &[u8], index: usize, at: usize) -> usize {
    u64::from_le_bytes(file[40..48].try_into().unwrap()) as usize + index * 64 + at
}

fn with_field(file: &[u8], index: usize, at: usize, value: u64, len: usize) -> (String, u16) {
    let mut file = file.to_vec();
    let at = field(&file, index, at);
    file[at..at + len].copy_from_slice(&value.to_le_bytes()[..len]);
    fails(&file)
}

#[test]
fn hostile_sections() {
    let mut w = usual();
    w.relocate(2, 0, 1, 4, 0);
    let file = w.build();
    // 12: .rela.text, 13: .symtab, 14: .strtab, 15: .shstrtab.
    for (index, at, value, len, text) in [
        (0, 4, 1, 4, "section 0"),
        (2, 0, u64::MAX, 4, "bad name"),
        (2, 24, u64::MAX, 8, "outside the file"),
        (2, 32, u64::MAX, 8, "outside the file"),
        (2, 32, 1 << 40, 8, "outside the file"),
        (2, 24, 0, 8, "overlaps"),
        (3, 32, 24, 8, "overlaps"),
        (2, 48, 3, 8, "bad alignment"),
        (2, 48, 8192, 8, "larger than a page"),
        (2, 48, 1 << 63, 8, "larger than a page"),
        (2, 8, A | W | X, 8, "both written and executed"),
        (2, 8, A | X | 0x400, 8, "threads"),
        (2, 8, A | X | 0x800, 8, "compressed"),
        (8, 32, u64::MAX, 8, "too much memory"),
        (8, 32, 1 << 26, 8, "too much memory"),
        (12, 4, 9, 4, "another format"),
        (12, 40, 2, 4, "not for the symbol table"),
        (12, 44, 8, 4, "without content"),
        (12, 56, 23, 8, "another size"),
        (12, 32, 23, 8, "another size"),
        (13, 56, 25, 8, "another size"),
        (13, 40, 2, 4, "no table of names"),
        (13, 40, u64::MAX, 4, "no table of names"),
        (13, 4, 1, 4, "no symbol table"),
        (15, 4, 1, 4, "no table of section names"),
        (14, 4, 2, 4, "second symbol table"),
    ] {
        let (told, errno) = with_field(&file, index, at, value, len);
        assert!(told.contains(text), "{index} {at}: {told}");
        assert_eq!(errno, if text.contains("memory") { 12 } else { 8 });
    }
    // The last byte of a table of names is NUL.
    let mut open = file.clone();
    let at = u64::from_le_bytes(file[field(&file, 14, 24)..][..8].try_into().unwrap()) as usize;
    let size = u64::from_le_bytes(file[field(&file, 14, 32)..][..8].try_into().unwrap()) as usize;
    open[at + size - 1] = b'x';
    assert!(fails(&open).0.contains("no table of names"));
}

#[test]
fn many_sections() {
    // More sections than the header can count, and symbols in the last: `SHN_XINDEX`.
    let mut w = usual();
    let first = w.sections.len();
    for n in 0..0xff10 {
        w.section(if n % 2 == 0 { ".note" } else { ".text.x" }, 0, 1, b"");
    }
    let last = w.section(".text.last", A | X, 4, &[0x90; 16]);
    let symbol = w.symbol("in_the_last", GLOBAL, FUNC, 0xffff, 8);
    let homes = w.section(".symtab_shndx", 0, 4, &vec![0; 4 * (symbol + 1)]);
    let symtab = w.sections.len() + 1;
    let home = &mut w.sections[homes - 1];
    (home.kind, home.link, home.entry) = (18, symtab as u32, 4);
    home.data[4 * symbol..].copy_from_slice(&(last as u32).to_le_bytes());
    let mut file = w.build();
    let (count, names) = (w.sections.len() as u64 + 4, w.sections.len() as u32 + 3);
    file[60..64].copy_from_slice(&[0, 0, 0xff, 0xff]);
    let at = field(&file, 0, 32);
    file[at..at + 8].copy_from_slice(&count.to_le_bytes());
    let at = field(&file, 0, 40);
    file[at..at + 4].copy_from_slice(&names.to_le_bytes());
    let m = load::<X86_64>(&file, from(BASE), Kernel::default()).unwrap();
    let found = m.linked.symbols.find(m.address(last) + 8).unwrap();
    assert_eq!(found.name, b"in_the_last");
    assert!(last > 0xff00 + first);
    // A number that is too large, and a table that is too short.
    let mut bad = file.clone();
    let place = |index| u64::from_le_bytes(file[field(&file, index, 24)..][..8].try_into().unwrap()) as usize;
    let at = place(homes) + 4 * symbol;
    bad[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(fails(&bad).0.contains("does not exist"));
    bad[at..at + 4].copy_from_slice(&[0; 4]);
    assert!(fails(&bad).0.contains("has no section"));
    assert!(
        with_field(&file, homes, 32, 4 * symbol as u64, 8)
            .0
            .contains("does not belong")
    );
    assert!(with_field(&file, homes, 4, 1, 4).0.contains("has no section"));
}

#[test]
fn undefined_symbols() {
    let build = |bind, license: &str| {
        let mut w = Writer::new::<X86_64>();
        let info = format!("name=m\0license={license}\0limen_abi=1\0");
        w.section(".modinfo", A, 1, info.as_bytes());
        let data = w.section(".data", A | W, 8, &[0; 16]);
        let x = w.symbol("x", bind, NOTYPE, 0, 0);
        w.relocate(data, 8, 1, x, 5);
        w.build()
    };
    let value = |file: &[u8], kernel: &Kernel| {
        let m = load::<X86_64>(file, from(BASE), kernel.clone())?;
        Ok((m.u64(m.address(2) + 8), m.linked.uses))
    };
    let missing: Result<_, (String, u16)> = Err(("Unknown symbol x".into(), 2));
    let mut kernel = Kernel::default();
    assert_eq!(value(&build(GLOBAL, "GPL"), &kernel), missing);
    assert_eq!(value(&build(WEAK, "GPL"), &kernel), Ok((5, vec![])));
    kernel.add("x", 1000, false, None);
    assert_eq!(value(&build(GLOBAL, "other"), &kernel), Ok((1005, vec![])));
    kernel.add("x", 1000, true, Some(7));
    assert_eq!(
        value(&build(GLOBAL, "Dual MIT/GPL"), &kernel),
        Ok((1005, vec![7]))
    );
    assert_eq!(value(&build(WEAK, "other"), &kernel), Ok((5, vec![])));
    let (told, errno) = value(&build(GLOBAL, "other"), &kernel).unwrap_err();
    assert!(told.contains("Unknown symbol x") && told.contains("GPL") && errno == 2);
}

#[test]
fn each_owner_is_used_once() {
    let mut w = Writer::module::<X86_64>();
    let mut kernel = Kernel::default();
    for (n, owner) in [5, 3, 5, 5, 3, 9].into_iter().enumerate() {
        let name = format!("s{n}");
        w.undefined(&name);
        kernel.add(&name, 0, false, Some(owner));
    }
    let m = load::<X86_64>(&w.build(), from(BASE), kernel).unwrap();
    assert_eq!(m.linked.uses, [3, 5, 9]);
}

#[test]
fn symbols_that_are_refused() {
    for (kind, home, text) in [
        (OBJECT, COMMON, "-fno-common"),
        (NOTYPE, 0xff20, "unknown kind"),
        (FUNC, 99, "does not exist"),
        (6, 1, "cannot have"),
        (10, 1, "cannot have"),
    ] {
        let mut w = usual();
        w.symbol("bad", GLOBAL, kind, home as usize, 0);
        let (told, errno) = fails(&w.build());
        assert!(told.starts_with("symbol 'bad'") && told.contains(text), "{told}");
        assert_eq!(errno, 8);
    }
    let mut w = usual();
    w.undefined("");
    assert!(fails(&w.build()).0.contains("has no name"));
    w.symbols.pop();
    w.undefined(&"n".repeat(MAX_NAME + 1));
    assert!(fails(&w.build()).0.contains("too long"));
    w.symbols.pop();
    w.undefined(&"n".repeat(MAX_NAME));
    let (told, errno) = fails(&w.build());
    assert_eq!(
        (told, errno),
        (format!("Unknown symbol {}...", "n".repeat(80)), 2)
    );
}

#[test]
fn relocations_that_are_refused() {
    let told = |offset, kind, symbol| {
        let mut w = usual();
        w.symbol("comment", LOCAL, OBJECT, 11, 0);
        w.relocate(2, offset, kind, symbol, 0);
        fails(&w.build())
    };
    assert_eq!(
        told(96, 1, 4),
        (
            "relocation 1 against 'variable' at .text+0x60 lies outside the section".into(),
            8
        )
    );
    assert!(told(u64::MAX, 1, 4).0.contains("outside the section"));
    assert!(told(0, 1, 7).0.contains("no symbol"));
    assert!(told(0, 1, 0xffff_ffff).0.contains("no symbol"));
    assert!(told(0, 999, 4).0.contains("unknown kind"));
    assert!(told(0, 9, 4).0.contains("-fno-pic"));
    assert!(told(0, 1, 6).0.contains("section that is not loaded"));
    // A symbol without a name is told by its section.
    assert!(
        told(0, 12, 5)
            .0
            .contains("against '.data' at .text+0x0 is out of range")
    );
    // What is not loaded is not relocated.
    let mut w = usual();
    w.relocate(11, 1 << 40, 999, 77, 0);
    assert!(load::<X86_64>(&w.build(), from(BASE), Kernel::default()).is_ok());
}

#[test]
fn information() {
    let read = |text: &str| {
        let mut w = Writer::new::<X86_64>();
        w.section(".modinfo", A, 1, text.as_bytes());
        load::<X86_64>(&w.build(), from(BASE), Kernel::default()).map(|_| ())
    };
    assert_eq!(read("name=m\0limen_abi=1"), Ok(()));
    let wrong = |text: &str| Err((text.to_string(), 8));
    assert_eq!(read("name=m\0limen_abi=2\0"), wrong("version '2' should be '1'"));
    assert_eq!(read("name=m\0"), wrong("version '(none)' should be '1'"));
    assert_eq!(read("limen_abi=1\0"), wrong("the module has no name"));
    for name in ["", ".", "..", "a/b", "a b", "a\n", &"x".repeat(56)] {
        assert_eq!(
            read(&format!("name={name}\0limen_abi=1\0")),
            wrong("the module has a bad name")
        );
    }
    assert_eq!(read(&format!("name={}\0limen_abi=1\0", "x".repeat(55))), Ok(()));
    assert!(load::<X86_64>(&Writer::new::<X86_64>().build(), from(BASE), Kernel::default()).is_err());
    let mut w = Writer::new::<X86_64>();
    w.section(
        ".modinfo",
        A,
        1,
        b"name=m\0depends=a,b,,c\0alias=x\0\0junk\0alias=y\0license=GPL v2\0",
    );
    let file = w.build();
    let object = Object::<X86_64>::read(&file).unwrap();
    let info = Info::read(&object).unwrap();
    assert_eq!(info.depends().collect::<Vec<_>>(), [b"a", b"b", b"c"]);
    assert_eq!(info.values("alias").collect::<Vec<_>>(), [b"x", b"y"]);
    assert!(info.is_gpl() && info.value("junk").is_none());
    assert!(info.check_version("1").is_err());
}

#[test]
fn memory_that_does_not_fit() {
    let file = usual().build();
    let object = Object::<X86_64>::read(&file).unwrap();
    let info = Info::read(&object).unwrap();
    assert!(matches!(Layout::new(&object, 4095, 1 << 20), Err(Error::Buffer)));
    let layout = Layout::new(&object, PAGE, 32768).unwrap();
    assert!(matches!(Layout::new(&object, PAGE, 32767), Err(Error::TooLarge)));
    // 16 KiB pages need more.
    assert!(matches!(
        Layout::new(&object, 16384, 6 * 16384 - 1),
        Err(Error::TooLarge)
    ));
    assert!(Layout::new(&object, 16384, 6 * 16384).is_ok());
    let attempt = |address: u64, short: usize| {
        let mut memory = Part::ALL.map(|p| vec![0; (layout.size(p) as usize).saturating_sub(short)]);
        let mut parts = memory.each_mut().map(|bytes| Memory { address, bytes });
        link(&object, &info, &layout, &mut parts, &mut Kernel::default()).map(|_| ())
    };
    assert_eq!(attempt(BASE, 0), Ok(()));
    assert_eq!(attempt(BASE, 1), Err(Error::Buffer));
    assert_eq!(attempt(BASE + 8, 0), Err(Error::Buffer));
    assert_eq!(attempt(u64::MAX - 4095, 0), Err(Error::Buffer));
}

fn exporting(flags: u64, target: u64, name: &[u8]) -> Result<Loaded, (String, u16)> {
    let mut w = usual();
    let strings = w.section(".rodata.str", A, 1, name);
    let table = w.section(".limen.exports", A | W, 8, &[0; 48]);
    let string = w.symbol("", LOCAL, SECTION, strings, 0);
    w.sections[table - 1].data[40..].copy_from_slice(&flags.to_le_bytes());
    for entry in 0..2 {
        w.relocate(table, entry * 24, 1, string, 4 * entry as i64);
        // local, in .text.unlikely
        w.relocate(table, entry * 24 + 8, 1, 3, target as i64);
    }
    load::<X86_64>(&w.build(), from(BASE), Kernel::default())
}

#[test]
fn exported_symbols() {
    let mut m = exporting(1, 0, b"one\0two\0").unwrap();
    let address = BASE + 112 + 4;
    m.with(|linked, parts| {
        let list: Vec<_> = linked
            .exports
            .iter()
            .map(|e| (e.name.bytes(parts), e.address, e.gpl_only))
            .collect();
        assert_eq!(
            list,
            [(b"one".as_slice(), address, false), (b"two", address, true)]
        );
    });
    let told = |r: Result<Loaded, (String, u16)>| r.err().unwrap().0;
    assert!(told(exporting(2, 0, b"one\0two\0")).contains("unknown flags"));
    assert!(told(exporting(0, 1 << 30, b"one\0two\0")).contains("not the module's"));
    assert!(told(exporting(0, 0, b"one\0")).contains("bad name"));
    assert!(told(exporting(0, 0, b"one\0two")).contains("bad name"));
    assert!(told(exporting(0, 0, b"one\0\0")).contains("bad name"));
}

#[test]
fn kept_texts() {
    let with = |text: &[u8]| {
        let mut w = usual();
        let strings = w.section(".rodata.str", A, 1, text);
        let table = w.section(".limen.formats", A | W, 8, &[0; 16]);
        let string = w.symbol("", LOCAL, SECTION, strings, 0);
        for entry in 0..2 {
            w.relocate(table, entry * 8, 1, string, 4 * entry as i64);
        }
        let loaded = load::<X86_64>(&w.build(), from(BASE), Kernel::default());
        loaded.map(|m| (m, table))
    };
    let (mut m, table) = with(b"a%d\0b%s\n\0").unwrap();
    m.with(|linked, parts| {
        let texts: Vec<_> = linked.formats.iter().map(|one| one.text.bytes(parts)).collect();
        assert_eq!(texts, [b"a%d".as_slice(), b"b%s\n"]);
        linked.formats[1].point_to(parts, 0x1234_5678_9abc);
    });
    let at = m.address(table);
    assert_eq!(m.at(at + 8, 8), 0x1234_5678_9abc_u64.to_le_bytes());
    assert_ne!(m.at(at, 8), [0; 8]);
    let told = |r: Result<(Loaded, usize), (String, u16)>| r.err().unwrap().0;
    assert!(told(with(b"a%d\0\0")).contains("bad text"));
    assert!(told(with(b"a%d\0b")).contains("bad text"));
}

#[test]
fn exit_stays() {
    let mut w = Writer::module::<X86_64>();
    let init = w.section(".init.text", A | X, 16, &[0x90; 50]);
    w.symbol("init_module", GLOBAL, FUNC, init, 16);
    w.symbol("cleanup_module", GLOBAL, FUNC, init, 32);
    let (why, errno) = fails(&w.build());
    assert_eq!(why, "symbol 'cleanup_module' does not stay");
    assert_eq!(errno, 8);
}
