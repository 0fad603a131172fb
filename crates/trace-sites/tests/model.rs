//! Random tracers and modules against a model that asks every tracer about every site. What the changes say,
//! one by one, must be all that happens. Registries with faults must be found out.

mod common;

use common::engine::{Changed, Engine, Fault, Op, Wanted};
use limen_trace_sites::sets::{Branch, Kind};
use limen_trace_sites::{Error, Site};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use std::collections::{BTreeMap, BTreeSet};

const SITES: u32 = 140;

struct Known {
    ops: u32,
    kind: Kind,
    all: bool,
    /// Those that it traces, or does not.
    sites: BTreeSet<u32>,
}

impl Known {
    fn traces(&self, site: u32) -> bool {
        self.sites.contains(&site) != self.all
    }
}

#[derive(Default)]
struct Model {
    /// Whether it may be traced.
    sites: BTreeMap<u32, bool>,
    /// In the order of registration.
    tracers: Vec<Known>,
    touched: BTreeSet<u32>,
    modified: BTreeSet<u32>,
}

impl Model {
    fn answer(&self, site: u32) -> Vec<&Known> {
        let traceable = self.sites.get(&site) == Some(&true);
        self.tracers
            .iter()
            .filter(|known| traceable && known.traces(site))
            .collect()
    }
    fn ops(&self, site: u32) -> Vec<u32> {
        self.answer(site).iter().map(|known| known.ops).collect()
    }
    fn branch(&self, site: u32) -> Branch {
        let answer = self.answer(site);
        let regs = answer.iter().any(|known| known.kind.regs || known.kind.ip_modify);
        match answer[..] {
            [] => Branch::Off,
            [
                Known {
                    kind:
                        Kind {
                            direct: Some(function),
                            ..
                        },
                    ..
                },
            ] if !regs => Branch::Direct(*function),
            _ if regs => Branch::Regs,
            _ => Branch::Plain,
        }
    }
    fn confined(&self, wanted: &Wanted) -> BTreeSet<u32> {
        let traceable = |site: &&u32| self.sites.get(site) == Some(&true);
        wanted.sites.iter().filter(traceable).copied().collect()
    }
    /// What has to come of it.
    fn expect(&self, op: &Op) -> Result<(), Error> {
        let all = |kind: &Kind, all| all && (kind.ip_modify || kind.direct.is_some());
        let (ops, kind, wanted) = match op {
            Op::Add(ops, kind, wanted) => (*ops, *kind, wanted.clone()),
            Op::Change(at, wanted) => {
                let known = self.tracers.get(*at).ok_or(Error::Invalid)?;
                (known.ops, known.kind, wanted.clone())
            }
            Op::Kind(at, kind) => {
                let known = self.tracers.get(*at).ok_or(Error::Invalid)?;
                (
                    known.ops,
                    *kind,
                    Wanted {
                        all: known.all,
                        sites: known.sites.clone(),
                    },
                )
            }
            Op::Remove(at) => return self.tracers.get(*at).map(|_| ()).ok_or(Error::Invalid),
            Op::Load(sites, _) => {
                let taken = sites.iter().any(|site| self.sites.contains_key(site));
                return if taken { Err(Error::Invalid) } else { Ok(()) };
            }
            Op::Unload(sites) => {
                let missing = sites.iter().any(|site| !self.sites.contains_key(site));
                return if missing { Err(Error::Invalid) } else { Ok(()) };
            }
            Op::UnloadSome(..) | Op::LoadSome(_) => unreachable!("they are numbered before"),
        };
        if all(&kind, wanted.all) {
            return Err(Error::Invalid);
        }
        let busy = self.confined(&wanted).iter().any(|&site| {
            self.answer(site).iter().any(|other| {
                let only = |kind: &Kind| kind.ip_modify || kind.direct.is_some();
                other.ops != ops && only(&kind) && only(&other.kind)
            })
        });
        if busy && !wanted.all {
            Err(Error::Busy)
        } else {
            Ok(())
        }
    }
    fn apply(&mut self, op: &Op) {
        match op {
            Op::Add(ops, kind, wanted) => {
                let sites = self.confined(wanted);
                self.tracers.push(Known {
                    ops: *ops,
                    kind: *kind,
                    all: wanted.all,
                    sites,
                });
            }
            Op::Change(at, wanted) => {
                let sites = self.confined(wanted);
                let known = &mut self.tracers[*at];
                (known.all, known.sites) = (wanted.all, sites);
            }
            Op::Kind(at, kind) => self.tracers[*at].kind = *kind,
            Op::Remove(at) => drop(self.tracers.remove(*at)),
            Op::Load(sites, barred) => {
                self.sites
                    .extend(sites.iter().map(|site| (*site, !barred.contains(site))));
            }
            Op::Unload(sites) => {
                for site in sites {
                    self.sites.remove(site);
                    self.touched.remove(site);
                    self.modified.remove(site);
                    self.tracers
                        .iter_mut()
                        .for_each(|known| _ = known.sites.remove(site));
                }
            }
            Op::UnloadSome(..) | Op::LoadSome(_) => unreachable!("they are numbered before"),
        }
        for site in 0..SITES {
            let answer = self.answer(site);
            let modified = answer
                .iter()
                .any(|known| known.kind.ip_modify || known.kind.direct.is_some());
            let touched = !answer.is_empty();
            self.touched.extend(touched.then_some(site));
            self.modified.extend(modified.then_some(site));
        }
    }
}

