//! The first map, before anything runs on it: no rule holds yet.

use crate::{Attributes, Entry, Error, Leaf, Map, Table, Tables};

/// Where the first map is built.
pub trait Build: Tables {
    /// An empty table, for `level`.
    fn table(&mut self, level: usize) -> Option<Table>;

    /// Writes entries, as [`crate::Step::Write`] has it.
    fn write(&mut self, table: Table, level: usize, index: usize, count: usize, entry: Entry);
}

impl Map {
    /// Maps `[phys, phys + size)` at `addr`, with the largest leaves that fit and that the map may have.
    /// Where sizes never change, and permissions will, that should be pages. `end` of the address space is
    /// not to be reached.
    pub fn build(
        &self,
        tables: &mut impl Build,
        addr: u64,
        phys: u64,
        size: u64,
        attributes: Attributes,
    ) -> Result<(), Error> {
        let page = self.geometry.level(0).size();
        if !Self::aligned(addr | phys | size, page) {
            return Err(Error::Unaligned);
        }
        let (mut at, end) = (addr, addr + size);
        while at < end {
            let phys = phys + (at - addr);
            let fits = |size| Self::aligned(at | phys, size) && end - at >= size;
            let mut level = self.largest;
            while !fits(self.geometry.level(level).size()) {
                level -= 1;
            }
            let form = self.geometry.level(level);
            let (size, group) = (form.size(), form.group_entries());
            let grouped = self.groups && group > 1 && fits(form.group_size());
            let (table, index) = self.reach(tables, at, level)?;
            // To the end of the table, where larger ones may fit.
            let mut count = (form.entries() - index).min(((end - at) / size) as usize);
            if grouped {
                count &= !(group - 1);
            } else if self.groups && group > 1 && Self::aligned(at ^ phys, form.group_size()) {
                count = count.min(group - (index & (group - 1)));
            }
            for i in index..index + count {
                if tables.read(table, level, i) != Entry::Empty {
                    return Err(Error::Occupied);
                }
            }
            let leaf = Leaf {
                phys,
                attributes,
                grouped,
                marked: false,
            };
            tables.write(table, level, index, count, Entry::Leaf(leaf));
            at += count as u64 * size;
        }
        Ok(())
    }

    /// Hangs in a table of pages, for the address of its first. There must be none yet ([`Error::Occupied`]).
    pub fn build_table(&self, tables: &mut impl Build, at: u64, pages: Table) -> Result<(), Error> {
        if !Self::aligned(at, self.geometry.level(1).size()) {
            return Err(Error::Unaligned);
        }
        let (table, index) = self.reach(tables, at, 1)?;
        if tables.read(table, 1, index) != Entry::Empty {
            return Err(Error::Occupied);
        }
        tables.write(table, 1, index, 1, Entry::Table(pages));
        Ok(())
    }

    /// The table of `level` for `at`, made if need be, and the index in it.
    fn reach(&self, tables: &mut impl Build, at: u64, level: usize) -> Result<(Table, usize), Error> {
        let mut table = self.root;
        for above in (level + 1..=self.geometry.top()).rev() {
            let index = self.geometry.level(above).index(at);
            table = match tables.read(table, above, index) {
                Entry::Table(below) => below,
                Entry::Leaf(_) => return Err(Error::Occupied),
                Entry::Empty => {
                    let below = tables.table(above - 1).ok_or(Error::NoTables)?;
                    tables.write(table, above, index, 1, Entry::Table(below));
                    below
                }
            };
        }
        Ok((table, self.geometry.level(level).index(at)))
    }
}
