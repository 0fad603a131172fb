//! All tracers of functions, and what each site calls because of them: the decisions are
//! `limen_trace_sites`'s.

use super::site::{self, Change};
use super::target::{Data, Target};
use super::texts::{self, Function, Text};
use crate::mm::reserve::{handling, room, room_exact};
use crate::sync::Mutex;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use limen_linux_abi::Errno;
use limen_trace_sites::filter::Effective;
use limen_trace_sites::sets::{Flags, Plan, Registry, Slot, Tracer, Tracers};
use limen_trace_sites::{Error, Site};

/// The error that a program gets.
pub fn errno(error: Error) -> Errno {
    match error {
        Error::NoMemory => Errno::ENOMEM,
        Error::Invalid => Errno::EINVAL,
        Error::Range => Errno::ERANGE,
        Error::Busy => Errno::EBUSY,
        Error::Permission => Errno::EPERM,
    }
}

struct State {
    /// A tracer's number here is its place in `targets`.
    registry: Registry<usize>,
    targets: Vec<Option<Arc<Target>>>,
    /// No site calls a tracer (`ftrace_enabled`).
    disabled: bool,
}

static STATE: Mutex<State> = Mutex::new(State {
    registry: Registry::new(),
    targets: Vec::new(),
    disabled: false,
});

/// A registered tracer of functions.
#[derive(Debug)]
pub struct Registered {
    tracer: Tracer,
    place: usize,
}

impl State {
    /// Whether something was ever traced.
    fn has_begun(&self) -> bool {
        self.registry.present().iter().next().is_some()
    }

    /// Tells the registry of all sites, at first use.
    fn begin(&mut self) -> Result<(), Errno> {
        if self.has_begun() {
            return Ok(());
        }
        let texts = texts::all()?;
        let of_texts = || texts.iter().flat_map(|text| text.numbers());
        let mut sites = Vec::new();
        room_exact(&mut sites, site::count() + of_texts().count())?;
        sites.extend((0..site::count()).map(|n| (Site(n as u32), true)));
        sites.extend(of_texts().map(|site| (*site, true)));
        handling(|| self.registry.plan_load(&sites))
            .map_err(errno)?
            .commit();
        Ok(())
    }
}

/// The targets of sites with several tracers. Sites with the same tracers share one.
struct Vectors<'a> {
    targets: &'a [Option<Arc<Target>>],
    made: Vec<(Vec<usize>, Arc<Target>)>,
}

/// So many are looked through for one that is the same.
const LOOKED_THROUGH: usize = 16;

impl Vectors<'_> {
    /// What a site with these tracers calls.
    fn at(&mut self, tracers: Tracers<'_, usize>) -> Result<Option<Arc<Target>>, Errno> {
        Ok(match tracers.slot() {
            Slot::None => None,
            Slot::One(place) => match self.targets.get(place).cloned().flatten() {
                // Sites call what saves them.
                Some(target) if target.kind().needs_regs() => Some(self.of(tracers)?),
                target => target,
            },
            Slot::Many(tracers) => Some(self.of(tracers)?),
        })
    }

    fn of(&mut self, tracers: Tracers<'_, usize>) -> Result<Arc<Target>, Errno> {
        let same = |made: &&(Vec<usize>, Arc<Target>)| tracers.iter().eq(made.0.iter().copied());
        if let Some((_, target)) = self.made.iter().rev().take(LOOKED_THROUGH).find(same) {
            return Ok(target.clone());
        }
        let mut places = Vec::new();
        room_exact(&mut places, tracers.len())?;
        places.extend(tracers.iter());
        let mut list = Vec::new();
        room_exact(&mut list, places.len())?;
        list.extend(
            places
                .iter()
                .filter_map(|place| self.targets.get(*place)?.clone()),
        );
        let target = Arc::new(Target::many(list)?);
        room(&mut self.made, 1)?;
        self.made.push((places, target.clone()));
        Ok(target)
    }
}

/// Carries out a plan. On an error nothing has changed.
fn carry_out(plan: Plan<'_, usize>, targets: &[Option<Arc<Target>>], disabled: bool) -> Result<(), Errno> {
    if disabled {
        plan.commit();
        return Ok(());
    }
    let mut vectors = Vectors {
        targets,
        made: Vec::new(),
    };
    let mut changes: Vec<Change> = Vec::new();
    for change in plan.changes() {
        let to = vectors.at(change.to)?;
        room(&mut changes, 1)?;
        changes.push((change.site.0 as usize, to));
    }
    site::change(&changes)?;
    plan.commit();
    Ok(())
}

/// `target` is called for all functions of `set` from now on. `ENOMEM`; `EBUSY`: one of them has a tracer
/// that is in its way; `EINVAL`: what changes where functions go is not for all. May sleep.
pub fn add(target: Arc<Target>, set: Effective) -> Result<Registered, Errno> {
    let mut state = STATE.lock();
    let state = &mut *state;
    state.begin()?;
    let place = match state.targets.iter().position(Option::is_none) {
        Some(place) => place,
        None => {
            room(&mut state.targets, 1)?;
            state.targets.push(None);
            state.targets.len() - 1
        }
    };
    let kind = target.kind();
    if state.disabled && matches!(target.data, Data::Patch(_)) {
        return Err(Errno::EBUSY);
    }
    state.targets[place] = Some(target);
    let added = (|| {
        let plan = handling(|| state.registry.plan_add(place, kind, set)).map_err(errno)?;
        let tracer = plan.tracer().ok_or(Errno::EINVAL)?;
        carry_out(plan, &state.targets, state.disabled)?;
        Ok(Registered { tracer, place })
    })();
    if added.is_err() {
        state.targets[place] = None;
    }
    added
}

