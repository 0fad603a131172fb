//! Sequences of changes of larger maps, in the geometries of all processors.

mod common;

use common::{Model, RO, RW, absent, plain, present, read_only, rules, tiny, writable};
use limen_linear_map::geometry::*;
use limen_linear_map::{
    Access, Change, Edit, Error, Geometry, Map, Report, Reserve, Resize, Rule, Step, Table, rule,
};
use proptest::prelude::*;

const BASE: u64 = 1 << 40;

/// What to do: a place and a length, in parts of the map that grow with the first number's size, and how.
type Doing = (u64, u64, u8, u8, bool);

fn edit(what: u8) -> Edit {
    [read_only, writable, absent, present][what as usize & 3]()
}

/// A range of a map of `pages` pages: often one page, often whole blocks, often something else.
fn range(doing: &Doing, pages: u64, geometry: &Geometry) -> (u64, u64) {
    let &(at, len, _, unit, _) = doing;
    let forms = geometry.levels();
    let page = forms[0].size();
    let sizes: Vec<u64> = forms.iter().flat_map(|f| [f.size(), f.group_size()]).collect();
    let unit = sizes[unit as usize % sizes.len()].min(pages * page / 2) / page;
    let start = at % pages / unit * unit;
    let end = (start + (len % 4 + 1) * unit).min(pages);
    (start * page, end * page)
}

fn doings() -> impl Strategy<Value = Vec<Doing>> {
    prop::collection::vec(any::<Doing>(), 1..10)
}

/// The same attributes, mapped anew with the largest leaves.
fn afresh(model: &Model, pages: u64, base: u64) -> Model {
    let at = |n: u64| model.attributes(base + n * 4096);
    let mut fresh: Option<Model> = None;
    let mut start = 0;
    while start < pages {
        let same = |n: &u64| at(*n) == at(start);
        let end = start + (start..pages).take_while(same).count() as u64;
        let (addr, size) = (base + start * 4096, (end - start) * 4096);
        match &mut fresh {
            None => {
                let mut first = Model::new(model.map, addr, start * 4096, 4096, Some(&[]));
                first.unmap_all();
                fresh = Some(first);
                continue;
            }
            Some(fresh) => fresh.add(addr, start * 4096, size, at(start), Some(&[])),
        }
        start = end;
    }
    fresh.unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// All pages of a map of blocks of 64 pages are followed. With merges at once, the map is always that
    /// which would be built for its attributes.
    #[test]
    fn all_pages(doings in doings(), merges: bool) {
        let (base, pages) = (1 << 20, 768);
        for (name, rule) in rules(true) {
            let mut model = Model::new(tiny::map(&tiny::MIDDLE, rule), base, 0, pages * 4096, None);
            for doing in &doings {
                let (start, end) = range(doing, pages, &tiny::MIDDLE);
                let told = model.change(base + start, base + end, edit(doing.2), merges || doing.4);
                prop_assert!(told.is_ok(), "{}: {:?}\n{:#?}", name, told, model.log);
            }
            if !merges {
                let told = model.merge(base, base + pages * 4096);
                prop_assert!(told.is_ok(), "{}: {:?}\n{:#?}", name, told, model.log);
            }
            let fresh = afresh(&model, pages, base);
            prop_assert!(model.same_leaves(&fresh, base, base + pages * 4096), "{}", name);
        }
    }
}

const REAL: [(&str, &Geometry, &[Rule]); 9] = [
    ("arm64 4K", &ARM64_4K, ARM64),
    ("arm64 16K", &ARM64_16K, ARM64),
    ("arm64 64K", &ARM64_64K, ARM64),
    ("x86_64", &X86_64, &[rule::X86]),
    ("x86_64, five levels", &X86_64_5, &[rule::X86]),
    ("arm, long", &ARM_LONG, &[rule::ARM_BREAK]),
    ("arm, short", &ARM_SHORT, &[rule::ARM_SHORT]),
    ("power 4K", &POWER_4K, &[rule::POWER]),
    ("power 64K", &POWER_64K, &[rule::POWER]),
];

