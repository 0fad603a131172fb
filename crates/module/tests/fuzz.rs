//! Garbled objects: no panic, nothing written where it must not be, and memory within the limit.
//!
//! 20,000 objects in the usual run, as many as `LIMEN_MODULE_FUZZ` says otherwise. All is determined by the
//! number of the object: `LIMEN_MODULE_FUZZ_FIRST` is the first.

mod common;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use common::*;
use limen_module::*;

/// A generator of numbers (xorshift64*).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    fn below(&mut self, n: usize) -> usize {
        (self.next() >> 33) as usize % n.max(1)
    }
    fn one_of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }
}

/// Symbols of relocations.
const OWN: usize = 0;
const NEAR: usize = 1;
const FAR: usize = 2;
const NULL: usize = 3;
const DATA: usize = 4;

/// An object with something of everything. `kinds` are relocations of its text, with the symbol, and whether
/// the other text has it too; `pointer` is that of an address.
fn seed<M: Machine>(code: &[u8], kinds: &[(u32, usize, bool)], pointer: u32) -> Vec<u8> {
    let mut w = Writer::new::<M>();
    let word = M::CLASS.word();
    let info =
        b"name=fuzz\0license=GPL\0limen_abi=1\0depends=a,b\0parmtype=one:int\0parmtype=two:array of short\0\
        parmtype=three:charp\0parmtype=four:string\0";
    w.section(".modinfo", A, 1, info);
    let body = code.repeat(kinds.len());
    let text = w.section(".text", A | X, 4, &body);
    let init = w.section(".init.text", A | X, 4, &body);
    let names = w.section(".rodata", A, 1, b"one\0two\0three\0four\0exported\0");
    let data = w.section(".data", A | W, 8, &[0; 64]);
    let after = w.section(".data..ro_after_init", A | W, 8, &[0; 16]);
    w.zeros(".bss", 16, 100);
    w.section(".init.data", A | W, 8, &[1; 24]);
    w.section(".comment", 0, 1, b"a comment");
    let mut table = Vec::new();
    for (n, elements) in [1u64, 4, 1, 16].into_iter().enumerate() {
        let at = |value: u64| if M::ADDENDS == Addends::InPlace { value } else { 0 };
        let name = [0, 4, 8, 14][n];
        for value in [at(name), at(n as u64 * 16), 0, elements, 0o600] {
            table.extend(&value.to_le_bytes()[..word]);
        }
    }
    let params = w.section(".limen.params", A | W, 8, &table);
    let exports = w.section(".limen.exports", A, 8, &vec![0; word * 3]);
    let string = w.symbol("", LOCAL, SECTION, names, 0);
    let variables = w.symbol("", LOCAL, SECTION, data, 0);
    let own = w.symbol("own", LOCAL, FUNC, text, 8);
    w.symbol("init_module", GLOBAL, FUNC, init, 0);
    w.symbol("cleanup_module", GLOBAL, FUNC, text, 0);
    w.symbol("object", GLOBAL, OBJECT, after, 0);
    let weak = w.symbol("weak", WEAK, NOTYPE, 0, 0);
    let near = w.undefined("near");
    let far = w.undefined("far");
    w.symbol("absolute", GLOBAL, NOTYPE, ABS as usize, 99);
    for (n, &(kind, symbol, both)) in kinds.iter().enumerate() {
        let symbol = [own, near, far, weak, variables][symbol];
        // Of Arm the second word is for Thumb.
        let thumb = M::NUMBER == 40 && matches!(kind, 10 | 30 | 47..=51);
        let offset = n as u64 * 8 + if thumb { 4 } else { 0 };
        w.relocate(text, offset, kind, symbol, 0);
        if both {
            w.relocate(init, offset, kind, symbol, 0);
        }
    }
    for (n, name) in [0, 4, 8, 14].into_iter().enumerate() {
        let row = (n * 5 * word) as u64;
        w.relocate(params, row, pointer, string, name);
        w.relocate(params, row + word as u64, pointer, variables, n as i64 * 16);
    }
    w.relocate(exports, 0, pointer, string, 19);
    w.relocate(exports, word as u64, pointer, own, 0);
    w.build()
}

