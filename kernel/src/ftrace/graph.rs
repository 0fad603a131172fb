//! The tracer `function_graph`: records calls and returns of functions, with how deep they are and how long
//! they took. A traced function is made to return to `arch::exits`; where it really returns to its thread
//! keeps (`task::returns`). Functions that were traced return so even after the tracer has ended.
//!
//! All instances share one target of the sites, so that a call is kept once: [`calls`] asks the [`List`] of
//! those that record. What `set_graph_function`, `set_graph_notrace` and `max_graph_depth` say counts for
//! all.

mod calls;
mod plain;
pub mod selftest;

use super::function::{Functions, Settings};
use super::names::{self, Known};
use super::ops::{self, Registered, errno};
use super::site;
use super::target::{Data, Target};
use crate::mm::reserve::{handling, room, room_exact};
use crate::rcu::{self, Retire, Shared, Slot};
use crate::sync::{Mutex, MutexGuard};
use crate::tracing::clock::Clock;
use crate::tracing::tracers::{self, Look, Tracer};
use crate::tracing::{self, Instance};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use limen_linux_abi::Errno;
use limen_trace_returns::Only;
use limen_trace_sites::filter::{Effective, Which};
use limen_trace_sites::hash::Hash;
use limen_trace_sites::{Site, SiteSet};
use limen_trace_text::graph::{GraphOptions, NAMES};

/// How many instances can trace at once: a call has so many bits.
const MOST: u32 = u16::BITS;

/// `max_graph_depth`: calls this deep are not traced. 0: all are.
static MAX_DEPTH: AtomicU32 = AtomicU32::new(0);

/// For whom calls are traced.
#[derive(Clone)]
enum To {
    /// An instance records them; whose is in the settings.
    Instance(Arc<Instance>, Arc<Settings>),
    /// They are counted ([`profile`](super::profile)), with no regard to what is chosen for all instances.
    Profile,
}

impl To {
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Instance(one, _), Self::Instance(other, _)) => Arc::ptr_eq(one, other),
            (Self::Profile, Self::Profile) => true,
            _ => false,
        }
    }
}

/// One that records.
struct Recorder {
    to: To,
    /// Which functions are.
    sites: Effective,
    /// Its bit in the marks of a call.
    bit: u16,
    /// When it began. Marks of earlier calls are another's.
    since: u64,
    /// It records no more, though tracers may find it: there was no memory to take it out.
    ended: AtomicBool,
}

/// The one instance that records, if it traces every call of its functions ([`plain`]).
struct Plain {
    instance: Arc<Instance>,
    /// How its calls are known.
    only: Only,
}

/// Who records, and what.
struct List {
    plain: Option<Plain>,
    recorders: Vec<Arc<Recorder>>,
    /// Only functions of the one recorder are traced.
    exact: bool,
    /// Addresses of `set_graph_function`, ascending. `None`: all functions are traced.
    only: Option<Vec<usize>>,
    /// Those of `set_graph_notrace`.
    not: Vec<usize>,
}

impl Retire for List {}

/// What tracers find.
static LIVE: Slot<List> = Slot::empty();

struct State {
    registered: Option<Registered>,
    /// It is called for no other functions than those of `recorders`.
    exact: bool,
    recorders: Vec<Arc<Recorder>>,
    only: Hash,
    not: Hash,
}

static STATE: Mutex<State> = Mutex::new(State {
    registered: None,
    exact: false,
    recorders: Vec::new(),
    only: Hash::new(),
    not: Hash::new(),
});

/// The addresses of the sites of `hash`, ascending.
fn addresses(hash: &Hash) -> Result<Vec<usize>, Errno> {
    let mut all = Vec::new();
    room_exact(&mut all, hash.sites().len())?;
    all.extend(
        hash.sites()
            .iter()
            .filter_map(|site| site::address(site.0 as usize)),
    );
    // Numbers of modules do not follow addresses.
    all.sort_unstable();
    Ok(all)
}

/// A copy of who records, with room for one more.
fn copy(recorders: &[Arc<Recorder>]) -> Result<Vec<Arc<Recorder>>, Errno> {
    let mut all = Vec::new();
    room(&mut all, recorders.len() + 1)?;
    all.extend(recorders.iter().cloned());
    Ok(all)
}

/// All functions of all recorders.
fn union(recorders: &[Arc<Recorder>]) -> Result<Effective, Errno> {
    let mut all = SiteSet::new();
    let end = site::bound() as u32;
    all.reserve(end).map_err(errno)?;
    for site in (0..end).map(Site) {
        if recorders.iter().any(|recorder| recorder.sites.contains(site)) {
            all.insert(site).map_err(errno)?;
        }
    }
    Ok(Effective::Only(all))
}

