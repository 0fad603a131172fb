//! Patches, from when they are enabled until they are gone. One comes or goes at a time.

use crate::ftrace::patch::{self, Place, Replacement};
use crate::mm::reserve::{room, room_exact};
use crate::rcu;
use crate::sched::inspect::pause;
use crate::sched::try_spawn_kthread;
use crate::sync::Mutex;
use crate::task::patch::{self as threads, PATCHED, UNPATCHED};
use crate::time::now_ns;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::ops::Range;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use limen_linux_abi::Errno;

/// Something that must be there as long as the patch is: its module, and those of the functions.
pub type Held = Box<dyn Any + Send + Sync>;

/// A function that is to be replaced.
pub struct Wanted {
    /// Which.
    pub place: Place,
    /// The address of what runs instead.
    pub to: usize,
    /// The addresses of its code.
    pub code: Range<usize>,
}

/// A replaced function.
struct Function {
    place: Place,
    /// It is only as before another patch, which this one replaces.
    only_undoes: bool,
    replacement: Arc<Replacement>,
    code: Range<usize>,
}

/// A patch.
pub struct Patch {
    /// That of its module.
    pub name: String,
    /// It replaces all others.
    pub replaces: bool,
    /// The addresses of its own code.
    own: Range<usize>,
    /// Whether it is, or is about to be.
    enabled: AtomicBool,
    /// Dropped when it is gone.
    held: Mutex<Vec<Held>>,
}

impl Patch {
    /// `enabled`.
    pub fn is_enabled(&self) -> bool {
        self.enabled.load(Relaxed)
    }
}

/// A patch with what it does.
struct Known {
    patch: Arc<Patch>,
    functions: Vec<Function>,
}

impl Known {
    fn is(&self, patch: &Patch) -> bool {
        core::ptr::eq(&raw const *self.patch, patch)
    }

    /// Whether an address is in code that a thread must not be in when it changes over.
    fn has(&self, address: usize) -> bool {
        self.patch.own.contains(&address) || self.functions.iter().any(|one| one.code.contains(&address))
    }

    fn remove_functions(&self) {
        for one in &self.functions {
            patch::remove(one.place, &one.replacement);
        }
    }

    /// It is there, with all threads. What only undid others is not needed any more, and is about the modules
    /// of those, which may go now.
    fn settle(&mut self) {
        for one in &self.functions {
            one.replacement.set_in_transition(false);
            if one.only_undoes {
                patch::remove(one.place, &one.replacement);
            }
        }
        self.functions.retain(|one| !one.only_undoes);
    }
}

/// A patch that comes or goes.
struct Transition {
    patch: Arc<Patch>,
    /// `PATCHED` or `UNPATCHED`.
    target: i8,
    /// When threads that have not changed over are woken, nanoseconds.
    signal_at: u64,
    /// A module must stay: a thread may be in it for ever.
    forced: bool,
}

struct State {
    /// The oldest first.
    patches: Vec<Known>,
    transition: Option<Transition>,
    /// All threads are on their way out of a module, as in a transition ([`wait_until_left`]).
    emptying: bool,
}

static STATE: Mutex<State> = Mutex::new(State {
    patches: Vec::new(),
    transition: None,
    emptying: false,
});

/// So long threads are waited for before they are woken, and between.
const PATIENCE: u64 = 15_000_000_000;

fn word(target: i8) -> &'static str {
    if target == PATCHED {
        "patching"
    } else {
        "unpatching"
    }
}

/// All patches, the oldest first. `ENOMEM`.
pub fn all() -> Result<Vec<Arc<Patch>>, Errno> {
    let state = STATE.lock();
    let mut all = Vec::new();
    room_exact(&mut all, state.patches.len())?;
    all.extend(state.patches.iter().map(|one| one.patch.clone()));
    Ok(all)
}

/// Whether a patch comes or goes.
pub fn is_in_transition(patch: &Patch) -> bool {
    let state = STATE.lock();
    state
        .transition
        .as_ref()
        .is_some_and(|now| core::ptr::eq(&raw const *now.patch, patch))
}

impl State {
    /// Threads change over from now on.
    fn begin(&mut self, patch: &Arc<Patch>, target: i8) {
        info!(
            "livepatch: '{}': starting {} transition",
            patch.name,
            word(target)
        );
        self.transition = Some(Transition {
            patch: patch.clone(),
            target,
            signal_at: now_ns() + PATIENCE,
            forced: false,
        });
        threads::start();
    }