/// Its functions are those of `set` from now on. On an error they are those of before. May sleep.
pub fn change(of: &Registered, set: Effective) -> Result<(), Errno> {
    let mut state = STATE.lock();
    let state = &mut *state;
    let plan = handling(|| state.registry.plan_change(of.tracer, set)).map_err(errno)?;
    carry_out(plan, &state.targets, state.disabled)
}

/// `target` takes the place of the one that was registered: each call has one of them. When this returns no
/// CPU is in the former. Errors as [`add`]'s: it has not. May sleep.
pub fn replace(of: &Registered, target: Arc<Target>) -> Result<(), Errno> {
    let mut state = STATE.lock();
    let state = &mut *state;
    let kind = target.kind();
    let former = state.targets[of.place].replace(target);
    let plan = state.registry.plan_kind(of.tracer, kind).map_err(errno);
    let replaced = plan.and_then(|plan| carry_out(plan, &state.targets, state.disabled));
    if replaced.is_err() {
        state.targets[of.place] = former;
    }
    replaced
}

/// Whether sites call their tracers (`ftrace_enabled`). May sleep.
pub fn are_enabled() -> bool {
    !STATE.lock().disabled
}

/// Lets sites call their tracers, or not: no function is traced then, and tracers come and go as before.
/// `ENOMEM`, `EBUSY` if a function is patched: it is as it was. May sleep.
pub fn enable(on: bool) -> Result<(), Errno> {
    let mut state = STATE.lock();
    let state = &mut *state;
    if state.disabled != on {
        return Ok(());
    }
    let is_patch = |target: &Arc<Target>| matches!(target.data, Data::Patch(_));
    if !on && state.targets.iter().flatten().any(is_patch) {
        return Err(Errno::EBUSY);
    }
    let mut vectors = Vectors {
        targets: &state.targets,
        made: Vec::new(),
    };
    let mut changes: Vec<Change> = Vec::new();
    for site in state.registry.present().iter() {
        let tracers = state.registry.tracers(site);
        if tracers.is_empty() {
            continue;
        }
        let to = if on { vectors.at(tracers)? } else { None };
        room(&mut changes, 1)?;
        changes.push((site.0 as usize, to));
    }
    site::change(&changes)?;
    state.disabled = !on;
    Ok(())
}

/// Ends it: when this returns its target is not called any more, and nobody here refers to it. `Err`: there
/// is no memory to change the sites with, and it goes on. May sleep.
pub fn remove(of: Registered) -> Result<(), (Registered, Errno)> {
    let mut state = STATE.lock();
    let state = &mut *state;
    let removed = match state.registry.plan_remove(of.tracer).map_err(errno) {
        Ok(plan) => carry_out(plan, &state.targets, state.disabled),
        Err(errno) => Err(errno),
    };
    match removed {
        Ok(()) => {
            state.targets[of.place] = None;
            Ok(())
        }
        Err(errno) => Err((of, errno)),
    }
}

/// Functions of a module, by address, can be traced, and are by those who trace everything. Their numbers are
/// from `least` on. `ENOMEM`: nothing has changed. May sleep.
pub fn load(module: String, functions: Vec<Function>, least: usize) -> Result<Arc<Text>, Errno> {
    let mut state = STATE.lock();
    let state = &mut *state;
    let text = texts::add(module, functions, least)?;
    let told = (|| {
        if !state.has_begun() {
            return Ok(());
        }
        let mut sites = Vec::new();
        room_exact(&mut sites, text.numbers().len())?;
        sites.extend(text.numbers().iter().map(|site| (*site, true)));
        let plan = handling(|| state.registry.plan_load(&sites)).map_err(errno)?;
        carry_out(plan, &state.targets, state.disabled)
    })();
    if let Err(errno) = told {
        texts::remove(&text);
        return Err(errno);
    }
    Ok(text)
}

/// Functions of a module, which nobody executes any more, are gone: their sites are not written again.
pub fn unload(text: &Text) {
    let mut state = STATE.lock();
    if let Ok(plan) = state.registry.plan_unload(text.numbers()) {
        plan.commit();
    }
    texts::remove(text);
}

/// Calls `f` with each site that was traced since the kernel or its module was loaded, and what is known of
/// it.
pub fn each_touched(mut f: impl FnMut(Site, Flags)) {
    let state = STATE.lock();
    for site in state.registry.present().iter() {
        let flags = state.registry.flags(site);
        if flags.touched {
            f(site, flags);
        }
    }
}

/// Calls `f` with each site that is traced, what is known of it, and its targets.
pub fn each_traced(mut f: impl FnMut(Site, Flags, &[Arc<Target>])) -> Result<(), Errno> {
    let state = STATE.lock();
    let mut targets = Vec::new();
    if state.disabled {
        return Ok(());
    }
    for site in state.registry.present().iter() {
        let flags = state.registry.flags(site);
        if flags.count == 0 {
            continue;
        }
        targets.clear();
        room(&mut targets, flags.count)?;
        let places = state.registry.tracers(site);
        targets.extend(
            places
                .iter()
                .filter_map(|place| state.targets.get(place)?.clone()),
        );
        f(site, flags, &targets);
    }
    Ok(())
}
