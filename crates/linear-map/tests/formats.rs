//! Tables in the processors' own bits. What the engine asks of a format is met by all of them: leaves that
//! are not present keep what they are, and a write of many entries is a loop that adds the difference of the
//! first two.

mod common;

use common::{RW, absent, plain, present, read_only, tiny, writable};
use limen_linear_map::geometry::*;
use limen_linear_map::{
    Access, Attributes, Build, Change, Edit, Entry, Geometry, Leaf, Reserve, Rule, Step, Table, Tables, rule,
};
use proptest::prelude::*;

trait Format {
    fn encode(level: usize, index: usize, entry: Entry) -> u64;
    fn decode(level: usize, index: usize, raw: u64) -> Entry;
    /// Entries after which the difference of two neighbours is another: a group's are equal.
    fn stretch(_leaf: &Leaf) -> Option<usize> {
        None
    }
}

fn bit(value: u64, set: bool) -> u64 {
    if set { value } else { 0 }
}

fn access(write: bool, execute: bool, present: bool) -> Access {
    let mut access = Access::READ;
    access.set(Access::WRITE, write);
    access.set(Access::EXECUTE, execute);
    access.set(Access::PRESENT, present);
    access
}

fn leaf(phys: u64, access: Access, kind: u8, grouped: bool) -> Entry {
    Entry::Leaf(Leaf {
        phys,
        attributes: Attributes { access, kind },
        grouped,
        marked: false,
    })
}

/// Long descriptors of both Arms: valid, page or table, AttrIndx, AP\[2\], AF, nT, Contiguous, PXN.
struct Long;

impl Format for Long {
    fn encode(level: usize, _: usize, entry: Entry) -> u64 {
        let not_block = bit(2, level == 0);
        match entry {
            Entry::Empty => 0,
            Entry::Table(table) => table.0 | 3,
            Entry::Leaf(leaf) => {
                let access = leaf.attributes.access;
                leaf.phys
                    | not_block
                    | bit(1, leaf.is_present())
                    | u64::from(leaf.attributes.kind & 7) << 2
                    | bit(1 << 7, !access.contains(Access::WRITE))
                    | 1 << 10
                    | bit(1 << 16, leaf.marked)
                    | bit(1 << 52, leaf.grouped)
                    | bit(1 << 53, !access.contains(Access::EXECUTE))
            }
        }
    }
    fn decode(level: usize, _: usize, raw: u64) -> Entry {
        let address = raw & 0xffff_ffff_f000;
        match raw & 3 {
            _ if raw == 0 => Entry::Empty,
            3 if level > 0 => Entry::Table(Table(address)),
            _ => leaf(
                address,
                access(raw & 1 << 7 == 0, raw & 1 << 53 == 0, raw & 1 != 0),
                (raw >> 2 & 7) as u8,
                raw & 1 << 52 != 0,
            ),
        }
    }
}

/// x86: present, writable, PCD and PWT, page size, no-execute. What is not present has its address inverted.
struct X86;

impl Format for X86 {
    fn encode(level: usize, _: usize, entry: Entry) -> u64 {
        const ADDRESS: u64 = 0xf_ffff_ffff_f000;
        match entry {
            Entry::Empty => 0,
            Entry::Table(table) => table.0 | 0x23,
            Entry::Leaf(leaf) => {
                let access = leaf.attributes.access;
                let address = if leaf.is_present() {
                    leaf.phys
                } else {
                    !leaf.phys & ADDRESS
                };
                address
                    | bit(1, leaf.is_present())
                    | bit(2, access.contains(Access::WRITE))
                    | u64::from(leaf.attributes.kind & 3) << 3
                    | 0x60
                    | bit(0x80, level > 0)
                    | bit(1 << 63, !access.contains(Access::EXECUTE))
            }
        }
    }
    fn decode(level: usize, _: usize, raw: u64) -> Entry {
        let address = raw & 0xf_ffff_ffff_f000;
        let present = raw & 1 != 0;
        match raw {
            0 => Entry::Empty,
            _ if level > 0 && raw & 0x80 == 0 => Entry::Table(Table(address)),
            _ => leaf(
                if present {
                    address
                } else {
                    !address & 0xf_ffff_ffff_f000
                },
                access(raw & 2 != 0, raw >> 63 == 0, present),
                (raw >> 3 & 3) as u8,
                false,
            ),
        }
    }
}

/// Radix trees of Power, as the processor counts: valid, leaf, attributes, read, write, execute.
struct Radix;