impl State {
    /// Tracers find this from now on.
    fn show(&self, recorders: &[Arc<Recorder>], only: &Hash, not: &Hash) -> Result<(), Errno> {
        let mut list = List {
            plain: None,
            recorders: copy(recorders)?,
            exact: self.exact && recorders.len() == 1,
            only: (!only.is_empty()).then(|| addresses(only)).transpose()?,
            not: addresses(not)?,
        };
        if let [one] = &*list.recorders
            && let To::Instance(instance, _) = &one.to
            && list.exact
            && list.only.is_none()
            && list.not.is_empty()
            && MAX_DEPTH.load(Relaxed) == 0
        {
            list.plain = Some(Plain {
                instance: instance.clone(),
                only: Only::new(one.bit, one.since),
            });
        }
        let list = crate::sync::lockdep::fallible(|| Shared::try_new(list)).ok_or(Errno::ENOMEM)?;
        drop(LIVE.replace(Some(list)));
        Ok(())
    }

    /// These record from now on. On an error those of before do.
    fn change(&mut self, recorders: Vec<Arc<Recorder>>) -> Result<(), Errno> {
        let set = union(&recorders)?;
        // While the functions change, each recorder looks whether it is one of its own.
        self.exact = false;
        self.show(&recorders, &self.only, &self.not)?;
        let changed = match &self.registered {
            Some(registered) => ops::change(registered, set),
            None => {
                let target = Arc::new(Target::new(plain::entered, Data::None));
                ops::add(target, set).map(|registered| self.registered = Some(registered))
            }
        };
        if changed.is_ok() {
            self.exact = true;
            self.recorders = recorders;
        }
        match self.show(&self.recorders, &self.only, &self.not) {
            Err(_) if changed.is_ok() => {
                // Those of `recorders` are shown already, and go on looking.
                self.exact = false;
                changed
            }
            shown => changed.and(shown),
        }
    }
}

fn lock() -> MutexGuard<'static, State> {
    STATE.lock()
}

/// An instance begins to record, or what it records changes. `EBUSY`: too many instances do so. On an error
/// nothing has changed. May sleep.
pub fn record(instance: &Arc<Instance>, sites: Effective, shared: &Arc<Settings>) -> Result<(), Errno> {
    begin(To::Instance(instance.clone(), shared.clone()), sites)
}

/// All functions are counted from now on. Errors as those of [`record`]. May sleep.
pub(super) fn profile() -> Result<(), Errno> {
    let except = SiteSet::new();
    begin(To::Profile, Effective::All { except })
}

/// They are not counted any more when this returns. May sleep.
pub(super) fn stop_profile() {
    end(&To::Profile);
}

fn begin(to: To, sites: Effective) -> Result<(), Errno> {
    let mut state = lock();
    let recorded = state.begin(to, sites);
    if recorded.is_err() && state.recorders.is_empty() {
        crate::task::returns::no_longer();
    }
    recorded
}

impl State {
    /// As [`record`].
    fn begin(&mut self, to: To, sites: Effective) -> Result<(), Errno> {
        crate::task::returns::want()?;
        let mut new = copy(&self.recorders)?;
        let own = new.iter().position(|recorder| recorder.to.is(&to));
        let (bit, since) = match own {
            Some(own) => {
                let former = new.remove(own);
                (former.bit, former.since)
            }
            None => {
                let used = new.iter().fold(0, |used, recorder| used | recorder.bit);
                let free = (0..MOST).map(|n| 1 << n).find(|bit| used & bit == 0);
                (free.ok_or(Errno::EBUSY)?, Clock::Local.now())
            }
        };
        new.push(Arc::new(Recorder {
            to,
            sites,
            bit,
            since,
            ended: AtomicBool::new(false),
        }));
        self.change(new)
    }
}

/// An instance records no more when this returns. May sleep.
pub fn stop(instance: &Arc<Instance>) {
    end(&To::Instance(instance.clone(), Arc::default()));
}

fn end(to: &To) {
    let mut state = lock();
    let state = &mut *state;
    state.recorders.retain(|recorder| {
        let own = recorder.to.is(to);
        recorder.ended.fetch_or(own, Relaxed);
        !own
    });
    let last = state.recorders.is_empty();
    if last {
        drop(LIVE.replace(None));
    } else if let Ok(others) = copy(&state.recorders) {
        // Without memory the others go on, and find this one, which has ended.
        let _ = state.change(others);
    }
    if last {
        crate::task::returns::no_longer();
        if let Some(registered) = state.registered.take()
            && let Err((registered, _)) = ops::remove(registered)
        {
            // There is no memory for that; it finds nobody who records.
            state.registered = Some(registered);
        }
    }
    // Whoever found it has ended.
    rcu::synchronize();
}

