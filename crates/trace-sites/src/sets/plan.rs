//! Operations on the registry: each is planned, with all memory that it needs, then carried out by the
//! kernel, then committed.

use super::slot::{Held, Tracers, View};
use super::{Kind, Record, Registry, State, Steps, Tracer};
use crate::filter::Effective;
use crate::site_set::sites_of;
use crate::{Error, Site, SiteSet};
use alloc::vec::Vec;

/// How one site changes.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a, O: Copy> {
    /// The site.
    pub site: Site,
    /// Who traces it now.
    pub from: Tracers<'a, O>,
    /// Who will.
    pub to: Tracers<'a, O>,
}

impl<O: Copy> Change<'_, O> {
    /// In which order the slot and the branch are written.
    pub fn steps(&self) -> Steps {
        Steps::between(self.from.branch(), self.to.branch())
    }
}

#[derive(Debug)]
struct Planned {
    site: Site,
    to: Held,
}

/// What happens to the registry besides.
#[derive(Debug)]
enum Then<O> {
    Add(u32, Record<O>),
    Set(u32, Effective),
    Kind(u32, Kind),
    Remove(u32),
    /// All sites, and those of them that nobody may trace.
    Load(SiteSet, SiteSet),
    Unload(SiteSet),
}

/// An operation that has been planned. If it is dropped, nothing has happened.
#[derive(Debug)]
#[must_use = "nothing happens before it is committed"]
pub struct Plan<'r, O: Copy + Eq> {
    registry: &'r mut Registry<O>,
    changes: Vec<Planned>,
    then: Then<O>,
}

impl<O: Copy + Eq> Plan<'_, O> {
    /// The sites that change, each once, in order; all others stay as they are.
    pub fn changes(&self) -> impl Iterator<Item = Change<'_, O>> {
        let now = self.registry.view();
        let instead = match &self.then {
            Then::Add(index, record) => Some((*index, record.ops, record.kind)),
            Then::Kind(index, kind) => self
                .registry
                .record(*index)
                .map(|record| (*index, record.ops, *kind)),
            Then::Set(..) | Then::Remove(_) | Then::Load(..) | Then::Unload(_) => None,
        };
        let after = View { instead, ..now };
        self.changes.iter().map(move |planned| Change {
            site: planned.site,
            from: self.registry.tracers(planned.site),
            to: Tracers {
                members: planned.to.members(),
                view: after,
            },
        })
    }
    /// How many sites change.
    pub fn len(&self) -> usize {
        self.changes.len()
    }
    /// Whether no site changes.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }
    /// The tracer that is added.
    pub fn tracer(&self) -> Option<Tracer> {
        match self.then {
            Then::Add(index, _) => Some(Tracer(index)),
            _ => None,
        }
    }
    /// It has been carried out. Allocates nothing, but frees.
    pub fn commit(self) {
        let Self {
            registry,
            changes,
            then,
        } = self;
        registry.finish(then);
        for Planned { site, to } in changes {
            // Sites that are unloaded have nothing left to remember.
            if registry.present.contains(site) {
                registry.sites[site.index()].held = to;
                let flags = registry.tracers(site).flags();
                let state = &mut registry.sites[site.index()];
                state.touched |= flags.count > 0;
                state.modified |= flags.ip_modify || flags.direct.is_some();
            }
        }
    }
}

/// Whether a tracer of this kind can have this set: what is meant for certain functions is not called for
/// all, as in Linux.
fn check(kind: Kind, set: &Effective) -> Result<(), Error> {
    let certain = kind.ip_modify || kind.direct.is_some();
    if certain && matches!(set, Effective::All { .. }) {
        Err(Error::Invalid)
    } else {
        Ok(())
    }
}