    /// Ends the transition if all threads have changed over.
    fn try_to_complete(&mut self) {
        let Some(now) = &mut self.transition else { return };
        let patch = now.patch.clone();
        // What ran before may be another patch's; one that replaces all others has their functions, too.
        let is_inside = |address| {
            let is_one = |one: &Known| match patch.replaces || one.is(&patch) {
                true => one.has(address),
                false => one.patch.own.contains(&address),
            };
            self.patches.iter().any(is_one)
        };
        if !threads::try_all(&is_inside) {
            if now_ns() >= now.signal_at {
                info!("livepatch: signaling remaining tasks");
                now.signal_at = now_ns() + PATIENCE;
                threads::signal();
            }
            return;
        }
        let (target, forced) = (now.target, now.forced);
        let goes = |one: &Known| match target == PATCHED {
            true => patch.replaces && !one.is(&patch),
            false => one.is(&patch),
        };
        for one in &mut self.patches {
            if goes(one) {
                one.remove_functions();
            } else if one.is(&patch) {
                one.settle();
            }
        }
        // Whoever saw a transition has seen its own state.
        rcu::synchronize();
        threads::end();
        self.transition = None;
        info!("livepatch: '{}': {} complete", patch.name, word(target));
        for Known { patch, .. } in self.patches.extract_if(.., |one| goes(one)) {
            patch.enabled.store(false, Relaxed);
            let held = core::mem::take(&mut *patch.held.lock());
            if forced {
                core::mem::forget(held);
            }
        }
    }
}

/// What completes a transition.
fn work() {
    loop {
        let mut state = STATE.lock();
        state.try_to_complete();
        let is_done = state.transition.is_none();
        drop(state);
        if is_done {
            return;
        }
        (0..20).for_each(|_| pause());
    }
}

/// A thread that completes the transition which the caller begins, who holds the lock. `ENOMEM`.
fn worker() -> Result<(), Errno> {
    try_spawn_kthread("livepatch", work)
        .map(drop)
        .ok_or(Errno::ENOMEM)
}

/// The functions of a patch; with those that others replace, if it takes their place.
fn functions(wanted: Vec<Wanted>, replaces: bool, others: &[Known]) -> Result<Vec<Function>, Errno> {
    let mut functions: Vec<Function> = Vec::new();
    for one in wanted {
        if functions.iter().any(|other| other.place == one.place) {
            return Err(Errno::EINVAL);
        }
        room(&mut functions, 1)?;
        functions.push(Function {
            place: one.place,
            only_undoes: false,
            replacement: Replacement::new(one.to),
            code: one.code,
        });
    }
    for old in others
        .iter()
        .filter(|_| replaces)
        .flat_map(|other| &other.functions)
    {
        if functions.iter().any(|other| other.place == old.place) {
            continue;
        }
        room(&mut functions, 1)?;
        functions.push(Function {
            place: old.place,
            only_undoes: true,
            replacement: Replacement::new(0),
            code: old.code.clone(),
        });
    }
    Ok(functions)
}

/// A module's patch is about to be: `own` are the addresses of its code. It is when all threads have changed
/// over. `EBUSY`: another one comes or goes, threads are on their way out of a module, or a tracer changes
/// where a function goes; `EEXIST`: there is such a name; `EINVAL`: a function twice, or none; `ENOMEM`. May
/// sleep.
pub fn enable(
    name: String,
    wanted: Vec<Wanted>,
    replaces: bool,
    own: Range<usize>,
    held: Vec<Held>,
) -> Result<(), Errno> {
    let mut state = STATE.lock();
    if state.transition.is_some() || state.emptying {
        return Err(Errno::EBUSY);
    }
    if state.patches.iter().any(|other| other.patch.name == name) {
        return Err(Errno::EEXIST);
    }
    if wanted.is_empty() {
        return Err(Errno::EINVAL);
    }
    let functions = functions(wanted, replaces, &state.patches)?;
    let patch = Arc::new(Patch {
        name,
        replaces,
        own,
        enabled: AtomicBool::new(true),
        held: Mutex::new(held),
    });
    room(&mut state.patches, 1)?;
    info!("livepatch: enabling patch '{}'", patch.name);
    let patch = Known { patch, functions };
    // From here on all threads call what they called before, also those to come: if this fails, none of them
    // is in a new function.
    threads::begin(PATCHED);
    let pushed = patch
        .functions
        .iter()
        .try_for_each(|one| patch::push(one.place, &one.replacement));
    if let Err(errno) = pushed.and_then(|()| worker()) {
        warning!("livepatch: failed to enable patch '{}'", patch.patch.name);
        patch.remove_functions();
        rcu::synchronize();
        threads::end();
        return Err(errno);
    }
    let begins = patch.patch.clone();
    state.patches.push(patch);
    state.begin(&begins, PATCHED);
    state.try_to_complete();
    Ok(())
}

