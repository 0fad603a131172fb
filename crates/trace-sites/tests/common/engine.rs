//! A registry that is driven by operations which are values, and copies of it with faults.

use limen_trace_sites::filter::Effective;
use limen_trace_sites::sets::{Branch, Kind, Plan, Registry, Tracer};
use limen_trace_sites::{Error, Site, SiteSet};
use std::collections::BTreeSet;

/// A set of sites, or all but those.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub all: bool,
    pub sites: BTreeSet<u32>,
}

impl Wanted {
    fn effective(&self) -> Effective {
        let mut set = SiteSet::new();
        self.sites
            .iter()
            .for_each(|&site| _ = set.insert(Site(site)).unwrap());
        if self.all {
            Effective::All { except: set }
        } else {
            Effective::Only(set)
        }
    }
}

/// An operation; tracers are counted in the order of registration.
#[derive(Clone, Debug)]
pub enum Op {
    Add(u32, Kind, Wanted),
    Change(usize, Wanted),
    Kind(usize, Kind),
    Remove(usize),
    /// Those of the second set may not be traced.
    Load(BTreeSet<u32>, BTreeSet<u32>),
    Unload(BTreeSet<u32>),
    /// Of the sites that there are.
    UnloadSome(usize, usize),
    /// Those of these that there are not.
    LoadSome(BTreeSet<u32>),
}

impl Op {
    /// The operation as it is meant now.
    pub fn numbered(&self, engine: &Engine) -> Self {
        let present = engine.registry.present();
        match self {
            Self::Add(_, kind, wanted) => Self::Add(engine.next_ops, *kind, wanted.clone()),
            Self::UnloadSome(skip, take) => Self::Unload(
                present
                    .iter()
                    .skip(*skip)
                    .take(*take)
                    .map(|site| site.0)
                    .collect(),
            ),
            Self::LoadSome(sites) => {
                let absent = sites
                    .iter()
                    .filter(|&&site| !present.contains(Site(site)))
                    .copied();
                Self::Load(absent.collect(), BTreeSet::new())
            }
            other => other.clone(),
        }
    }
}

/// A change that owns what it says: tracers and branch, before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    pub site: u32,
    pub from: (Vec<u32>, Branch),
    pub to: (Vec<u32>, Branch),
}

/// What is wrong with a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The last site that changes is not named.
    SiteForgotten,
    /// A site is named that does not change.
    SiteTouchedInVain,
    /// A tracer that gets another set comes last.
    OrderLost,
    /// Two tracers that exclude each other are let in together.
    ConflictOverlooked,
    /// Sites of a module that is loaded are not traced by those who trace everything.
    LoadedUntraced,
    /// What was excepted at an index stays so for the next module.
    ExceptionOutlives,
    /// Sites that are unloaded stay in their slots.
    UnloadUnsaid,
    /// A site with a removed tracer goes on with the branch that it had.
    BranchStays,
    /// What the slot held before is told wrongly.
    BeforeMistaken,
    /// A change that is refused is carried out for the sites before the conflict.
    HalfDone,
}

impl Fault {
    pub const ALL: [Self; 10] = [
        Self::SiteForgotten,
        Self::SiteTouchedInVain,
        Self::OrderLost,
        Self::ConflictOverlooked,
        Self::LoadedUntraced,
        Self::ExceptionOutlives,
        Self::UnloadUnsaid,
        Self::BranchStays,
        Self::BeforeMistaken,
        Self::HalfDone,
    ];
}

/// A registry with the tracers in it.
pub struct Engine {
    pub registry: Registry<u32>,
    tracers: Vec<Tracer>,
    pub next_ops: u32,
    fault: Option<Fault>,
    /// Exceptions that were there when their site was unloaded.
    outlived: BTreeSet<u32>,
}

fn changed(plan: &Plan<'_, u32>) -> Vec<Changed> {
    plan.changes()
        .map(|change| Changed {
            site: change.site.0,
            from: (change.from.iter().collect(), change.from.branch()),
            to: (change.to.iter().collect(), change.to.branch()),
        })
        .collect()
}

/// What an operation gives to the registry.
enum Input {
    Nothing,
    Set(Effective),
    Loaded(Vec<(Site, bool)>),
    Unloaded(Vec<Site>),
}

impl Input {
    fn new(op: &Op) -> Self {
        match op {
            Op::Add(_, _, wanted) | Op::Change(_, wanted) => Self::Set(wanted.effective()),
            Op::Load(sites, barred) => {
                let sites = sites.iter().map(|site| (Site(*site), !barred.contains(site)));
                Self::Loaded(sites.collect())
            }
            Op::Unload(sites) => Self::Unloaded(sites.iter().map(|&site| Site(site)).collect()),
            _ => Self::Nothing,
        }
    }
}

