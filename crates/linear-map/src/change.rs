//! A change of a range, step by step.
//!
//! [`Change`] is an iterator that is driven from outside: it says a step, the caller does it, and so on. It
//! keeps addresses, never tables, from one [`Step::Pause`] to the next, so that other changes may come
//! between. What it does in a row is bounded by the work on a few tables.

use crate::map::Found;
use crate::queue::Queue;
use crate::{Access, Attributes, Count, Entry, Error, Leaf, MAX_LEVELS, Map, Resize, Step, Table, Tables};

/// What is to become of the attributes of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edit {
    /// What is taken.
    pub clear: Access,
    /// What is given, then.
    pub set: Access,
}

impl Edit {
    /// The attributes after it.
    #[inline(always)]
    pub fn of(self, attributes: Attributes) -> Attributes {
        Attributes {
            access: attributes.access.difference(self.clear).union(self.set),
            ..attributes
        }
    }
}

/// The most tables that a [`Reserve`] has.
pub const MAX_RESERVE: usize = 2 * (MAX_LEVELS - 1);

/// Tables for a change, which the caller has made. What is in them does not matter.
#[derive(Clone, Copy, Debug)]
pub struct Reserve {
    tables: [Table; MAX_RESERVE],
    count: usize,
}

impl Reserve {
    /// None.
    pub const fn new() -> Self {
        Self {
            tables: [Table(0); MAX_RESERVE],
            count: 0,
        }
    }

    /// Adds one. `false`: it is full.
    pub fn put(&mut self, table: Table) -> bool {
        let room = self.count < MAX_RESERVE;
        if room {
            self.tables[self.count] = table;
            self.count += 1;
        }
        room
    }

    /// Takes one out.
    pub fn take(&mut self) -> Option<Table> {
        self.count = self.count.checked_sub(1)?;
        Some(self.tables[self.count])
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }
}

impl Default for Reserve {
    fn default() -> Self {
        Self::new()
    }
}

/// What a change has done so far. Arrays are by level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Bytes whose attributes are others than before. What is not mapped has none.
    pub bytes: u64,
    /// Blocks of the level that became tables.
    pub splits: [u32; MAX_LEVELS],
    /// Tables that became blocks of the level.
    pub collapses: [u32; MAX_LEVELS],
    /// Groups that became single entries.
    pub unfolds: [u32; MAX_LEVELS],
    /// Single entries that became groups.
    pub folds: [u32; MAX_LEVELS],
    /// By how much the numbers of leaves changed.
    pub leaves: [Count; MAX_LEVELS],
}

/// Where a change is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// A leaf is to begin at `at`,
    First,
    /// and one at the end.
    Last,
    /// Attributes are changed, from `at` on.
    Apply,
    /// Tables of `level` are looked at, from `at` on, whether they can be blocks;
    Collapse { level: usize },
    /// then its entries, whether they can be groups.
    Fold { level: usize },
    /// Nothing is left.
    Done,
}

/// What may still be kept that is not in the tables any more.
#[derive(Clone, Copy, Debug)]
struct Stale {
    start: u64,
    end: u64,
    levels: (usize, usize),
}

/// Entries that are replaced together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub table: Table,
    pub level: usize,
    pub index: usize,
    pub count: usize,
    pub addr: u64,
}

impl Run {
    /// The one entry that was found.
    pub(crate) fn of(found: &Found) -> Self {
        Self {
            table: found.table,
            level: found.level,
            index: found.index,
            count: 1,
            addr: found.addr,
        }
    }
    pub(crate) fn write(&self, entry: Entry) -> Step {
        Step::Write {
            table: self.table,
            level: self.level,
            index: self.index,
            count: self.count,
            entry,
            addr: self.addr,
        }
    }
}

/// Entries that are looked at, or written, before a pause.
const PIECE: usize = 512;

/// A change under way.
///
/// The caller holds its lock of the map from the beginning, and from one [`Step::Pause`] to the next. It does
/// each step before it asks for the next one. A change that is dropped half way, at a pause, leaves a sound
/// map.
#[derive(Debug)]
pub struct Change {
    pub(crate) map: Map,
    pub(crate) start: u64,
    pub(crate) end: u64,
    edit: Edit,
    merges: bool,
    pub(crate) reserve: Reserve,
    pub(crate) phase: Phase,
    pub(crate) at: u64,
    pub(crate) queue: Queue,
    stale: Option<Stale>,
    /// Written, and not stale: a barrier is owed.
    unordered: bool,
    /// How much was done since the last pause.
    pub(crate) work: usize,
    error: Option<Error>,
    /// Why it goes no further, when it has merged what it has split.
    refused: Option<Error>,
    pub(crate) report: Report,
}

