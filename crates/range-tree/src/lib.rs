//! An ordered tree of ranges, disjoint or not, for use where memory must not be allocated: under spinlocks,
//! and in the allocator itself. A node is made before ([`Node::new`], which may fail), inserted and removed
//! under the lock, and freed after the lock is released: changing the tree neither allocates nor frees. The
//! kernel uses it in `mm::vmap`, `fs::locks` and others.
//!
//! The heights of a node's two subtrees differ by at most one (an AVL tree), so its depth is logarithmic
//! whatever comes and goes: programs choose the places and the order, and functions that recurse run on the
//! kernel's stack. Each node has the start, the end and the largest gap of its subtree, so looking for
//! overlaps and for room is logarithmic, too.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cmp::Ordering;

#[cfg(test)]
mod tests;

/// Distinguishes ranges with the same first number.
pub trait Key: Ord + Copy {
    /// Whether overlaps and room are looked for. A tree without that is changed with less work, as nodes do
    /// not keep the values of their subtrees.
    const RANGES: bool = true;
}

impl Key for () {}
impl Key for u32 {}
impl Key for usize {}
impl<A: Key, B: Ord + Copy> Key for (A, B) {
    const RANGES: bool = A::RANGES;
}

/// Where a node is: its first number, and the key that distinguishes nodes with the same first number.
pub type Place<K> = (u64, K);

/// A range, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range<K, V> {
    /// First number.
    pub first: u64,
    /// Last number.
    pub last: u64,
    /// Distinguishes ranges with the same first number.
    pub key: K,
    /// What it stands for.
    pub value: V,
}

impl<K: Copy, V> Range<K, V> {
    /// Its place.
    pub fn place(&self) -> Place<K> {
        (self.first, self.key)
    }
}

/// A range, and what it needs to be in a tree.
#[derive(Debug)]
pub struct Node<K, V> {
    range: Range<K, V>,
    /// How many nodes the longest way down has, this one included.
    height: u8,
    /// Of the subtree: the first number, the last number, and the largest gap between neighbours (or more,
    /// where ranges overlap).
    begin: u64,
    end: u64,
    gap: u64,
    left: Link<K, V>,
    right: Link<K, V>,
}

/// A node in memory of its own. (An array of one, since only that can be allocated without the risk of a
/// panic.)
#[derive(Debug)]
pub struct NodeBox<K, V>(Box<[Node<K, V>; 1]>);

type Link<K, V> = Option<NodeBox<K, V>>;

impl<K, V> Node<K, V> {
    #[inline(always)]
    const fn of(range: Range<K, V>) -> Self {
        let (begin, end) = (range.first, range.last);
        Self {
            range,
            height: 1,
            begin,
            end,
            gap: 0,
            left: None,
            right: None,
        }
    }
    /// Allocates a node. `None`: there is no memory.
    #[allow(clippy::new_ret_no_self)]
    pub fn new(range: Range<K, V>) -> Option<NodeBox<K, V>> {
        let mut one = Vec::new();
        one.try_reserve_exact(1).ok()?;
        one.push(Self::of(range));
        one.into_boxed_slice().try_into().ok().map(NodeBox)
    }
    /// [`Node::new`] where memory must be available, as for other things that are made at the same time.
    #[inline]
    pub fn must(range: Range<K, V>) -> NodeBox<K, V> {
        NodeBox(Box::new([Self::of(range)]))
    }
}

impl<K, V> NodeBox<K, V> {
    /// Its range.
    pub fn range(&self) -> &Range<K, V> {
        &self.0[0].range
    }
    /// Its range, to be changed, while it is in no tree.
    pub fn range_mut(&mut self) -> &mut Range<K, V> {
        &mut self.0[0].range
    }
    fn node(&self) -> &Node<K, V> {
        &self.0[0]
    }
    fn node_mut(&mut self) -> &mut Node<K, V> {
        &mut self.0[0]
    }
}

