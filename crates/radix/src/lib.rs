//! A sparse array from `u64` to small values: a radix tree with 64-way nodes that grows and shrinks with its
//! contents. A single value at index 0 needs no node. The kernel's page cache has one for each file's pages.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::boxed::Box;

const SHIFT: u32 = 6;
const WAYS: usize = 1 << SHIFT;
const MASK: u64 = WAYS as u64 - 1;

#[derive(Debug)]
struct Leaf<T> {
    count: u32,
    items: [Option<T>; WAYS],
}

#[derive(Debug)]
struct Inner<T> {
    count: u32,
    kids: [Option<Node<T>>; WAYS],
}

#[derive(Debug)]
enum Node<T> {
    Leaf(Box<Leaf<T>>),
    Inner(Box<Inner<T>>),
}

#[derive(Debug)]
enum Root<T> {
    /// A value at index 0, or no value.
    One(Option<T>),
    /// A tree. Its leaves are `height` levels down; 0: the root is a leaf.
    Tree { height: u32, node: Node<T> },
}

/// The sparse array.
#[derive(Debug)]
pub struct Radix<T> {
    root: Root<T>,
    len: usize,
}

impl<T> Default for Radix<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Node<T> {
    fn leaf() -> Self {
        Node::Leaf(Box::new(Leaf {
            count: 0,
            items: [const { None }; WAYS],
        }))
    }
    fn inner() -> Self {
        Node::Inner(Box::new(Inner {
            count: 0,
            kids: [const { None }; WAYS],
        }))
    }
}

/// The index in a node that is `height` levels above the leaves.
fn slot(index: u64, height: u32) -> usize {
    (index >> (SHIFT * height) & MASK) as usize
}

/// Whether a tree of `height` has room for `index`.
fn covers(height: u32, index: u64) -> bool {
    let bits = SHIFT * (height + 1);
    bits >= 64 || index >> bits == 0
}