impl<O: Copy + Eq> Registry<O> {
    /// Plans to register `ops`, which comes after all others, for the sites of `set`.
    ///
    /// # Errors
    /// [`Error::Busy`]: a site has a tracer that is in its way. [`Error::Invalid`]: a tracer of certain
    /// functions for all.
    pub fn plan_add(&mut self, ops: O, kind: Kind, mut set: Effective) -> Result<Plan<'_, O>, Error> {
        check(kind, &set)?;
        set.confine(&self.traceable);
        self.everywhere.try_reserve(1)?;
        let index = match self.vacated.last() {
            Some(&index) => index,
            None => {
                self.records.try_reserve(1)?;
                // Removing it will need no memory.
                let short = self.records.len() + 1 - self.vacated.len();
                self.vacated.try_reserve(short)?;
                u32::try_from(self.records.len()).map_err(|_| Error::NoMemory)?
            }
        };
        let changes = self.toggle(index, kind, None, Some(&set))?;
        let record = Record {
            ops,
            kind,
            set,
            order: self.next_order,
        };
        Ok(Plan {
            registry: self,
            changes,
            then: Then::Add(index, record),
        })
    }
    /// Plans to give a tracer another set. It keeps its place among the others.
    ///
    /// # Errors
    /// As [`Registry::plan_add`]; [`Error::Invalid`] also if it is not registered.
    pub fn plan_change(&mut self, tracer: Tracer, mut set: Effective) -> Result<Plan<'_, O>, Error> {
        self.everywhere.try_reserve(1)?;
        set.confine(&self.traceable);
        let record = self.record(tracer.0).ok_or(Error::Invalid)?;
        check(record.kind, &set)?;
        let changes = self.toggle(tracer.0, record.kind, Some(&record.set), Some(&set))?;
        Ok(Plan {
            registry: self,
            changes,
            then: Then::Set(tracer.0, set),
        })
    }
    /// Plans that a tracer needs something else of its sites: another function that is called directly.
    ///
    /// # Errors
    /// As [`Registry::plan_change`].
    pub fn plan_kind(&mut self, tracer: Tracer, kind: Kind) -> Result<Plan<'_, O>, Error> {
        let record = self.record(tracer.0).ok_or(Error::Invalid)?;
        check(kind, &record.set)?;
        let sites = || self.differing(None, Some(&record.set));
        let mut changes = Vec::new();
        changes.try_reserve_exact(sites().count())?;
        for site in sites() {
            self.check_conflicts(site, tracer.0, kind)?;
            let members = self.members(site);
            let to = Held::collect(members.iter().copied(), members.len())?;
            changes.push(Planned { site, to });
        }
        Ok(Plan {
            registry: self,
            changes,
            then: Then::Kind(tracer.0, kind),
        })
    }
    /// Plans to remove a tracer.
    ///
    /// # Errors
    /// [`Error::Invalid`]: it is not registered. [`Error::NoMemory`]: the lists of the others on its sites.
    pub fn plan_remove(&mut self, tracer: Tracer) -> Result<Plan<'_, O>, Error> {
        let record = self.record(tracer.0).ok_or(Error::Invalid)?;
        let changes = self.toggle(tracer.0, record.kind, Some(&record.set), None)?;
        Ok(Plan {
            registry: self,
            changes,
            then: Then::Remove(tracer.0),
        })
    }
    /// Plans that the sites `sites`, and those of `disabled`, which nobody may trace, come to be. They are
    /// traced by whoever traces everything.
    ///
    /// # Errors
    /// [`Error::Invalid`]: such a site exists, or is named twice.
    pub fn plan_load(&mut self, sites: &[Site], disabled: &[Site]) -> Result<Plan<'_, O>, Error> {
        let (mut all, mut barred) = (SiteSet::new(), SiteSet::new());
        for &site in sites.iter().chain(disabled) {
            if self.present.contains(site) || !all.insert(site)? {
                return Err(Error::Invalid);
            }
        }
        for &site in disabled {
            barred.insert(site)?;
        }
        let bound = all.iter().last().map_or(0, |site| site.0 + 1);
        self.sites
            .try_reserve((bound as usize).saturating_sub(self.sites.len()))?;
        self.present.reserve(bound)?;
        self.traceable.reserve(bound)?;
        let mut changes = Vec::new();
        if !self.everywhere.is_empty() {
            changes.try_reserve_exact(sites.len())?;
            for site in all.iter().filter(|&site| !barred.contains(site)) {
                let to = Held::collect(self.everywhere.iter().copied(), self.everywhere.len())?;
                changes.push(Planned { site, to });
            }
        }
        Ok(Plan {
            registry: self,
            changes,
            then: Then::Load(all, barred),
        })
    }
    /// Plans that the sites `sites` cease to be.
    ///
    /// # Errors
    /// [`Error::Invalid`]: such a site does not exist, or is named twice.
    pub fn plan_unload(&mut self, sites: &[Site]) -> Result<Plan<'_, O>, Error> {
        let mut all = SiteSet::new();
        for &site in sites {
            if !self.present.contains(site) || !all.insert(site)? {
                return Err(Error::Invalid);
            }
        }
        let traced = || all.iter().filter(|&site| !self.members(site).is_empty());
        let mut changes = Vec::new();
        changes.try_reserve_exact(traced().count())?;
        changes.extend(traced().map(|site| Planned { site, to: Held::None }));
        Ok(Plan {
            registry: self,
            changes,
            then: Then::Unload(all),
        })
    }

    /// The sites that are in one of the sets only.
    fn differing(&self, old: Option<&Effective>, new: Option<&Effective>) -> impl Iterator<Item = Site> {
        let word = |set: Option<&Effective>, index| set.map_or(0, |set| set.word(index));
        sites_of(
            (0..self.traceable.word_count())
                .map(move |index| (word(old, index) ^ word(new, index)) & self.traceable.word(index)),
        )
    }
    fn check_conflicts(&self, site: Site, index: u32, kind: Kind) -> Result<(), Error> {
        let other = |&&member: &&u32| member != index;
        let mut kinds = self
            .members(site)
            .iter()
            .filter(other)
            .filter_map(|&member| self.record(member));
        if kinds.any(|record| record.kind.conflicts(kind)) {
            Err(Error::Busy)
        } else {
            Ok(())
        }
    }
    /// What becomes of the sites if a tracer's set changes.
    fn toggle(
        &self,
        index: u32,
        kind: Kind,
        old: Option<&Effective>,
        new: Option<&Effective>,
    ) -> Result<Vec<Planned>, Error> {
        let order = self.order(index);
        let mut changes = Vec::new();
        changes.try_reserve_exact(self.differing(old, new).count())?;
        for site in self.differing(old, new) {
            let members = self.members(site);
            let to = if new.is_some_and(|new| new.contains(site)) {
                self.check_conflicts(site, index, kind)?;
                let earlier = members.partition_point(|&member| self.order(member) < order);
                let (before, behind) = members.split_at(earlier);
                let all = before.iter().chain([&index]).chain(behind).copied();
                Held::collect(all, members.len() + 1)?
            } else {
                let others = members.iter().copied().filter(|&member| member != index);
                Held::collect(others, members.len() - 1)?
            };
            changes.push(Planned { site, to });
        }
        Ok(changes)
    }

    /// Everything but what the sites hold. Allocates nothing.
    fn finish(&mut self, then: Then<O>) {
        match then {
            Then::Add(index, record) => {
                if matches!(record.set, Effective::All { .. }) {
                    self.everywhere.push(index);
                }
                self.next_order += 1;
                if self.vacated.pop().is_none() {
                    self.records.push(None);
                }
                self.records[index as usize] = Some(record);
            }
            Then::Set(index, set) => {
                self.leave_everywhere(index);
                if matches!(set, Effective::All { .. }) {
                    let at = self.everywhere_before(index);
                    self.everywhere.insert(at, index);
                }
                if let Some(record) = &mut self.records[index as usize] {
                    record.set = set;
                }
            }
            Then::Kind(index, kind) => {
                if let Some(record) = &mut self.records[index as usize] {
                    record.kind = kind;
                }
            }
            Then::Remove(index) => {
                self.leave_everywhere(index);
                self.records[index as usize] = None;
                self.vacated.push(index);
            }
            Then::Load(sites, barred) => {
                for site in sites.iter() {
                    let len = self.sites.len().max(site.index() + 1);
                    self.sites.resize_with(len, State::default);
                    self.present.put(site);
                    if !barred.contains(site) {
                        self.traceable.put(site);
                    }
                }
            }
            Then::Unload(sites) => sites.iter().for_each(|site| self.forget(site)),
        }
    }
    /// How many of those who trace everything come before a tracer.
    fn everywhere_before(&self, index: u32) -> usize {
        let order = self.order(index);
        self.everywhere
            .partition_point(|&other| self.order(other) < order)
    }
    fn leave_everywhere(&mut self, index: u32) {
        let at = self.everywhere_before(index);
        if self.everywhere.get(at) == Some(&index) {
            self.everywhere.remove(at);
        }
    }
    fn forget(&mut self, site: Site) {
        let state = core::mem::take(&mut self.sites[site.index()]);
        // No other tracer's set has the site, neither as one that it traces nor as an exception.
        for &index in state.held.members().iter().chain(&self.everywhere) {
            if let Some(record) = &mut self.records[index as usize] {
                record.set.forget(site);
            }
        }
        self.present.remove(site);
        self.traceable.remove(site);
    }
}
