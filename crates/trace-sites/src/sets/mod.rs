//! All registered tracers, and who traces which site.

mod plan;
mod planning;
mod slot;
mod steps;

pub use plan::{Change, Plan};
pub use slot::{Flags, Slot, Tracers};
pub use steps::{Branch, Step, Steps};

use crate::filter::Effective;
use crate::{Error, Site, SiteSet};
use alloc::vec::Vec;
use slot::{Held, View};

/// What a tracer needs of its sites.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kind {
    /// It is handed all registers.
    pub regs: bool,
    /// It may change where the function goes on, for which it needs all registers. A site has at most one
    /// such tracer, and none that is called directly beside it.
    pub ip_modify: bool,
    /// It is this function, which is called instead of a trampoline where no one else traces; where others
    /// do, the trampoline goes on to it behind them. A site has at most one.
    pub direct: Option<usize>,
}

impl Kind {
    /// Whether a trampoline that saves all registers is needed.
    pub fn needs_regs(self) -> bool {
        self.regs || self.ip_modify
    }

    /// Whether such tracers of one site are in each other's way. What is called directly may sleep when it
    /// was decided where the function goes on: as on Linux it is not beside a tracer that changes that.
    fn conflicts(self, other: Self) -> bool {
        let only = |kind: Self| kind.ip_modify || kind.direct.is_some();
        only(self) && only(other)
    }
}

/// A registered tracer. Valid until it is removed; the number is used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tracer(u32);

#[derive(Debug)]
struct Record<O> {
    ops: O,
    kind: Kind,
    /// All sites that it names may be traced.
    set: Effective,
    /// Tracers are called in this order.
    order: u64,
}

#[derive(Debug, Default)]
struct State {
    held: Held,
    /// It has been traced.
    touched: bool,
    /// It has had a tracer that changes where the function goes, or is called directly.
    modified: bool,
}

// There is one for each function.
const _: () = assert!(size_of::<State>() <= 32);

/// All registered tracers. `O` is what the kernel knows a tracer by.
///
/// A site's tracers are exactly those whose sets contain it, in the order of registration.
#[derive(Debug)]
pub struct Registry<O> {
    sites: Vec<State>,
    /// The sites that there are.
    present: SiteSet,
    /// Those of them that may be traced.
    traceable: SiteSet,
    records: Vec<Option<Record<O>>>,
    /// Records that are not in use. There is room for all.
    vacated: Vec<u32>,
    /// The tracers whose sets are [`Effective::All`], in the order of registration.
    everywhere: Vec<u32>,
    next_order: u64,
}

impl<O: Copy + Eq> Default for Registry<O> {
    fn default() -> Self {
        Self::new()
    }
}

impl<O: Copy + Eq> Registry<O> {
    /// No sites, no tracers.
    pub const fn new() -> Self {
        Self {
            sites: Vec::new(),
            present: SiteSet::new(),
            traceable: SiteSet::new(),
            records: Vec::new(),
            vacated: Vec::new(),
            everywhere: Vec::new(),
            next_order: 0,
        }
    }

    /// Who traces `site`. Allocates nothing.
    pub fn tracers(&self, site: Site) -> Tracers<'_, O> {
        let members = self
            .sites
            .get(site.index())
            .map_or(&[][..], |state| state.held.members());
        Tracers {
            members,
            view: self.view(),
        }
    }
    /// What `enabled_functions` tells of `site`. Allocates nothing.
    pub fn flags(&self, site: Site) -> Flags {
        let mut flags = self.tracers(site).flags();
        if let Some(state) = self.sites.get(site.index()) {
            (flags.touched, flags.modified) = (state.touched, state.modified);
        }
        flags
    }
    /// The sites that there are, in order.
    pub fn present(&self) -> &SiteSet {
        &self.present
    }
    /// Those of them that may be traced.
    pub fn traceable(&self) -> &SiteSet {
        &self.traceable
    }
    /// The kernel's handle of a tracer.
    pub fn ops(&self, tracer: Tracer) -> Option<O> {
        self.record(tracer.0).map(|record| record.ops)
    }
    /// The first of `count` indexes in a row that no site has: the lowest there are.
    pub fn vacant(&self, count: u32) -> Site {
        let mut start = 0;
        for Site(taken) in self.present.iter() {
            if taken - start >= count {
                break;
            }
            start = taken + 1;
        }
        Site(start)
    }
    /// Nobody may trace `site` for as long as it exists: its code was not what it should be. Allocates
    /// nothing.
    ///
    /// # Errors
    /// [`Error::Busy`]: it is traced.
    pub fn disable(&mut self, site: Site) -> Result<(), Error> {
        if !self.tracers(site).is_empty() {
            return Err(Error::Busy);
        }
        self.traceable.remove(site);
        Ok(())
    }

    fn record(&self, index: u32) -> Option<&Record<O>> {
        self.records.get(index as usize)?.as_ref()
    }
    fn view(&self) -> View<'_, O> {
        View {
            records: &self.records,
            instead: None,
            without: None,
        }
    }
    /// When the tracer was registered. One that is not yet comes last.
    fn order(&self, index: u32) -> u64 {
        self.record(index).map_or(u64::MAX, |record| record.order)
    }
    fn members(&self, site: Site) -> &[u32] {
        self.sites[site.index()].held.members()
    }
}