/// What the kernel's slots and branches hold, changed by nothing but the changes.
type Slots = BTreeMap<u32, (Vec<u32>, Branch)>;

fn carry_out(slots: &mut Slots, changes: &[Changed], kind_only: bool) -> Result<(), String> {
    let mut last = None;
    for change in changes {
        let site = change.site;
        if last >= Some(site) {
            return Err(format!("site {site} comes twice, or out of order"));
        }
        last = Some(site);
        let before = slots.remove(&site).unwrap_or((Vec::new(), Branch::Off));
        if before != change.from {
            return Err(format!("site {site} held {before:?}, not {:?}", change.from));
        }
        if change.from == change.to && !kind_only {
            return Err(format!("site {site} does not change: {:?}", change.to));
        }
        if change.to.1 != Branch::Off {
            slots.insert(site, change.to.clone());
        }
    }
    Ok(())
}

fn run(ops: &[Op], fault: Option<Fault>) -> Result<(), String> {
    let (mut engine, mut model, mut slots) = (Engine::new(fault), Model::default(), Slots::new());
    for op in ops {
        let op = &op.numbered(&engine);
        let expected = model.expect(op);
        let changes = engine.apply(op);
        if changes.as_ref().map(|_| ()).map_err(|error| *error) != expected {
            return Err(format!("{op:?}: {changes:?} instead of {expected:?}"));
        }
        if let Ok(changes) = changes {
            model.apply(op);
            carry_out(&mut slots, &changes, matches!(op, Op::Kind(..)))?;
        }
        for site in 0..SITES {
            let naive = (model.ops(site), model.branch(site));
            let slot = slots.get(&site).cloned().unwrap_or((Vec::new(), Branch::Off));
            if slot != naive {
                return Err(format!(
                    "after {op:?} site {site} holds {slot:?} instead of {naive:?}"
                ));
            }
            let told = engine.registry.tracers(Site(site));
            let flags = engine.registry.flags(Site(site));
            if told.iter().ne(naive.0.iter().copied())
                || told.branch() != naive.1
                || flags.count != naive.0.len()
                || flags.touched != model.touched.contains(&site)
                || flags.modified != model.modified.contains(&site)
            {
                return Err(format!(
                    "after {op:?} site {site} is said to hold {told:?}, {flags:?}"
                ));
            }
        }
        if engine
            .registry
            .present()
            .iter()
            .map(|site| site.0)
            .ne(model.sites.keys().copied())
        {
            return Err("other sites are present".into());
        }
    }
    Ok(())
}

