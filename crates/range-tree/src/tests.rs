//! Random operations, compared with a sorted list.

use super::*;

struct Rng(u64);
impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }
}

type Model = Vec<Range<u32, u64>>;

fn depth(link: &Link<u32, u64>) -> usize {
    match link {
        None => 0,
        Some(n) => 1 + depth(&n.node().left).max(depth(&n.node().right)),
    }
}

fn check(link: &Link<u32, u64>, all: &mut Model) {
    let Some(node) = link else { return };
    let node = node.node();
    let from = all.len();
    check(&node.left, all);
    all.push(node.range);
    check(&node.right, all);
    let here = &all[from..];
    assert_eq!(node.begin, here[0].first);
    assert_eq!(node.end, here.iter().map(|r| r.last).max().unwrap());
    let (mut end, mut gap) = (here[0].last, 0);
    for r in &here[1..] {
        gap = gap.max(between(end, r.first));
        end = end.max(r.last);
    }
    let disjoint = here.windows(2).all(|r| r[0].last < r[1].first);
    assert!(node.gap == gap || node.gap > gap && !disjoint);
    let (left, right) = (height(&node.left), height(&node.right));
    assert!(left.abs_diff(right) <= 1);
    assert_eq!(node.height, 1 + left.max(right));
}

fn same(tree: &RangeTree<u32, u64>, model: &Model) {
    let mut all = Vec::new();
    check(&tree.root, &mut all);
    assert_eq!(&all, model);
    assert_eq!(tree.len(), model.len());
    assert_eq!(tree.is_empty(), model.is_empty());
}

fn node(first: u64, last: u64, key: u32, value: u64) -> NodeBox<u32, u64> {
    Node::new(Range {
        first,
        last,
        key,
        value,
    })
    .unwrap()
}

#[test]
fn overlapping_ranges() {
    for seed in 0..30 {
        let mut rng = Rng(seed);
        let (mut tree, mut model) = (RangeTree::new(), Model::new());
        for step in 0..1500 {
            let (first, key) = (rng.below(200), rng.below(4) as u32);
            let last = first + rng.below(40);
            let at = model.binary_search_by_key(&(first, key), |r| r.place());
            match (rng.below(10), at) {
                (0..6, Err(at)) => {
                    model.insert(
                        at,
                        Range {
                            first,
                            last,
                            key,
                            value: step,
                        },
                    );
                    tree.insert(node(first, last, key, step));
                }
                (0..6, Ok(at)) => {
                    assert_eq!(tree.get((first, key)), Some(&model[at]));
                    *tree.value_mut((first, key)).unwrap() += 1;
                    model[at].value += 1;
                }
                (6..9, _) => {
                    let gone = tree.remove((first, key)).map(|n| *n.range());
                    assert_eq!(gone, at.ok().map(|at| model.remove(at)));
                }
                _ if rng.below(40) == 0 => {
                    let mut out = Spare::new();
                    tree.remove_all(|r| r.key == key, &mut out);
                    let count = core::iter::from_fn(|| out.pop()).count();
                    assert_eq!(count, model.iter().filter(|r| r.key == key).count());
                    model.retain(|r| r.key != key);
                }
                _ => {
                    tree.for_each_mut(|v| *v += 1);
                    model.iter_mut().for_each(|r| r.value += 1);
                }
            }
            same(&tree, &model);
            let want = model.iter().find(|r| r.place() >= (first, key));
            assert_eq!(tree.from((first, key)), want);
            assert_eq!(tree.first(), model.first());
            assert_eq!(
                tree.behind((first, key)),
                model.iter().find(|r| r.place() > (first, key))
            );
            let hits = |r: &&Range<u32, u64>| r.first <= last && first <= r.last && r.key != key;
            assert_eq!(
                tree.find((first, last), None, |r| r.key != key),
                model.iter().find(hits)
            );
            let (after, mut at) = ((rng.below(200), key), None);
            let want = model.iter().filter(|r| r.place() > after).find(hits);
            assert_eq!(tree.find((first, last), Some(after), |r| r.key != key), want);
            // One after the other: each is found once.
            let mut seen = 0;
            while let Some(r) = tree.find((first, last), at, |_| true) {
                at = Some(r.place());
                seen += 1;
            }
            assert_eq!(
                seen,
                model
                    .iter()
                    .filter(|r| r.first <= last && first <= r.last)
                    .count()
            );
        }
    }
}

#[test]
fn room_between_disjoint_ranges() {
    for seed in 0..30 {
        let mut rng = Rng(seed + 100);
        let (mut tree, mut model) = (RangeTree::new(), Model::new());
        for step in 0..2000u64 {
            let (len, low) = (1 + rng.below(12), 10 + rng.below(400));
            let high = low + rng.below(300);
            let free = |at: u64| model.iter().all(|r| r.last < at || at + len - 1 < r.first);
            let want = (low..=high).find(|&at| at + len - 1 <= high && free(at));
            assert_eq!(tree.room(len, low, high), want);
            if let Some(at) = want
                && rng.below(3) > 0
            {
                let place = model.partition_point(|r| r.first < at);
                model.insert(
                    place,
                    Range {
                        first: at,
                        last: at + len - 1,
                        key: 0,
                        value: step,
                    },
                );
                tree.insert(node(at, at + len - 1, 0, step));
            } else if !model.is_empty() {
                let gone = model.remove(rng.below(model.len() as u64) as usize);
                assert_eq!(tree.remove(gone.place()).map(|n| *n.range()), Some(gone));
            }
            same(&tree, &model);
        }
    }
}

#[test]
fn room_at_the_very_end() {
    let mut tree = RangeTree::new();
    let last = u64::MAX - 1;
    assert_eq!(tree.room(16, last - 15, last), Some(last - 15));
    assert_eq!(tree.room(17, last - 15, last), None);
    tree.insert(node(last - 3, last, 0, 0));
    assert_eq!(tree.room(1, last - 3, last), None);
    assert_eq!(tree.room(4, last - 9, last), Some(last - 9));
}

#[test]
fn depth_stays_small() {
    let n = 1 << 17;
    let mut tree = RangeTree::new();
    for i in 0..n {
        tree.insert(node(2 * i, 2 * i, 0, 0));
    }
    assert!(depth(&tree.root) < 26, "{}", depth(&tree.root));
    // Every second one is removed and added again.
    for i in 0..n / 2 {
        tree.remove((4 * i, 0)).unwrap();
    }
    for i in (0..n / 2).rev() {
        tree.insert(node(4 * i, 4 * i, 0, 0));
    }
    assert!(depth(&tree.root) < 26, "{}", depth(&tree.root));
    let mut out = Spare::new();
    tree.remove_all(|_| true, &mut out);
    assert!(tree.is_empty() && !out.is_empty());
    // Very many: dropping them must not recurse.
    drop(out);
}

/// A tree whose depth hangs on numbers from a generator that begins the same everywhere can be made as deep
/// as it has nodes: a program adds nodes and takes them out again until the next number is the one it wants.
#[test]
fn no_order_makes_it_deep() {
    let (mut tree, mut number, mut last) = (RangeTree::new(), 0x9e37_79b9u32, u32::MAX);
    let mut kept = 0;
    while kept < 200 {
        number ^= number << 13;
        number ^= number >> 17;
        number ^= number << 5;
        tree.insert(node(kept, kept, 0, 0));
        if number < last && last - number < u32::MAX / 300 {
            (kept, last) = (kept + 1, number);
        } else {
            tree.remove((kept, 0)).unwrap();
        }
    }
    let deep = depth(&tree.root);
    assert!(deep <= 11, "{kept} nodes, {deep} deep");
}
