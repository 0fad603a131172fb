//! Random operations beside a plain sorted list.

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
