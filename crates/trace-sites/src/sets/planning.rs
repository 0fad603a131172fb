//! What each operation on the registry will change, found without changing anything.

use super::plan::{Operation, Plan, Planned};
use super::slot::Held;
use super::{Kind, Record, Registry, Tracer};
use crate::filter::Effective;
use crate::site_set::sites_of;
use crate::{Error, Site};
use alloc::vec::Vec;

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
        let changes = self.toggle(index, kind, None, &set)?;
        let record = Record {
            ops,
            kind,
            set,
            order: self.next_order,
        };
        Ok(Plan {
            registry: self,
            operation: Operation::Add(index, record, changes),
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
        let changes = self.toggle(tracer.0, record.kind, Some(&record.set), &set)?;
        Ok(Plan {
            registry: self,
            operation: Operation::Set(tracer.0, set, changes),
        })
    }
    /// Plans that a tracer needs something else of its sites: another function that is called directly.
    /// Needs no memory.
    ///
    /// # Errors
    /// As [`Registry::plan_change`].
    pub fn plan_kind(&mut self, tracer: Tracer, kind: Kind) -> Result<Plan<'_, O>, Error> {
        let record = self.record(tracer.0).ok_or(Error::Invalid)?;
        check(kind, &record.set)?;
        self.differing(None, Some(&record.set))
            .try_for_each(|site| self.check_conflicts(site, tracer.0, kind))?;
        Ok(Plan {
            registry: self,
            operation: Operation::Kind(tracer.0, kind),
        })
    }
    /// Plans to remove a tracer. Needs no memory; a kernel that has none for a shorter vector can put ops
    /// that do nothing in the place of those that go.
    ///
    /// # Errors
    /// [`Error::Invalid`]: it is not registered.
    pub fn plan_remove(&mut self, tracer: Tracer) -> Result<Plan<'_, O>, Error> {
        self.record(tracer.0).ok_or(Error::Invalid)?;
        Ok(Plan {
            registry: self,
            operation: Operation::Remove(tracer.0),
        })
    }
    /// Plans that the sites `sites` come to be, each with whether it may be traced. They are traced by
    /// whoever traces everything.
    ///
    /// # Errors
    /// [`Error::Invalid`]: such a site exists, or they are not in order.
    pub fn plan_load<'r>(&'r mut self, sites: &'r [(Site, bool)]) -> Result<Plan<'r, O>, Error> {
        let exists = |&(site, _): &(Site, bool)| self.present.contains(site);
        if sites.iter().any(exists) || !sites.is_sorted_by(|(one, _), (next, _)| one < next) {
            return Err(Error::Invalid);
        }
        if let Some((last, _)) = sites.last() {
            let bound = last.0.checked_add(1).ok_or(Error::Invalid)?;
            let more = (bound as usize).saturating_sub(self.sites.len());
            self.sites.try_reserve(more)?;
            self.present.reserve(bound)?;
            self.traceable.reserve(bound)?;
        }
        let mut changes = Vec::new();
        if !self.everywhere.is_empty() {
            let traceable = || sites.iter().filter(|(_, may)| *may);
            changes.try_reserve_exact(traceable().count())?;
            for &(site, _) in traceable() {
                let to = Held::collect(self.everywhere.iter().copied(), self.everywhere.len())?;
                changes.push(Planned { site, to });
            }
        }
        Ok(Plan {
            registry: self,
            operation: Operation::Load(sites, changes),
        })
    }
    /// Plans that the sites `sites` cease to be. Needs no memory.
    ///
    /// # Errors
    /// [`Error::Invalid`]: such a site does not exist, or they are not in order.
    pub fn plan_unload<'r>(&'r mut self, sites: &'r [Site]) -> Result<Plan<'r, O>, Error> {
        let exist = sites.iter().all(|&site| self.present.contains(site));
        if !exist || !sites.is_sorted_by(|one, next| one < next) {
            return Err(Error::Invalid);
        }
        Ok(Plan {
            registry: self,
            operation: Operation::Unload(sites),
        })
    }

    /// The sites that are in one of the sets only.
    pub(super) fn differing(
        &self,
        old: Option<&Effective>,
        new: Option<&Effective>,
    ) -> impl Iterator<Item = Site> {
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
        new: &Effective,
    ) -> Result<Vec<Planned>, Error> {
        let order = self.order(index);
        let mut changes = Vec::new();
        changes.try_reserve_exact(self.differing(old, Some(new)).count())?;
        for site in self.differing(old, Some(new)) {
            let members = self.members(site);
            let to = if new.contains(site) {
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
}
