//! Which threads' events an instance records (`set_event_pid`, `set_event_notrace_pid`).

use super::list;
use crate::jump_label;
use crate::mm::reserve::room_exact;
use crate::rcu::{self, Retire, Shared, Slot};
use crate::sync::Mutex;
use crate::tracing::Instance;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use limen_linux_abi::Errno;
use limen_trace_events::Numbered;
use limen_trace_events::events::sched::SchedProcessFork;
use limen_trace_text::Options;

/// A set of threads, in order.
struct Set(Vec<i32>);

impl Retire for Set {}

/// An instance's sets. Neither: all threads are traced.
pub struct Pids {
    only: Slot<Set>,
    not: Slot<Set>,
    changing: Mutex<()>,
}

/// How many instances have a set and the option `event-fork`, so that they must see new threads.
static FOLLOWERS: AtomicUsize = AtomicUsize::new(0);

/// Whether the points of a declared event must be on for the sets.
pub(super) fn needs(place: usize) -> bool {
    place == SchedProcessFork::INDEX && FOLLOWERS.load(Relaxed) > 0
}

impl Pids {
    pub(super) const fn new() -> Self {
        Self {
            only: Slot::empty(),
            not: Slot::empty(),
            changing: Mutex::new(()),
        }
    }

    fn slot(&self, not: bool) -> &Slot<Set> {
        if not { &self.not } else { &self.only }
    }

    /// Whether an event of `pid`, which is about `other` as well, is recorded. In any context.
    #[inline]
    pub(super) fn wants(&self, pid: i32, other: Option<i32>) -> bool {
        let reader = rcu::read();
        let is_in = |set: &Set, pid: i32| set.0.binary_search(&pid).is_ok();
        let wants = |pid: i32| {
            self.only.load(&reader).is_none_or(|set| is_in(set, pid))
                && !self.not.load(&reader).is_some_and(|set| is_in(set, pid))
        };
        wants(pid) || other.is_some_and(wants)
    }

    /// The threads of a set.
    pub fn list(&self, not: bool) -> Result<Vec<i32>, Errno> {
        let set = self.slot(not).get(&rcu::read());
        let mut list = Vec::new();
        if let Some(set) = set {
            room_exact(&mut list, set.0.len())?;
            list.extend_from_slice(&set.0);
        }
        Ok(list)
    }

    /// Changes a set: empties it if `anew`, then adds and removes. May sleep.
    pub fn change(&self, not: bool, anew: bool, add: &[i32], remove: &[i32]) -> Result<(), Errno> {
        let _changing = self.changing.lock();
        let old = self.slot(not).get(&rcu::read()).filter(|_| !anew);
        // A set whose threads have all ended stays: nobody is in it.
        let is_new = old.is_none();
        let old = old.as_ref().map_or(&[][..], |set| &set.0);
        let mut new = Vec::new();
        room_exact(&mut new, old.len() + add.len())?;
        new.extend(old.iter().chain(add).copied().filter(|pid| !remove.contains(pid)));
        new.sort_unstable();
        new.dedup();
        let new = match new.is_empty() && is_new {
            true => None,
            false => Some(Shared::try_new(Set(new)).ok_or(Errno::ENOMEM)?),
        };
        drop(self.slot(not).replace(new));
        Ok(())
    }

    /// `parent` has made `child`, which may have the number of a thread that has ended.
    fn follow(&self, parent: i32, child: i32) {
        for not in [false, true] {
            let reader = rcu::read();
            let set = self.slot(not).load(&reader);
            let has = |pid| set.is_some_and(|set| set.0.binary_search(&pid).is_ok());
            let change = match (has(parent), has(child)) {
                (true, false) => Some((Some(child), None)),
                (false, true) => Some((None, Some(child))),
                _ => None,
            };
            drop(reader);
            if let Some((add, remove)) = change {
                // Without memory the new thread is traced as those that nobody names.
                let _ = self.change(not, false, add.as_slice(), remove.as_slice());
            }
        }
    }
}

/// The option `event-fork` of an instance is turned on or off by `turn`, which returns whether it was on. May
/// sleep. `ENOMEM`: it was not turned.
pub fn follow_forks(on: bool, turn: impl FnOnce() -> bool) -> Result<(), Errno> {
    let place = SchedProcessFork::INDEX;
    let event = list::all()?.get(place).ok_or(Errno::ENOENT)?;
    // Whoever turns it the other way at the same time counts before or after.
    let _changing = event.changing.lock();
    if on {
        jump_label::enable(place)?;
    }
    match (turn(), on) {
        (false, true) => _ = FOLLOWERS.fetch_add(1, Relaxed),
        (true, false) => _ = FOLLOWERS.fetch_sub(1, Relaxed),
        _ => {}
    }
    if !needs(place) && !event.is_wanted() {
        jump_label::disable(place);
    }
    Ok(())
}

/// Whether somebody follows forks, or a point is on for that: for a self-test.
pub(super) fn follows_forks() -> bool {
    FOLLOWERS.load(Relaxed) != 0 || jump_label::is_turned_on(SchedProcessFork::INDEX)
}

fn following() -> impl Iterator<Item = Arc<Instance>> {
    let top = crate::tracing::made().cloned();
    let all = top.into_iter().chain(crate::tracing::all());
    all.filter(|instance| instance.options().contains(Options::EVENT_FORK))
}

/// A declared event comes. Threads are made where the running thread may sleep.
pub(super) fn look<E: Numbered>(place: usize, event: &E) {
    if !needs(place) {
        return;
    }
    let mut record = [0; 128];
    let len = event.encode(&Default::default(), &mut record);
    let pid = |name: &str| {
        let field = E::DESCRIPTION.fields.iter().find(|field| field.name == name);
        field.and_then(|field| field.integer(&record[..len])).unwrap_or(0) as i32
    };
    for instance in following() {
        instance.events.pids.follow(pid("parent_pid"), pid("child_pid"));
    }
}