impl Change {
    /// A change of `[start, end)`; what is not mapped in it stays so. `reserve` has what [`Map::needs`] said.
    /// `merges`: what becomes equal is merged at the end; otherwise [`Change::merge`] can do it at another
    /// time. Merges park by the rule, whatever [`Map::needs`] said of the range itself.
    pub fn new(
        map: &Map,
        start: u64,
        end: u64,
        edit: Edit,
        reserve: Reserve,
        merges: bool,
    ) -> Result<Self, Error> {
        if !Map::aligned(start | end, map.geometry.level(0).size()) {
            return Err(Error::Unaligned);
        }
        let phase = if start < end { Phase::First } else { Phase::Done };
        Ok(Self::over(map, (start, end), edit, merges, reserve, phase))
    }

    /// Of a range, before its first step.
    fn over(
        map: &Map,
        (start, end): (u64, u64),
        edit: Edit,
        merges: bool,
        reserve: Reserve,
        phase: Phase,
    ) -> Self {
        Self {
            map: *map,
            start,
            end,
            edit,
            merges,
            reserve,
            phase,
            at: start,
            queue: Queue::new(),
            stale: None,
            unordered: false,
            work: 0,
            error: None,
            refused: None,
            report: Report::default(),
        }
    }

    /// Merges what `[start, end)` has a part in and is equal throughout.
    pub fn merge(map: &Map, start: u64, end: u64) -> Self {
        let edit = Edit {
            clear: Access::empty(),
            set: Access::empty(),
        };
        let page = map.geometry.level(0).size() - 1;
        let (start, end) = (start & !page, (end + page) & !page);
        let mut change = Self::over(map, (start, end), edit, true, Reserve::new(), Phase::Done);
        if start < end {
            change.begin_level(0);
        }
        change
    }

    /// The next step; `None`: it is over, or in need of tables ([`Change::outcome`]).
    #[inline]
    pub fn next(&mut self, tables: &impl Tables) -> Option<Step> {
        loop {
            if let Some(step) = self.queue.pop() {
                return Some(step);
            }
            if self.error.is_some() {
                return None;
            }
            let done = match self.phase {
                Phase::First => self.split(tables, self.at, self.end).map(|whole| {
                    if whole {
                        self.phase = Phase::Last;
                    }
                }),
                Phase::Last => self.split(tables, self.end, self.at).map(|whole| {
                    if whole {
                        self.phase = Phase::Apply;
                    }
                }),
                Phase::Apply => self.apply(tables),
                Phase::Collapse { level } => {
                    self.collapse(tables, level);
                    Ok(())
                }
                Phase::Fold { level } => {
                    self.fold(tables, level);
                    Ok(())
                }
                Phase::Done => {
                    self.error = self.refused;
                    return None;
                }
            };
            if let Err(error) = done {
                // What was changed before is not left stale.
                self.flush();
                if error == Error::WriteAndExecute && self.merges {
                    self.refused = Some(error);
                    self.begin_level(0);
                } else {
                    self.error = Some(error);
                }
            }
        }
    }

    /// How it ended, or why it stopped.
    pub fn outcome(&self) -> Result<&Report, Error> {
        match self.error {
            Some(error) => Err(error),
            None => Ok(&self.report),
        }
    }

    /// What it has done so far.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// More tables, after [`Error::NoTables`]: it can go on. Returns those that find no room.
    pub fn supply(&mut self, mut more: Reserve) -> Reserve {
        while self.reserve.count() < MAX_RESERVE
            && let Some(table) = more.take()
        {
            self.reserve.put(table);
        }
        if self.error == Some(Error::NoTables) {
            self.error = None;
        }
        more
    }

    /// The tables that were not needed.
    pub fn rest(&mut self) -> &mut Reserve {
        &mut self.reserve
    }

    /// Pushes what makes up for the writes so far.
    fn flush(&mut self) {
        if let Some(stale) = self.stale.take() {
            self.queue.push(Step::Invalidate {
                start: stale.start,
                end: stale.end,
                levels: stale.levels,
                tables: false,
            });
        } else if self.unordered {
            self.queue.push(Step::Barrier);
        }
        self.unordered = false;
    }

    /// Some work is done. A pause, if it was enough.
    pub(crate) fn worked(&mut self, work: usize) {
        self.work += work;
        if self.work >= PIECE {
            self.work = 0;
            self.flush();
            self.queue.push(Step::Pause);
        }
    }