const ARM64: &[Rule] = &[
    rule::ARM_BREAK,
    rule::ARM64_BBM_1,
    rule::ARM64_BBM_2,
    rule::ARM64_BBM_2_NO_ABORT,
];

fn real_map(geometry: &'static Geometry, rule: Rule) -> Map {
    tiny::map(geometry, rule)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5, failure_persistence: None, ..ProptestConfig::default() })]

    /// Two of the largest leaves and a few pages, in every geometry. Pages at the ends of the changes are
    /// followed, and some others.
    #[test]
    fn real_geometries(doings in doings(), skew in 0u64..2, some in prop::collection::vec(any::<u64>(), 8)) {
        for (name, geometry, rules) in REAL {
            for &rule in rules {
                let page = geometry.level(0).size();
                let largest = geometry.level(geometry.largest());
                let base = if geometry.top() + 1 < 4 { 1 << 30 } else { BASE };
                let pages = 2 * largest.size() / page + 5;
                let mut follow: Vec<u64> = some.iter().map(|n| n % pages * page).collect();
                for doing in &doings {
                    let (start, end) = range(doing, pages, geometry);
                    for at in [start, end] {
                        follow.extend([at, at.wrapping_sub(page), at + page]);
                        follow.push(at & !(largest.size() - 1));
                    }
                }
                follow.iter_mut().for_each(|at| *at = base.wrapping_add(*at));
                let map = real_map(geometry, rule);
                // Memory that begins elsewhere in a block than its addresses has no blocks at all.
                let mut model = Model::new(map, base, skew * page * 3, pages * page, Some(&follow));
                let tables = model.tables_used();
                for doing in &doings {
                    let (start, end) = range(doing, pages, geometry);
                    let told = model.change(base + start, base + end, edit(doing.2), doing.4);
                    prop_assert!(told.is_ok(), "{}: {:?}\n{:#?}", name, told, model.log);
                }
                let told = model.change(base, base + pages * page, writable(), true);
                prop_assert!(told.is_ok(), "{}: {:?}", name, told);
                let told = model.change(base, base + pages * page, present(), true);
                prop_assert!(told.is_ok(), "{}: {:?}", name, told);
                let told = model.merge(base, base + pages * page);
                prop_assert!(told.is_ok(), "{}: {:?}", name, told);
                prop_assert_eq!(model.tables_used(), tables, "{}: tables are left", name);
            }
        }
    }
}

/// Asks for one page of a block of each size, and looks at what was done.
#[test]
fn only_as_far_as_needed() {
    let map = tiny::map(&ARM64_4K, rule::ARM64_BBM_2_NO_ABORT);
    let near = (BASE..BASE + (4 << 20)).step_by(4096);
    let follow: Vec<u64> = near.chain((BASE..BASE + (1 << 30)).step_by(1 << 25)).collect();
    let mut model = Model::new(map, BASE, 0, 1 << 30, Some(&follow));
    let all = model.clone();
    // A page: two tables, in each one group that is unfolded.
    assert_eq!(map_needs(&model, BASE + 0x5000, BASE + 0x6000), (2, false));
    let one = model
        .change(BASE + 0x5000, BASE + 0x6000, read_only(), true)
        .unwrap();
    assert_eq!(
        (one.splits, one.unfolds, one.bytes),
        ([0, 1, 1, 0, 0], [0; 5], 4096)
    );
    let counts = model.map.count(&model);
    assert_eq!((counts[0].single, counts[0].grouped), (16, 496));
    assert_eq!((counts[1].single, counts[1].grouped), (15, 496));
    assert_eq!(counts[2].single, 0);
    // Its neighbour costs nothing more.
    assert_eq!(map_needs(&model, BASE + 0x6000, BASE + 0x7000), (0, false));
    let one = model
        .change(BASE + 0x6000, BASE + 0x7000, read_only(), true)
        .unwrap();
    assert_eq!((one.splits, one.unfolds), ([0; 5], [0; 5]));
    // Whole groups and blocks are changed as they are.
    let blocks = model
        .change(BASE + (2 << 20), BASE + (6 << 20), read_only(), true)
        .unwrap();
    assert_eq!((blocks.splits, blocks.unfolds), ([0; 5], [0; 5]));
    let group = model
        .change(BASE + 0x10000, BASE + 0x30000, read_only(), true)
        .unwrap();
    assert_eq!((group.splits, group.unfolds), ([0; 5], [0; 5]));
    let group = model
        .change(BASE + (32 << 20), BASE + (33 << 20), read_only(), true)
        .unwrap();
    assert_eq!((group.splits, group.unfolds), ([0, 1, 0, 0, 0], [0, 1, 0, 0, 0]));
    // All as it was: one block, and no table too many.
    let back = model.change(BASE, BASE + (1 << 30), writable(), true).unwrap();
    assert_eq!(back.collapses, [0, 2, 1, 0, 0]);
    assert!(model.same_leaves(&all, BASE, BASE + (1 << 30)));
    assert_eq!(model.tables_used(), all.tables_used());
}

