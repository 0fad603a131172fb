//! Actions of functions: what is done whenever one is called (`function:traceoff` in `set_ftrace_filter`).
//! All functions of an instance with the same action share one target.

use super::guard::Guard;
use super::names;
use super::ops::{self, Registered, errno};
use super::site;
use super::target::{Data, Target};
use crate::arch::sites::Entry;
use crate::arch::smp;
use crate::mm::reserve::{copy_of, handling, room, room_exact};
use crate::rcu::{self, Retire, Shared, Slot};
use crate::sync::Mutex;
use crate::tracing::Instance;
use crate::tracing::event::stack;
use crate::tracing::event::state::Soft;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::{self, Write};
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;
use limen_linux_abi::Errno;
use limen_trace_sites::command::{self, Action, Functions, Select, UNLIMITED};
use limen_trace_sites::filter::Effective;
use limen_trace_sites::hash::Hash;
use limen_trace_sites::{Names, Site, SiteSet};

/// What is done.
enum Do {
    On,
    Off,
    Snapshot,
    Stack,
    Dump,
    CpuDump,
    /// An event is turned on or off.
    Event {
        enable: bool,
        id: u16,
        soft: Arc<Soft>,
        system: Vec<u8>,
        event: Vec<u8>,
    },
}

/// How often it is still done, for each site by its address, ascending.
struct Left(Vec<(usize, AtomicUsize)>);

impl Retire for Left {}

impl Left {
    fn of(&self, address: usize) -> Option<&AtomicUsize> {
        let found = self.0.binary_search_by_key(&address, |row| row.0);
        found.ok().map(|at| &self.0[at].1)
    }
}

/// An action, as its target knows it.
pub struct Probe {
    what: Do,
    instance: Arc<Instance>,
    /// `None`: it is done without end.
    left: Option<Slot<Left>>,
    guard: Guard,
}

/// An action of some functions.
struct Placed {
    /// It was asked for with a count.
    counted: bool,
    sites: SiteSet,
    target: Arc<Target>,
    registered: Registered,
}

/// The actions of an instance.
#[derive(Default)]
pub struct Probes(Mutex<Vec<Placed>>);

extern "C" fn met(ip: usize, _parent: usize, target: &Target, _entry: &Entry) {
    let Data::Probe(probe) = &target.data else {
        return;
    };
    if let Some(_inside) = probe.guard.enter() {
        probe.meet(ip);
    }
}

impl Probe {
    /// Takes one of the times that are left for the function whose site is at `ip`.
    fn spend(&self, ip: usize) -> bool {
        let Some(left) = &self.left else { return true };
        let reader = rcu::read();
        let left = left.load(&reader).and_then(|left| left.of(ip));
        left.is_some_and(|left| left.fetch_update(Relaxed, Relaxed, |n| n.checked_sub(1)).is_ok())
    }

    /// Does `switch` as one of the times. It is given back if another CPU was faster: `switch` says so.
    fn spend_on(&self, ip: usize, switch: impl FnOnce() -> bool) {
        if !self.spend(ip) || switch() {
            return;
        }
        let Some(left) = &self.left else { return };
        let reader = rcu::read();
        if let Some(left) = left.load(&reader).and_then(|left| left.of(ip)) {
            left.fetch_add(1, Relaxed);
        }
    }

    fn meet(&self, ip: usize) {
        let instance = &self.instance;
        match &self.what {
            Do::On if !instance.is_on() => self.spend_on(ip, || instance.turn_quietly(true)),
            Do::Off if instance.is_on() => self.spend_on(ip, || instance.turn_quietly(false)),
            Do::Snapshot if self.spend(ip) => instance.ask_for_snapshot(),
            Do::Stack if instance.is_on() && self.spend(ip) => stack::record_from(instance, ip),
            Do::Dump if self.spend(ip) => instance.ask_for_dump(None),
            Do::CpuDump if self.spend(ip) => instance.ask_for_dump(Some(smp::cpu_id())),
            Do::Event { enable, soft, .. } if soft.is_off() == *enable => {
                self.spend_on(ip, || soft.set(*enable));
            }
            _ => {}
        }
    }