/// See [`MAX_DEPTH`].
pub fn max_depth() -> u32 {
    MAX_DEPTH.load(Relaxed)
}

/// Changes [`MAX_DEPTH`]. `ENOMEM`: it is as before. May sleep.
pub fn set_max_depth(depth: u32) -> Result<(), Errno> {
    let state = lock();
    let before = MAX_DEPTH.swap(depth, Relaxed);
    if state.recorders.is_empty() {
        return Ok(());
    }
    let shown = state.show(&state.recorders, &state.only, &state.not);
    shown.inspect_err(|_| MAX_DEPTH.store(before, Relaxed))
}

/// Calls `f` with what `set_graph_function` or `set_graph_notrace` holds.
pub fn with_hash<R>(which: Which, f: impl FnOnce(&Hash) -> R) -> R {
    let state = lock();
    match which {
        Which::Filter => f(&state.only),
        Which::Notrace => f(&state.not),
    }
}

/// One of these files that was written is closed. On an error it holds what it held before.
pub fn set_hash(which: Which, mut hash: Hash) -> Result<(), Errno> {
    let mut state = lock();
    let names = names::known()?;
    handling(|| hash.settle(&names)).map_err(errno)?;
    let (only, not) = match which {
        Which::Filter => (&hash, &state.not),
        Which::Notrace => (&state.only, &hash),
    };
    if !state.recorders.is_empty() {
        state.show(&state.recorders, only, not)?;
    }
    match which {
        Which::Filter => state.only = hash,
        Which::Notrace => state.not = hash,
    }
    Ok(())
}

/// A module was loaded, whose functions are among `names`. On an error nothing has changed.
pub(super) fn module_loaded(names: &Known, module: &str) -> Result<(), Errno> {
    let mut state = lock();
    let (only, not) = handling(|| {
        let (mut only, mut not) = (state.only.try_clone()?, state.not.try_clone()?);
        only.loaded(names, module)?;
        not.loaded(names, module)?;
        Ok((only, not))
    })
    .map_err(errno)?;
    if !state.recorders.is_empty() {
        state.show(&state.recorders, &only, &not)?;
    }
    (state.only, state.not) = (only, not);
    Ok(())
}

/// Sites are gone with their module. What tracers find may still have them: it is made anew before another
/// module comes.
pub(super) fn forget(sites: &[Site]) {
    let mut state = lock();
    for site in sites {
        state.only.forget(*site);
        state.not.forget(*site);
    }
}

/// Runs `f` while calls and returns of some functions are recorded into the top instance: for a self-test.
pub(super) fn while_recorded<R>(set: Effective, f: impl FnOnce() -> R) -> Result<R, Errno> {
    let instance = tracing::top()?;
    instance.expand()?;
    record(instance, set, &Arc::default())?;
    let result = f();
    stop(instance);
    instance.clear(None)?;
    Ok(result)
}

struct FunctionGraph;

const OPTIONS: [&str; NAMES.len()] = {
    let mut names = [""; NAMES.len()];
    let mut n = 0;
    while n < names.len() {
        names[n] = NAMES[n].0;
        n += 1;
    }
    names
};

fn option(number: usize) -> GraphOptions {
    NAMES.get(number).map_or(GraphOptions::empty(), |row| row.1)
}

impl Tracer for FunctionGraph {
    fn name(&self) -> &'static str {
        "function_graph"
    }
    fn look(&self) -> Look {
        Look::Graph
    }
    fn start(&self, instance: &Arc<Instance>) -> Result<(), Errno> {
        Functions::of(instance)?.begin_graph(instance)
    }
    fn stop(&self, instance: &Arc<Instance>) {
        if let Ok(functions) = Functions::of(instance) {
            functions.end_graph(instance);
        }
    }
    fn options(&self) -> &'static [&'static str] {
        &OPTIONS
    }
    fn option(&self, instance: &Instance, number: usize) -> bool {
        instance.graph_options().contains(option(number))
    }
    fn set_option(&self, instance: &Arc<Instance>, number: usize, on: bool) -> Result<(), Errno> {
        instance.set_graph_option(option(number), on);
        Ok(())
    }
}

/// The tracer can be chosen from now on. Boot.
pub fn init() {
    crate::arch::site_table::when_functions_return(plain::returned);
    tracers::register(&FunctionGraph);
}
