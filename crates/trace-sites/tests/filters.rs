//! What files of filters hold after words were written, and what they come to.

mod common;

use common::{Table, apply, listed};
use limen_trace_sites::command;
use limen_trace_sites::filter::{Effective, Filter, Which};
use limen_trace_sites::hash::Hash;
use limen_trace_sites::{Error, Site};
use proptest::prelude::*;

fn table() -> Table {
    Table::new(
        &["schedule", "schedule_tail", "do_fork", "kernel_clone"],
        &[("open", "ext4"), ("sched_it", "ext4"), ("open", "xfs")],
    )
}

fn sites(hash: &Hash) -> Vec<u32> {
    hash.sites().iter().map(|site| site.0).collect()
}

fn written(words: &[&str]) -> Result<Vec<u32>, Error> {
    let mut hash = Hash::new();
    words
        .iter()
        .try_for_each(|word| apply(&mut hash, &table(), word))?;
    Ok(sites(&hash))
}

#[test]
fn patterns() {
    for (words, expected) in [
        (&["sched*"][..], &[0, 1, 5][..]),
        (&["sched*", "open"], &[0, 1, 4, 5, 6]),
        (&["sched*", "!*tail"], &[0, 5]),
        (&["*", "!:mod:!*"], &[4, 5, 6]),
        (&[":mod:ext4"], &[4, 5]),
        (&["open:mod:*"], &[4, 6]),
        (&["*:mod:!ext4"], &[0, 1, 2, 3, 6]),
        (&["1", "5"], &[0, 4]),
        (&["0x2", "3x"], &[1, 2]),
        (&["schedule:mod"], &[0]),
        (&["open", "!5"], &[6]),
        (&["!open"], &[]),
    ] {
        assert_eq!(written(words).as_deref(), Ok(expected), "{words:?}");
    }
    for word in [
        "nothing",
        "",
        "0",
        "8",
        "08",
        ":mod",
        "open:mod:ext4x*:",
        "schedule:mod:ext4",
        "!nothing",
    ] {
        let result = written(&[word]);
        let waits = word.starts_with("open:mod");
        assert_eq!(
            result,
            if waits { Ok(vec![]) } else { Err(Error::Invalid) },
            "{word}"
        );
    }
}

#[test]
fn numbers_are_lines() {
    let mut names = table();
    names.0[1] = None;
    let mut hash = Hash::new();
    apply(&mut hash, &names, "2").unwrap();
    assert_eq!(sites(&hash), [2]);
}

#[test]
fn graph() {
    let (names, mut hash) = (table(), Hash::new());
    let mut written = |word: &str| match command::parse(word.as_bytes(), command::File::Graph) {
        Ok(command::Command::Select(select)) => {
            let result = hash.apply(&names, &select);
            (result.is_ok(), sites(&hash))
        }
        other => panic!("{other:?}"),
    };
    for (word, expected) in [
        ("1", (false, &[][..])),
        ("!schedule", (false, &[])),
        ("sched*", (true, &[0, 1, 5])),
        ("schedule", (true, &[0, 1, 5])),
        ("!*tail", (true, &[0, 5])),
        ("!*tail", (false, &[0, 5])),
        ("open:mod:xfs", (false, &[0, 5])),
    ] {
        assert_eq!(written(word), (expected.0, expected.1.to_vec()), "{word}");
    }
}

#[test]
fn lists() {
    let (names, mut filter) = (table(), Filter::new());
    assert_eq!(
        listed(&filter, Which::Filter, &names),
        "#### all functions enabled ####\n"
    );
    assert_eq!(
        listed(&filter, Which::Notrace, &names),
        "#### no functions disabled ####\n"
    );
    for word in ["do_fork", "open", "*:mod:btrfs", "read:mod:nfs"] {
        apply(filter.hash_mut(Which::Filter), &names, word).unwrap();
    }
    assert_eq!(
        listed(&filter, Which::Filter, &names),
        "do_fork\nopen [ext4]\nopen [xfs]\nread:mod:nfs\n*:mod:btrfs\n"
    );
    // What waits makes no filter.
    apply(filter.hash_mut(Which::Filter), &names, "!*").unwrap();
    assert!(listed(&filter, Which::Filter, &names).starts_with("#### all functions enabled ####\nread"));
    apply(filter.hash_mut(Which::Filter), &names, "!read:mod:nfs").unwrap();
    apply(filter.hash_mut(Which::Filter), &names, "!*:mod:btrfs").unwrap();
    assert_eq!(
        apply(filter.hash_mut(Which::Filter), &names, "!*:mod:btrfs"),
        Err(Error::Invalid)
    );
    assert_eq!(
        listed(&filter, Which::Filter, &names),
        "#### all functions enabled ####\n"
    );
}

#[test]
fn effective() {
    let (names, mut filter) = (table(), Filter::new());
    let traced = |filter: &Filter| {
        let effective = filter.effective().unwrap();
        (0..7)
            .filter(|&site| effective.contains(Site(site)))
            .collect::<Vec<_>>()
    };
    assert_eq!(traced(&filter), [0, 1, 2, 3, 4, 5, 6]);
    apply(filter.hash_mut(Which::Notrace), &names, "open").unwrap();
    assert_eq!(traced(&filter), [0, 1, 2, 3, 5]);
    assert!(matches!(filter.effective(), Ok(Effective::All { .. })));
    apply(filter.hash_mut(Which::Filter), &names, ":mod:*").unwrap();
    assert_eq!(traced(&filter), [5]);
    // All that is left is not traced: that is nothing, not everything.
    apply(filter.hash_mut(Which::Filter), &names, "!sched*").unwrap();
    assert_eq!(traced(&filter), []);
    // A file that was opened anew, before it replaces the other.
    let mut new = filter.hash(Which::Filter).try_clone().unwrap();
    apply(&mut new, &names, "schedule").unwrap();
    let effective = filter.effective_with(Which::Filter, &new).unwrap();
    assert!(effective.contains(Site(0)) && !effective.contains(Site(4)));
    assert_eq!(traced(&filter), []);
    let Ok(Effective::All { except }) = filter.effective_with(Which::Filter, &Hash::new()) else {
        panic!()
    };
    assert_eq!(except.iter().collect::<Vec<_>>(), [Site(4), Site(6)]);
}

