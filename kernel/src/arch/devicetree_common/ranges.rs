//! Pieces of memory while there is no heap: what `boot` collects from the devicetree, and where among them there is room.

use crate::boot::PhysRange;
use crate::mm::PhysAddr;

/// The most pieces of memory, and of reserved memory, that are looked at.
const MAX_RANGES: usize = 64;

/// A list on the boot stack.
pub struct Ranges {
    /// The pieces, of which the first `len` are there.
    pub items: [PhysRange; MAX_RANGES],
    /// How many.
    pub len: usize,
}

impl Ranges {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self {
            items: [PhysRange {
                start: PhysAddr::new(0),
                size: 0,
            }; MAX_RANGES],
            len: 0,
        }
    }
    /// Another piece, unless it is empty or there is no room.
    pub fn push(&mut self, start: u64, size: u64) {
        if size != 0 && self.len < MAX_RANGES {
            self.items[self.len] = PhysRange {
                start: PhysAddr::new(start),
                size,
            };
            self.len += 1;
        }
    }
    /// The pieces.
    pub fn as_slice(&self) -> &[PhysRange] {
        &self.items[..self.len]
    }
    /// The lowest address at which `size` bytes, aligned, lie in one of the pieces, which are in order, and beside everything in `reserved`.
    #[allow(
        dead_code,
        reason = "not every machine needs much memory before the heap is there"
    )]
    pub fn room_beside(&self, reserved: &Self, size: u64, align: u64) -> Option<u64> {
        let end = |range: &PhysRange| range.start.as_u64() + range.size;
        self.as_slice().iter().find_map(|range| {
            let mut at = range.start.as_u64().next_multiple_of(align);
            while at + size <= end(range) {
                let clash = |r: &&PhysRange| r.start.as_u64() < at + size && at < end(r);
                match reserved.as_slice().iter().find(clash) {
                    Some(r) => at = end(r).next_multiple_of(align),
                    None => return Some(at),
                }
            }
            None
        })
    }
}
