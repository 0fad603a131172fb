//! A model of a memory management unit.
//!
//! CPUs fetch translations whenever they like and keep them until an invalidation. So for each page the model
//! has the *set* of all translations that a CPU may keep: whatever a walk could have found at any moment
//! since they were last invalidated. The same goes for tables on the way. A write is seen by walks at any
//! time between it and the next barrier, each on its own: until then an entry has several values. What holds
//! for all that is in the sets holds for every number of CPUs and every interleaving.

mod drive;

use super::{RW, plain};
use limen_linear_map::{Access, Attributes, Build, Entry, Leaf, Map, Resize, Step, Table, Tables};

/// An entry in memory. `None`: whatever was there before it was a table.
#[derive(Clone, Debug)]
struct Cell {
    now: Option<Entry>,
    /// Values that a walk may still see.
    before: Vec<Option<Entry>>,
}

/// A translation that a CPU may keep for a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    level: usize,
    grouped: bool,
    attributes: Attributes,
    phys: u64,
}

/// What the model follows of a page.
#[derive(Clone, Debug)]
struct Page {
    addr: u64,
    phys: u64,
    /// What the last change made of it, and what this one makes of it.
    old: Attributes,
    new: Attributes,
    held: Vec<Held>,
    /// Tables on the way that may be kept: level and table.
    ways: Vec<(usize, Table)>,
    parked: bool,
}

#[derive(Clone, Debug)]
pub struct Model {
    pub map: Map,
    memory: Vec<Vec<Cell>>,
    /// Tables that are somebody's.
    used: Vec<bool>,
    pages: Vec<Page>,
    dirty: Vec<(usize, usize)>,
    parked: Option<(u64, u64)>,
    /// Invalidations forget only what has a size they name.
    pub exact_sizes: bool,
    /// A planted fault: the last of several entries is not looked at before they are merged.
    pub careless: bool,
    /// What steps there were, for tests that look at them.
    pub log: Vec<Step>,
}

impl Tables for Model {
    fn read(&self, table: Table, level: usize, index: usize) -> Entry {
        let cells = &self.memory[table.0 as usize];
        assert!(self.used[table.0 as usize], "a free table is read");
        assert!(index < self.map.geometry.level(level).entries());
        cells[index].now.expect("what was never written is read")
    }

    fn alike(
        &self,
        table: Table,
        level: usize,
        index: usize,
        count: usize,
        leaf: Leaf,
        size: u64,
    ) -> Option<usize> {
        let looked_at = count - usize::from(self.careless);
        let mut grouped = 0;
        for i in 0..looked_at {
            match self.read(table, level, index + i) {
                Entry::Leaf(found)
                    if found.attributes == leaf.attributes && found.phys == leaf.phys + i as u64 * size =>
                {
                    grouped += usize::from(found.grouped)
                }
                _ => return None,
            }
        }
        Some(grouped)
    }
}

impl Build for Model {
    fn table(&mut self, level: usize) -> Option<Table> {
        let table = self.new_table(level);
        for cell in &mut self.memory[table.0 as usize] {
            cell.now = Some(Entry::Empty);
        }
        Some(table)
    }

    fn write(&mut self, table: Table, level: usize, index: usize, count: usize, entry: Entry) {
        for i in 0..count {
            self.memory[table.0 as usize][index + i].now = Some(self.follow(entry, level, i));
        }
    }
}

impl Model {
    /// Maps `[phys, phys + size)` at `addr`, and follows these pages of it; `None`: all.
    pub fn new(map: Map, addr: u64, phys: u64, size: u64, follow: Option<&[u64]>) -> Self {
        let mut model = Self {
            map,
            memory: Vec::new(),
            used: Vec::new(),
            pages: Vec::new(),
            dirty: Vec::new(),
            parked: None,
            exact_sizes: map.rule == limen_linear_map::rule::POWER,
            careless: false,
            log: Vec::new(),
        };
        model.map.root = model.table(map.geometry.top()).unwrap();
        model.add(addr, phys, size, plain(RW), follow);
        model
    }

