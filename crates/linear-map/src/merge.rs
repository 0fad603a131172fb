//! Merging: blocks and groups where everything is equal again.
//!
//! Level by level from the pages on: each table that the range has a part in becomes a block if all its
//! entries say the same; what stays a table gets groups. Leaves that are not present merge among themselves.

use crate::change::{Phase, Run};
use crate::{Change, Entry, Leaf, Map, Resize, Step, Tables};

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
        let Entry::Table(table) = found.entry else {
            return self.worked(1);
        };
        let form = self.map.geometry.level(level);
        let block = self.map.geometry.level(found.level).size();
        let Entry::Leaf(first) = tables.read(table, level, 0) else {
            return self.worked(1);
        };
        let fits = Map::aligned(first.phys, block);
        let Some(grouped) = fits
            .then(|| tables.alike(table, level, 0, form.entries(), first, form.size()))
            .flatten()
        else {
            return self.worked(form.entries());
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