fn map_needs(model: &Model, start: u64, end: u64) -> (usize, bool) {
    let needs = model.map.needs(model, start, end).unwrap();
    (needs.tables, needs.parks)
}

/// What each rule asks for.
#[test]
fn parking() {
    for (name, rule) in rules(true) {
        let model = Model::new(tiny::map(&tiny::DEEP, rule), 0, 0, 16 << 12, None);
        let (tables, parks) = map_needs(&model, 0x5000, 0x6000);
        assert_eq!((tables, parks), (2, !rule.quiet), "{name}");
        let mut model = model;
        let report = model.change(0x5000, 0x6000, read_only(), true).unwrap();
        assert_eq!(report.splits, [0, 1, 1, 0, 0]);
        let parked = model.log.iter().any(|step| matches!(step, Step::Park { .. }));
        assert_eq!(parked, !rule.quiet, "{name}");
        let invalid = |step: &Step| match step {
            Step::Write {
                entry: limen_linear_map::Entry::Leaf(leaf),
                ..
            } => !leaf.is_present(),
            _ => false,
        };
        let broken = model.log.iter().any(invalid);
        assert_eq!(broken, rule.table == Resize::Break, "{name}");
    }
}

/// Where sizes are fixed, a change that would need another size does nothing.
#[test]
fn fixed_sizes() {
    let blocks = tiny::map(&tiny::NARROW, rule::FIXED);
    let mut model = Model::new(blocks, 0, 0, 8 << 12, None);
    assert_eq!(model.reserve(0x1000, 0x2000).unwrap_err(), Error::Refused);
    let mut change = Change::new(&model.map, 0x1000, 0x2000, read_only(), Reserve::new(), true).unwrap();
    assert_eq!(change.next(&model), None);
    assert_eq!(change.outcome(), Err(Error::Refused));
    assert!(
        model.change(0, 4 << 12, read_only(), true).is_ok(),
        "whole blocks may change"
    );
    let pages = Map {
        largest: 0,
        groups: false,
        ..blocks
    };
    let mut model = Model::new(pages, 0, 0, 8 << 12, None);
    let report = model.change(0x1000, 0x2000, read_only(), true).unwrap();
    assert_eq!(
        (report.bytes, report.splits, report.collapses),
        (4096, [0; 5], [0; 5])
    );
    assert!(Change::new(&model.map, 1, 0x2000, read_only(), Reserve::new(), true).is_err());
}

/// Holes stay holes, and are not counted.
#[test]
fn holes() {
    let map = tiny::map(&tiny::MIDDLE, rule::ARM64_BBM_2_NO_ABORT);
    let mut model = Model::new(map, 0, 0, 64 << 12, None);
    model.add(512 << 12, 512 << 12, 512 << 12, plain(RO), None);
    let report = model.change(32 << 12, 1024 << 12, read_only(), true).unwrap();
    assert_eq!(report.bytes, 32 << 12);
    let mapped: Vec<_> = model
        .map
        .leaves(&model, 0, 1024 << 12)
        .map(|m| (m.addr, m.size))
        .collect();
    assert_eq!(mapped.iter().map(|m| m.1).sum::<u64>(), (64 + 512) << 12);
    assert_eq!(mapped.last(), Some(&(960 << 12, 64 << 12)));
    assert!(model.map.at(&model, 100 << 12).is_none());
}