    /// Maps more.
    pub fn add(&mut self, addr: u64, phys: u64, size: u64, attributes: Attributes, follow: Option<&[u64]>) {
        let map = self.map;
        map.build(self, addr, phys, size, attributes).unwrap();
        let page = map.geometry.level(0).size();
        let mut pages: Vec<u64> = match follow {
            None => (addr..addr + size).step_by(page as usize).collect(),
            Some(these) => these
                .iter()
                .copied()
                .filter(|at| (addr..addr + size).contains(at))
                .collect(),
        };
        pages.sort();
        pages.dedup();
        self.pages.extend(pages.into_iter().map(|at| Page {
            addr: at,
            phys: at - addr + phys,
            old: attributes,
            new: attributes,
            held: Vec::new(),
            ways: Vec::new(),
            parked: false,
        }));
        self.fetch(0, u64::MAX).unwrap();
    }

    /// A table with anything in it. Memory is used again as soon as it is free.
    pub fn new_table(&mut self, level: usize) -> Table {
        // Any but the root may become a table of each level.
        let top = self.map.geometry.top();
        let levels = if level == top { top..=top } else { 0..=top - 1 };
        let entries = levels.map(|level| self.map.geometry.level(level).entries()).max();
        let cells = vec![
            Cell {
                now: None,
                before: Vec::new()
            };
            entries.unwrap()
        ];
        let free = (0..self.used.len()).find(|&n| !self.used[n] && self.memory[n].len() == cells.len());
        match free {
            Some(n) => {
                self.memory[n] = cells;
                self.used[n] = true;
                Table(n as u64)
            }
            None => {
                self.memory.push(cells);
                self.used.push(true);
                Table(self.used.len() as u64 - 1)
            }
        }
    }

    /// Tables that are somebody's.
    pub fn tables_used(&self) -> usize {
        self.used.iter().filter(|&&used| used).count()
    }

    fn follow(&self, entry: Entry, level: usize, i: usize) -> Entry {
        match entry {
            Entry::Leaf(leaf) => Entry::Leaf(Leaf {
                phys: leaf.phys + i as u64 * self.map.geometry.level(level).size(),
                ..leaf
            }),
            other => other,
        }
    }

    /// What the attributes of a page are to be.
    pub fn attributes(&self, addr: u64) -> Attributes {
        self.pages.iter().find(|page| page.addr == addr).unwrap().new
    }

    /// Whether two models map the same in the same way.
    pub fn same_leaves(&self, other: &Self, start: u64, end: u64) -> bool {
        self.map
            .leaves(self, start, end)
            .eq(other.map.leaves(other, start, end))
    }

    fn barrier(&mut self) {
        for (table, index) in self.dirty.drain(..) {
            self.memory[table][index].before.clear();
        }
    }

