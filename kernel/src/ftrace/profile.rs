//! How often each function is called on each CPU (`function_profile_enabled`, `trace_stat`).

use super::guard::Guard;
use super::ops::{self, Registered, errno};
use super::site;
use super::target::{Data, Target};
use crate::arch::sites::Entry;
use crate::arch::smp;
use crate::mm::reserve::{handling, room_exact};
use crate::sync::{Mutex, Once};
use alloc::sync::Arc;
use alloc::vec::Vec;
use limen_linux_abi::Errno;
use limen_trace_sites::filter::Effective;
use limen_trace_sites::profile::{By, Profile, Total};
use limen_trace_sites::{Site, SiteSet};

/// A profile for each CPU, made when functions are first counted; they stay.
static PROFILES: Once<Vec<Profile>> = Once::new();

static RUNNING: Mutex<Option<Registered>> = Mutex::new(None);

/// Counting may call functions that are counted.
static GUARD: Guard = Guard::new();

extern "C" fn count(ip: usize, _parent: usize, _target: &Target, _entry: &mut Entry) {
    let Some(_inside) = GUARD.enter() else { return };
    if let Some(profile) = PROFILES.get().and_then(|all| all.get(smp::cpu_id()))
        && let Some(site) = site::find(ip, ip + 1)
    {
        profile.hit(Site(site as u32));
    }
}

/// The profiles. `ENOMEM`.
fn profiles() -> Result<&'static [Profile], Errno> {
    if PROFILES.get().is_none() {
        let mut all = Vec::new();
        room_exact(&mut all, smp::count())?;
        for _ in 0..smp::count() {
            all.push(handling(|| Profile::new(site::count() as u32)).map_err(errno)?);
        }
        // Somebody else may have been faster.
        let _ = PROFILES.set(all);
    }
    PROFILES.get().map(Vec::as_slice).ok_or(Errno::ENOMEM)
}

/// Whether functions are counted. May sleep.
pub fn is_on() -> bool {
    RUNNING.lock().is_some()
}

/// Counts all functions from now on, from 0, or ends that. `ENOMEM`: nothing has changed. May sleep.
pub fn turn(on: bool) -> Result<(), Errno> {
    let mut running = RUNNING.lock();
    match (running.take(), on) {
        (None, true) => {
            profiles()?.iter().for_each(Profile::reset);
            let target = Arc::new(Target::new(count, Data::None));
            let all = Effective::All {
                except: SiteSet::new(),
            };
            *running = Some(ops::add(target, all)?);
            Ok(())
        }
        (Some(registered), false) => ops::remove(registered).map_err(|(registered, errno)| {
            *running = Some(registered);
            errno
        }),
        (as_before, _) => {
            *running = as_before;
            Ok(())
        }
    }
}

/// What the functions are sorted by.
pub const BY: By = By::Hits;

/// The functions that were called on a CPU, those with the most calls first. `ENOMEM`. May sleep.
pub fn sorted(cpu: usize) -> Result<Vec<(Site, Total)>, Errno> {
    match PROFILES.get().and_then(|all| all.get(cpu)) {
        Some(profile) => handling(|| profile.sorted(BY)).map_err(errno),
        None => Ok(Vec::new()),
    }
}
