//! A map: where its tables are, what may be in them, and walks over them.

use crate::{Entry, Geometry, Leaf, MAX_LEVELS, Resize, Rule, Table, Tables};

/// A map of memory. Its methods, but for [`Map::build`], only read; the caller holds its lock of the map.
#[derive(Clone, Copy, Debug)]
pub struct Map {
    /// The tables' form.
    pub geometry: &'static Geometry,
    /// How sizes may change.
    pub rule: Rule,
    /// The table of the highest level. It is never freed.
    pub root: Table,
    /// The highest level of the leaves that are made (by [`Map::build`] and by merging).
    pub largest: usize,
    /// Whether groups are made.
    pub groups: bool,
}

/// Why something is not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// An end of the range is not one of a page.
    Unaligned,
    /// The range would need a change of size that the rule forbids. No attribute was changed.
    Refused,
    /// Too few tables were supplied. What was done so far is whole; with more tables it can go on.
    NoTables,
    /// Something is mapped there already.
    Occupied,
    /// A leaf would be writable and executable that was not. What was done so far is whole.
    WriteAndExecute,
}

/// What a change of a range needs beforehand, at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// How many tables.
    pub tables: usize,
    /// Whether there will be a [`crate::Step::Park`].
    pub parks: bool,
}

/// An entry, and where it was found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub table: Table,
    pub level: usize,
    pub index: usize,
    /// The first address that it covers.
    pub addr: u64,
    pub entry: Entry,
}

/// A leaf, and what it maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// The first address.
    pub addr: u64,
    /// Bytes.
    pub size: u64,
    /// The level of the leaf.
    pub level: usize,
    /// The leaf.
    pub leaf: Leaf,
}

/// How many entries are leaves, at one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// On their own.
    pub single: i64,
    /// In groups (a group counts for each of its entries).
    pub grouped: i64,
}

impl Map {
    /// Whether `addr` is a multiple of `size`.
    #[inline(always)]
    pub(crate) const fn aligned(addr: u64, size: u64) -> bool {
        addr & (size - 1) == 0
    }

    /// The entry for `addr`: no table, unless it is one of level `lowest`.
    #[inline]
    pub(crate) fn find(&self, tables: &impl Tables, addr: u64, lowest: usize) -> Found {
        let mut table = self.root;
        let mut level = self.geometry.top();
        loop {
            let form = self.geometry.level(level);
            let index = form.index(addr);
            let entry = tables.read(table, level, index);
            match entry {
                Entry::Table(below) if level > lowest => {
                    table = below;
                    level -= 1;
                }
                _ => {
                    return Found {
                        table,
                        level,
                        index,
                        addr: addr & !(form.size() - 1),
                        entry,
                    };
                }
            }
        }
    }

    /// What maps `addr`.
    pub fn at(&self, tables: &impl Tables, addr: u64) -> Option<Mapped> {
        let found = self.find(tables, addr, 0);
        match found.entry {
            Entry::Leaf(leaf) => Some(Mapped {
                addr: found.addr,
                size: self.geometry.level(found.level).size(),
                level: found.level,
                leaf,
            }),
            _ => None,
        }
    }

    /// What maps `[start, end)`, in order, each leaf on its own (groups entry by entry). The map may change
    /// between two calls of the iterator: each call goes down from the root.
    pub fn leaves<'a, T: Tables>(&self, tables: &'a T, start: u64, end: u64) -> Leaves<'a, T> {
        Leaves {
            map: *self,
            tables,
            at: start,
            end,
        }
    }

    /// Calls `f(level, entry)` for each entry of all tables that is not empty.
    fn each(&self, tables: &impl Tables, mut f: impl FnMut(usize, Entry)) {
        let mut path = [(self.root, 0); MAX_LEVELS];
        let top = self.geometry.top();
        let mut level = top;
        loop {
            let (table, index) = path[level];
            if index == self.geometry.level(level).entries() {
                if level == top {
                    return;
                }
                level += 1;
                continue;
            }
            path[level].1 += 1;
            let entry = tables.read(table, level, index);
            if entry != Entry::Empty {
                f(level, entry);
            }
            if let (Entry::Table(below), true) = (entry, level > 0) {
                level -= 1;
                path[level] = (below, 0);
            }
        }
    }

    /// How many tables there are, with the root: goes through all of them.
    pub fn tables(&self, tables: &impl Tables) -> usize {
        let mut count = 1;
        self.each(tables, |_, entry| {
            count += usize::from(matches!(entry, Entry::Table(_)));
        });
        count
    }

    /// How many leaves there are, by level: goes through all tables. [`crate::Report::leaves`] says how
    /// changes change it.
    pub fn count(&self, tables: &impl Tables) -> [Count; MAX_LEVELS] {
        let mut counts = [Count::default(); MAX_LEVELS];
        self.each(tables, |level, entry| match entry {
            Entry::Leaf(leaf) if leaf.grouped => counts[level].grouped += 1,
            Entry::Leaf(_) => counts[level].single += 1,
            _ => {}
        });
        counts
    }

    /// How many levels of tables a block of `level` needs so that a leaf begins at `addr`, within it.
    pub(crate) fn depth(&self, addr: u64, level: usize) -> usize {
        let levels = &self.geometry.levels()[..level];
        let below = levels.iter().rev();
        1 + below.take_while(|form| !Self::aligned(addr, form.size())).count()
    }

    /// What a change of `[start, end)` needs. It stays true until the map changes.
    pub fn needs(&self, tables: &impl Tables, start: u64, end: u64) -> Result<Needs, Error> {
        let page = self.geometry.level(0).size();
        if !Self::aligned(start | end, page) {
            return Err(Error::Unaligned);
        }
        let mut needs = Needs {
            tables: 0,
            parks: self.groups && self.rule.group_access == Resize::Break,
        };
        let mut first = None;
        for addr in [start, end] {
            let found = self.find(tables, addr, 0);
            let Entry::Leaf(leaf) = found.entry else { continue };
            let form = self.geometry.level(found.level);
            let kinds = [
                (
                    leaf.grouped && !Self::aligned(addr, form.group_size()),
                    self.rule.group,
                ),
                (!Self::aligned(addr, form.size()), self.rule.table),
            ];
            for (wanted, how) in kinds {
                if wanted && how == Resize::Never {
                    return Err(Error::Refused);
                }
                needs.parks |= wanted && leaf.is_present() && self.rule.parks(how);
            }
            if !Self::aligned(addr, form.size()) {
                let depth = self.depth(addr, found.level);
                // The tables that the other end needs as well.
                let same = |n: &usize| {
                    let size = self.geometry.level(found.level - n).size();
                    first.is_some_and(|(other, has)| has > *n && other & !(size - 1) == addr & !(size - 1))
                };
                needs.tables += depth - (0..depth).filter(same).count();
                first = Some((addr, depth));
            }
        }
        Ok(needs)
    }
}

/// The iterator of [`Map::leaves`].
pub struct Leaves<'a, T> {
    map: Map,
    tables: &'a T,
    at: u64,
    end: u64,
}

impl<T: Tables> Iterator for Leaves<'_, T> {
    type Item = Mapped;

    fn next(&mut self) -> Option<Mapped> {
        while self.at < self.end {
            let found = self.map.find(self.tables, self.at, 0);
            let size = self.map.geometry.level(found.level).size();
            self.at = found.addr.saturating_add(size);
            if let Entry::Leaf(leaf) = found.entry {
                return Some(Mapped {
                    addr: found.addr,
                    size,
                    level: found.level,
                    leaf,
                });
            }
        }
        None
    }
}