    /// Changes the next entries, or passes over them.
    fn apply(&mut self, tables: &impl Tables) -> Result<(), Error> {
        if self.at >= self.end {
            self.flush();
            self.phase = Phase::Done;
            if self.merges {
                self.begin_level(0);
            }
            return Ok(());
        }
        let found = self.map.find(tables, self.at, 0);
        let form = self.map.geometry.level(found.level);
        let size = form.size();
        let Entry::Leaf(leaf) = found.entry else {
            self.at = found.addr.saturating_add(size);
            self.worked(1);
            return Ok(());
        };
        let unit = if leaf.grouped { form.group_size() } else { size };
        if !Map::aligned(self.at, unit) || self.end - self.at < unit {
            // Somebody has merged what the ends were in, during a pause.
            self.flush();
            self.phase = Phase::First;
            return Ok(());
        }
        let mut most = (form.entries() - found.index).min(((self.end - self.at) >> form.shift) as usize);
        if leaf.grouped {
            most &= !(form.group_entries() - 1);
            if self.map.rule.group_access == Resize::Break {
                most = form.group_entries();
            }
        }
        let mut count = 1;
        while count < most {
            let Entry::Leaf(next) = tables.read(found.table, found.level, found.index + count) else {
                break;
            };
            let follows = leaf.phys + ((count as u64) << form.shift);
            if next.attributes != leaf.attributes || next.grouped != leaf.grouped || next.phys != follows {
                break;
            }
            count += 1;
        }
        let bytes = (count as u64) << form.shift;
        let attributes = self.edited(leaf)?;
        if attributes != leaf.attributes {
            let run = Run {
                table: found.table,
                level: found.level,
                index: found.index,
                count,
                addr: self.at,
            };
            self.write_access(run, leaf, Leaf { attributes, ..leaf }, bytes);
            self.report.bytes += bytes;
        }
        self.at += bytes;
        if self.at < self.end {
            self.worked(count);
        }
        Ok(())
    }

    /// What a leaf of the range will allow.
    pub(crate) fn edited(&self, leaf: Leaf) -> Result<Attributes, Error> {
        let attributes = self.edit.of(leaf.attributes);
        if attributes.is_dangerous() && !leaf.attributes.is_dangerous() {
            return Err(Error::WriteAndExecute);
        }
        Ok(attributes)
    }

    /// Writes new attributes.
    fn write_access(&mut self, run: Run, old: Leaf, new: Leaf, bytes: u64) {
        let breaks = old.grouped && self.map.rule.group_access == Resize::Break;
        if breaks && old.is_present() && new.is_present() {
            let levels = (run.level, run.level);
            let how = Resize::Break;
            return self.replace(&run, old, Entry::Leaf(new), how, bytes, levels, false);
        }
        self.queue.push(run.write(Entry::Leaf(new)));
        self.unordered = true;
        if !old.is_present() {
            return;
        }
        let (start, end, level) = (run.addr, run.addr.saturating_add(bytes), run.level);
        let stale = self.stale.get_or_insert(Stale {
            start,
            end,
            levels: (level, level),
        });
        stale.start = stale.start.min(start);
        stale.end = stale.end.max(end);
        stale.levels = (stale.levels.0.min(level), stale.levels.1.max(level));
    }

    /// Replaces entries by others of another size, by the rule. `between`: what is there, or will be; a form
    /// of it is there in between. `tables`: tables are taken out.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn replace(
        &mut self,
        run: &Run,
        between: Leaf,
        new: Entry,
        how: Resize,
        bytes: u64,
        levels: (usize, usize),
        tables: bool,
    ) {
        let rule = self.map.rule;
        let (start, end) = (run.addr, run.addr.saturating_add(bytes));
        let invalidate = |tables| Step::Invalidate {
            start,
            end,
            levels,
            tables,
        };
        let queue = &mut self.queue;
        if !between.is_present() {
            // Nothing of it is kept, but perhaps the way to it.
            queue.push(run.write(new));
            queue.push(if tables { invalidate(true) } else { Step::Barrier });
            return;
        }
        let parks = rule.parks(how);
        if parks {
            queue.push(Step::Park { start, end });
        }
        match how {
            Resize::Live => {
                queue.push(run.write(new));
                let forget = tables || rule.settle || parks;
                queue.push(if forget { invalidate(tables) } else { Step::Barrier });
            }
            Resize::Marked => {
                let marked = Leaf {
                    marked: true,
                    ..between
                };
                queue.push(run.write(Entry::Leaf(marked)));
                queue.push(invalidate(tables));
                queue.push(run.write(new));
                // What was kept of the marked block conflicts with nothing, but is not to stay.
                queue.push(invalidate(false));
            }
            Resize::Break => {
                queue.push(run.write(Entry::Leaf(between.without(Access::PRESENT))));
                queue.push(invalidate(tables));
                queue.push(run.write(new));
                queue.push(Step::Barrier);
            }
            Resize::Never => unreachable!("refused before"),
        }
        if parks {
            queue.push(Step::Unpark);
        }
    }
}
