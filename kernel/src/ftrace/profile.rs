//! How often each function is called on each CPU, and how long its calls take (`function_profile_enabled`,
//! `trace_stat`). It is one of those for whom `graph` traces calls until they return. Counts of a module's
//! functions are gone with it.

use super::ops::errno;
use super::texts::{self, Text};
use super::{graph, site};
use crate::arch::site_table::TABLE;
use crate::arch::{sites, smp};
use crate::mm::reserve::{handling, room_exact};
use crate::sync::{Mutex, Once};
use alloc::vec::Vec;
use limen_linux_abi::Errno;
use limen_trace_sites::Site;
use limen_trace_sites::profile::{self, By, Profile, Total};

/// A profile of the image for each CPU, made when functions are first counted; they stay.
static PROFILES: Once<Vec<Profile>> = Once::new();

/// Whether functions are counted.
static RUNNING: Mutex<bool> = Mutex::new(false);

/// Calls `f` with this CPU's profile in which the function at `ip` is, and its place there.
fn with(ip: usize, f: impl FnOnce(&Profile, Site)) {
    let cpu = smp::cpu_id();
    let here = |all: Option<&Vec<Profile>>, n: usize| {
        if let Some(profile) = all.and_then(|all| all.get(cpu)) {
            f(profile, Site(n as u32));
        }
    };
    let n = TABLE.search(ip);
    match TABLE.site(n) {
        Some(site) if sites::ip(site) == ip => here(PROFILES.get(), n),
        _ => texts::at(ip, |text, n| here(text.profiles().get(), n)),
    }
}

/// The function at `ip` is called. Preemption is off, in any context.
pub(super) fn called(ip: usize) {
    with(ip, |profile, site| profile.hit(site));
}

/// The function at `ip` has returned, after `time` nanoseconds. In the context of [`called`].
pub(super) fn returned(ip: usize, time: u64) {
    with(ip, |profile, site| profile.returned(site, time));
}

/// Sees to it that there are profiles of so many functions. `ENOMEM`.
fn give(to: &Once<Vec<Profile>>, functions: usize) -> Result<(), Errno> {
    if to.get().is_some() {
        return Ok(());
    }
    let mut all = Vec::new();
    room_exact(&mut all, smp::count())?;
    for _ in 0..smp::count() {
        all.push(handling(|| Profile::new(functions as u32)).map_err(errno)?);
    }
    // Somebody else may have been faster.
    let _ = to.set(all);
    Ok(())
}

fn give_text(text: &Text) -> Result<(), Errno> {
    give(text.profiles(), text.numbers().len())
}

/// Calls `f` with all profiles of a CPU, and the number of the first function of each.
fn each(cpu: usize, mut f: impl FnMut(&Profile, u32) -> Result<(), Errno>) -> Result<(), Errno> {
    let texts = texts::all()?;
    let of_texts = texts
        .iter()
        .map(|text| (text.profiles().get(), text.range().start as u32));
    for (all, first) in core::iter::once((PROFILES.get(), 0)).chain(of_texts) {
        if let Some(profile) = all.and_then(|all| all.get(cpu)) {
            f(profile, first)?;
        }
    }
    Ok(())
}

/// Whether functions are counted. May sleep.
pub fn is_on() -> bool {
    *RUNNING.lock()
}

/// Counts all functions from now on, from 0, or ends that. `ENOMEM`: nothing has changed. May sleep.
pub fn turn(on: bool) -> Result<(), Errno> {
    let mut running = RUNNING.lock();
    match (*running, on) {
        (false, true) => {
            give(&PROFILES, site::count())?;
            texts::all()?.iter().try_for_each(|text| give_text(text))?;
            for cpu in 0..smp::count() {
                each(cpu, |profile, _| {
                    profile.reset();
                    Ok(())
                })?;
            }
            graph::profile()?;
        }
        (true, false) => graph::stop_profile(),
        _ => {}
    }
    *running = on;
    Ok(())
}

/// Functions of a module have come. `ENOMEM`: they are not counted.
pub(super) fn module_loaded() -> Result<(), Errno> {
    let running = RUNNING.lock();
    if !*running {
        return Ok(());
    }
    texts::all()?.iter().try_for_each(|text| give_text(text))?;
    graph::profile()
}

/// What the functions are sorted by.
pub const BY: By = By::Time;

/// The functions that were called on a CPU, those with the most time first. `ENOMEM`. May sleep.
pub fn sorted(cpu: usize) -> Result<Vec<(Site, Total)>, Errno> {
    let mut all = Vec::new();
    each(cpu, |profile, first| {
        handling(|| profile.add_to(&mut all, first)).map_err(errno)
    })?;
    profile::sort(&mut all, BY);
    Ok(all)
}