/// The last addresses there are. The last page itself is in no range.
#[test]
fn the_end_of_the_address_space() {
    let base = (3u64 << 30).wrapping_neg();
    let map = tiny::map(&ARM64_4K, rule::ARM64_BBM_2_NO_ABORT);
    let near: Vec<u64> = (u64::MAX - 0xffff..u64::MAX - 0xfff)
        .step_by(4096)
        .map(|at| at & !0xfff)
        .collect();
    let mut model = Model::new(map, base, 1 << 32, (3 << 30) - 4096, Some(&near));
    let size = |model: &Model| {
        model
            .map
            .leaves(model, 0xffff << 48, u64::MAX)
            .map(|m| m.size)
            .sum::<u64>()
    };
    assert_eq!(size(&model), (3 << 30) - 4096);
    let last = u64::MAX - 0xfff;
    let report = model.change(base + 0x1000, last, read_only(), true).unwrap();
    assert_eq!(
        (report.bytes, report.splits),
        ((3 << 30) - 0x2000, [0, 1, 1, 0, 0])
    );
    let report = model.change(base, last, writable(), true).unwrap();
    assert_eq!(report.collapses, [0, 1, 1, 0, 0]);
    assert_eq!(size(&model), (3 << 30) - 4096);
    model.merge(0xffff << 48, last).unwrap();
}

/// Other changes come in the pauses of a long one, and merge what its ends were in.
#[test]
fn changes_in_pauses() {
    for (name, rule) in rules(true) {
        let pages = 1536u64;
        let mut model = Model::new(tiny::map(&tiny::MIDDLE, rule), 0, 0, pages << 12, None);
        for n in (0..pages).step_by(2) {
            model.change(n << 12, (n + 1) << 12, read_only(), false).unwrap();
        }
        // All but the first page and the last become what every second one is.
        let (start, end) = (1 << 12, (pages - 1) << 12);
        let reserve = model.reserve(start, end).unwrap();
        model.announce(start, end, writable());
        let map = model.map;
        let mut change = Change::new(&map, start, end, writable(), reserve, true).unwrap();
        let mut pauses = 0;
        let mut supplied = 0;
        loop {
            let Some(step) = change.next(&model) else {
                if change.outcome() != Err(Error::NoTables) {
                    break;
                }
                supplied += 1;
                let mut more = Reserve::new();
                for _ in 0..2 {
                    more.put(model.new_table(0));
                }
                let mut left = change.supply(more);
                model.give_back(&mut left);
                continue;
            };
            model
                .step(&step)
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            if step == Step::Pause {
                pauses += 1;
                let mut merge = Change::merge(&map, 0, pages << 12);
                while let Some(step) = merge.next(&model) {
                    model
                        .step(&step)
                        .unwrap_or_else(|error| panic!("{name}: {error}"));
                }
                model.give_back(merge.rest());
            }
        }
        model.give_back(change.rest());
        assert!(
            change.outcome().is_ok() && pauses > 1,
            "{name}: {pauses} pauses, {supplied}"
        );
        model.settle().unwrap();
        model.change(0, pages << 12, writable(), true).unwrap();
        assert_eq!(model.map.leaves(&model, 0, pages << 12).count(), 24, "{name}");
    }
}

