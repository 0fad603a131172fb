//! Memory that runs out, at every allocation of every operation: nothing has changed then, and all goes on as
//! if it had not been tried.

mod common;

use common::engine::{Engine, Op, Wanted};
use common::{Table, apply, listed};
use limen_trace_sites::filter::{Filter, Which};
use limen_trace_sites::pids::{PidFilter, Pids, Shown, written};
use limen_trace_sites::profile::{Profile, Total};
use limen_trace_sites::sets::{Kind, Registry};
use limen_trace_sites::tokens::Tokens;
use limen_trace_sites::{Error, Site, SiteSet};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeSet;

/// The system's memory, which runs out when it is asked to.
struct Failing;

thread_local! {
    /// How many allocations of this thread succeed; `None`: all.
    static LEFT: Cell<Option<u32>> = const { Cell::new(None) };
    static FAILED: Cell<bool> = const { Cell::new(false) };
}

fn fails() -> bool {
    match LEFT.get() {
        Some(0) => {
            FAILED.set(true);
            true
        }
        Some(left) => {
            LEFT.set(Some(left - 1));
            false
        }
        None => false,
    }
}

// SAFETY: what is handed out is the system allocator's; null says that there is none.
unsafe impl GlobalAlloc for Failing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if fails() {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise about `layout` is what the system allocator asks for.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: all memory is the system allocator's, with the layout it was asked for.
        unsafe { System.dealloc(memory, layout) }
    }
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if fails() {
            return std::ptr::null_mut();
        }
        // SAFETY: as for `dealloc`; the caller's promise about `size` is what is asked for.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static MEMORY: Failing = Failing;

/// Does `act` with memory for `allowed` allocations. `None`: there was enough.
fn with_memory_for<T>(allowed: u32, act: impl FnOnce() -> Result<T, Error>) -> Option<Result<T, Error>> {
    FAILED.set(false);
    LEFT.set(Some(allowed));
    let result = act();
    LEFT.set(None);
    if FAILED.get() { Some(result) } else { None }
}

/// Memory does not run out while `act` is done.
fn aside(act: &mut dyn FnMut()) {
    let left = LEFT.take();
    act();
    LEFT.set(left);
}

/// Lets each allocation of `act` fail, on a fresh `subject`, and says how many there were.
fn fail_everywhere<S, T>(
    fresh: impl Fn() -> S,
    show: impl Fn(&S) -> String,
    mut act: impl FnMut(&mut S) -> Result<T, Error>,
) -> u32 {
    let mut done = fresh();
    let before = show(&done);
    assert!(act(&mut done).is_ok());
    let after = show(&done);
    for allowed in 0.. {
        let mut subject = fresh();
        let Some(result) = with_memory_for(allowed, || act(&mut subject)) else {
            return allowed;
        };
        assert_eq!(result.map(|_| ()), Err(Error::NoMemory), "allocation {allowed}");
        assert_eq!(show(&subject), before, "allocation {allowed}");
        // It can be done again.
        assert!(act(&mut subject).is_ok());
        assert_eq!(show(&subject), after);
    }
    unreachable!()
}

fn sites(sites: impl IntoIterator<Item = u32>) -> BTreeSet<u32> {
    sites.into_iter().collect()
}

fn wanted(all: bool, range: impl IntoIterator<Item = u32>) -> Wanted {
    Wanted {
        all,
        sites: sites(range),
    }
}

fn show(registry: &Registry<u32>) -> String {
    let tracers = (0..300).map(|index| {
        let site = Site(index);
        (
            registry.tracers(site).iter().collect::<Vec<_>>(),
            registry.flags(site),
        )
    });
    let list = |set: &SiteSet| set.iter().collect::<Vec<_>>();
    let present = (list(registry.present()), list(registry.traceable()));
    format!(
        "{:?} {present:?} {}",
        tracers.collect::<Vec<_>>(),
        registry.vacant(3).0
    )
}

/// What each step of the life of a registry does, with all those before it done.
#[test]
fn registry() {
    let regs = Kind {
        regs: true,
        ..Kind::default()
    };
    let direct = Kind {
        direct: Some(7),
        ..Kind::default()
    };
    let steps = [
        Op::Load(sites(0..100), sites([5])),
        Op::Add(1, Kind::default(), wanted(false, 0..10)),
        Op::Add(2, regs, wanted(true, [1, 2])),
        Op::Add(3, direct, wanted(false, [3, 70])),
        Op::Add(4, Kind::default(), wanted(true, [])),
        Op::Change(0, wanted(false, 5..90)),
        Op::Change(0, wanted(true, 5..90)),
        Op::Kind(
            2,
            Kind {
                direct: Some(8),
                ..direct
            },
        ),
        Op::Load(sites(100..200), BTreeSet::new()),
        Op::Remove(1),
        Op::Unload(sites(50..150)),
        Op::Load(sites((60..150).chain(200..300)), BTreeSet::new()),
        Op::Add(5, regs, wanted(false, 0..300)),
        Op::Change(1, wanted(false, [])),
        Op::Remove(0),
        Op::Remove(1),
    ];
    let mut allocations = 0;
    for at in 0..steps.len() {
        let fresh = || {
            let mut engine = Engine::new(None);
            steps[..at].iter().for_each(|op| _ = engine.apply(op).unwrap());
            engine
        };
        let act = |engine: &mut Engine| engine.apply_aside(&steps[at], aside);
        let needed = fail_everywhere(fresh, |engine: &Engine| show(&engine.registry), act);
        // What has to end can end.
        let ends = matches!(steps[at], Op::Remove(_) | Op::Unload(_) | Op::Kind(..));
        assert!(!ends || needed == 0, "{:?} needs memory", steps[at]);
        allocations += needed;
    }
    assert!(allocations > 300, "{allocations}");
}