    /// The values that a walk may see.
    fn visible(&self, table: Table, index: usize) -> impl Iterator<Item = Option<Entry>> + '_ {
        let cell = &self.memory[table.0 as usize][index];
        cell.before.iter().copied().chain([cell.now])
    }

    /// All that a walk for `page` may find, from `table` on. `None`: a fault. `bool`: it may be kept.
    fn walk(
        &self,
        page: &Page,
        level: usize,
        table: Table,
        found: &mut Vec<(Option<Held>, bool)>,
        ways: &mut Vec<(usize, Table)>,
    ) -> Result<(), String> {
        if !self.used[table.0 as usize] {
            return Err(format!("{:#x}: a walk comes to a table that is free", page.addr));
        }
        let form = self.map.geometry.level(level);
        let index = form.index(page.addr);
        for entry in self.visible(table, index) {
            match entry {
                None => {
                    return Err(format!(
                        "{:#x}: a walk comes to what was never written",
                        page.addr
                    ));
                }
                Some(Entry::Table(below)) => {
                    if level == 0 {
                        return Err("a table below the pages".into());
                    }
                    let way = (level - 1, below);
                    if !ways.contains(&way) {
                        ways.push(way);
                        self.walk(page, level - 1, below, found, ways)?;
                    }
                }
                Some(Entry::Empty) => found.push((None, false)),
                Some(Entry::Leaf(leaf)) if !leaf.is_present() => found.push((None, false)),
                Some(Entry::Leaf(leaf)) => {
                    let held = Held {
                        level,
                        grouped: leaf.grouped,
                        attributes: leaf.attributes,
                        phys: leaf.phys + (page.addr & (form.size() - 1)),
                    };
                    found.push((Some(held), !leaf.marked));
                }
            }
        }
        // A translation of the whole group may come from each of its entries.
        let first = index & !(form.group_entries() - 1);
        if form.group == 0 {
            return Ok(());
        }
        let (mut groups, mut singles) = (Vec::new(), false);
        for i in first..first + form.group_entries() {
            for entry in self.visible(table, i) {
                match entry {
                    Some(Entry::Leaf(leaf)) if leaf.is_present() && leaf.grouped => {
                        let phys = leaf.phys - (i - first) as u64 * form.size();
                        let held = Held {
                            level,
                            grouped: true,
                            attributes: leaf.attributes,
                            phys: phys + (page.addr & (form.group_size() - 1)),
                        };
                        if !groups.contains(&held) {
                            groups.push(held);
                        }
                    }
                    Some(Entry::Leaf(leaf)) if leaf.is_present() => singles = true,
                    Some(Entry::Table(_)) => singles = true,
                    _ => {}
                }
            }
        }
        if !groups.is_empty() && singles && self.map.rule.group != Resize::Live {
            return Err(format!("{:#x}: half a group", page.addr));
        }
        if groups.len() > 1 && self.map.rule.group_access == Resize::Break {
            return Err(format!("{:#x}: a group of different entries", page.addr));
        }
        found.extend(groups.into_iter().map(|held| (Some(held), true)));
        Ok(())
    }

    /// All CPUs fetch all they can of a range, and access what they may.
    fn fetch(&mut self, start: u64, end: u64) -> Result<(), String> {
        let mut pages = std::mem::take(&mut self.pages);
        let mut all = pages.iter_mut();
        let result = all.try_for_each(|page| match (start..end).contains(&page.addr) {
            true => self.fetch_page(page),
            false => Ok(()),
        });
        self.pages = pages;
        result
    }

    fn fetch_page(&self, page: &mut Page) -> Result<(), String> {
        let mut found = Vec::new();
        let mut ways = Vec::new();
        self.walk(
            page,
            self.map.geometry.top(),
            self.map.root,
            &mut found,
            &mut ways,
        )?;
        for &(level, table) in &page.ways {
            if !ways.contains(&(level, table)) {
                let mut more = ways.clone();
                more.push((level, table));
                self.walk(page, level, table, &mut found, &mut more)?;
                ways = more;
            }
        }
        page.ways = ways;
        for &(held, keep) in &found {
            if let (Some(held), true) = (held, keep)
                && !page.held.contains(&held)
            {
                page.held.push(held);
            }
        }
        let at = page.addr;
        let right = page.old.access & page.new.access;
        let may = page.old.access | page.new.access;
        if !page.parked && right.contains(Access::PRESENT) {
            if found.iter().any(|(held, _)| held.is_none()) {
                return Err(format!("{at:#x}: a fault of a reader that had the right"));
            }
            if !self.map.rule.quiet && found.iter().any(|(held, keep)| held.is_some() && !keep) {
                return Err(format!("{at:#x}: a marked block is accessed"));
            }
        }
        for held in found.iter().filter_map(|f| f.0.as_ref()).chain(&page.held) {
            if held.phys != page.phys || held.attributes.kind != page.old.kind {
                return Err(format!("{at:#x}: other memory: {held:?}"));
            }
            if !may.contains(held.attributes.access) {
                return Err(format!("{at:#x}: access that was never given: {held:?}"));
            }
            if !page.parked && right.contains(Access::PRESENT) && !held.attributes.access.contains(right) {
                return Err(format!("{at:#x}: a right is missing: {held:?}"));
            }
        }
        self.conflicts(page)
    }

    /// Two translations of different sizes at once.
    fn conflicts(&self, page: &Page) -> Result<(), String> {
        let rule = self.map.rule;
        for (n, a) in page.held.iter().enumerate() {
            for b in &page.held[n + 1..] {
                let how = if a.level != b.level {
                    rule.table
                } else if a.grouped != b.grouped {
                    rule.group
                } else {
                    continue;
                };
                let bad = match how {
                    Resize::Live if !rule.quiet => !page.parked,
                    Resize::Live => rule.settle && a.attributes != b.attributes,
                    _ => true,
                };
                if bad {
                    return Err(format!("{:#x}: two sizes at once: {a:?}, {b:?}", page.addr));
                }
            }
        }
        Ok(())
    }

    /// Does a step. Then CPUs fetch where they may find something that they did not before it.
    pub fn step(&mut self, step: &Step) -> Result<(), String> {
        self.log.push(*step);
        let (from, to) = match *step {
            Step::Write {
                table,
                level,
                index,
                count,
                entry,
                addr,
            } => {
                let form = self.map.geometry.level(level);
                assert_eq!(form.index(addr), index);
                assert!(index + count <= form.entries() && self.used[table.0 as usize]);
                for i in 0..count {
                    let entry = self.follow(entry, level, i);
                    let cell = &mut self.memory[table.0 as usize][index + i];
                    cell.before.push(cell.now);
                    cell.now = Some(entry);
                    self.dirty.push((table.0 as usize, index + i));
                }
                let start = addr & !(form.group_size() - 1);
                let size = (count as u64 * form.size()).max(form.group_size());
                (start, start.saturating_add(size))
            }
            Step::Barrier => {
                self.barrier();
                (0, 0)
            }
            Step::Invalidate {
                start,
                end,
                levels,
                tables,
            } => {
                self.barrier();
                let exact = self.exact_sizes;
                for page in &mut self.pages {
                    if (start..end).contains(&page.addr) {
                        page.held
                            .retain(|held| exact && !(levels.0..=levels.1).contains(&held.level));
                        if tables {
                            page.ways.clear();
                        }
                    }
                }
                (start, end)
            }
            Step::Free { table, .. } => {
                let kept = |page: &&Page| page.ways.iter().any(|way| way.1 == table);
                if let Some(page) = self.pages.iter().find(kept) {
                    return Err(format!(
                        "{:#x}: {table:?} is freed, and still on the way",
                        page.addr
                    ));
                }
                self.used[table.0 as usize] = false;
                (0, 0)
            }
            Step::Park { start, end } => {
                if self.parked.replace((start, end)).is_some() {
                    return Err("parked twice".into());
                }
                for page in &mut self.pages {
                    page.parked = (start..end).contains(&page.addr);
                }
                (0, 0)
            }
            Step::Unpark => {
                let Some(parked) = self.parked.take() else {
                    return Err("nobody is parked".into());
                };
                for page in &mut self.pages {
                    page.parked = false;
                }
                parked
            }
            Step::Pause => {
                self.fetch(0, u64::MAX)?;
                return self.at_rest();
            }
        };
        self.fetch(from, to)
    }

    /// Nothing is half done: everything kept is what the tables say.
    fn at_rest(&self) -> Result<(), String> {
        if self.parked.is_some() {
            return Err("somebody is still parked".into());
        }
        if !self.dirty.is_empty() {
            return Err("a barrier is missing".into());
        }
        for page in &self.pages {
            let mapped = self.map.at(self, page.addr);
            let says = mapped.map(|m| m.leaf.attributes);
            if page.held.iter().any(|held| Some(held.attributes) != says) {
                return Err(format!("{:#x}: stale: {:?}, now {says:?}", page.addr, page.held));
            }
        }
        Ok(())
    }
}

/// A walk over what is in memory now.
trait FindLeaf {
    fn find_leaf(&self, addr: u64, memory: &[Vec<Cell>]) -> Option<Attributes>;
}

impl FindLeaf for Map {
    fn find_leaf(&self, addr: u64, memory: &[Vec<Cell>]) -> Option<Attributes> {
        let (mut table, mut level) = (self.root, self.geometry.top());
        loop {
            match memory[table.0 as usize][self.geometry.level(level).index(addr)].now? {
                Entry::Empty => return None,
                Entry::Leaf(leaf) => return Some(leaf.attributes),
                Entry::Table(below) => (table, level) = (below, level - 1),
            }
        }
    }
}