fn words(code: &[u32]) -> Vec<u8> {
    code.iter().flat_map(|c| c.to_le_bytes()).collect()
}

/// How often each end was met.
type Ends = BTreeMap<String, u64>;

const LIMIT: u64 = 1 << 16;
const GUARD: usize = 64;

/// Memory for the parts, used again and again.
type Memories = [Vec<u8>; PARTS];

struct Others(bool);

impl Exports for Others {
    type Owner = u8;
    fn find(&mut self, name: &[u8]) -> Option<Exported<u8>> {
        let address = match name {
            b"near" => 0x8010_0000,
            b"far" => (u64::MAX / 3 * 2) & if self.0 { u64::MAX } else { 0xffff_fffc },
            _ if name.len() == 3 => name[0].into(),
            _ => return None,
        };
        Some(Exported {
            address,
            gpl_only: name.len() == 3,
            owner: (name.len() != 4).then_some(name[0]),
        })
    }
}

/// Does everything with `file` that the kernel would, and says how it ended.
fn attempt<M: Machine>(file: &[u8], args: &[u8], memories: &mut Memories, page: u64, far: bool) -> String {
    let end = |e: Error<'_>| {
        assert!([2, 8, 12, 22].contains(&e.errno().get()));
        let told = e.to_string();
        assert!(
            told.len() < 1000 && told.bytes().all(|b| (b' '..127).contains(&b)),
            "{told:?}"
        );
        format!("{e:?}").split([' ', '(']).next().unwrap().to_string()
    };
    let object = match Object::<M>::read(file) {
        Ok(object) => object,
        Err(e) => return end(e),
    };
    let info = match Info::read(&object) {
        Ok(info) => info,
        Err(e) => return end(e),
    };
    let _ = (info.check_version("1").map_err(end), info.depends().count());
    let layout = match Layout::new(&object, page, LIMIT) {
        Ok(layout) => layout,
        Err(e) => return end(e),
    };
    let sizes = Part::ALL.map(|part| layout.size(part) as usize);
    assert!(sizes.iter().sum::<usize>() as u64 <= LIMIT);
    // No two sections share memory, and all are in their parts.
    let mut taken: Vec<(Part, u64, u64)> = Vec::new();
    for (index, section) in object.sections().iter().enumerate() {
        if let Some(place) = layout.place(index)
            && section.size > 0
        {
            assert_eq!(place.offset % section.align, 0);
            taken.push((place.part, place.offset, place.offset + section.size));
        }
    }
    taken.sort_unstable();
    assert!(taken.windows(2).all(|w| w[0].0 != w[1].0 || w[0].2 <= w[1].1));
    assert!(taken.iter().all(|t| t.2 <= layout.used(t.0)));
    let mut at = 0x8000_0000u64;
    let mut n = 0;
    let mut parts = memories.each_mut().map(|memory| {
        memory.clear();
        memory.resize(sizes[n] + GUARD, 0xa5);
        let address = at;
        at += (sizes[n] as u64).next_multiple_of(0x1_0000) + if far { 0x800_0000 } else { 0x1_0000 };
        n += 1;
        Memory {
            address,
            bytes: memory,
        }
    });
    let linked = link(
        &object,
        &info,
        &layout,
        &mut parts,
        &mut Others(M::CLASS == Class::Bits64),
    );
    let told = match linked {
        Err(e) => end(e),
        Ok(linked) => {
            assert!(linked.veneers <= layout.veneer_count());
            for part in Part::ALL {
                let rest =
                    &parts[part as usize].bytes[..layout.size(part) as usize][layout.used(part) as usize..];
                assert!(rest.iter().all(|b| *b == 0), "written behind what is used");
            }
            let inside = |address: u64| {
                let within = |p: Part| {
                    let start = parts[p as usize].address;
                    (start..start + layout.used(p)).contains(&address)
                };
                Part::ALL.into_iter().any(within)
            };
            for symbol in linked.symbols.iter() {
                assert!(inside(symbol.address) && !symbol.name.is_empty());
                assert!(linked.symbols.find(symbol.address).is_some());
            }
            for export in &linked.exports {
                assert!(inside(export.address & !1) && !export.name.bytes(&parts).is_empty());
            }
            let mut keep = |text: &[u8]| Some(text.len() as u64);
            let result = linked
                .parameters
                .parse(args, &mut parts, &mut keep, &mut |unused| {
                    let _ = unused.to_string();
                });
            match result {
                Ok(()) => "loaded".into(),
                Err(bad) => format!("parameter {}", bad.errno.get()),
            }
        }
    };
    for (memory, size) in memories.iter().zip(sizes) {
        assert!(
            memory[size..].iter().all(|b| *b == 0xa5),
            "written behind the end"
        );
    }
    told
}

