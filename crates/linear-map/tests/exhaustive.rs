//! Every change of every state of small maps.

mod common;

use common::{Model, absent, present, read_only, rules, tiny, writable};
use limen_linear_map::{Attributes, Edit, Geometry, Rule};
use std::collections::HashMap;

const PAGE: u64 = 4096;
const BASE: u64 = 1 << 20;

/// Goes through all states that changes lead to from a map of `pages` writable pages, and makes every change
/// in each. With merges at once a state is what its pages' attributes are, so that their number is known.
fn all_states(geometry: &'static Geometry, rule: Rule, pages: u64, edits: &[Edit], states: usize) {
    let model = Model::new(tiny::map(geometry, rule), BASE, 0, pages * PAGE, None);
    let key = |model: &Model| -> Vec<Attributes> {
        (0..pages).map(|n| model.attributes(BASE + n * PAGE)).collect()
    };
    let mut seen = HashMap::from([(key(&model), model.clone())]);
    let mut todo = vec![model];
    while let Some(model) = todo.pop() {
        for start in 0..pages {
            for end in start + 1..=pages {
                for &edit in edits {
                    let (start, end) = (BASE + start * PAGE, BASE + end * PAGE);
                    let mut next = model.clone();
                    if let Err(error) = next.change(start, end, edit, true) {
                        panic!("{start:#x}-{end:#x} {edit:?}: {error}\n{:#?}", next.log);
                    }
                    let key = key(&next);
                    match seen.get(&key) {
                        Some(same) => assert!(
                            same.same_leaves(&next, BASE, BASE + pages * PAGE),
                            "two maps for the same attributes"
                        ),
                        None => {
                            seen.insert(key, next.clone());
                            todo.push(next);
                        }
                    }
                }
            }
        }
    }
    assert_eq!(seen.len(), states);
}

#[test]
fn blocks_by_every_rule() {
    for (name, rule) in rules(false) {
        println!("{name}");
        all_states(&tiny::NARROW, rule, 8, &[read_only(), writable()], 1 << 8);
    }
}

#[test]
fn groups_by_every_rule() {
    for (name, rule) in rules(true) {
        println!("{name}");
        all_states(&tiny::GROUPS, rule, 8, &[read_only(), writable()], 1 << 8);
    }
}

#[test]
fn pages_that_come_and_go() {
    // Two bits of each page: writable, present.
    let edits = [read_only(), writable(), absent(), present()];
    for (name, rule) in rules(false) {
        println!("{name}");
        let geometry = if rule.group == limen_linear_map::Resize::Never {
            &tiny::NARROW
        } else {
            &tiny::GROUPS
        };
        all_states(geometry, rule, 4, &edits, 1 << 8);
    }
}

/// Whether a table of the model is said to be able to become a block.
fn merges_anywhere(model: &Model, pages: u64) -> bool {
    (1..=model.map.largest)
        .any(|level| (0..pages).any(|page| model.map.merges(model, BASE + page * PAGE, level, (0, 0))))
}

/// Two changes, one after the other, of all ranges of a deeper map; merges are put off, and made afterwards.
#[test]
fn merges_put_off() {
    for (name, rule) in rules(true) {
        println!("{name}");
        let pages = 16;
        let fresh = Model::new(tiny::map(&tiny::DEEP, rule), BASE, 0, pages * PAGE, None);
        let ranges =
            || (0..pages).flat_map(|a| (a + 1..=pages).map(move |b| (BASE + a * PAGE, BASE + b * PAGE)));
        for (start, end) in ranges() {
            let mut once = fresh.clone();
            once.change(start, end, read_only(), false).unwrap();
            for (start, end) in ranges().step_by(5) {
                let mut twice = once.clone();
                twice.change(start, end, writable(), false).unwrap();
                let tables = twice.tables_used();
                let merges = merges_anywhere(&twice, pages);
                twice.merge(BASE, BASE + pages * PAGE).unwrap();
                assert_eq!(merges, twice.tables_used() < tables, "{name}");
                assert!(!merges_anywhere(&twice, pages), "{name}");
                twice.change(BASE, BASE + pages * PAGE, writable(), true).unwrap();
                assert!(twice.same_leaves(&fresh, BASE, BASE + pages * PAGE));
                assert_eq!(twice.tables_used(), fresh.tables_used());
            }
        }
    }
}