#[test]
fn modules_come_and_go() {
    let (mut names, mut filter) = (table(), Filter::new());
    apply(filter.hash_mut(Which::Filter), &names, "read*:mod:nfs").unwrap();
    apply(filter.hash_mut(Which::Notrace), &names, "*page:mod:nfs").unwrap();
    let nfs = Some("nfs");
    names.0.extend([
        Some(("read_page", nfs)),
        Some(("read_folio", nfs)),
        Some(("write_page", nfs)),
    ]);
    assert_eq!(filter.loaded(&names, "xfs"), Ok(false));
    assert_eq!(filter.loaded(&names, "nfs"), Ok(true));
    assert_eq!(sites(filter.hash(Which::Filter)), [7, 8]);
    assert_eq!(sites(filter.hash(Which::Notrace)), [7, 9]);
    assert_eq!(filter.loaded(&names, "nfs"), Ok(false));
    // It is loaded: there is nothing to wait for.
    assert_eq!(
        apply(filter.hash_mut(Which::Filter), &names, "x:mod:nfs"),
        Err(Error::Invalid)
    );
    for site in 7..10 {
        names.0[site] = None;
        filter.forget(Site(site as u32));
    }
    // A filter of which nothing is left still lets nothing through.
    assert_eq!(sites(filter.hash(Which::Filter)), []);
    assert!(!filter.hash(Which::Filter).is_empty());
    assert_eq!(listed(&filter, Which::Filter, &names), "");
    assert!(matches!(filter.effective(), Ok(Effective::Only(sites)) if sites.is_empty()));
    // The next module at these indexes is another.
    names.0[8] = Some(("read_folio", Some("nfs")));
    assert_eq!(filter.loaded(&names, "nfs"), Ok(false));
}

/// A copy that takes its original's place when modules have gone and come.
#[test]
fn a_copy_settles() {
    let mut names = Table::new(&["schedule"], &[("open", "nfs"), ("read", "nfs")]);
    let mut copy = Hash::new();
    apply(&mut copy, &names, "*").unwrap();
    apply(&mut copy, &names, "read:mod:xfs").unwrap();
    apply(&mut copy, &names, "read:mod:ext4").unwrap();
    assert_eq!(sites(&copy), [0, 1, 2]);
    names.0[1] = None;
    names.0[2] = None;
    names
        .0
        .extend([Some(("read", Some("xfs"))), Some(("open", Some("xfs")))]);
    copy.settle(&names).unwrap();
    assert_eq!(sites(&copy), [0, 3]);
    let mut text = String::new();
    copy.list(&names, "all", &mut text).unwrap();
    assert_eq!(text, "schedule\nread [xfs]\nread:mod:ext4\n");
    // What has lost everything does not let everything through.
    let mut copy = Hash::new();
    apply(&mut copy, &names, "*:mod:xfs").unwrap();
    names.0.truncate(3);
    copy.settle(&names).unwrap();
    assert!(sites(&copy).is_empty() && !copy.is_empty());
}

proptest! {
    /// Words one by one against sets of names.
    #[test]
    fn as_sets(words in proptest::collection::vec(
        ("!?", r"[a-c*?]{0,3}", proptest::option::of("!?[m*]{1,2}")), 0..12)
    ) {
        let mut names = Table::default();
        for function in ["a", "b", "c", "ab", "bc", "abc", "ca", "cc"] {
            names.0.extend([Some((function, None)), None, Some((function, Some("m")))]);
            names.0.push(Some((function, Some("mm"))));
        }
        let mut hash = Hash::new();
        let mut model = std::collections::BTreeSet::new();
        for (not, pattern, module) in &words {
            let word = match module {
                Some(module) => format!("{not}{pattern}:mod:{module}"),
                None => format!("{not}{pattern}"),
            };
            let glob = |text: &str, name: &str| {
                limen_trace_sites::glob::Glob::new(text.as_bytes()).matches(name.as_bytes())
            };
            let matching: Vec<u32> = (0..names.0.len()).filter(|&site| {
                let Some((function, within)) = names.0[site] else { return false };
                let right_module = module.as_ref().is_none_or(|module| match module.strip_prefix('!') {
                    Some(module) => !within.is_some_and(|within| glob(module, within)),
                    None => within.is_some_and(|within| glob(module, within)),
                });
                right_module && (module.is_some() && pattern.is_empty() || glob(pattern, function))
            }).map(|site| site as u32).collect();
            let result = apply(&mut hash, &names, &word);
            if module.is_none() {
                prop_assert_eq!(result, if matching.is_empty() { Err(Error::Invalid) } else { Ok(()) });
            }
            for site in matching {
                if not.is_empty() { model.insert(site); } else { model.remove(&site); }
            }
            prop_assert!(hash.sites().iter().map(|site| site.0).eq(model.iter().copied()));
        }
    }
}
