//! Random operations, compared with a sorted list.

use super::*;
use std::collections::BTreeMap;

struct Rng(u64);
impl Rng {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }
}

fn check(map: &RegionMap<usize>, model: &BTreeMap<usize, (usize, usize)>) {
    assert_eq!(map.len(), model.len());
    let got: Vec<_> = map.iter().map(|r| (r.start, (r.end, r.value))).collect();
    let want: Vec<_> = model.iter().map(|(&s, &v)| (s, v)).collect();
    assert_eq!(got, want);
    assert!(
        map.runs
            .iter()
            .all(|r| !r.items.is_empty() && r.items.len() <= RUN)
    );
}

fn check_lower(map: &RegionMap<usize>, model: &BTreeMap<usize, (usize, usize)>, addr: usize) {
    let want = model
        .iter()
        .find(|(_, (end, _))| *end > addr)
        .map(|(start, _)| *start);
    assert_eq!(map.at(map.lower(addr)).map(|r| r.start), want);
    assert_eq!(map.lower(addr), map.search(addr));
}

fn model_gap_down(
    model: &BTreeMap<usize, (usize, usize)>,
    low: usize,
    high: usize,
    len: usize,
) -> Option<usize> {
    let mut top = high;
    for (&s, &(e, _)) in model.iter().rev() {
        if s >= high {
            continue;
        }
        if e <= top && top - e >= len && top - len >= low {
            return Some(top - len);
        }
        top = top.min(s);
    }
    (top >= low + len).then(|| top - len)
}

fn model_gap_up(
    model: &BTreeMap<usize, (usize, usize)>,
    low: usize,
    high: usize,
    len: usize,
) -> Option<usize> {
    let mut at = low;
    for (&s, &(e, _)) in model {
        if e <= at {
            continue;
        }
        if s >= at + len {
            break;
        }
        at = e;
    }
    (at + len <= high).then_some(at)
}

#[test]
fn behaves_like_a_sorted_list() {
    let mut rng = Rng(42);
    for span in [200, 5000, 100_000] {
        let mut map = RegionMap::new();
        let mut model = BTreeMap::new();
        for step in 0..20_000 {
            if step % 7 == 0 {
                let addr = rng.below(span + 20);
                check_lower(&map, &model, addr);
                check_lower(&map, &model, addr + rng.below(3));
            }
            match rng.below(5) {
                0..=2 => {
                    let start = rng.below(span);
                    let end = start + 1 + rng.below(8);
                    if map.range(start, end).next().is_none() {
                        map.insert(start, end, step);
                        model.insert(start, (end, step));
                    }
                }
                3 => {
                    let start = rng.below(span);
                    let end = start + rng.below(span / 20 + 2);
                    for addr in [start, end] {
                        map.split(addr, |v, _| *v);
                        let cut = model
                            .range(..addr)
                            .next_back()
                            .map(|(&s, &v)| (s, v))
                            .filter(|&(_, (e, _))| e > addr);
                        if let Some((s, (e, v))) = cut {
                            model.insert(s, (addr, v));
                            model.insert(addr, (e, v));
                        }
                    }
                    let mut gone = Vec::new();
                    map.remove_range(start, end, |r| gone.push(r.start));
                    let want: Vec<_> = model.range(start..end.max(start)).map(|(&s, _)| s).collect();
                    assert_eq!(gone, want);
                    for s in want {
                        model.remove(&s);
                    }
                }
                _ => {
                    let (a, b) = (rng.below(span + 10), rng.below(span + 10));
                    let (low, high, len) = (a.min(b), a.max(b), 1 + rng.below(12));
                    assert_eq!(
                        map.gap_down(low, high, len, 1, |_| 0),
                        model_gap_down(&model, low, high, len)
                    );
                    assert_eq!(
                        map.gap_up(low, high, len, 1, |_| 0),
                        model_gap_up(&model, low, high, len)
                    );
                    let want = model
                        .iter()
                        .find(|&(&s, &(e, _))| s <= a && a < e)
                        .map(|(&s, _)| s);
                    assert_eq!(map.containing(a).map(|r| r.start), want);
                }
            }
            if step % 97 == 0 {
                check(&map, &model);
            }
        }
        check(&map, &model);
    }
}

/// The highest place, found by trying every address.
fn highest(map: &RegionMap<usize>, high: usize, len: usize, align: usize) -> Option<usize> {
    let used: Vec<(usize, usize)> = map.iter().map(|r| (r.start, r.end)).collect();
    let free = |at: usize| used.iter().all(|&(s, e)| at + len <= s || e <= at);
    (0..=high.checked_sub(len)?)
        .rev()
        .find(|at| at % align == 0 && free(*at))
}

#[test]
fn searches_one_after_the_other_find_the_highest_place() {
    let mut rng = Rng(7);
    for round in 0..60 {
        let high = 300 + rng.below(200);
        let mut map = RegionMap::new();
        for step in 0..250 {
            match rng.below(6) {
                0..=2 => {
                    let len = 1 + rng.below(if round % 2 == 0 { 2 } else { 9 });
                    let align = [1, 1, 1, 4, 16][rng.below(5)];
                    // Sometimes another limit in between.
                    let high = if rng.below(10) == 0 { high - 100 } else { high };
                    let found = map.gap_down(0, high, len, align, |_| 0);
                    assert_eq!(found, highest(&map, high, len, align));
                    if let Some(at) = found.filter(|_| rng.below(8) > 0) {
                        map.insert(at, at + len, step);
                    }
                }
                3 => {
                    let pos = map.lower(rng.below(high));
                    if map.at(pos).is_some() {
                        map.remove(pos);
                    }
                }
                4 => {
                    let pos = map.lower(rng.below(high));
                    if let Some(&Region { start, end, .. }) = map.at(pos)
                        && end - start > 2
                    {
                        let (a, b) = (rng.below(2), rng.below(2));
                        map.set_bounds(pos, start + a, end - b);
                    }
                }
                _ => {
                    map.split(rng.below(high), |v, _| *v);
                }
            }
        }
    }
}