const NUMBERS: [u64; 24] = [
    0,
    1,
    2,
    3,
    4,
    7,
    8,
    9,
    0x10,
    0x18,
    0x40,
    0x7f,
    0xff,
    0x1000,
    0x7fff,
    0xff00,
    0xfff1,
    0xfff2,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    1 << 63,
    u64::MAX,
];

/// Changes something in `file`. `table` is where the section headers were.
fn mutate(r: &mut Random, file: &mut Vec<u8>, table: usize, header: usize) {
    if file.is_empty() {
        return;
    }
    // Half of the changes are made in section headers or the file's.
    let at = match r.below(6) {
        0 => r.below(64),
        1 | 2 => table + r.below(file.len().saturating_sub(table)),
        _ => r.below(file.len()),
    }
    .min(file.len() - 1);
    let number = |r: &mut Random| {
        let number = r.one_of(&NUMBERS);
        match r.below(4) {
            0 => number.wrapping_sub(r.below(9) as u64),
            1 => r.next() >> r.below(64),
            2 => r.below(file.len() + 32) as u64,
            _ => number,
        }
    };
    match r.below(10) {
        0 | 1 => file[at] ^= 1 << r.below(8),
        2 => file[at] = r.next() as u8,
        3..=6 => {
            let width = r.one_of(&[2, 4, 4, 8]);
            let at = at & !(width - 1);
            let bytes = number(r).to_le_bytes();
            let end = (at + width).min(file.len());
            file[at..end].copy_from_slice(&bytes[..end - at]);
        }
        7 => {
            // A section's header, or part of it, over another.
            let count = (file.len() - table.min(file.len())) / header;
            let (from, to) = (table + r.below(count) * header, table + r.below(count) * header);
            let (start, len) = (r.below(header), r.one_of(&[4, 8, header]));
            let len = len.min(header - start);
            if from.max(to) + header <= file.len() {
                file.copy_within(from + start..from + start + len, to + start);
            }
        }
        8 => {
            let (from, len) = (r.below(file.len()), r.below(40));
            let len = len.min(file.len() - from.max(at));
            file.copy_within(from..from + len, at);
        }
        _ if r.below(8) == 0 => file.truncate(at),
        _ => {
            let end = (at + r.below(16)).min(file.len());
            file[at..end].fill(r.one_of(&[0, 0xff, b'a']));
        }
    }
}