impl Format for Radix {
    fn encode(_: usize, _: usize, entry: Entry) -> u64 {
        match entry {
            Entry::Empty => 0,
            Entry::Table(table) => table.0 | 1 << 63 | 9,
            Entry::Leaf(leaf) => {
                let access = leaf.attributes.access;
                leaf.phys
                    | 1 << 62
                    | bit(1 << 63, leaf.is_present())
                    | 0x18c
                    | u64::from(leaf.attributes.kind & 3) << 4
                    | bit(2, access.contains(Access::WRITE))
                    | bit(1, access.contains(Access::EXECUTE))
            }
        }
    }
    fn decode(_: usize, _: usize, raw: u64) -> Entry {
        let address = raw & 0x01ff_ffff_ffff_f000;
        match raw >> 62 {
            0 => Entry::Empty,
            2 => Entry::Table(Table(address)),
            _ => leaf(
                address,
                access(raw & 2 != 0, raw & 1 != 0, raw >> 63 != 0),
                (raw >> 4 & 3) as u8,
                false,
            ),
        }
    }
}

/// Short descriptors. The entries of large pages and supersections are equal, with the address of the whole.
/// What is not present has its two low bits zero: its permission to execute and that it is a leaf are kept in
/// bits that such an entry has to spare (1 for sections is the bit of domains, which are all 0).
struct Short;

const PAGE: u64 = 2;
const LARGE: u64 = 1;
const SECTION: u64 = 2;
const SUPERSECTION: u64 = 1 << 18;

impl Format for Short {
    fn encode(level: usize, index: usize, entry: Entry) -> u64 {
        let leaf = match entry {
            Entry::Empty => return 0,
            Entry::Table(table) => return table.0 | 1,
            Entry::Leaf(leaf) => leaf,
        };
        let attributes = leaf.attributes;
        let read_only = !attributes.access.contains(Access::WRITE);
        let no_execute = !attributes.access.contains(Access::EXECUTE);
        let kind = u64::from(attributes.kind & 3) << 2;
        let raw = match (level, leaf.grouped) {
            (0, false) => leaf.phys | PAGE | 0x10 | kind | bit(1 << 9, read_only) | u64::from(no_execute),
            (0, true) => {
                leaf.phys & !0xffff | LARGE | 0x10 | kind | bit(1 << 9, read_only) | bit(1 << 15, no_execute)
            }
            (_, group) => {
                let phys = if group {
                    leaf.phys & !0xff_ffff | SUPERSECTION
                } else {
                    leaf.phys
                };
                phys | SECTION | 1 << 10 | kind | bit(1 << 15, read_only) | bit(1 << 4, no_execute)
            }
        };
        let _ = index;
        if leaf.is_present() {
            return raw;
        }
        // Bits 5 to 8 of a page, and of a section, are the same for all leaves: room for the low bits.
        raw & !3 | (raw & 3) << 5 | 1 << 8
    }
    fn decode(level: usize, index: usize, raw: u64) -> Entry {
        let gone = raw & 3 == 0;
        if raw == 0 {
            return Entry::Empty;
        }
        let raw = if gone { raw & !0x160 | raw >> 5 & 3 } else { raw };
        if level > 0 && raw & 3 == 1 {
            return Entry::Table(Table(raw & !0x3ff));
        }
        let kind = (raw >> 2 & 3) as u8;
        let in_group = |shift| (index as u64 & 15) << shift;
        match level {
            0 if raw & PAGE != 0 => leaf(
                raw & !0xfff,
                access(raw & 1 << 9 == 0, raw & 1 == 0, !gone),
                kind,
                false,
            ),
            0 => leaf(
                raw & !0xffff | in_group(12),
                access(raw & 1 << 9 == 0, raw & 1 << 15 == 0, !gone),
                kind,
                true,
            ),
            _ => {
                let group = raw & SUPERSECTION != 0;
                let phys = if group {
                    raw & !0xff_ffff | in_group(20)
                } else {
                    raw & !0xf_ffff
                };
                let access = access(raw & 1 << 15 == 0, raw & 1 << 4 == 0, !gone);
                leaf(phys, access, kind, group)
            }
        }
    }
    fn stretch(leaf: &Leaf) -> Option<usize> {
        leaf.grouped.then_some(16)
    }
}

/// Tables of words, at addresses.
struct Words<F> {
    geometry: &'static Geometry,
    tables: Vec<Option<Vec<u64>>>,
    format: std::marker::PhantomData<F>,
}

/// Bytes that a table takes: what its address is a multiple of.
const SIZE: u64 = 1 << 16;
/// Not zero, so that no table is at 0.
const FIRST: u64 = 0x10_0000;

impl<F: Format> Words<F> {
    fn put(&mut self, level: usize) -> Table {
        let n = self.tables.len() as u64;
        self.tables
            .push(Some(vec![0; self.geometry.level(level).entries()]));
        Table(FIRST + n * SIZE)
    }
    fn words(&self, table: Table) -> &Vec<u64> {
        self.tables[((table.0 - FIRST) / SIZE) as usize].as_ref().unwrap()
    }
}

impl<F: Format> Tables for Words<F> {
    fn read(&self, table: Table, level: usize, index: usize) -> Entry {
        F::decode(level, index, self.words(table)[index])
    }
}

impl<F: Format> Build for Words<F> {
    fn table(&mut self, level: usize) -> Option<Table> {
        Some(self.put(level))
    }

