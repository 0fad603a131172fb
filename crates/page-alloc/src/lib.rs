//! The buddy allocator of page frames, as bookkeeping only: blocks of 2^order frames, split when needed and
//! merged when both halves are free. It never accesses the memory; the records of frames are wherever the
//! implementer of [`Frames`] keeps them (the kernel: an array in its linear map; tests: a `Vec`). The
//! kernel's `mm::frame` calls it under a lock.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

pub mod early;

/// Orders go from 0 (one frame) to `ORDERS - 1`.
pub const ORDERS: usize = 11;
/// "No frame" in links.
pub const NONE: u32 = u32::MAX;

/// Records of frames, by index.
pub trait Frames {
    /// `(previous, next)` in the free list that has the block at `frame`.
    fn links(&self, frame: u32) -> (u32, u32);
    /// Sets what [`Frames::links`] returns.
    fn set_links(&self, frame: u32, links: (u32, u32));
    /// The order of the free block that starts at `frame`. `None`: no free block starts there.
    fn free_order(&self, frame: u32) -> Option<u8>;
    /// Sets what [`Frames::free_order`] returns.
    fn set_free_order(&self, frame: u32, order: Option<u8>);
}

/// The free lists.
#[derive(Debug)]
pub struct Buddy {
    heads: [u32; ORDERS],
    len: u32,
    free: usize,
}

impl Buddy {
    /// An allocator without frames.
    pub const fn new() -> Self {
        Self {
            heads: [NONE; ORDERS],
            len: 0,
            free: 0,
        }
    }

    /// Sets the end of the indices of all frames that may ever be added.
    pub fn set_len(&mut self, len: u32) {
        self.len = len;
    }

    /// How many frames are free.
    pub fn free_frames(&self) -> usize {
        self.free
    }

    /// The largest order of a block that can be allocated now.
    pub fn largest_order(&self) -> Option<usize> {
        (0..ORDERS).rev().find(|&o| self.heads[o] != NONE)
    }

    /// Adds the frames `[start, end)`.
    pub fn add_range(&mut self, frames: &impl Frames, start: u32, end: u32) {
        let mut at = start;
        while at < end {
            let order = (at.trailing_zeros() as usize)
                .min(ORDERS - 1)
                .min((end - at).ilog2() as usize);
            self.free(frames, at, order);
            at += 1 << order;
        }
    }

    /// Takes a block of 2^`order` frames, aligned to its size.
    pub fn alloc(&mut self, frames: &impl Frames, order: usize) -> Option<u32> {
        let mut at = (order..ORDERS).find(|&o| self.heads[o] != NONE)?;
        let block = self.heads[at];
        self.remove(frames, block, at);
        while at > order {
            at -= 1;
            self.push(frames, block + (1 << at), at);
        }
        self.free -= 1 << order;
        Some(block)
    }

    /// Gives back a block of 2^`order` frames.
    pub fn free(&mut self, frames: &impl Frames, mut block: u32, mut order: usize) {
        self.free += 1 << order;
        while order < ORDERS - 1 {
            let buddy = block ^ (1 << order);
            if buddy >= self.len || frames.free_order(buddy) != Some(order as u8) {
                break;
            }
            self.remove(frames, buddy, order);
            block &= !(1 << order);
            order += 1;
        }
        self.push(frames, block, order);
    }

    fn push(&mut self, frames: &impl Frames, block: u32, order: usize) {
        let next = self.heads[order];
        frames.set_links(block, (NONE, next));
        frames.set_free_order(block, Some(order as u8));
        if next != NONE {
            frames.set_links(next, (block, frames.links(next).1));
        }
        self.heads[order] = block;
    }

    fn remove(&mut self, frames: &impl Frames, block: u32, order: usize) {
        let (prev, next) = frames.links(block);
        if prev == NONE {
            self.heads[order] = next;
        } else {
            frames.set_links(prev, (frames.links(prev).0, next));
        }
        if next != NONE {
            frames.set_links(next, (prev, frames.links(next).1));
        }
        frames.set_free_order(block, None);
    }
}

impl Default for Buddy {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    struct Model(RefCell<Vec<((u32, u32), Option<u8>)>>);
    impl Model {
        fn new(n: usize) -> Self {
            Self(RefCell::new(vec![((NONE, NONE), None); n]))
        }
    }
    impl Frames for Model {
        fn links(&self, f: u32) -> (u32, u32) {
            self.0.borrow()[f as usize].0
        }
        fn set_links(&self, f: u32, l: (u32, u32)) {
            self.0.borrow_mut()[f as usize].0 = l;
        }
        fn free_order(&self, f: u32) -> Option<u8> {
            self.0.borrow()[f as usize].1
        }
        fn set_free_order(&self, f: u32, o: Option<u8>) {
            self.0.borrow_mut()[f as usize].1 = o;
        }
    }

    #[test]
    fn everything_comes_back_and_merges() {
        for len in [1u32, 7, 64, 1000, 3000, 4096] {
            let m = Model::new(len as usize);
            let mut b = Buddy::new();
            b.set_len(len);
            b.add_range(&m, 0, len);
            let before = b.largest_order();
            let mut seen = vec![false; len as usize];
            let mut got = Vec::new();
            while let Some(f) = b.alloc(&m, 0) {
                assert!(!std::mem::replace(&mut seen[f as usize], true));
                got.push(f);
            }
            assert_eq!(got.len(), len as usize);
            assert_eq!(b.free_frames(), 0);
            for f in got {
                b.free(&m, f, 0);
            }
            assert_eq!(b.free_frames(), len as usize);
            assert_eq!(b.largest_order(), before);
        }
    }

    #[test]
    fn random_blocks_are_aligned_and_disjoint() {
        let len = 5000u32;
        let m = Model::new(len as usize);
        let mut b = Buddy::new();
        b.set_len(len);
        b.add_range(&m, 3, 2000);
        b.add_range(&m, 2100, len);
        let total = b.free_frames();
        let mut owner = vec![0u32; len as usize];
        let mut live: Vec<(u32, usize)> = Vec::new();
        let mut seed = 12345u64;
        for step in 1..200_000u32 {
            seed = seed
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let r = (seed >> 33) as u32;
            if r & 1 == 0 || live.is_empty() {
                let order = (r >> 1) as usize % 6;
                if let Some(f) = b.alloc(&m, order) {
                    assert_eq!(f & ((1 << order) - 1), 0);
                    for i in f..f + (1 << order) {
                        assert!(i >= 3 && !(2000..2100).contains(&i));
                        assert_eq!(std::mem::replace(&mut owner[i as usize], step), 0);
                    }
                    live.push((f, order));
                }
            } else {
                let (f, order) = live.swap_remove((r >> 1) as usize % live.len());
                for i in f..f + (1 << order) {
                    owner[i as usize] = 0;
                }
                b.free(&m, f, order);
            }
        }
        for (f, order) in live {
            b.free(&m, f, order);
        }
        assert_eq!(b.free_frames(), total);
    }
}