    fn action(&self) -> Action<'_> {
        match &self.what {
            Do::On => Action::Traceon,
            Do::Off => Action::Traceoff,
            Do::Snapshot => Action::Snapshot,
            Do::Stack => Action::Stacktrace,
            Do::Dump => Action::Dump,
            Do::CpuDump => Action::Cpudump,
            Do::Event {
                enable,
                system,
                event,
                ..
            } => Action::Event {
                enable: *enable,
                system,
                event,
            },
        }
    }

    /// What is left when it is to be done `count` times for each of `sites`. `ENOMEM`.
    fn count(&self, sites: &SiteSet, count: usize) -> Result<Option<Shared<Left>>, Errno> {
        if self.left.is_none() {
            return Ok(None);
        }
        let mut new = Vec::new();
        room_exact(&mut new, sites.len())?;
        let addresses = sites.iter().filter_map(|site| site::address(site.0 as usize));
        new.extend(addresses.map(|address| (address, AtomicUsize::new(count))));
        new.sort_unstable_by_key(|row| row.0);
        Shared::try_new(Left(new)).ok_or(Errno::ENOMEM).map(Some)
    }

    /// This is what is left from now on, but for the sites of `known`: they have what they had before.
    fn leave(&self, known: &SiteSet, new: Option<Shared<Left>>) {
        let (Some(slot), Some(new)) = (&self.left, new) else {
            return;
        };
        if let Some(old) = slot.get(&rcu::read()) {
            for address in known.iter().filter_map(|site| site::address(site.0 as usize)) {
                // Whoever still finds the old count finds nothing left.
                if let (Some(old), Some(left)) = (old.of(address), new.of(address)) {
                    left.store(old.swap(0, Relaxed), Relaxed);
                }
            }
        }
        drop(slot.replace(Some(new)));
    }
}

impl Placed {
    fn probe(&self) -> Option<&Probe> {
        match &self.target.data {
            Data::Probe(probe) => Some(probe),
            _ => None,
        }
    }

    fn is(&self, wanted: &command::Probe<'_>) -> bool {
        let same = self.probe().is_some_and(|probe| probe.action() == wanted.action);
        same && self.counted == wanted.counted
    }

    /// A new one, of `sites`.
    fn new(instance: &Arc<Instance>, sites: SiteSet, probe: &command::Probe<'_>) -> Result<Self, Errno> {
        let what = match probe.action {
            Action::Traceon => Do::On,
            Action::Traceoff => Do::Off,
            Action::Snapshot => Do::Snapshot,
            Action::Stacktrace => Do::Stack,
            Action::Dump => Do::Dump,
            Action::Cpudump => Do::CpuDump,
            Action::Event {
                enable,
                system,
                event,
            } => {
                let (system_name, event_name) = (copy_of(system)?, copy_of(event)?);
                let (id, soft) = instance.hold_event(system, event)?;
                Do::Event {
                    enable,
                    id,
                    soft,
                    system: system_name,
                    event: event_name,
                }
            }
        };
        let limited = probe.counted || probe.count != UNLIMITED;
        let new = Probe {
            what,
            instance: instance.clone(),
            left: limited.then(Slot::empty),
            guard: Guard::new(),
        };
        let target = Arc::new(Target::new(met, Data::Probe(new)));
        let Data::Probe(new) = &target.data else {
            return Err(Errno::EINVAL);
        };
        let begun = new.count(&sites, probe.count).and_then(|left| {
            new.leave(&SiteSet::new(), left);
            let set = handling(|| sites.try_clone()).map_err(errno)?;
            ops::add(target.clone(), Effective::Only(set))
        });
        match begun {
            Ok(registered) => Ok(Self {
                counted: probe.counted,
                sites,
                target,
                registered,
            }),
            Err(error) => {
                new.release();
                Err(error)
            }
        }
    }

    /// Its functions are these from now on. On an error they are those of before.
    fn set(&mut self, sites: SiteSet, count: usize) -> Result<(), Errno> {
        let set = handling(|| sites.try_clone()).map_err(errno)?;
        let left = self.probe().map(|probe| probe.count(&sites, count));
        let left = left.transpose()?.flatten();
        ops::change(&self.registered, Effective::Only(set))?;
        if let Some(probe) = self.probe() {
            probe.leave(&self.sites, left);
        }
        self.sites = sites;
        Ok(())
    }
}

impl Probe {
    /// It is no more.
    fn release(&self) {
        if let Do::Event { id, .. } = &self.what {
            self.instance.release_event(*id);
        }
    }
}