    fn write(&mut self, table: Table, level: usize, index: usize, count: usize, entry: Entry) {
        let size = self.geometry.level(level).size();
        let word = |i: usize| match entry {
            Entry::Leaf(leaf) => {
                let phys = leaf.phys + i as u64 * size;
                F::encode(level, index + i, Entry::Leaf(Leaf { phys, ..leaf }))
            }
            other => F::encode(level, index + i, other),
        };
        let words = self.tables[((table.0 - FIRST) / SIZE) as usize].as_mut().unwrap();
        let stretch = match &entry {
            Entry::Leaf(leaf) => F::stretch(leaf).unwrap_or(count),
            _ => count,
        };
        for part in (0..count).step_by(stretch) {
            let step = if stretch > 1 {
                word(part + 1).wrapping_sub(word(part))
            } else {
                0
            };
            let mut value = word(part);
            for i in part..count.min(part + stretch) {
                assert_eq!(value, word(i), "a loop writes what each entry is");
                words[index + i] = value;
                value = value.wrapping_add(step);
            }
        }
    }
}

fn story<F: Format>(name: &str, geometry: &'static Geometry, rule: Rule, doings: &[(u64, u64, u8)]) {
    let mut words = Words::<F> {
        geometry,
        tables: Vec::new(),
        format: std::marker::PhantomData,
    };
    let mut map = tiny::map(geometry, rule);
    map.root = words.put(geometry.top());
    let page = geometry.level(0).size();
    let pages = geometry.level(geometry.largest()).group_size() / page;
    let (addr, phys) = (
        0x8000_0000 & !(pages * page - 1),
        0x4000_0000 & !(pages * page - 1),
    );
    map.build(&mut words, addr, phys, pages * page, plain(RW))
        .unwrap();
    let tables = map.tables(&words);
    let mut edits: Vec<(u64, u64, Edit)> = Vec::new();
    let all = (0, pages, 1);
    let back = (0, pages, 3);
    for &(at, len, what) in doings.iter().chain([&all, &back]) {
        let start = at % pages;
        let end = (start + len % 600 + 1).min(pages);
        let (start, end) = if len == pages { (0, pages) } else { (start, end) };
        let edit = [read_only, writable, absent, present][what as usize & 3]();
        edits.push((start, end, edit));
        let (start, end) = (addr + start * page, addr + end * page);
        let needs = map.needs(&words, start, end).unwrap();
        let mut reserve = Reserve::new();
        for _ in 0..needs.tables {
            // Whatever level it becomes.
            let levels = 0..geometry.top().max(1);
            let level = levels.max_by_key(|&level| geometry.level(level).entries());
            reserve.put(words.put(level.unwrap()));
        }
        let mut change = Change::new(&map, start, end, edit, reserve, true);
        while let Some(step) = change.next(&words) {
            match step {
                Step::Write {
                    table,
                    level,
                    index,
                    count,
                    entry,
                    ..
                } => words.write(table, level, index, count, entry),
                Step::Free { table, .. } => words.tables[((table.0 - FIRST) / SIZE) as usize] = None,
                _ => {}
            }
        }
        change.outcome().unwrap();
        while let Some(table) = change.rest().take() {
            words.tables[((table.0 - FIRST) / SIZE) as usize] = None;
        }
        // Each page is where it was, and as the changes so far have made it.
        let probes = edits
            .iter()
            .flat_map(|e| [e.0, e.0.saturating_sub(1), e.1 - 1, e.1.min(pages - 1)]);
        for n in probes {
            let here = edits.iter().filter(|e| (e.0..e.1).contains(&n));
            let expected = here.fold(plain(RW), |attributes, e| e.2.of(attributes));
            let mapped = map.at(&words, addr + n * page).unwrap();
            let at = mapped.leaf.phys + (addr + n * page - mapped.addr);
            assert_eq!(at, phys + n * page, "{name}: page {n}");
            assert_eq!(mapped.leaf.attributes, expected, "{name}: page {n}");
        }
        assert_eq!(
            map.tables(&words),
            words.tables.iter().flatten().count(),
            "{name}"
        );
    }
    assert_eq!(map.tables(&words), tables, "{name}: all is as it was");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_format(doings in prop::collection::vec(any::<(u64, u64, u8)>(), 1..8)) {
        story::<Long>("arm64 4K", &ARM64_4K, rule::ARM64_BBM_2_NO_ABORT, &doings);
        story::<Long>("arm64 16K", &ARM64_16K, rule::ARM64_BBM_1, &doings);
        story::<Long>("arm64 64K", &ARM64_64K, rule::ARM_BREAK, &doings);
        story::<Long>("arm", &ARM_LONG, rule::ARM_BREAK, &doings);
        story::<Short>("arm, short", &ARM_SHORT, rule::ARM_SHORT, &doings);
        story::<X86>("x86_64", &X86_64, rule::X86, &doings);
        story::<Radix>("power 4K", &POWER_4K, rule::POWER, &doings);
        story::<Radix>("power 64K", &POWER_64K, rule::POWER, &doings);
    }
}