fn sites() -> impl Strategy<Value = BTreeSet<u32>> {
    // Few indexes, so that they meet, around the ends of words.
    let site = prop_oneof![0_u32..8, 60_u32..68, 126_u32..SITES];
    proptest::collection::btree_set(site, 0..10)
}

fn wanted() -> impl Strategy<Value = Wanted> {
    (prop::bool::weighted(0.3), sites()).prop_map(|(all, sites)| Wanted { all, sites })
}

fn kind() -> impl Strategy<Value = Kind> {
    let weighted = prop::bool::weighted;
    (
        weighted(0.2),
        weighted(0.2),
        prop::option::weighted(0.2, 1_usize..3),
    )
        .prop_map(|(regs, ip_modify, direct)| Kind {
            regs,
            ip_modify,
            direct,
        })
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (kind(), wanted()).prop_map(|(kind, wanted)| Op::Add(0, kind, wanted)),
        3 => (0_usize..6, wanted()).prop_map(|(at, wanted)| Op::Change(at, wanted)),
        1 => (0_usize..6, kind()).prop_map(|(at, kind)| Op::Kind(at, kind)),
        2 => (0_usize..6).prop_map(Op::Remove),
        3 => (sites(), sites()).prop_map(|(sites, some)| {
            let barred = sites.intersection(&some).copied().collect();
            Op::Load(sites, barred)
        }),
        // Any sites, which seldom all exist, or some of those that do.
        1 => sites().prop_map(Op::Unload),
        2 => (0_usize..5, 0_usize..5).prop_map(|(skip, take)| Op::UnloadSome(skip, take)),
        2 => sites().prop_map(Op::LoadSome),
    ]
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let load = sites().prop_map(Op::LoadSome);
    (load, proptest::collection::vec(op(), 1..40)).prop_map(|(load, mut ops)| {
        ops.insert(0, load);
        ops
    })
}

fn cases(cases: u32) -> Config {
    Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 2000,
        ..Config::default()
    }
}

#[test]
fn as_the_model() {
    let mut runner = TestRunner::new(cases(3000));
    runner
        .run(&ops(), |ops| run(&ops, None).map_err(TestCaseError::fail))
        .unwrap();
}

#[test]
fn faults_are_found() {
    for fault in Fault::ALL {
        let mut runner = TestRunner::new(cases(3000));
        let result = runner.run(&ops(), |ops| run(&ops, Some(fault)).map_err(TestCaseError::fail));
        assert!(result.is_err(), "{fault:?} was not found");
    }
}

/// What has to happen in the sequences for the model to mean anything.
#[test]
fn sequences_reach_what_matters() {
    let mut runner = TestRunner::deterministic();
    let (mut many, mut busy, mut reused, mut direct) = (0, 0, 0, 0);
    for _ in 0..500 {
        let ops = ops().new_tree(&mut runner).unwrap().current();
        let (mut engine, mut gone) = (Engine::new(None), BTreeSet::new());
        for op in ops {
            let op = op.numbered(&engine);
            let result = engine.apply(&op);
            busy += u32::from(result == Err(Error::Busy));
            let Ok(changes) = result else { continue };
            many += changes.iter().filter(|change| change.to.0.len() > 2).count();
            direct += changes
                .iter()
                .filter(|change| matches!(change.to.1, Branch::Direct(_)))
                .count();
            match op {
                Op::Unload(sites) => gone.extend(sites),
                Op::Load(..) => {
                    reused += changes
                        .iter()
                        .filter(|change| gone.contains(&change.site))
                        .count()
                }
                _ => {}
            }
        }
    }
    assert!(
        many > 100 && busy > 20 && reused > 50 && direct > 50,
        "{many} {busy} {reused} {direct}"
    );
}