#[test]
fn garbled_objects() {
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .and_then(|n| n.replace('_', "").parse::<u64>().ok())
    };
    let count = number("LIMEN_MODULE_FUZZ").unwrap_or(20_000);
    let first = number("LIMEN_MODULE_FUZZ_FIRST").unwrap_or(0);
    let x86 = [
        (1, FAR, true),
        (2, OWN, true),
        (4, NEAR, true),
        (24, FAR, true),
        (10, DATA, true),
        (11, NULL, true),
        (12, NULL, true),
        (13, OWN, false),
    ];
    let branches = [OWN, NEAR, FAR, NULL];
    let mut arm64 = vec![
        (257, FAR, true),
        (258, NEAR, true),
        (259, NULL, true),
        (260, FAR, true),
    ];
    arm64.extend([
        (261, OWN, true),
        (262, OWN, false),
        (263, NULL, true),
        (265, NEAR, true),
    ]);
    arm64.extend([264, 266, 268, 269, 276, 288, 290, 292, 293].map(|kind| (kind, FAR, true)));
    arm64.extend([267, 271, 272].map(|kind| (kind, NEAR, true)));
    arm64.extend([309, 311, 312].map(|kind| (kind, NULL, true)));
    arm64.extend([270, 299].map(|kind| (kind, NULL, true)));
    arm64.extend([273, 274, 279, 280, 287].map(|kind| (kind, OWN, false)));
    arm64.extend([275, 277, 278, 284, 285, 286, 289, 291].map(|kind| (kind, DATA, true)));
    arm64.extend(branches.map(|symbol| (283, symbol, true)));
    arm64.extend(branches.map(|symbol| (282, symbol, true)));
    let mut arm = vec![(42, OWN, true), (51, OWN, false), (40, NULL, true)];
    arm.extend([2, 3, 38, 43, 44, 45, 46, 47, 48, 49, 50].map(|kind| (kind, DATA, true)));
    for kind in [1, 28, 29, 10, 30] {
        arm.extend(branches.map(|symbol| (kind, symbol, true)));
    }
    let mut power = vec![
        (38, FAR, true),
        (26, OWN, true),
        (44, FAR, true),
        (118, NULL, true),
        (51, NULL, true),
    ];
    power.extend([47, 48, 50, 63, 64, 250, 252].map(|kind| (kind, DATA, true)));
    power.extend(branches.map(|symbol| (10, symbol, true)));
    let seeds = [
        seed::<X86_64>(&[0x90; 8], &x86, 1),
        seed::<Arm64>(&words(&[0x9400_0000, 0xd280_0000]), &arm64, 257),
        seed::<Arm>(&words(&[0xebff_fffe, 0xfffe_f7ff]), &arm, 2),
        seed::<Powerpc64>(&words(&[0x4800_0001, 0x6000_0000]), &power, 38),
    ];
    let args = b"one=1 two=1,2,3 \"three=a b\" four=text nothing -- \"rest\xa0=,";
    let mut ends: [Ends; 4] = Default::default();
    let mut memories: Memories = Default::default();
    for n in first..first + count {
        let mut r = Random(n.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        r.next();
        let which = r.below(4);
        let mut file = seeds[which].clone();
        let (offset, header) = if which == 2 { (32, 40) } else { (40, 64) };
        let table = u32::from_le_bytes(file[offset..offset + 4].try_into().unwrap()) as usize;
        let changes = r.one_of(&[0, 1, 1, 1, 2, 2, 3, 5, 10]);
        for _ in 0..changes {
            mutate(&mut r, &mut file, table, header);
        }
        let mut args = args.to_vec();
        for _ in 0..r.below(4) {
            let at = r.below(args.len());
            args[at] = r.one_of(b"\0 \"=,-_x019\xff\n");
        }
        let (page, far) = (r.one_of(&[256, 256, 4096, 64]), r.below(3) == 0);
        let memories = AssertUnwindSafe(&mut memories);
        let done = catch_unwind(|| {
            let AssertUnwindSafe(memories) = { memories };
            match which {
                0 => attempt::<X86_64>(&file, &args, memories, page, far),
                1 => attempt::<Arm64>(&file, &args, memories, page, far),
                2 => attempt::<Arm>(&file, &args, memories, page, far),
                _ => attempt::<Powerpc64>(&file, &args, memories, page, far),
            }
        });
        let Ok(end) = done else {
            panic!("object {n} (LIMEN_MODULE_FUZZ_FIRST={n} LIMEN_MODULE_FUZZ=1)");
        };
        *ends[which].entry(end).or_default() += 1;
    }
    for (name, ends) in ["x86_64", "arm64", "arm", "powerpc64"].iter().zip(&ends) {
        println!("{name}: {ends:?}");
        if count >= 20_000 {
            // The mutations are neither harmless nor too coarse: every end is met.
            for end in [
                "loaded",
                "Section",
                "Relocation",
                "Symbol",
                "Unknown",
                "Broken",
                "Foreign",
                "TooLarge",
            ] {
                assert!(ends.get(end).is_some_and(|n| *n > 0), "{name}: never {end}");
            }
        }
    }
}

