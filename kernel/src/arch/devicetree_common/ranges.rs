//! Pieces of memory while there is no heap: what `boot` collects from the devicetree.

use crate::mm::PhysAddr;
use crate::mm::PhysRange;

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
}
