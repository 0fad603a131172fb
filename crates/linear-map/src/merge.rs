//! Merging: blocks and groups where everything is equal again.
//!
//! Level by level from the pages on: each table that the range has a part in becomes a block if all its
//! entries say the same; what stays a table gets groups. Leaves that are not present merge among themselves.

use crate::change::{Phase, Run};
use crate::map::Found;
use crate::{Change, Entry, Leaf, Map, Resize, Step, Table, Tables};

/// A table whose entries all say the same, one after the other in memory.
struct Equal {
    table: Table,
    /// The first.
    first: Leaf,
    /// How many are in groups.
    grouped: usize,
}

impl Map {
    /// The table of an entry, if it can become a block.
    fn equal(&self, tables: &impl Tables, found: &Found) -> Option<Equal> {
        let Entry::Table(table) = found.entry else {
            return None;
        };
        let level = found.level.checked_sub(1)?;
        let form = self.geometry.level(level);
        let Entry::Leaf(first) = tables.read(table, level, 0) else {
            return None;
        };
        if !Self::aligned(first.phys, self.geometry.level(found.level).size()) {
            return None;
        }
        let grouped = tables.alike(table, level, 0, form.entries(), first, form.size())?;
        Some(Equal {
            table,
            first,
            grouped,
        })
    }

    /// Whether something ends at one of the two ends of `range`, within the table that was found: it cannot
    /// become a block. After a change most cannot, and this is seen in four entries.
    fn ends_within(&self, tables: &impl Tables, found: &Found, range: (u64, u64)) -> bool {
        let Some(level) = found.level.checked_sub(1) else {
            return false;
        };
        let Entry::Table(table) = found.entry else {
            return false;
        };
        let form = self.geometry.level(level);
        let last = found.addr + (self.geometry.level(found.level).size() - 1);
        let leaf = |at| match tables.read(table, level, form.index(at)) {
            Entry::Leaf(leaf) => Some(leaf),
            _ => None,
        };
        [range.0, range.1].into_iter().any(|edge| {
            if edge <= found.addr || edge > last {
                return false;
            }
            let (Some(before), Some(behind)) = (leaf(edge - 1), leaf(edge)) else {
                return true;
            };
            let size = if Self::aligned(edge, form.size()) {
                form.size()
            } else {
                0
            };
            before.attributes != behind.attributes || before.phys + size != behind.phys
        })
    }

    /// Whether [`Change::merge`] would make a block of `level` for `addr` of the table there, after a change
    /// of `range` (any will do: it is only where to look first).
    pub fn merges(&self, tables: &impl Tables, addr: u64, level: usize, range: (u64, u64)) -> bool {
        let found = self.find(tables, addr, level);
        (1..=self.largest).contains(&level)
            && found.level == level
            && !self.ends_within(tables, &found, range)
            && self.equal(tables, &found).is_some()
    }
}

impl Change {
    /// Begins with the tables of `level`.
    pub(crate) fn begin_level(&mut self, level: usize) {
        let geometry = self.map.geometry;
        if level < self.map.largest && self.map.rule.table != Resize::Never {
            self.at = self.start & !(geometry.level(level + 1).size() - 1);
            self.phase = Phase::Collapse { level };
        } else {
            self.begin_groups(level);
        }
    }

    /// Begins with the groups of `level`.
    fn begin_groups(&mut self, level: usize) {
        let form = self.map.geometry.level(level);
        if form.group > 0 && self.map.groups && self.map.rule.group != Resize::Never {
            self.at = self.start & !(form.group_size() - 1);
            self.phase = Phase::Fold { level };
        } else {
            self.end_level(level);
        }
    }

    fn end_level(&mut self, level: usize) {
        if level < self.map.largest {
            self.begin_level(level + 1);
        } else {
            self.phase = Phase::Done;
        }
    }

    /// Makes a block of the next table of `level`, if it can be one.
    pub(crate) fn collapse(&mut self, tables: &impl Tables, level: usize) {
        if self.at >= self.end {
            return self.begin_groups(level);
        }
        let found = self.map.find(tables, self.at, level + 1);
        self.at = found
            .addr
            .saturating_add(self.map.geometry.level(found.level).size());
        let form = self.map.geometry.level(level);
        let block = self.map.geometry.level(found.level).size();
        if self.map.ends_within(tables, &found, (self.start, self.end)) {
            return self.worked(1);
        }
        let Some(Equal {
            table,
            first,
            grouped,
        }) = self.map.equal(tables, &found)
        else {
            let table = matches!(found.entry, Entry::Table(_));
            return self.worked(if table { form.entries() } else { 1 });
        };
        let run = Run::of(&found);
        let leaf = Leaf {
            grouped: false,
            ..first
        };
        let (how, levels) = (self.map.rule.table, (level, found.level));
        self.replace(&run, leaf, Entry::Leaf(leaf), how, block, levels, true);
        self.queue.push(Step::Free { table, level });
        self.report.collapses[found.level] += 1;
        self.report.leaves[found.level].single += 1;
        self.report.leaves[level].grouped -= grouped as i64;
        self.report.leaves[level].single -= (form.entries() - grouped) as i64;
        self.worked(form.entries());
    }

    /// Makes a group of the next entries of `level`, if they can be one.
    pub(crate) fn fold(&mut self, tables: &impl Tables, level: usize) {
        if self.at >= self.end {
            return self.end_level(level);
        }
        let found = self.map.find(tables, self.at, level);
        let form = self.map.geometry.level(level);
        let at = self.at;
        if found.level != level {
            self.at = found
                .addr
                .saturating_add(self.map.geometry.level(found.level).size());
            return self.worked(1);
        }
        self.at = at.saturating_add(form.group_size());
        let Entry::Leaf(first) = found.entry else {
            return self.worked(1);
        };
        let group = form.group_entries();
        let can = !first.grouped
            && Map::aligned(first.phys, form.group_size())
            && tables.alike(found.table, level, found.index, group, first, form.size()) == Some(0);
        if can {
            let run = Run {
                table: found.table,
                level,
                index: found.index,
                count: group,
                addr: at,
            };
            let leaf = Leaf {
                grouped: true,
                ..first
            };
            let how = self.map.rule.group;
            let (size, levels) = (form.group_size(), (level, level));
            self.replace(&run, leaf, Entry::Leaf(leaf), how, size, levels, false);
            self.report.folds[level] += 1;
            self.count_groups(level, 1);
        }
        self.worked(group);
    }
}