/// Writes `enabled`. A patch that comes or goes turns back; one that is goes. `EINVAL`: it is so already, or
/// it is gone; `EBUSY`: another one comes or goes, or threads are on their way out of a module; `ENOMEM`. May
/// sleep.
pub fn set_enabled(patch: &Arc<Patch>, on: bool) -> Result<(), Errno> {
    let mut state = STATE.lock();
    let state = &mut *state;
    let known = state.patches.iter().find(|one| one.is(patch));
    let known = known.filter(|_| patch.is_enabled() != on).ok_or(Errno::EINVAL)?;
    let target = if on { PATCHED } else { UNPATCHED };
    match &mut state.transition {
        Some(now) if Arc::ptr_eq(&now.patch, patch) => {
            let (from, to) = (word(now.target), word(target));
            info!(
                "livepatch: '{}': reversing transition from {from} to {to}",
                patch.name
            );
            (now.target, now.signal_at) = (target, now_ns() + PATIENCE);
            threads::turn_back(target);
            threads::start();
        }
        Some(_) => return Err(Errno::EBUSY),
        None if state.emptying => return Err(Errno::EBUSY),
        None if on => return Err(Errno::EINVAL),
        None => {
            worker()?;
            threads::begin(UNPATCHED);
            let all = known.functions.iter();
            all.for_each(|one| one.replacement.set_in_transition(true));
            state.begin(patch, UNPATCHED);
        }
    }
    patch.enabled.store(on, Relaxed);
    state.try_to_complete();
    Ok(())
}

/// Writes `force`: all threads change over, wherever they are, and the modules that are not needed any more
/// stay. `EINVAL`: the patch neither comes nor goes. May sleep.
pub fn force(patch: &Patch) -> Result<(), Errno> {
    let mut state = STATE.lock();
    match &mut state.transition {
        Some(now) if core::ptr::eq(&raw const *now.patch, patch) => {
            warning!("livepatch: forcing remaining tasks to the patched state");
            now.forced = true;
            threads::force();
            Ok(())
        }
        _ => Err(Errno::EINVAL),
    }
}

/// The module `name` could not be loaded, or is gone: its patch goes. May sleep, for as long as threads are
/// in its functions.
pub fn abandon(name: &str) {
    loop {
        // Without a list of all, which needs memory: the module's memory is freed if it is not found.
        let found = {
            let state = STATE.lock();
            let mut all = state.patches.iter().map(|one| &one.patch);
            all.find(|patch| patch.name == name).cloned()
        };
        let Some(patch) = found else { return };
        // It may be on its way already, or another one is.
        let _ = set_enabled(&patch, false);
        pause();
    }
}

/// Waits until no thread is in this code or on its way there, where nobody is sent any more. The caller is
/// not. May sleep, for as long as somebody is there.
pub fn wait_until_left(code: &[Range<usize>]) {
    loop {
        let mut state = STATE.lock();
        if state.transition.is_none() && !state.emptying {
            state.emptying = true;
            break;
        }
        drop(state);
        pause();
    }
    // A transition without functions: each thread comes by a place where it is in none of its callers.
    threads::begin(PATCHED);
    threads::start();
    threads::change_over();
    let mut signal_at = now_ns() + PATIENCE;
    while !threads::try_all(&|address| code.iter().any(|range| range.contains(&address))) {
        if now_ns() >= signal_at {
            signal_at = now_ns() + PATIENCE;
            threads::signal();
        }
        (0..20).for_each(|_| pause());
    }
    threads::end();
    STATE.lock().emptying = false;
}