impl<T> Radix<T> {
    /// Empty.
    pub const fn new() -> Self {
        Self {
            root: Root::One(None),
            len: 0,
        }
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The value at `index`.
    #[inline]
    pub fn get(&self, index: u64) -> Option<&T> {
        let (mut height, mut node) = match &self.root {
            Root::One(value) => return if index == 0 { value.as_ref() } else { None },
            Root::Tree { height, .. } if !covers(*height, index) => return None,
            Root::Tree { height, node } => (*height, node),
        };
        loop {
            match node {
                Node::Leaf(leaf) => return leaf.items[slot(index, 0)].as_ref(),
                Node::Inner(inner) => node = inner.kids[slot(index, height)].as_ref()?,
            }
            height -= 1;
        }
    }

    /// The slots from `index` to the end of its leaf, for looking at neighbours without searching for each.
    /// Empty if there is no leaf.
    #[inline]
    pub fn neighbours(&self, index: u64) -> &[Option<T>] {
        let (mut height, mut node) = match &self.root {
            Root::One(value) if index == 0 => return core::slice::from_ref(value),
            Root::One(_) => return &[],
            Root::Tree { height, .. } if !covers(*height, index) => return &[],
            Root::Tree { height, node } => (*height, node),
        };
        loop {
            match node {
                Node::Leaf(leaf) => return &leaf.items[slot(index, 0)..],
                Node::Inner(inner) => match &inner.kids[slot(index, height)] {
                    Some(kid) => node = kid,
                    None => return &[],
                },
            }
            height -= 1;
        }
    }

    /// Sets the value at `index`. Returns the former one.
    pub fn insert(&mut self, index: u64, value: T) -> Option<T> {
        if let Root::One(one) = &mut self.root {
            if index == 0 {
                let old = one.replace(value);
                self.len += old.is_none() as usize;
                return old;
            }
            let zero = one.take();
            let mut node = Node::leaf();
            if let (Some(zero), Node::Leaf(leaf)) = (zero, &mut node) {
                leaf.items[0] = Some(zero);
                leaf.count = 1;
            }
            self.root = Root::Tree { height: 0, node };
        }
        let Root::Tree { height, node } = &mut self.root else {
            return None;
        };
        while !covers(*height, index) {
            let below = core::mem::replace(node, Node::inner());
            *height += 1;
            if let Node::Inner(inner) = node {
                inner.kids[0] = Some(below);
                inner.count = 1;
            }
        }
        let (mut level, mut node) = (*height, node);
        loop {
            match node {
                Node::Leaf(leaf) => {
                    let old = leaf.items[slot(index, 0)].replace(value);
                    leaf.count += old.is_none() as u32;
                    self.len += old.is_none() as usize;
                    return old;
                }
                Node::Inner(inner) => {
                    let kid = &mut inner.kids[slot(index, level)];
                    inner.count += kid.is_none() as u32;
                    node = kid.get_or_insert_with(|| if level == 1 { Node::leaf() } else { Node::inner() });
                }
            }
            level -= 1;
        }
    }

    /// Removes the value at `index`.
    pub fn remove(&mut self, index: u64) -> Option<T> {
        let mut gone = None;
        self.remove_range(index, index.saturating_add(1), |_, value| gone = Some(value));
        gone
    }

    /// Removes every value with `start <= index < end` and passes each to `f`, in ascending order.
    pub fn remove_range(&mut self, start: u64, end: u64, mut f: impl FnMut(u64, T)) {
        if start >= end {
            return;
        }
        match &mut self.root {
            Root::One(one) => {
                if start == 0
                    && let Some(value) = one.take()
                {
                    self.len -= 1;
                    f(0, value);
                }
            }
            Root::Tree { height, node } => {
                let mut removed = 0;
                let empty = prune(node, *height, 0, start, end - 1, &mut |i, v| {
                    removed += 1;
                    f(i, v);
                });
                self.len -= removed;
                if empty {
                    self.root = Root::One(None);
                }
            }
        }
    }

    /// The first value at `index` or later, with its index.
    pub fn next(&self, index: u64) -> Option<(u64, &T)> {
        match &self.root {
            Root::One(value) => value.as_ref().filter(|_| index == 0).map(|v| (0, v)),
            Root::Tree { height, node } if covers(*height, index) => seek(node, *height, 0, index),
            Root::Tree { .. } => None,
        }
    }
}

/// Removes the values in `[start, last]` below `node`, whose first index is `base`. Returns whether the node
/// is empty then.
fn prune<T>(
    node: &mut Node<T>,
    height: u32,
    base: u64,
    start: u64,
    last: u64,
    f: &mut impl FnMut(u64, T),
) -> bool {
    let step = SHIFT * height;
    let span = if step + SHIFT >= 64 {
        u64::MAX
    } else {
        (1u64 << (step + SHIFT)) - 1
    };
    if start > base.saturating_add(span) || last < base {
        return false;
    }
    let from = if start <= base { 0 } else { slot(start, height) };
    let to = if last >= base.saturating_add(span) {
        WAYS - 1
    } else {
        slot(last, height)
    };
    match node {
        Node::Leaf(leaf) => {
            for i in from..=to {
                if let Some(value) = leaf.items[i].take() {
                    leaf.count -= 1;
                    f(base + i as u64, value);
                }
            }
            leaf.count == 0
        }
        Node::Inner(inner) => {
            for i in from..=to {
                let at = base + ((i as u64) << step);
                if let Some(kid) = &mut inner.kids[i]
                    && prune(kid, height - 1, at, start, last, f)
                {
                    inner.kids[i] = None;
                    inner.count -= 1;
                }
            }
            inner.count == 0
        }
    }
}

fn seek<T>(node: &Node<T>, height: u32, base: u64, index: u64) -> Option<(u64, &T)> {
    let from = if index <= base { 0 } else { slot(index, height) };
    match node {
        Node::Leaf(leaf) => (from..WAYS).find_map(|i| leaf.items[i].as_ref().map(|v| (base + i as u64, v))),
        Node::Inner(inner) => (from..WAYS).find_map(|i| {
            let at = base + ((i as u64) << (SHIFT * height));
            seek(inner.kids[i].as_ref()?, height - 1, at, index)
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn behaves_like_a_map() {
        let mut seed = 7u64;
        let mut below = |n: u64| {
            seed = seed
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (seed >> 20) % n
        };
        for bits in [1u32, 5, 7, 13, 40] {
            let mut radix = Radix::new();
            let mut model = BTreeMap::new();
            for step in 0..30_000u64 {
                let i = below(1 << bits) << if below(9) == 0 { 60 - bits } else { 0 };
                match below(6) {
                    0..=2 => assert_eq!(radix.insert(i, step), model.insert(i, step)),
                    3 => assert_eq!(radix.remove(i), model.remove(&i)),
                    4 => {
                        let end = i.saturating_add(below(200));
                        let mut gone = Vec::new();
                        radix.remove_range(i, end, |i, v| gone.push((i, v)));
                        let want: Vec<_> = model.range(i..end).map(|(&i, &v)| (i, v)).collect();
                        want.iter().for_each(|(i, _)| {
                            model.remove(i);
                        });
                        assert_eq!(gone, want);
                    }
                    _ => {
                        assert_eq!(radix.get(i), model.get(&i));
                        let near = radix.neighbours(i);
                        assert_eq!(near.first().and_then(Option::as_ref), model.get(&i));
                        for (n, value) in near.iter().enumerate() {
                            assert_eq!(value.as_ref(), model.get(&(i + n as u64)));
                        }
                        assert_eq!(radix.next(i), model.range(i..).next().map(|(&i, v)| (i, v)));
                    }
                }
                assert_eq!(radix.len(), model.len());
            }
            radix.remove_range(0, u64::MAX, |_, _| ());
            assert!(radix.is_empty() && radix.next(0).is_none());
        }
    }
}
