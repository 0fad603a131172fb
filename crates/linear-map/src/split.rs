//! Splitting: making a leaf begin where a change begins or ends, and nowhere else.

use crate::change::Run;
use crate::map::Found;
use crate::{Change, Entry, Error, Leaf, MAX_LEVELS, Map, Resize, Step, Table, Tables};

impl Change {
    /// Does what is to be done so that no leaf, and no group, has `addr` in its midst. `other` is where
    /// another leaf will have to begin: groups that have it in their midst are not made in the first place.
    /// `true`: nothing is to be done any more.
    pub(crate) fn split(&mut self, tables: &impl Tables, addr: u64, other: u64) -> Result<bool, Error> {
        let found = self.map.find(tables, addr, 0);
        let Entry::Leaf(leaf) = found.entry else {
            return Ok(true);
        };
        let form = self.map.geometry.level(found.level);
        let size = if leaf.grouped {
            form.group_size()
        } else {
            form.size()
        };
        if Map::aligned(addr, size) {
            return Ok(true);
        }
        // A change that will be refused here splits nothing.
        self.edited(leaf)?;
        if leaf.grouped {
            self.unfold(&found, leaf)?;
        } else {
            self.split_block(&found, leaf, addr, other)?;
        }
        Ok(false)
    }

    /// Makes single entries of a group.
    fn unfold(&mut self, found: &Found, leaf: Leaf) -> Result<(), Error> {
        let how = self.map.rule.group;
        if how == Resize::Never {
            return Err(Error::Refused);
        }
        let form = self.map.geometry.level(found.level);
        let group = form.group_entries();
        let before = found.index & (group - 1);
        let first = Leaf {
            phys: leaf.phys - before as u64 * form.size(),
            ..leaf
        };
        let run = Run {
            table: found.table,
            level: found.level,
            index: found.index - before,
            count: group,
            addr: found.addr - before as u64 * form.size(),
        };
        let single = Entry::Leaf(Leaf {
            grouped: false,
            ..first
        });
        let levels = (found.level, found.level);
        self.replace(&run, first, single, how, form.group_size(), levels, false);
        self.report.unfolds[found.level] += 1;
        self.count_groups(found.level, -1);
        Ok(())
    }

    /// Groups have come, or gone for single entries.
    pub(crate) fn count_groups(&mut self, level: usize, groups: i64) {
        let entries = groups * self.map.geometry.level(level).group_entries() as i64;
        self.report.leaves[level].grouped += entries;
        self.report.leaves[level].single -= entries;
    }

    /// Makes tables of a block: filled, and linked to each other, before the one write with which they are
    /// there.
    fn split_block(&mut self, found: &Found, leaf: Leaf, addr: u64, other: u64) -> Result<(), Error> {
        let how = self.map.rule.table;
        if how == Resize::Never {
            return Err(Error::Refused);
        }
        let depth = self.map.depth(addr, found.level);
        if self.reserve.count() < depth {
            return Err(Error::NoTables);
        }
        let mut new = [Table(0); MAX_LEVELS];
        for table in &mut new[..depth] {
            *table = self.reserve.take().unwrap_or(Table(0));
        }
        for (n, &table) in new[..depth].iter().enumerate() {
            let level = found.level - 1 - n;
            self.fill(table, level, leaf, found.addr, [addr, other]);
            if n > 0 {
                let above = level + 1;
                let form = self.map.geometry.level(above);
                let link = Run {
                    table: new[n - 1],
                    level: above,
                    index: form.index(addr),
                    count: 1,
                    addr: addr & !(form.size() - 1),
                };
                self.queue.push(link.write(Entry::Table(table)));
                self.report.leaves[above].single -= 1;
                self.report.splits[above] += 1;
            }
        }
        if how == Resize::Live || !leaf.is_present() {
            self.queue.push(Step::Barrier);
        } // Otherwise the block's invalidation comes between.
        let run = Run::of(found);
        let (levels, bytes) = (
            (found.level - depth, found.level),
            self.map.geometry.level(found.level).size(),
        );
        self.replace(&run, leaf, Entry::Table(new[0]), how, bytes, levels, false);
        self.report.leaves[found.level].single -= 1;
        self.report.splits[found.level] += 1;
        Ok(())
    }

    /// Fills a table of `level`, which nobody has yet, with leaves that map what `block` (at `addr`) does:
    /// the part around `ends[0]`.
    fn fill(&mut self, table: Table, level: usize, block: Leaf, addr: u64, ends: [u64; 2]) {
        let form = self.map.geometry.level(level);
        let whole = self.map.geometry.level(level + 1).size();
        let start = ends[0] & !(whole - 1);
        let grouped = self.map.groups && form.group > 0;
        let leaf = |at: u64, grouped| {
            Entry::Leaf(Leaf {
                phys: block.phys + (at - addr),
                grouped,
                ..block
            })
        };
        let run = |at: u64, count| Run {
            table,
            level,
            index: form.index(at),
            count,
            addr: at,
        };
        self.queue
            .push(run(start, form.entries()).write(leaf(start, grouped)));
        self.work += form.entries();
        let count = &mut self.report.leaves[level];
        if !grouped {
            count.single += form.entries() as i64;
            return;
        }
        count.grouped += form.entries() as i64;
        let mut last = None;
        for end in ends {
            let group = end & !(form.group_size() - 1);
            let inside = start < end && end - start < whole;
            if inside && group != end && last != Some(group) {
                last = Some(group);
                let run = run(group, form.group_entries());
                self.queue.push(run.write(leaf(group, false)));
                self.count_groups(level, -1);
            }
        }
    }
}