/// Files that are made to need much time or memory: each takes milliseconds if the work is linear.
#[test]
fn laborious_objects() {
    // All symbols have one long name, in a table of names that is mostly one string.
    let mut w = Writer::module::<X86_64>();
    let text = w.section(".text", A | X, 16, &vec![0x90; 1 << 16]);
    for _ in 0..20_000 {
        w.symbol("", GLOBAL, FUNC, text, 0);
    }
    w.symbol(&"n".repeat(1 << 20), GLOBAL, FUNC, text, 0);
    let mut file = w.build();
    let table = u64::from_le_bytes(file[40..48].try_into().unwrap()) as usize;
    let symtab = table + (w.sections.len() + 1) * 64;
    let at = u64::from_le_bytes(file[symtab + 24..symtab + 32].try_into().unwrap()) as usize;
    for n in 1..=20_000u32 {
        file[at + n as usize * 24..][..4].copy_from_slice(&n.to_le_bytes());
    }
    let m = load::<X86_64>(&file, from(0xffff_ffff_c000_0000), Kernel::default()).unwrap();
    assert_eq!(
        m.linked.symbols.iter().count(),
        0,
        "names that are too long name nothing"
    );
    // Many parameters, types and arguments.
    let mut w = Writer::new::<X86_64>();
    let mut info = "name=m\0license=GPL\0limen_abi=1\0".to_string();
    let (mut names, mut args) = (String::new(), String::new());
    let count = 20_000;
    for n in 0..count {
        info += &format!("parmtype=p{n:05}:int\0");
        names += &format!("p{n:05}\0");
        args += &format!("p{:05}={n} q{n} ", count - 1 - n);
    }
    w.section(".modinfo", A, 1, info.as_bytes());
    let names = w.section(".rodata", A, 1, names.as_bytes());
    let data = w.section(".data", A | W, 4, &vec![0; count * 4]);
    let row: Vec<u8> = [0u64, 0, 0, 1, 0].iter().flat_map(|v| v.to_le_bytes()).collect();
    let params = w.section(".limen.params", A, 8, &row.repeat(count));
    let [names, variables] = [names, data].map(|s| w.symbol("", LOCAL, SECTION, s, 0));
    for n in 0..count as i64 {
        w.relocate(params, n as u64 * 40, 1, names, n * 7);
        w.relocate(params, n as u64 * 40 + 8, 1, variables, n * 4);
    }
    let mut m = load::<X86_64>(&w.build(), from(0xffff_ffff_c000_0000), Kernel::default()).unwrap();
    let mut unknown = 0;
    m.with(|linked, parts| {
        let mut keep = |_: &[u8]| None;
        let mut unused = |_: Unused<'_>| unknown += 1;
        linked
            .parameters
            .parse(args.as_bytes(), parts, &mut keep, &mut unused)
            .unwrap();
    });
    assert_eq!(unknown, count);
    assert_eq!(m.u32(m.address(data) + 8), count as u32 - 3);
    // Many branches to many symbols, each with a veneer.
    let mut w = Writer::module::<Arm64>();
    let code = 0x9400_0000u32.to_le_bytes().repeat(count);
    let text = w.section(".text", A | X, 4, &code);
    let symbols: Vec<usize> = (0..100).map(|n| w.undefined(&format!("s{n}"))).collect();
    for n in 0..count {
        w.relocate(text, n as u64 * 4, 283, symbols[n % 100], (n / 1000 * 4) as i64);
    }
    let mut kernel = Kernel::default();
    for n in 0..100 {
        kernel.add(&format!("s{n}"), n << 40, false, None);
    }
    let m = load::<Arm64>(&w.build(), from(0xffff_8000_0000_0000), kernel).unwrap();
    assert_eq!((m.linked.veneers, m.layout.veneer_count()), (2000, 2000));
}