impl Engine {
    pub fn new(fault: Option<Fault>) -> Self {
        Self {
            registry: Registry::new(),
            tracers: Vec::new(),
            next_ops: 1,
            fault,
            outlived: BTreeSet::new(),
        }
    }

    /// What the operation changes.
    pub fn apply(&mut self, op: &Op) -> Result<Vec<Changed>, Error> {
        let result = self.apply_rightly(op);
        match (self.fault, &result) {
            (Some(Fault::ConflictOverlooked), Err(Error::Busy)) => Ok(Vec::new()),
            (Some(Fault::HalfDone), Err(Error::Busy)) => {
                // As if the first site had been done before the conflict was found.
                if let Op::Add(_, _, wanted) = op {
                    let first = wanted.sites.first().copied();
                    let part = Wanted {
                        all: false,
                        sites: first.into_iter().collect(),
                    };
                    let plan = self.registry.plan_add(0, Kind::default(), part.effective());
                    plan.unwrap().commit();
                }
                result
            }
            _ => result.map(|changes| self.spoil(op, changes)),
        }
    }

    fn apply_rightly(&mut self, op: &Op) -> Result<Vec<Changed>, Error> {
        self.apply_aside(op, |act| act())
    }

    /// The same. What is not the registry's own is done in `aside`.
    pub fn apply_aside(&mut self, op: &Op, aside: fn(&mut dyn FnMut())) -> Result<Vec<Changed>, Error> {
        let mut input = None;
        aside(&mut || input = Some(Input::new(op)));
        let Some(input) = &mut input else { unreachable!() };
        let tracer = |at: &usize| self.tracers.get(*at).copied().ok_or(Error::Invalid);
        let take = |set: &mut Effective| std::mem::replace(set, Effective::Only(SiteSet::new()));
        let plan = match (op, input) {
            (Op::Add(ops, kind, _), Input::Set(set)) => self.registry.plan_add(*ops, *kind, take(set))?,
            (Op::Change(at, _), Input::Set(set)) => self.registry.plan_change(tracer(at)?, take(set))?,
            (Op::Kind(at, kind), _) => self.registry.plan_kind(tracer(at)?, *kind)?,
            (Op::Remove(at), _) => self.registry.plan_remove(tracer(at)?)?,
            (_, Input::Loaded(sites)) => self.registry.plan_load(sites)?,
            (_, Input::Unloaded(sites)) => self.registry.plan_unload(sites)?,
            _ => unreachable!("it is numbered before"),
        };
        let mut changes = Vec::new();
        aside(&mut || changes = changed(&plan));
        let added = plan.tracer();
        plan.commit();
        match op {
            Op::Add(..) => {
                aside(&mut || self.tracers.push(added.unwrap()));
                self.next_ops += 1;
            }
            Op::Remove(at) => drop(self.tracers.remove(*at)),
            _ => {}
        }
        Ok(changes)
    }

    fn spoil(&mut self, op: &Op, mut changes: Vec<Changed>) -> Vec<Changed> {
        match (self.fault, op) {
            (Some(Fault::SiteForgotten), _) => drop(changes.pop()),
            (Some(Fault::SiteTouchedInVain), _) => {
                let named = |site: &Site| changes.iter().any(|change| change.site >= site.0);
                if let Some(site) = self.registry.present().iter().find(|site| !named(site)) {
                    let tracers = self.registry.tracers(site);
                    let same = (tracers.iter().collect::<Vec<_>>(), tracers.branch());
                    changes.push(Changed {
                        site: site.0,
                        from: same.clone(),
                        to: same,
                    });
                }
            }
            (Some(Fault::OrderLost), Op::Change(at, _)) => {
                let ops = self.registry.ops(self.tracers[*at]).unwrap();
                for (to, _) in changes.iter_mut().map(|change| &mut change.to) {
                    to.sort_by_key(|&other| other == ops);
                }
            }
            (Some(Fault::LoadedUntraced), Op::Load(..)) => changes.clear(),
            (Some(Fault::ExceptionOutlives), Op::Add(_, _, Wanted { all: true, sites })) => {
                self.outlived.extend(sites);
            }
            (Some(Fault::ExceptionOutlives), Op::Load(..)) => {
                changes.retain(|change| !self.outlived.contains(&change.site));
            }
            (Some(Fault::UnloadUnsaid), Op::Unload(_)) => changes.clear(),
            (Some(Fault::BranchStays), Op::Remove(_)) => {
                changes.iter_mut().for_each(|change| change.to.1 = change.from.1);
            }
            (Some(Fault::BeforeMistaken), Op::Remove(_)) => {
                changes
                    .iter_mut()
                    .for_each(|change| change.from = change.to.clone());
            }
            _ => {}
        }
        changes
    }
}