/// A tracer takes no more memory for tracers of other functions.
#[test]
fn irrelevant_tracers_cost_nothing() {
    let needed = |irrelevant: u32| {
        let fresh = || {
            let mut engine = Engine::new(None);
            engine.apply(&Op::Load(sites(0..64), BTreeSet::new())).unwrap();
            for ops in 0..=irrelevant {
                engine
                    .apply(&Op::Add(ops, Kind::default(), wanted(false, 10..64)))
                    .unwrap();
            }
            // So that the table of tracers need not grow.
            engine.apply(&Op::Remove(0)).unwrap();
            engine
                .apply(&Op::Add(1000, Kind::default(), wanted(false, 0..5)))
                .unwrap();
            engine.apply(&Op::Remove(irrelevant as usize)).unwrap();
            engine
        };
        let add = Op::Add(2000, Kind::default(), wanted(false, 0..10));
        fail_everywhere(
            fresh,
            |engine| show(&engine.registry),
            |engine: &mut Engine| engine.apply_aside(&add, aside),
        )
    };
    let alone = needed(0);
    assert!(alone > 0);
    assert_eq!([1, 2, 10, 100].map(needed), [alone; 4]);
}

#[test]
fn filters() {
    let functions = ["a0", "a1", "b0", "b1"].map(|name| Some((name, None)));
    let kernel = Table(functions.iter().cycle().take(100).copied().collect());
    let mut loaded = kernel.clone();
    loaded.0.extend((0..1000).map(|_| Some(("a_module", Some("m")))));
    let shown = |filter: &Filter| {
        let lists = [Which::Filter, Which::Notrace].map(|which| listed(filter, which, &loaded));
        let effective = filter.effective().unwrap();
        let traced = (0..1100).filter(|&site| effective.contains(Site(site)));
        format!("{lists:?} {:?}", traced.collect::<Vec<_>>())
    };
    let with = |words: &[(Which, &str)]| {
        let mut filter = Filter::new();
        words
            .iter()
            .for_each(|(which, word)| apply(filter.hash_mut(*which), &kernel, word).unwrap());
        filter
    };
    let mut allocations = 0;
    for (words, which, word) in [
        (&[][..], Which::Filter, "a*"),
        (
            &[(Which::Filter, "a*"), (Which::Filter, "a*:mod:m")],
            Which::Filter,
            "b*:mod:n",
        ),
        (&[(Which::Filter, "b?")], Which::Notrace, "*0"),
    ] {
        allocations += fail_everywhere(
            || with(words),
            shown,
            |filter| apply(filter.hash_mut(which), &kernel, word),
        );
    }
    let waiting = || with(&[(Which::Filter, "a*:mod:m"), (Which::Notrace, "*e:mod:m")]);
    allocations += fail_everywhere(waiting, shown, |filter| filter.loaded(&loaded, "m"));
    allocations += fail_everywhere(waiting, shown, |filter| {
        let mut copy = filter.hash(Which::Filter).try_clone()?;
        filter.effective_with(Which::Filter, &copy)?;
        std::mem::swap(filter.hash_mut(Which::Filter), &mut copy);
        Ok(())
    });
    assert!(allocations >= 9, "{allocations}");
}

#[test]
fn the_others() {
    let pids = |text: &str| written(None, text.as_bytes()).unwrap();
    let list = |list: &Option<Pids>| Shown(list.as_ref()).to_string();
    let mut allocations = 0;
    allocations += fail_everywhere(
        || pids("1 600"),
        list,
        |list| {
            *list = written(list.as_ref(), b"2 5000 9000 70000 80000 90000")?;
            Ok(())
        },
    );
    let both = || PidFilter {
        only: pids("1"),
        not: pids("1 600 1200 1800"),
    };
    let shown = |filter: &PidFilter| format!("{}/{}", list(&filter.only), list(&filter.not));
    allocations += fail_everywhere(both, shown, |filter| filter.forked(1, 9000));
    let called = Profile::new(2).unwrap();
    called.hit(Site(1));
    let shown = |all: &Vec<(Site, Total)>| format!("{all:?}");
    allocations += fail_everywhere(Vec::new, shown, |all| called.add_to(all, 7));
    let shown = |set: &SiteSet| format!("{:?}", set.iter().collect::<Vec<_>>());
    allocations += fail_everywhere(SiteSet::new, shown, |set| set.insert(Site(900)));
    let shown = |tokens: &Tokens| format!("{:?}", tokens.last());
    allocations += fail_everywhere(
        || Tokens::new(99),
        shown,
        |tokens| tokens.next(&mut &b"a_word_that_is_not_ended"[..]).map(|_| ()),
    );
    assert!(allocations >= 8, "{allocations}");
}
