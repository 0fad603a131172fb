//! What the registry answers, by example.

use limen_trace_sites::filter::Effective;
use limen_trace_sites::sets::{Branch, Kind, Registry, Slot, Step, Steps, Tracer};
use limen_trace_sites::{Error, Site, SiteSet};

fn only(sites: &[u32]) -> Effective {
    let mut set = SiteSet::new();
    sites
        .iter()
        .for_each(|&site| assert!(set.insert(Site(site)).unwrap()));
    Effective::Only(set)
}

fn all() -> Effective {
    Effective::All {
        except: SiteSet::new(),
    }
}

fn with_sites(count: u32) -> Registry<char> {
    let mut registry = Registry::new();
    let sites: Vec<_> = (0..count).map(|site| (Site(site), true)).collect();
    registry.plan_load(&sites).unwrap().commit();
    registry
}

fn add(registry: &mut Registry<char>, ops: char, kind: Kind, set: Effective) -> Tracer {
    let plan = registry.plan_add(ops, kind, set).unwrap();
    let tracer = plan.tracer().unwrap();
    plan.commit();
    tracer
}

fn held(registry: &Registry<char>, site: u32) -> String {
    match registry.tracers(Site(site)).slot() {
        Slot::None => "none".into(),
        Slot::One(ops) => format!("one {ops}"),
        Slot::Many(many) => format!("many {}", many.iter().collect::<String>()),
    }
}

const PLAIN: Kind = Kind {
    regs: false,
    ip_modify: false,
    direct: None,
};
const REGS: Kind = Kind { regs: true, ..PLAIN };
const MODIFY: Kind = Kind {
    ip_modify: true,
    ..PLAIN
};

fn direct(function: usize) -> Kind {
    Kind {
        direct: Some(function),
        ..PLAIN
    }
}

#[test]
fn slots() {
    let mut registry = with_sites(3);
    assert_eq!(held(&registry, 0), "none");
    let a = add(&mut registry, 'a', PLAIN, only(&[0]));
    add(&mut registry, 'b', PLAIN, all());
    let c = add(&mut registry, 'c', PLAIN, only(&[0, 2]));
    assert_eq!(
        [0, 1, 2].map(|site| held(&registry, site)),
        ["many abc", "one b", "many bc"]
    );
    // Who gets another set keeps its place.
    registry.plan_change(a, only(&[1, 2])).unwrap().commit();
    assert_eq!(
        [0, 1, 2].map(|site| held(&registry, site)),
        ["many bc", "many ab", "many abc"]
    );
    registry.plan_remove(c).unwrap().commit();
    assert_eq!(
        [0, 1, 2].map(|site| held(&registry, site)),
        ["one b", "many ab", "many ab"]
    );
    assert_eq!(registry.plan_remove(c).err(), Some(Error::Invalid));
    assert_eq!((registry.ops(a), registry.ops(c)), (Some('a'), None));
    // The number is used again, the place in the order is not.
    add(&mut registry, 'd', PLAIN, only(&[0, 1]));
    assert_eq!(
        [0, 1, 2].map(|site| held(&registry, site)),
        ["many bd", "many abd", "many ab"]
    );
    // There is no such site.
    assert_eq!(held(&registry, 3), "none");
}

#[test]
fn a_plan_that_is_dropped_never_was() {
    let mut registry = with_sites(2);
    let a = add(&mut registry, 'a', PLAIN, only(&[0]));
    let before = format!("{registry:?}");
    drop(registry.plan_add('b', REGS, all()).unwrap());
    drop(registry.plan_change(a, all()).unwrap());
    drop(registry.plan_kind(a, REGS).unwrap());
    drop(registry.plan_remove(a).unwrap());
    drop(registry.plan_load(&[(Site(2), true)]).unwrap());
    drop(registry.plan_unload(&[Site(0)]).unwrap());
    assert_eq!(format!("{registry:?}"), before);
}

#[test]
fn one_of_a_kind() {
    let mut registry = with_sites(3);
    add(&mut registry, 'a', MODIFY, only(&[1]));
    add(&mut registry, 'b', direct(64), only(&[2]));
    let before = format!("{registry:?}");
    // All or nothing: site 0 would be free.
    for (kind, set, error) in [
        (MODIFY, only(&[0, 1]), Error::Busy),
        (direct(65), only(&[0, 2]), Error::Busy),
        // What changes where a function goes, and what is called directly, are in each other's way.
        (MODIFY, only(&[2]), Error::Busy),
        (direct(65), only(&[1]), Error::Busy),
        (MODIFY, all(), Error::Invalid),
        (direct(65), all(), Error::Invalid),
    ] {
        assert_eq!(registry.plan_add('c', kind, set).err(), Some(error));
    }
    let first_of = |state: &str| state.split(" records").next().unwrap().to_string();
    assert_eq!(first_of(&format!("{registry:?}")), first_of(&before));
    let c = add(&mut registry, 'c', MODIFY, only(&[0]));
    assert_eq!(registry.plan_change(c, only(&[1])).err(), Some(Error::Busy));
    assert_eq!(registry.plan_change(c, only(&[0, 2])).err(), Some(Error::Busy));
    assert_eq!(registry.plan_change(c, all()).err(), Some(Error::Invalid));
    assert_eq!(held(&registry, 0), "one c");
    // Its own kind is not in its way.
    registry.plan_kind(c, MODIFY).unwrap().commit();
}

