//! Maps against a plain search, and texts that are none.

use super::*;
use proptest::prelude::*;

fn of(text: &str) -> Result<Vec<Extent>, Error> {
    parse(text.as_bytes())
}

fn e(first: u32, lower: u32, count: u32) -> Extent {
    Extent { first, lower, count }
}

#[test]
fn texts() {
    assert_eq!(of("0 1000 1"), Ok(vec![e(0, 1000, 1)]));
    assert_eq!(of("0 1000 1\n"), Ok(vec![e(0, 1000, 1)]));
    assert_eq!(
        of("  0\t1000 1 \n1 100000 65536\n"),
        Ok(vec![e(0, 1000, 1), e(1, 100_000, 65536)])
    );
    assert_eq!(of("0 0 4294967295"), Ok(vec![e(0, 0, u32::MAX)]));
    assert_eq!(of("0 0 1\0rubbish"), Ok(vec![e(0, 0, 1)]));
}

#[test]
fn no_maps() {
    for text in [
        "",
        "\n",
        "0",
        "0 0",
        "0 0 0",
        "0 0 1 1",
        "0 0 1x",
        "0x0 0 1",
        "-1 0 1",
        "4294967295 0 1",
        "0 4294967295 1",
        "1 0 4294967295",
        "0 0 1\n\n",
        "\n0 0 1",
        "0 0 2\n1 5 1",
        "0 0 2\n5 1 1",
        "0 5 2\n9 4 2",
    ] {
        assert_eq!(of(text), Err(Error::Malformed), "{text:?}");
    }
}

#[test]
fn at_most_340() {
    let lines = |n: u32| {
        (0..n)
            .map(|i| format!("{} {} 1\n", 2 * i, 3 * i))
            .collect::<String>()
    };
    assert_eq!(of(&lines(340)).unwrap().len(), 340);
    assert_eq!(of(&lines(341)), Err(Error::Malformed));
}

#[test]
fn ranges() {
    let map = IdMap::new(vec![e(10, 1000, 5), e(15, 2000, 5)], |id, _| Some(id))
        .unwrap()
        .unwrap();
    assert_eq!(map.down(10, 5), Some(1000));
    assert_eq!(map.down(12, 3), Some(1002));
    assert_eq!(map.down(12, 4), None);
    assert_eq!(map.down(19, 1), Some(2004));
    assert_eq!(map.down(20, 1), None);
    assert_eq!(map.down(10, u32::MAX), None);
    assert_eq!(map.up(2004), Some(19));
    assert_eq!(map.up(1005), None);
    assert!(IdMap::new(vec![e(0, 1, 2)], |_, _| None).unwrap().is_none());
}

proptest! {
    #[test]
    fn as_a_plain_search(parts in prop::collection::vec((1u32..9, 0u32..9, 0u32..9), 1..40), seed: u64) {
        let (mut first, mut lower) = (0, 0);
        let mut extents = Vec::new();
        for (count, gap, other) in parts {
            extents.push(e(first + gap, lower + other, count));
            first += gap + count;
            lower += other + count;
        }
        // The lower ids in another order than the first ones.
        let n = extents.len();
        for i in 0..n {
            let j = (seed as usize).wrapping_mul(i + 1) % n;
            if extents[i].count == extents[j].count {
                let lower = extents[i].lower;
                extents[i].lower = extents[j].lower;
                extents[j].lower = lower;
            }
            extents.swap(i, j);
        }
        let text: String = extents.iter().map(|e| format!("{} {} {}\n", e.first, e.lower, e.count)).collect();
        prop_assert_eq!(parse(text.as_bytes()), Ok(extents.clone()));
        let map = IdMap::new(extents.clone(), |id, _| Some(id)).unwrap().unwrap();
        for id in 0..1000 {
            let down = extents.iter().find(|e| id >= e.first && id - e.first < e.count);
            prop_assert_eq!(map.down(id, 1), down.map(|e| e.lower + (id - e.first)));
            let up = extents.iter().find(|e| id >= e.lower && id - e.lower < e.count);
            prop_assert_eq!(map.up(id), up.map(|e| e.first + (id - e.lower)));
        }
    }
}
