//! An intrusive pairing heap: a priority queue whose nodes are fields of the elements, so that inserting
//! allocates nothing. Inserting takes constant time, removing an element logarithmic time (amortised). The
//! fair run queues and the timer queues are such heaps. Elements with equal keys come out in any order.
//!
//! All functions are called under a lock of the heap's owner. A node is in at most one heap.

use alloc::sync::Arc;
use core::cell::Cell;
use core::marker::PhantomData;
use core::ptr;
use core::sync::atomic::{AtomicUsize, Ordering};

/// The node in an element.
pub struct HeapLink {
    key: Cell<u64>,
    child: Cell<*const HeapLink>,
    /// Next sibling.
    next: Cell<*const HeapLink>,
    /// Previous sibling, or the parent of a first child; null for the root.
    prev: Cell<*const HeapLink>,
}

// SAFETY: used only under the lock of the heap's owner (the contract of the functions of `PairingHeap`).
unsafe impl Sync for HeapLink {}
// SAFETY: as for `Sync`. A node that is in no heap has no pointers.
unsafe impl Send for HeapLink {}

impl HeapLink {
    /// A node in no heap.
    pub const fn new() -> Self {
        Self {
            key: Cell::new(0),
            child: Cell::new(ptr::null()),
            next: Cell::new(ptr::null()),
            prev: Cell::new(ptr::null()),
        }
    }
    /// The key with which it is, or was last, in a heap.
    #[inline(always)]
    pub fn key(&self) -> u64 {
        self.key.get()
    }
    /// Changes the key of a node that is in no heap.
    #[inline(always)]
    pub fn set_key(&self, key: u64) {
        self.key.set(key);
    }
}

/// The heap.
pub struct PairingHeap {
    root: *const HeapLink,
}

// SAFETY: the owner's lock orders all accesses to the heap and its nodes.
unsafe impl Send for PairingHeap {}

impl PairingHeap {
    /// An empty heap.
    pub const fn new() -> Self {
        Self { root: ptr::null() }
    }
    /// The least key.
    #[inline(always)]
    pub fn least_key(&self) -> Option<u64> {
        // SAFETY: nodes in the heap are valid until removed (contract of `insert`).
        unsafe { self.root.as_ref() }.map(HeapLink::key)
    }

    /// Inserts `node`.
    ///
    /// # Safety
    /// `node` is in no heap and stays valid and in place until it is removed.
    #[inline]
    pub unsafe fn insert(&mut self, node: *const HeapLink, key: u64) {
        // SAFETY: valid by the contract.
        let n = unsafe { &*node };
        n.key.set(key);
        n.child.set(ptr::null());
        n.next.set(ptr::null());
        n.prev.set(ptr::null());
        self.root = if self.root.is_null() {
            node
        } else {
            // SAFETY: both are roots of valid heaps.
            unsafe { meld(self.root, node) }
        };
    }

    /// Takes out the node with the least key.
    #[inline]
    pub fn pop(&mut self) -> Option<*const HeapLink> {
        if self.root.is_null() {
            return None;
        }
        let least = self.root;
        // SAFETY: nodes in the heap are valid.
        self.root = unsafe { merge_pairs((*least).child.get()) };
        Some(least)
    }

    /// Takes out `node`.
    ///
    /// # Safety
    /// `node` is in this heap.
    pub unsafe fn remove(&mut self, node: *const HeapLink) {
        if node == self.root {
            self.pop();
            return;
        }
        // SAFETY: the node is in this heap, so it and its neighbours are valid. It is not the root, so `prev`
        // is not null.
        unsafe {
            let n = &*node;
            let prev = &*n.prev.get();
            if prev.child.get() == node {
                prev.child.set(n.next.get());
            } else {
                prev.next.set(n.next.get());
            }
            if let Some(next) = n.next.get().as_ref() {
                next.prev.set(n.prev.get());
            }
            let rest = merge_pairs(n.child.get());
            if !rest.is_null() {
                self.root = meld(self.root, rest);
            }
        }
    }

    /// A node for which `f` is true. Looks at no more than `limit` nodes, in no useful order.
    pub fn find(&self, limit: usize, mut f: impl FnMut(*const HeapLink) -> bool) -> Option<*const HeapLink> {
        let mut at = self.root;
        for _ in 0..limit {
            if at.is_null() {
                return None;
            }
            if f(at) {
                return Some(at);
            }
            // SAFETY: nodes in the heap are valid; walks down, then right, then up and right.
            at = unsafe {
                let mut n = &*at;
                if !n.child.get().is_null() {
                    n.child.get()
                } else {
                    loop {
                        if !n.next.get().is_null() {
                            break n.next.get();
                        }
                        match parent(n).as_ref() {
                            Some(p) => n = p,
                            None => break ptr::null(),
                        }
                    }
                }
            };
        }
        None
    }
}

/// The parent of `n`, null for the root.
///
/// # Safety
/// `n` is in a heap.
unsafe fn parent(n: &HeapLink) -> *const HeapLink {
    let mut at: *const HeapLink = n;
    loop {
        // SAFETY: nodes in a heap are valid.
        unsafe {
            let prev = (*at).prev.get();
            if prev.is_null() || (*prev).child.get() == at {
                return prev;
            }
            at = prev;
        }
    }
}