#[test]
fn branches_and_steps() {
    let mut registry = with_sites(1);
    let step = |registry: &mut Registry<char>, kind| {
        let plan = registry.plan_add('x', kind, only(&[0])).unwrap();
        let steps = plan.changes().next().unwrap().steps();
        let tracer = plan.tracer().unwrap();
        plan.commit();
        (tracer, steps, registry.tracers(Site(0)).branch())
    };
    let then = |first, wait, second| Steps {
        first,
        wait,
        second: Some(second),
    };
    let to = Step::Branch;
    let (direct_one, steps, branch) = step(&mut registry, direct(64));
    assert_eq!(
        (steps, branch),
        (
            then(to(Branch::Direct(64)), false, Step::Slot),
            Branch::Direct(64)
        )
    );
    // Another function instead.
    let plan = registry.plan_kind(direct_one, direct(128)).unwrap();
    assert_eq!(
        plan.changes().next().unwrap().steps(),
        then(to(Branch::Direct(128)), false, Step::Slot)
    );
    plan.commit();
    // A tracer joins: it goes through a trampoline.
    let (plain, steps, branch) = step(&mut registry, PLAIN);
    assert_eq!(
        (steps, branch),
        (then(Step::Slot, false, to(Branch::Plain)), Branch::Plain)
    );
    assert_eq!(registry.flags(Site(0)).direct, Some(128));
    // One that needs registers: the trampoline that has them first, until nobody is in the other.
    let (regs, steps, branch) = step(&mut registry, REGS);
    assert_eq!(
        (steps, branch),
        (then(to(Branch::Regs), true, Step::Slot), Branch::Regs)
    );
    let plan = registry.plan_remove(regs).unwrap();
    let change = plan.changes().next().unwrap();
    assert_eq!(
        (change.from.len(), change.to.len(), change.to.is_empty()),
        (3, 2, false)
    );
    assert_eq!(change.steps(), then(Step::Slot, false, to(Branch::Plain)));
    plan.commit();
    registry.plan_remove(direct_one).unwrap().commit();
    let plan = registry.plan_remove(plain).unwrap();
    let change = plan.changes().next().unwrap();
    assert!(matches!(
        (change.from.slot(), change.to.slot()),
        (Slot::One('x'), Slot::None)
    ));
    assert_eq!(change.steps(), then(to(Branch::Off), false, Step::Slot));
    plan.commit();
    let flags = registry.flags(Site(0));
    assert!(flags.touched && flags.modified && flags.count == 0);
}

#[test]
fn modules() {
    let mut registry = with_sites(4);
    add(&mut registry, 'a', PLAIN, all());
    let mut except = SiteSet::new();
    except.insert(Site(4)).unwrap();
    // Nobody can be asked to leave out what does not exist.
    add(&mut registry, 'b', PLAIN, Effective::All { except });
    add(&mut registry, 'c', PLAIN, only(&[1, 4]));
    let sites = [(Site(4), true), (Site(5), false), (Site(6), true)];
    registry.plan_load(&sites).unwrap().commit();
    assert_eq!(
        [1, 4, 5, 6].map(|site| held(&registry, site)),
        ["many abc", "many ab", "none", "many ab"]
    );
    assert_eq!(registry.present().len(), 7);
    assert_eq!(registry.traceable().len(), 6);
    assert_eq!(registry.vacant(2), Site(7));
    registry
        .plan_unload(&[Site(1), Site(2), Site(4)])
        .unwrap()
        .commit();
    assert_eq!(
        [1, 2, 3].map(|count| registry.vacant(count)),
        [Site(1), Site(1), Site(7)]
    );
    assert!(!registry.flags(Site(4)).touched);
    for wrong in [
        &[(Site(0), true)][..],
        &[(Site(9), true), (Site(9), true)],
        &[(Site(u32::MAX), true)],
    ] {
        assert_eq!(registry.plan_load(wrong).err(), Some(Error::Invalid));
    }
    for wrong in [&[Site(1)][..], &[Site(3), Site(0)]] {
        assert_eq!(registry.plan_unload(wrong).err(), Some(Error::Invalid));
    }
    registry.plan_load(&[(Site(1), true)]).unwrap().commit();
    assert_eq!(held(&registry, 1), "many ab");
}

#[test]
fn sites_that_nobody_may_trace() {
    let mut registry = with_sites(2);
    registry.disable(Site(0)).unwrap();
    let a = add(&mut registry, 'a', PLAIN, all());
    registry.plan_change(a, only(&[0, 1])).unwrap().commit();
    assert_eq!([0, 1].map(|site| held(&registry, site)), ["none", "one a"]);
    assert_eq!(registry.disable(Site(1)), Err(Error::Busy));
}