impl<K: Key, V> Node<K, V> {
    fn place(&self) -> Place<K> {
        self.range.place()
    }
    /// Computes the values of the subtree again.
    #[inline(always)]
    fn update(&mut self) {
        self.height = 1 + height(&self.left).max(height(&self.right));
        if !K::RANGES {
            return;
        }
        (self.begin, self.end, self.gap) = (self.range.first, self.range.last, 0);
        if let Some(left) = &self.left {
            let left = left.node();
            self.begin = left.begin;
            self.gap = left.gap.max(between(left.end, self.range.first));
            self.end = self.end.max(left.end);
        }
        if let Some(right) = &self.right {
            let right = right.node();
            self.gap = self.gap.max(right.gap).max(between(self.end, right.begin));
            self.end = self.end.max(right.end);
        }
    }
}

fn height<K, V>(link: &Link<K, V>) -> u8 {
    link.as_ref().map_or(0, |root| root.node().height)
}

/// How many numbers lie between the two.
fn between(last: u64, first: u64) -> u64 {
    first.saturating_sub(last).saturating_sub(1)
}

/// Nodes that are in no tree: any number of them.
#[derive(Debug)]
pub struct Spare<K, V> {
    top: Link<K, V>,
    len: usize,
}

impl<K, V> Spare<K, V> {
    /// Without nodes.
    pub const fn new() -> Self {
        Self { top: None, len: 0 }
    }
    /// Adds a node.
    pub fn push(&mut self, mut node: NodeBox<K, V>) {
        node.node_mut().right = self.top.take();
        self.top = Some(node);
        self.len += 1;
    }
    /// Takes a node out.
    pub fn pop(&mut self) -> Option<NodeBox<K, V>> {
        let mut node = self.top.take()?;
        self.top = node.node_mut().right.take();
        self.len -= 1;
        Some(node)
    }
    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.len
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl<K, V> Default for Spare<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K, V> Drop for Spare<K, V> {
    /// In a loop, since there may be very many.
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}

/// The tree.
#[derive(Debug)]
pub struct RangeTree<K, V> {
    root: Link<K, V>,
    len: usize,
}

impl<K: Key, V> Default for RangeTree<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Key, V> RangeTree<K, V> {
    /// Empty.
    pub const fn new() -> Self {
        Self { root: None, len: 0 }
    }
    /// How many ranges there are.
    pub fn len(&self) -> usize {
        self.len
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Inserts a node. Its place must be free.
    #[inline]
    pub fn insert(&mut self, mut node: NodeBox<K, V>) {
        debug_assert!(self.get(node.range().place()).is_none(), "two in one place");
        node.node_mut().update();
        self.len += 1;
        if self.root.is_none() {
            self.root = Some(node);
        } else {
            insert(&mut self.root, node);
        }
    }
    /// Takes out the node at `place`.
    pub fn remove(&mut self, place: Place<K>) -> Option<NodeBox<K, V>> {
        let node = remove(&mut self.root, place)?;
        self.len -= 1;
        Some(node)
    }
    /// The first range.
    #[inline]
    pub fn first(&self) -> Option<&Range<K, V>> {
        let mut node = self.root.as_ref()?.node();
        while let Some(left) = &node.left {
            node = left.node();
        }
        Some(&node.range)
    }
    /// The first range behind `place`.
    #[inline]
    pub fn behind(&self, place: Place<K>) -> Option<&Range<K, V>> {
        let (mut at, mut best) = (&self.root, None);
        while let Some(node) = at {
            let node = node.node();
            if place < node.place() {
                best = Some(&node.range);
                at = &node.left;
            } else {
                at = &node.right;
            }
        }
        best
    }
    /// Takes out the first node.
    pub fn remove_first(&mut self) -> Option<NodeBox<K, V>> {
        let first = take_first(&mut self.root)?;
        self.len -= 1;
        Some(first)
    }
    /// Moves all nodes for which `which` is true to `out`.
    pub fn remove_all(&mut self, mut which: impl FnMut(&Range<K, V>) -> bool, out: &mut Spare<K, V>) {
        let mut gone = 0;
        self.root = remove_all(self.root.take(), &mut which, out, &mut gone);
        self.len -= gone;
    }
    /// The range at `place`.
    pub fn get(&self, place: Place<K>) -> Option<&Range<K, V>> {
        let mut at = &self.root;
        while let Some(node) = at {
            let node = node.node();
            at = match place.cmp(&node.place()) {
                Ordering::Less => &node.left,
                Ordering::Equal => return Some(&node.range),
                Ordering::Greater => &node.right,
            };
        }
        None
    }
    /// The value of the range at `place`.
    pub fn value_mut(&mut self, place: Place<K>) -> Option<&mut V> {
        let mut at = &mut self.root;
        while let Some(node) = at {
            let node = node.node_mut();
            at = match place.cmp(&node.place()) {
                Ordering::Less => &mut node.left,
                Ordering::Equal => return Some(&mut node.range.value),
                Ordering::Greater => &mut node.right,
            };
        }
        None
    }
    /// The first range at `place` or behind it.
    pub fn from(&self, place: Place<K>) -> Option<&Range<K, V>> {
        let (mut at, mut best) = (&self.root, None);
        while let Some(node) = at {
            let node = node.node();
            if place <= node.place() {
                best = Some(&node.range);
                at = &node.left;
            } else {
                at = &node.right;
            }
        }
        best
    }
    /// The first range behind `after` that has a number from `first` to `last` and for which `which` is true.
    pub fn find(
        &self,
        (first, last): (u64, u64),
        after: Option<Place<K>>,
        mut which: impl FnMut(&Range<K, V>) -> bool,
    ) -> Option<&Range<K, V>> {
        const { assert!(K::RANGES) };
        find(&self.root, &(first, last, after), &mut which)
    }
    /// Calls `f` with the value of each range.
    pub fn for_each_mut(&mut self, mut f: impl FnMut(&mut V)) {
        for_each_mut(&mut self.root, &mut f);
    }
    /// The lowest `len` consecutive numbers (at least one) from `first` to `last` that are in no range.
    /// `last` must not be the largest number. For disjoint ranges.
    pub fn room(&self, len: u64, first: u64, last: u64) -> Option<u64> {
        const { assert!(K::RANGES) };
        let mut at = first;
        room(&self.root, &mut at, len);
        (at.checked_add(len - 1)? <= last).then_some(at)
    }
}

/// Makes the left child the root.
fn lift_left<K: Key, V>(link: &mut Link<K, V>) {
    if let Some(mut root) = link.take_if(|root| root.node().left.is_some())
        && let Some(mut top) = root.node_mut().left.take()
    {
        root.node_mut().left = top.node_mut().right.take();
        root.node_mut().update();
        top.node_mut().right = Some(root);
        top.node_mut().update();
        *link = Some(top);
    }
}

/// Makes the right child the root.
fn lift_right<K: Key, V>(link: &mut Link<K, V>) {
    if let Some(mut root) = link.take_if(|root| root.node().right.is_some())
        && let Some(mut top) = root.node_mut().right.take()
    {
        root.node_mut().right = top.node_mut().left.take();
        root.node_mut().update();
        top.node_mut().left = Some(root);
        top.node_mut().update();
        *link = Some(top);
    }
}

/// Makes the root right again after one of its subtrees has changed. Their heights may differ by two.
#[inline(always)]
fn settle<K: Key, V>(link: &mut Link<K, V>) {
    let Some(root) = link else { return };
    let node = root.node_mut();
    if height(&node.left).abs_diff(height(&node.right)) > 1 {
        balance(link);
    } else {
        node.update();
    }
}

/// [`settle`] where the heights differ by two.
#[inline(never)]
fn balance<K: Key, V>(link: &mut Link<K, V>) {
    let Some(root) = link else { return };
    let node = root.node_mut();
    if height(&node.left) > height(&node.right) {
        if let Some(below) = &node.left
            && height(&below.node().left) < height(&below.node().right)
        {
            lift_right(&mut node.left);
        }
        lift_left(link);
    } else {
        if let Some(below) = &node.right
            && height(&below.node().right) < height(&below.node().left)
        {
            lift_left(&mut node.right);
        }
        lift_right(link);
    }
}

/// A tree of `left`, `middle` and `right`, in this order. `middle` has no subtrees.
fn join<K: Key, V>(left: Link<K, V>, mut middle: NodeBox<K, V>, right: Link<K, V>) -> Link<K, V> {
    let mut all = match (left, right) {
        (Some(mut root), right) if root.node().height > height(&right) + 1 => {
            let below = root.node_mut().right.take();
            root.node_mut().right = join(below, middle, right);
            Some(root)
        }
        (left, Some(mut root)) if root.node().height > height(&left) + 1 => {
            let below = root.node_mut().left.take();
            root.node_mut().left = join(left, middle, below);
            Some(root)
        }
        (left, right) => {
            (middle.node_mut().left, middle.node_mut().right) = (left, right);
            Some(middle)
        }
    };
    settle(&mut all);
    all
}

/// A tree of `left` and `right`, in this order.
fn concatenate<K: Key, V>(left: Link<K, V>, mut right: Link<K, V>) -> Link<K, V> {
    match take_first(&mut right) {
        Some(middle) => join(left, middle, right),
        None => left,
    }
}

/// Takes out the first node.
fn take_first<K: Key, V>(link: &mut Link<K, V>) -> Link<K, V> {
    let node = link.as_mut()?.node_mut();
    if node.left.is_none() {
        let right = node.right.take();
        return core::mem::replace(link, right);
    }
    let first = take_first(&mut node.left);
    settle(link);
    first
}

fn insert<K: Key, V>(link: &mut Link<K, V>, new: NodeBox<K, V>) {
    let Some(root) = link else {
        *link = Some(new);
        return;
    };
    let node = root.node_mut();
    let side = if new.node().place() < node.place() {
        &mut node.left
    } else {
        &mut node.right
    };
    insert(side, new);
    settle(link);
}

fn remove<K: Key, V>(link: &mut Link<K, V>, place: Place<K>) -> Link<K, V> {
    let node = link.as_mut()?.node_mut();
    let side = match place.cmp(&node.place()) {
        Ordering::Less => &mut node.left,
        Ordering::Greater => &mut node.right,
        Ordering::Equal => {
            let below = match (node.left.take(), node.right.take()) {
                (Some(left), Some(right)) => concatenate(Some(left), Some(right)),
                (one, None) | (None, one) => one,
            };
            return core::mem::replace(link, below);
        }
    };
    let removed = remove(side, place)?;
    settle(link);
    Some(removed)
}

fn remove_all<K: Key, V>(
    link: Link<K, V>,
    which: &mut impl FnMut(&Range<K, V>) -> bool,
    out: &mut Spare<K, V>,
    gone: &mut usize,
) -> Link<K, V> {
    let mut root = link?;
    let node = root.node_mut();
    let left = remove_all(node.left.take(), which, out, gone);
    let goes = which(&node.range);
    let right = remove_all(node.right.take(), which, out, gone);
    if goes {
        *gone += 1;
        out.push(root);
        return concatenate(left, right);
    }
    join(left, root, right)
}

fn find<'a, K: Key, V>(
    link: &'a Link<K, V>,
    wanted: &(u64, u64, Option<Place<K>>),
    which: &mut impl FnMut(&Range<K, V>) -> bool,
) -> Option<&'a Range<K, V>> {
    let node = link.as_ref()?.node();
    let &(first, last, after) = wanted;
    if node.end < first || node.begin > last {
        return None;
    }
    if after.is_none_or(|after| after < node.place()) {
        if let Some(found) = find(&node.left, wanted, which) {
            return Some(found);
        }
        let range = &node.range;
        if range.first <= last && first <= range.last && which(range) {
            return Some(range);
        }
    }
    find(&node.right, wanted, which)
}

fn for_each_mut<K, V>(link: &mut Link<K, V>, f: &mut impl FnMut(&mut V)) {
    if let Some(root) = link {
        let node = root.node_mut();
        for_each_mut(&mut node.left, f);
        f(&mut node.range.value);
        for_each_mut(&mut node.right, f);
    }
}

/// Whether there is room for `len` numbers from `at` on, before the end of this subtree. `at` becomes that
/// place or, if there is none, the number behind the end.
fn room<K, V>(link: &Link<K, V>, at: &mut u64, len: u64) -> bool {
    let Some(root) = link else {
        return false;
    };
    let node = root.node();
    if node.end < *at {
        return false;
    }
    let fits = |at: u64, first: u64| first > at && first - at >= len;
    if fits(*at, node.begin) {
        return true;
    }
    if node.gap < len {
        *at = node.end.saturating_add(1);
        return false;
    }
    if room(&node.left, at, len) || fits(*at, node.range.first) {
        return true;
    }
    if *at <= node.range.last {
        *at = node.range.last.saturating_add(1);
    }
    room(&node.right, at, len)
}
