//! Changes, driven against the model to their end, with all checks; and what planted faults ask.

use super::{Cell, FindLeaf, Model};
use limen_linear_map::{Change, Count, Edit, Entry, Error, Leaf, MAX_LEVELS, Report, Reserve, Step, Table};

impl Model {
    /// The tables that a change did not need.
    pub fn give_back(&mut self, reserve: &mut Reserve) {
        while let Some(table) = reserve.take() {
            self.used[table.0 as usize] = false;
        }
    }

    /// The change is over.
    fn settled(&mut self) -> Result<(), String> {
        self.fetch(0, u64::MAX)?;
        self.at_rest()?;
        for page in &mut self.pages {
            let mapped = self.map.find_leaf(page.addr, &self.memory);
            if mapped != Some(page.new) {
                return Err(format!("{:#x}: {mapped:?} instead of {:?}", page.addr, page.new));
            }
            page.old = page.new;
        }
        Ok(())
    }

    /// Announces a change to the readers.
    pub fn announce(&mut self, start: u64, end: u64, edit: Edit) {
        for page in &mut self.pages {
            if (start..end).contains(&page.addr) {
                page.new = edit.of(page.old);
            }
        }
    }

    /// Drives a change to its end; `twist` may do something else than it is told, and says whether it did the
    /// step.
    pub fn drive_with(
        &mut self,
        change: &mut Change,
        mut twist: impl FnMut(&mut Self, &Step) -> Result<bool, String>,
    ) -> Result<Report, String> {
        self.log.clear();
        while let Some(step) = change.next(&*self) {
            if !twist(self, &step)? {
                self.step(&step)?;
            }
        }
        let report = *change.outcome().map_err(|error| format!("{error:?}"))?;
        let mut rest = *change.rest();
        self.give_back(&mut rest);
        self.settled()?;
        Ok(report)
    }

    /// Tables for a change.
    pub fn reserve(&mut self, start: u64, end: u64) -> Result<Reserve, Error> {
        let needs = self.map.needs(self, start, end)?;
        let mut reserve = Reserve::new();
        for _ in 0..needs.tables {
            let table = self.new_table(0);
            assert!(reserve.put(table));
        }
        Ok(reserve)
    }

    /// Makes a change, with all checks.
    pub fn change(&mut self, start: u64, end: u64, edit: Edit, merges: bool) -> Result<Report, String> {
        self.change_with(start, end, edit, merges, |_, _| Ok(false))
    }

    pub fn change_with(
        &mut self,
        start: u64,
        end: u64,
        edit: Edit,
        merges: bool,
        twist: impl FnMut(&mut Self, &Step) -> Result<bool, String>,
    ) -> Result<Report, String> {
        let before = self.map.count(self);
        let reserve = self.reserve(start, end).map_err(|error| format!("{error:?}"))?;
        self.announce(start, end, edit);
        let map = self.map;
        let mut change = Change::new(&map, start, end, edit, reserve, merges);
        let report = self.drive_with(&mut change, twist)?;
        self.check_report(before, &report)?;
        Ok(report)
    }

    pub fn merge(&mut self, start: u64, end: u64) -> Result<Report, String> {
        let before = self.map.count(self);
        let mut change = Change::merge(&self.map, start, end);
        let report = self.drive_with(&mut change, |_, _| Ok(false))?;
        self.check_report(before, &report)?;
        Ok(report)
    }

    fn check_report(&self, before: [Count; MAX_LEVELS], report: &Report) -> Result<(), String> {
        let after = self.map.count(self);
        for level in 0..after.len() {
            let (a, b, by) = (after[level], before[level], report.leaves[level]);
            if a.single != b.single + by.single || a.grouped != b.grouped + by.grouped {
                return Err(format!("level {level}: {b:?} and {by:?} are not {a:?}"));
            }
        }
        let reachable = self.map.tables(self);
        if reachable != self.tables_used() {
            return Err(format!("{reachable} tables of {}", self.tables_used()));
        }
        Ok(())
    }
}

/// What planted faults ask.
impl Model {
    /// Whether a walk can come to a table.
    pub fn is_linked(&self, table: Table) -> bool {
        let names = |cell: &Cell| cell.now == Some(Entry::Table(table));
        let used = self.memory.iter().zip(&self.used).filter(|(_, used)| **used);
        used.flat_map(|(cells, _)| cells).any(names)
    }

    pub fn is_parked(&self) -> bool {
        self.parked.is_some()
    }

    /// Whether an entry is one of a group now.
    pub fn was_group(&self, table: Table, _level: usize, index: usize) -> bool {
        matches!(self.memory[table.0 as usize][index].now, Some(Entry::Leaf(leaf)) if leaf.grouped)
    }
}

impl Model {
    /// Takes everything out, without any rule: only the root is left.
    pub fn unmap_all(&mut self) {
        let root = self.map.root.0 as usize;
        for (n, used) in self.used.iter_mut().enumerate() {
            *used = n == root;
        }
        for cell in &mut self.memory[root] {
            cell.now = Some(Entry::Empty);
        }
        self.pages.clear();
    }

    /// The end of a change that was driven by hand.
    pub fn settle(&mut self) -> Result<(), String> {
        self.settled()
    }
}
