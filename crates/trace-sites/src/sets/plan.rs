//! Operations on the registry: each is planned, with all memory that it needs, then carried out by the
//! kernel, then committed.

use super::slot::{Held, Tracers};
use super::{Kind, Record, Registry, State, Steps, Tracer};
use crate::Site;
use crate::filter::Effective;
use crate::site_set::sites_of_word;
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

/// What a site will hold.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) site: Site,
    pub(super) to: Held,
}

/// An operation, and the sites that change with what they will hold.
#[derive(Debug)]
pub(super) enum Operation<'r, O> {
    Add(u32, Record<O>, Vec<Planned>),
    Set(u32, Effective, Vec<Planned>),
    Kind(u32, Kind),
    Remove(u32),
    /// The sites, each with whether it may be traced.
    Load(&'r [(Site, bool)], Vec<Planned>),
    Unload(&'r [Site]),
}

/// An operation that has been planned. If it is dropped, nothing has happened.
#[derive(Debug)]
#[must_use = "nothing happens before it is committed"]
pub struct Plan<'r, O: Copy + Eq> {
    pub(super) registry: &'r mut Registry<O>,
    pub(super) operation: Operation<'r, O>,
}

impl<O: Copy + Eq> Plan<'_, O> {
    /// The sites that change, each once, in order; all others stay as they are. Allocates nothing.
    pub fn changes(&self) -> impl Iterator<Item = Change<'_, O>> {
        let registry = &*self.registry;
        let mut after = registry.view();
        // Of these one has elements.
        let mut listed: &[Planned] = &[];
        let mut tracer = None;
        let mut unloaded: &[Site] = &[];
        match &self.operation {
            Operation::Add(index, record, changes) => {
                after.instead = Some((*index, record.ops, record.kind));
                listed = changes;
            }
            Operation::Set(_, _, changes) | Operation::Load(_, changes) => listed = changes,
            Operation::Kind(index, kind) => {
                after.instead = registry.record(*index).map(|record| (*index, record.ops, *kind));
                tracer = Some(*index);
            }
            Operation::Remove(index) => {
                after.without = Some(*index);
                tracer = Some(*index);
            }
            Operation::Unload(sites) => unloaded = sites,
        }
        let change = move |site, members| Change {
            site,
            from: registry.tracers(site),
            to: Tracers { members, view: after },
        };
        let listed = listed
            .iter()
            .map(move |planned| change(planned.site, planned.to.members()));
        let of_tracer = registry
            .sites_of(tracer)
            .map(move |site| change(site, registry.members(site)));
        let unloaded = unloaded
            .iter()
            .filter(|&&site| !registry.members(site).is_empty());
        listed
            .chain(of_tracer)
            .chain(unloaded.map(move |&site| change(site, &[])))
    }
    /// The tracer that is added.
    pub fn tracer(&self) -> Option<Tracer> {
        match self.operation {
            Operation::Add(index, ..) => Some(Tracer(index)),
            _ => None,
        }
    }
    /// It has been carried out. Allocates nothing, but frees.
    pub fn commit(self) {
        self.registry.finish(self.operation);
    }
}

impl<O: Copy + Eq> Registry<O> {
    /// The sites of a tracer, in order.
    fn sites_of(&self, tracer: Option<u32>) -> impl Iterator<Item = Site> {
        let set = tracer
            .and_then(|index| self.record(index))
            .map(|record| &record.set);
        self.differing(None, set)
    }
    fn hold(&mut self, changes: Vec<Planned>) {
        for Planned { site, to } in changes {
            self.sites[site.index()].held = to;
            self.remember(site);
        }
    }
    /// Remembers of a site what it is now.
    fn remember(&mut self, site: Site) {
        let flags = self.tracers(site).flags();
        let state = &mut self.sites[site.index()];
        state.touched |= flags.count > 0;
        state.modified |= flags.ip_modify || flags.direct.is_some();
    }
    /// Allocates nothing.
    fn finish(&mut self, operation: Operation<'_, O>) {
        match operation {
            Operation::Add(index, record, changes) => {
                if matches!(record.set, Effective::All { .. }) {
                    self.everywhere.push(index);
                }
                self.next_order += 1;
                if self.vacated.pop().is_none() {
                    self.records.push(None);
                }
                self.records[index as usize] = Some(record);
                self.hold(changes);
            }
            Operation::Set(index, set, changes) => {
                self.leave_everywhere(index);
                if matches!(set, Effective::All { .. }) {
                    let at = self.everywhere_before(index);
                    self.everywhere.insert(at, index);
                }
                if let Some(record) = &mut self.records[index as usize] {
                    record.set = set;
                }
                self.hold(changes);
            }
            Operation::Kind(index, kind) => {
                if let Some(record) = &mut self.records[index as usize] {
                    record.kind = kind;
                }
                for word in 0..self.traceable.word_count() {
                    self.word_of(index, word).for_each(|site| self.remember(site));
                }
            }
            Operation::Remove(index) => {
                for word in 0..self.traceable.word_count() {
                    self.word_of(index, word)
                        .for_each(|site| self.sites[site.index()].held.remove(index));
                }
                self.leave_everywhere(index);
                self.records[index as usize] = None;
                self.vacated.push(index);
            }
            Operation::Load(sites, changes) => {
                for &(site, may) in sites {
                    let len = self.sites.len().max(site.index() + 1);
                    self.sites.resize_with(len, State::default);
                    self.present.put(site);
                    if may {
                        self.traceable.put(site);
                    }
                }
                self.hold(changes);
            }
            Operation::Unload(sites) => sites.iter().for_each(|&site| self.forget(site)),
        }
    }
    /// Those of 64 sites that a tracer has.
    fn word_of(&self, index: u32, word: usize) -> impl Iterator<Item = Site> + use<O> {
        let bits = self.record(index).map_or(0, |record| record.set.word(word)) & self.traceable.word(word);
        sites_of_word(word, bits)
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
