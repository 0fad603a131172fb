//! Functions that run instead of others (live patching). A function has a stack of replacements, of which
//! the newest runs; while a transition is under way, the running thread decides (`ThreadInfo::patch_state`).
//! Who replaces what, and when, is `livepatch`'s.

use super::modules::Copy;
use super::names;
use super::ops::{self, Registered, errno};
use super::site;
use super::target::{Data, Target};
use crate::arch::sites::Entry;
use crate::mm::reserve::{handling, room, room_exact};
use crate::rcu::{self, Retire, Shared, Slot};
use crate::sched::preempt;
use crate::sync::Mutex;
use crate::sync::lockdep::fallible;
use crate::task::patch::UNPATCHED;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use limen_linux_abi::Errno;
use limen_trace_sites::filter::Effective;
use limen_trace_sites::sets::Kind;
use limen_trace_sites::{Names, Site, SiteSet};

/// What runs instead of a function.
pub struct Replacement {
    /// The address of that; 0: the function itself.
    to: usize,
    /// Only for threads that have changed over.
    in_transition: AtomicBool,
    /// It is no more, though it may still be in the list.
    gone: AtomicBool,
}

impl Replacement {
    /// One that is in a transition.
    pub fn new(to: usize) -> Arc<Self> {
        Arc::new(Self {
            to,
            in_transition: AtomicBool::new(true),
            gone: AtomicBool::new(false),
        })
    }

    /// It is no more, whoever still has it in a list.
    pub(super) fn is_gone(&self) {
        self.gone.store(true, Release);
    }

    /// Whether it is only for threads that have changed over. What the caller wrote before to their states is
    /// seen by whoever sees this.
    pub fn set_in_transition(&self, is: bool) {
        self.in_transition.store(is, Release);
    }
}

/// The newest first.
struct List(Vec<Arc<Replacement>>);

impl Retire for List {}

/// The replacements of a function, as its target knows them.
pub struct Replacements(Slot<List>);

extern "C" fn called(_ip: usize, _parent: usize, target: &Target, entry: &Entry) {
    let Data::Patch(replacements) = &target.data else {
        return;
    };
    let reader = rcu::read_within(entry);
    let Some(list) = replacements.0.load(&reader) else {
        return;
    };
    let mut there = list.0.iter().filter(|one| !one.gone.load(Acquire));
    let mut chosen = there.next();
    if chosen.is_some_and(|one| one.in_transition.load(Acquire))
        && preempt::current_info().patch_state.load(Relaxed) == UNPATCHED
    {
        chosen = there.next();
    }
    let to = chosen.map_or(0, |one| one.to);
    if to != 0 {
        entry.set_ip(to);
    }
}

/// A function with replacements.
struct Function {
    /// Where its site is.
    address: usize,
    target: Arc<Target>,
    registered: Registered,
}

static FUNCTIONS: Mutex<Vec<Function>> = Mutex::new(Vec::new());

/// A function that can be replaced.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Place {
    site: Site,
    /// Where its site is.
    pub address: usize,
}

impl Place {
    /// Of a site at an address.
    pub(super) fn new(site: Site, address: usize) -> Self {
        Self { site, address }
    }
}

/// The function called `name`, of this module or of the kernel, which has it `position`th in the order of
/// addresses; 0: it is the only one. `ENOENT`: there is none; `EINVAL`: there are several; `ENOMEM`.
pub fn find(name: &[u8], module: Option<&[u8]>, position: usize) -> Result<Place, Errno> {
    let _copy = Copy::new();
    let names = names::known()?;
    let is = |found: &limen_trace_sites::Name<'_>| {
        found.function.as_bytes() == name && found.module.map(str::as_bytes) == module
    };
    let mut all = names.named().filter(|(_, found)| is(found));
    let (site, _) = all.nth(position.saturating_sub(1)).ok_or(Errno::ENOENT)?;
    if position == 0 && all.next().is_some() {
        return Err(Errno::EINVAL);
    }
    let address = site::address(site.0 as usize).ok_or(Errno::ENOENT)?;
    Ok(Place { site, address })
}