/// The sites of both.
fn both(one: &SiteSet, other: &SiteSet) -> Result<SiteSet, limen_trace_sites::Error> {
    let mut all = one.try_clone()?;
    for site in other.iter() {
        all.insert(site)?;
    }
    Ok(all)
}

impl Probes {
    /// Something is to be done when some functions are called. `EINVAL`: there is no such function, or event;
    /// `ENOMEM`. May sleep.
    pub fn add(
        &self,
        instance: &Arc<Instance>,
        functions: Functions<'_>,
        probe: &command::Probe<'_>,
    ) -> Result<(), Errno> {
        let mut chosen = chosen(functions)?;
        instance.expand()?;
        if probe.action == Action::Snapshot {
            instance.allocate_snapshot()?;
        }
        let mut all = self.0.lock();
        let names = names::known()?;
        handling(|| chosen.settle(&names)).map_err(errno)?;
        if let Some(placed) = all.iter_mut().find(|placed| placed.is(probe)) {
            let sites = handling(|| both(&placed.sites, chosen.sites())).map_err(errno)?;
            return placed.set(sites, probe.count);
        }
        room(&mut *all, 1)?;
        let sites = handling(|| chosen.sites().try_clone()).map_err(errno)?;
        let new = Placed::new(instance, sites, probe)?;
        all.push(new);
        Ok(())
    }

    /// It is not to be done any more. `EINVAL`: it was not; `ENOMEM`: it goes on. May sleep.
    pub fn remove(&self, functions: Functions<'_>, probe: &command::Probe<'_>) -> Result<(), Errno> {
        let chosen = chosen(functions)?;
        let mut all = self.0.lock();
        let found = all.iter().position(|placed| placed.is(probe));
        let place = found.ok_or(Errno::EINVAL)?;
        let placed = &mut all[place];
        let mut kept = handling(|| placed.sites.try_clone()).map_err(errno)?;
        kept.subtract(chosen.sites());
        if kept.len() == placed.sites.len() {
            return Err(Errno::EINVAL);
        }
        if !kept.is_empty() {
            return placed.set(kept, 0);
        }
        end(&mut all, place)
    }

    /// Sites are gone with their module.
    pub(super) fn forget(&self, sites: &[Site]) {
        let mut all = self.0.lock();
        let mut place = 0;
        while place < all.len() {
            let own = &mut all[place].sites;
            sites.iter().for_each(|site| {
                own.remove(*site);
            });
            place += usize::from(!own.is_empty() || end(&mut all, place).is_err());
        }
    }

    /// All of them end, as far as there is memory for that. May sleep.
    pub(super) fn end(&self) {
        let mut all = self.0.lock();
        let mut place = 0;
        while place < all.len() {
            place += usize::from(end(&mut all, place).is_err());
        }
    }

    /// Writes them as `set_ftrace_filter` lists them.
    pub fn list(&self, names: &impl Names, out: &mut dyn Write) -> fmt::Result {
        for placed in self.0.lock().iter() {
            let Some(probe) = placed.probe() else { continue };
            let reader = rcu::read();
            let left = probe.left.as_ref().and_then(|left| left.get(&reader));
            drop(reader);
            for site in placed.sites.iter() {
                let (Some(name), Some(address)) = (names.name(site), site::address(site.0 as usize)) else {
                    continue;
                };
                let left = left.as_ref().and_then(|left| left.of(address));
                let shown = command::Probe {
                    action: probe.action(),
                    counted: placed.counted,
                    count: left.map_or(UNLIMITED, |left| left.load(Relaxed)),
                };
                writeln!(out, "{}:{shown}", name.function)?;
            }
        }
        Ok(())
    }
}

/// The sites of `functions`. `EINVAL`: there are none.
fn chosen(functions: Functions<'_>) -> Result<Hash, Errno> {
    let names = names::known()?;
    let mut chosen = Hash::new();
    handling(|| chosen.apply(&names, &Select::of(functions))).map_err(errno)?;
    Ok(chosen)
}

/// Ends the one at `place`.
fn end(all: &mut Vec<Placed>, place: usize) -> Result<(), Errno> {
    let placed = all.remove(place);
    match ops::remove(placed.registered) {
        Ok(()) => {
            if let Data::Probe(probe) = &placed.target.data {
                probe.release();
            }
            Ok(())
        }
        Err((registered, errno)) => {
            // There is room for it: it was there.
            all.insert(place, Placed { registered, ..placed });
            Err(errno)
        }
    }
}