/// Makes the root with the larger key the first child of the other.
///
/// # Safety
/// Both are roots of valid heaps (no siblings).
#[inline]
unsafe fn meld(a: *const HeapLink, b: *const HeapLink) -> *const HeapLink {
    // SAFETY: valid by the contract.
    unsafe {
        let (top, below) = if (*b).key.get() < (*a).key.get() {
            (b, a)
        } else {
            (a, b)
        };
        let first = (*top).child.get();
        (*below).next.set(first);
        (*below).prev.set(top);
        if let Some(first) = first.as_ref() {
            first.prev.set(below);
        }
        (*top).child.set(below);
        (*top).next.set(ptr::null());
        (*top).prev.set(ptr::null());
        top
    }
}

/// Merges a list of siblings into one heap, in two passes. Null: there are none.
///
/// # Safety
/// `first` is the first of a list of siblings, or null.
unsafe fn merge_pairs(first: *const HeapLink) -> *const HeapLink {
    let mut left = first;
    let mut done: *const HeapLink = ptr::null();
    // SAFETY: siblings are valid, and each is detached before it is melded. `done` chains the merged pairs
    // through `next`.
    unsafe {
        while !left.is_null() {
            let a = left;
            let b = (*a).next.get();
            left = if b.is_null() { b } else { (*b).next.get() };
            detach(a);
            let merged = if b.is_null() {
                a
            } else {
                detach(b);
                meld(a, b)
            };
            (*merged).next.set(done);
            done = merged;
        }
        if done.is_null() {
            return done;
        }
        let mut root = done;
        let mut rest = (*root).next.get();
        detach(root);
        while !rest.is_null() {
            let next = (*rest).next.get();
            detach(rest);
            root = meld(root, rest);
            rest = next;
        }
        root
    }
}

/// # Safety
/// `n` is valid.
#[inline(always)]
unsafe fn detach(n: *const HeapLink) {
    // SAFETY: valid by the contract.
    unsafe {
        (*n).next.set(ptr::null());
        (*n).prev.set(ptr::null());
    }
}

/// An element of an [`ArcHeap`].
#[repr(C)]
pub struct HeapNode<T> {
    link: HeapLink,
    /// The heap in which it is (its address), 0 for none.
    owner: AtomicUsize,
    /// What the element is about.
    pub value: T,
}

impl<T> HeapNode<T> {
    /// An element in no heap.
    pub const fn new(value: T) -> Self {
        Self {
            link: HeapLink::new(),
            owner: AtomicUsize::new(0),
            value,
        }
    }
}

/// A heap of counted elements that is safe to use, as each element knows in which heap it is.
pub struct ArcHeap<T> {
    heap: PairingHeap,
    id: usize,
    _elements: PhantomData<Arc<HeapNode<T>>>,
}

impl<T> ArcHeap<T> {
    /// An empty heap.
    pub const fn new() -> Self {
        Self {
            heap: PairingHeap::new(),
            id: 0,
            _elements: PhantomData,
        }
    }
    /// The least key.
    #[inline(always)]
    pub fn least_key(&self) -> Option<u64> {
        self.heap.least_key()
    }
    /// Inserts `node`. `false`: it is in a heap already and stays there.
    pub fn insert(&mut self, node: Arc<HeapNode<T>>, key: u64) -> bool {
        static IDS: AtomicUsize = AtomicUsize::new(1);
        if self.id == 0 {
            self.id = IDS.fetch_add(1, Ordering::Relaxed);
        }
        if node
            .owner
            .compare_exchange(0, self.id, Ordering::AcqRel, Ordering::Relaxed)
            .is_err()
        {
            return false;
        }
        // SAFETY: the node is in no heap (`owner` was 0). The reference handed to the heap keeps it alive and
        // in place. `link` is its first field.
        unsafe { self.heap.insert(Arc::into_raw(node).cast(), key) };
        true
    }
    /// Takes out the element with the least key, if that is at most `limit`.
    pub fn pop_until(&mut self, limit: u64) -> Option<Arc<HeapNode<T>>> {
        if self.heap.least_key()? > limit {
            return None;
        }
        let link = self.heap.pop()?;
        // SAFETY: inserted by `insert`, which handed over a reference; this takes it back.
        let node = unsafe { Arc::from_raw(link.cast::<HeapNode<T>>()) };
        node.owner.store(0, Ordering::Release);
        Some(node)
    }
    /// Takes out `node` if it is in this heap, and returns the heap's reference to it.
    pub fn remove(&mut self, node: &Arc<HeapNode<T>>) -> Option<Arc<HeapNode<T>>> {
        if self.id == 0 || node.owner.load(Ordering::Acquire) != self.id {
            return None;
        }
        // SAFETY: the node is in this heap (`owner`), which is borrowed exclusively.
        unsafe { self.heap.remove(Arc::as_ptr(node).cast()) };
        node.owner.store(0, Ordering::Release);
        // SAFETY: the reference that `insert` handed to the heap.
        Some(unsafe { Arc::from_raw(Arc::as_ptr(node)) })
    }
}
