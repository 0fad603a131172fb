//! What the engine reads and what it says: entries, steps, and the trait behind which the tables are.

use bitflags::bitflags;

/// A table, by its physical address (or whatever names it).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Table(pub u64);

bitflags! {
    /// What may be done with memory.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Access: u8 {
        /// Loads.
        const READ = 1;
        /// Stores.
        const WRITE = 2;
        /// Instructions.
        const EXECUTE = 4;
        /// Anything at all. A leaf without it is invalid for the processor, but keeps its address and the
        /// rest, so that it can come back, be split and be merged as others are.
        const PRESENT = 8;
    }
}

/// What a leaf says besides its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Attributes {
    /// What may be done.
    pub access: Access,
    /// The memory's type, and whatever else the format has: kept as it is.
    pub kind: u8,
}

impl Attributes {
    /// Whether it can be written and executed, once it is present.
    #[inline(always)]
    pub(crate) const fn is_dangerous(&self) -> bool {
        self.access.contains(Access::WRITE.union(Access::EXECUTE))
    }
}

/// An entry that maps memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Leaf {
    /// Physical address of the entry's memory (of this entry's, in a group, too).
    pub phys: u64,
    /// What may be done with it.
    pub attributes: Attributes,
    /// One of a group.
    pub grouped: bool,
    /// Not to be kept ([`crate::Resize::Marked`]). Only in steps: what is read is never marked.
    pub marked: bool,
}

/// An entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Entry {
    /// Nothing.
    Empty,
    /// A table of the next lower level.
    Table(Table),
    /// Memory.
    Leaf(Leaf),
}

/// What is to be done next. The steps are carried out one after the other, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Write `count` entries from `index` on, in this order, each in one store. Leaves follow each other in
    /// physical memory: the entry at `index + i` has `phys` and `i` times the level's size.
    Write {
        /// In this table.
        table: Table,
        /// Its level.
        level: usize,
        /// The first entry.
        index: usize,
        /// How many.
        count: usize,
        /// What the first becomes.
        entry: Entry,
        /// The address that the first entry maps.
        addr: u64,
    },
    /// Whoever walks the tables sees all writes before this step before any of those after it. At the end of
    /// a change it also means that the caller itself can use what has become valid.
    Barrier,
    /// No CPU keeps, after this step, a translation for `[start, end)` that it made before it; if `tables`,
    /// of the tables on the way there neither. What was written before was seen by then: the barriers of an
    /// invalidation belong to it.
    Invalidate {
        /// The first address.
        start: u64,
        /// One past the last.
        end: u64,
        /// The lowest and the highest level of which leaves may be kept; groups and their entries are of one
        /// level. Only processors whose invalidations name a size need it.
        levels: (usize, usize),
        /// Tables were taken out, too.
        tables: bool,
    },
    /// The table is nobody's any more: the caller may use its memory.
    Free {
        /// Which.
        table: Table,
        /// Its level.
        level: usize,
    },
    /// From here to [`Step::Unpark`] nobody accesses `[start, end)`: other CPUs wait where they need nothing
    /// of it, this one's code, stack, data and tables are elsewhere or are reached in another way, and no
    /// interrupt comes. Reading ahead is harmless.
    Park {
        /// The first address.
        start: u64,
        /// One past the last.
        end: u64,
    },
    /// Everybody may go on.
    Unpark,
    /// Nothing is half done and nothing stale is left: the caller may let its lock and its time go.
    Pause,
}

/// The tables, as the engine reads them. What it has asked for in a [`Step`] is done when it reads again.
pub trait Tables {
    /// An entry.
    fn read(&self, table: Table, level: usize, index: usize) -> Entry;

    /// Whether the `count` entries from `index` on are leaves with the attributes of `leaf`, at `leaf.phys`
    /// and what follows: then how many of them are grouped. (`size` is the level's.) The implementation of a
    /// format can do it without decoding each.
    fn alike(
        &self,
        table: Table,
        level: usize,
        index: usize,
        count: usize,
        leaf: Leaf,
        size: u64,
    ) -> Option<usize> {
        let mut grouped = 0;
        for i in 0..count {
            let found = self.read(table, level, index + i);
            grouped += usize::from(found.is_like(leaf, i as u64 * size)?);
        }
        Some(grouped)
    }
}

impl Entry {
    /// Whether it is a leaf with the attributes of `leaf`, `offset` bytes behind it in memory: then whether
    /// it is grouped.
    #[inline(always)]
    pub fn is_like(&self, leaf: Leaf, offset: u64) -> Option<bool> {
        match self {
            Self::Leaf(found) if found.attributes == leaf.attributes => {
                (found.phys == leaf.phys + offset).then_some(found.grouped)
            }
            _ => None,
        }
    }
}

impl Leaf {
    /// Whether it is valid for the processor.
    #[inline(always)]
    pub const fn is_present(&self) -> bool {
        self.attributes.access.contains(Access::PRESENT)
    }

    /// The same with less access.
    pub const fn without(self, access: Access) -> Self {
        Self {
            attributes: Attributes {
                access: self.attributes.access.difference(access),
                ..self.attributes
            },
            ..self
        }
    }
}