fn replacements(target: &Target) -> Option<&Replacements> {
    match &target.data {
        Data::Patch(replacements) => Some(replacements),
        _ => None,
    }
}

/// A function's list becomes what `f` makes of it. `ENOMEM`: it is as before.
fn change(target: &Target, f: impl FnOnce(&mut Vec<Arc<Replacement>>)) -> Result<(), Errno> {
    let Some(replacements) = replacements(target) else {
        return Ok(());
    };
    let old = replacements.0.get(&rcu::read());
    let old = old.as_ref().map_or(&[][..], |list| &list.0);
    let mut new = Vec::new();
    room_exact(&mut new, old.len() + 1)?;
    new.extend(old.iter().filter(|one| !one.gone.load(Relaxed)).cloned());
    f(&mut new);
    let new = fallible(|| Shared::try_new(List(new))).ok_or(Errno::ENOMEM)?;
    drop(replacements.0.replace(Some(new)));
    Ok(())
}

/// Whether a function has a replacement that is not gone.
fn has_some(target: &Target) -> bool {
    let reader = rcu::read();
    let list = replacements(target).and_then(|replacements| replacements.0.load(&reader));
    list.is_some_and(|list| list.0.iter().any(|one| !one.gone.load(Relaxed)))
}

/// `new` is the newest replacement of a function from now on. `EBUSY`: a tracer changes where it goes;
/// `ENOMEM`. May sleep.
pub fn push(place: Place, new: &Arc<Replacement>) -> Result<(), Errno> {
    let mut functions = FUNCTIONS.lock();
    let add = |list: &mut Vec<Arc<Replacement>>| list.insert(0, new.clone());
    sweep(&mut functions);
    if let Some(known) = functions.iter().find(|one| one.address == place.address) {
        // One that is left over is registered for a site that may be gone.
        return match has_some(&known.target) {
            true => change(&known.target, add),
            false => Err(Errno::ENOMEM),
        };
    }
    room(&mut *functions, 1)?;
    let kind = Kind {
        regs: false,
        ip_modify: true,
        direct: None,
    };
    let data = Data::Patch(Replacements(Slot::empty()));
    let target = Arc::new(Target::of(kind, called, data));
    change(&target, add)?;
    let mut sites = SiteSet::new();
    handling(|| sites.insert(place.site)).map_err(errno)?;
    let registered = ops::add(target.clone(), Effective::Only(sites))?;
    functions.push(Function {
        address: place.address,
        target,
        registered,
    });
    Ok(())
}

/// Takes those functions out that have no replacement any more; their sites are as before. Those for which
/// there is no memory stay until the next time.
fn sweep(functions: &mut Vec<Function>) {
    let mut at = 0;
    while let Some(one) = functions.get(at) {
        if has_some(&one.target) {
            at += 1;
            continue;
        }
        let known = functions.swap_remove(at);
        if let Err((registered, _)) = ops::remove(known.registered) {
            // It has no effect. There is room; another one may be in its place.
            functions.push(Function { registered, ..known });
            let last = functions.len() - 1;
            functions.swap(at, last);
            at += 1;
        }
    }
}

/// A replacement runs no more. Its function's site is as before if it was the last. A grace period later no
/// call is on its way to it. May sleep.
pub fn remove(place: Place, old: &Replacement) {
    old.is_gone();
    let mut functions = FUNCTIONS.lock();
    sweep(&mut functions);
    if let Some(known) = functions.iter().find(|one| one.address == place.address) {
        // Without memory it stays in the list, unseen.
        let _ = change(&known.target, |_| ());
    }
}

/// Calls `f` with what a function's tracer is registered as: for a self-test.
pub(super) fn with_registered(
    place: Place,
    f: impl FnOnce(&Registered) -> Result<(), &'static str>,
) -> Result<(), &'static str> {
    let functions = FUNCTIONS.lock();
    let known = functions.iter().find(|one| one.address == place.address);
    known.map_or(Err("not registered"), |known| f(&known.registered))
}