/// What is executable does not become writable, nor the other way round; what comes before it is changed.
#[test]
fn never_both() {
    let map = tiny::map(&X86_64, rule::X86);
    let code = RO | Access::EXECUTE;
    let set = |set| Edit {
        clear: Access::empty(),
        set,
    };
    for (access, edit) in [(code, writable()), (RW, set(Access::EXECUTE))] {
        let mut model = Model::new(map, BASE, 0, 4096, Some(&[]));
        model.unmap_all();
        model.add(BASE, 0, 2 * 4096, plain(RO), Some(&[]));
        model.add(BASE + 2 * 4096, 2 * 4096, 2 * 4096, plain(access), Some(&[]));
        let map = model.map;
        let mut change = Change::new(&map, BASE, BASE + 4 * 4096, edit, Reserve::new(), true).unwrap();
        while let Some(step) = change.next(&model) {
            model.step(&step).unwrap();
        }
        assert_eq!(change.outcome(), Err(Error::WriteAndExecute));
        let found = |page: u64| map.at(&model, BASE + page * 4096).unwrap().leaf.attributes;
        assert_eq!((found(1), found(2)), (plain(RO | edit.set), plain(access)));
        model.settle().unwrap();
    }
}

/// A change that is refused leaves no block split: neither where it would have been executable, nor where it
/// began.
#[test]
fn refused_and_whole() {
    const BLOCK: u64 = 2 << 20;
    let map = tiny::map(&X86_64, rule::X86);
    let code = RO | Access::EXECUTE;
    for (first, last) in [(code, code), (RW, code), (code, RW)] {
        let mut model = Model::new(map, BASE, 0, 2 * BLOCK, Some(&[]));
        model.unmap_all();
        model.add(BASE, 0, BLOCK, plain(first), Some(&[]));
        model.add(BASE + BLOCK, BLOCK, BLOCK, plain(last), Some(&[]));
        let map = model.map;
        let range = (BASE + 0x3000, BASE + BLOCK + 0x5000);
        let reserve = model.reserve(range.0, range.1).unwrap();
        let mut change = Change::new(&map, range.0, range.1, writable(), reserve, true).unwrap();
        while let Some(step) = change.next(&model) {
            model.step(&step).unwrap();
        }
        assert_eq!(change.outcome(), Err(Error::WriteAndExecute));
        for (at, access) in [(BASE, first), (BASE + BLOCK, last)] {
            let found = map.at(&model, at).unwrap();
            assert_eq!((found.size, found.leaf.attributes), (BLOCK, plain(access)));
        }
    }
}

/// Between two pauses there are few steps, and few entries are read and written.
#[test]
fn bounded_pieces() {
    let map = tiny::map(&X86_64, rule::X86);
    let mut model = Model::new(
        map,
        BASE,
        0,
        4 << 30,
        Some(&[BASE, BASE + (1 << 30), BASE + (4 << 30) - 4096]),
    );
    let mut longest = 0;
    let mut check = |model: &Model| {
        let pieces = model.log.split(|step| *step == Step::Pause);
        longest = longest.max(pieces.map(written).max().unwrap());
    };
    for (start, end, edit) in [
        (0x1000, (4u64 << 30) - 0x1000, read_only()),
        (0x3000, 3 << 30, writable()),
        (0, 4 << 30, writable()),
    ] {
        model.change(BASE + start, BASE + end, edit, true).unwrap();
        check(&model);
    }
    assert!(longest <= 5 * 512 + 8, "{longest} entries in a row");
}

fn written(steps: &[Step]) -> usize {
    let count = |step: &Step| match step {
        Step::Write { count, .. } => *count,
        _ => 0,
    };
    steps.iter().map(count).sum()
}

/// The fast case: one page of a block of a gigabyte.
#[test]
fn one_page_of_a_gigabyte() {
    let map = tiny::map(&X86_64, rule::X86);
    let mut model = Model::new(map, BASE, 0, 1 << 30, Some(&[BASE, BASE + 0x5000]));
    let report: Report = model
        .change(BASE + 0x5000, BASE + 0x6000, read_only(), false)
        .unwrap();
    assert_eq!(report.splits, [0, 1, 1, 0, 0]);
    // Two tables, a link between them, the link to them, and the page.
    assert_eq!(written(&model.log), 512 + 512 + 1 + 1 + 1);
    assert!(model.log.len() <= 8, "{:?}", model.log);
    assert!(
        size_of::<Change>() <= 2560,
        "{} bytes of stack",
        size_of::<Change>()
    );
    let _ = (Table(0), Access::READ, RW);
}
