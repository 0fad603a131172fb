//! Which threads' events an instance records (`set_event_pid`, `set_event_notrace_pid`). With the option
//! `event-fork` the sets follow threads: those that are made ([`SchedProcessFork`]), and those whose memory
//! is given back ([`SchedProcessFree`]), as on Linux.

use super::list::{self, Event};
use crate::jump_label;
use crate::mm::reserve::{room, room_exact};
use crate::rcu::{self, Retire, Shared, Slot};
use crate::sync::lockdep::fallible;
use crate::sync::{Mutex, MutexGuard};
use crate::task::find_task;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, fence};
use limen_linux_abi::Errno;
use limen_trace_events::Numbered;
use limen_trace_events::events::sched::{SchedProcessFork, SchedProcessFree};

/// A set of threads, in order. One that has ended is marked, in any context, until the set changes.
struct Set(Vec<AtomicI32>);

impl Retire for Set {}

/// The mark.
const ENDED: i32 = i32::MIN;

impl Set {
    fn find(&self, pid: i32) -> Option<&AtomicI32> {
        let key = |one: &AtomicI32| one.load(Relaxed) & !ENDED;
        let at = self.0.binary_search_by_key(&pid, key).ok()?;
        self.0.get(at)
    }

    fn has(&self, pid: i32) -> bool {
        self.find(pid).is_some_and(|one| one.load(Relaxed) >= 0)
    }

    fn iter(&self) -> impl Iterator<Item = i32> {
        let all = self.0.iter().map(|one| one.load(Relaxed));
        all.filter(|pid| *pid >= 0)
    }

    fn end(&self, pid: i32) {
        if let Some(one) = self.find(pid) {
            one.fetch_or(ENDED, Relaxed);
        }
    }
}

/// An instance's sets. Neither: all threads are traced.
pub struct Pids {
    only: Slot<Set>,
    not: Slot<Set>,
    changing: Mutex<()>,
    /// They follow threads.
    follows: AtomicBool,
}

/// How many instances' sets follow threads.
static FOLLOWERS: AtomicUsize = AtomicUsize::new(0);

/// Those, and perhaps some that have ceased to.
struct Followers(Vec<Arc<Pids>>);

impl Retire for Followers {}

static FOLLOWING: Slot<Followers> = Slot::empty();

/// The events by which they do.
const LIVES: [usize; 2] = [SchedProcessFree::INDEX, SchedProcessFork::INDEX];

/// Whether the points of a declared event must be on for the sets.
pub(super) fn needs(place: usize) -> bool {
    LIVES.contains(&place) && FOLLOWERS.load(Relaxed) > 0
}

/// A thread that an event is about besides the running one.
#[derive(Clone, Copy)]
pub(super) enum Other {
    /// There is none.
    None,
    /// It is woken.
    Woken(i32),
    /// It runs next.
    Next(i32),
}

impl Pids {
    pub(super) const fn new() -> Self {
        Self {
            only: Slot::empty(),
            not: Slot::empty(),
            changing: Mutex::new(()),
            follows: AtomicBool::new(false),
        }
    }

    fn slot(&self, not: bool) -> &Slot<Set> {
        if not { &self.not } else { &self.only }
    }

    /// Whether an event of `pid`, which is about `other` as well, is recorded. In any context. Of a switch
    /// each set decides by itself: it is not recorded if that leaves out both threads.
    #[inline]
    pub(super) fn wants(&self, pid: i32, other: Other) -> bool {
        let reader = rcu::read();
        let (only, not) = (self.only.load(&reader), self.not.load(&reader));
        let only = |pid| only.is_none_or(|set| set.has(pid));
        let not = |pid| not.is_some_and(|set| set.has(pid));
        let wants = |pid| only(pid) && !not(pid);
        match other {
            Other::None => wants(pid),
            Other::Woken(other) => wants(pid) || wants(other),
            Other::Next(next) => (only(pid) || only(next)) && !(not(pid) && not(next)),
        }
    }

    /// The threads of a set.
    pub fn list(&self, not: bool) -> Result<Vec<i32>, Errno> {
        let set = self.slot(not).get(&rcu::read());
        let mut list = Vec::new();
        if let Some(set) = set {
            room_exact(&mut list, set.0.len())?;
            list.extend(set.iter());
        }
        Ok(list)
    }

    /// Changes a set: empties it if `anew`, then adds and removes. May sleep.
    pub fn change(&self, not: bool, anew: bool, add: &[i32], remove: &[i32]) -> Result<(), Errno> {
        let _changing = self.changing.lock();
        let slot = self.slot(not);
        let former = slot.get(&rcu::read());
        let old = former.as_ref().filter(|_| !anew);
        let mut new = Vec::new();
        room_exact(&mut new, old.map_or(0, |set| set.0.len()) + add.len())?;
        let kept = old.iter().flat_map(|set| set.iter());
        let kept = kept.filter(|pid| !remove.contains(pid));
        new.extend(kept.chain(add.iter().copied()).map(AtomicI32::new));
        new.sort_unstable_by_key(|pid| pid.load(Relaxed));
        new.dedup_by_key(|pid| pid.load(Relaxed));
        // A set whose threads have all ended stays: nobody is in it.
        let new = match new.is_empty() && old.is_none() {
            true => None,
            false => Some(fallible(|| Shared::try_new(Set(new))).ok_or(Errno::ENOMEM)?),
        };
        drop(slot.replace(new));
        // Those that have ended meanwhile were marked in the former set, or whoever marks them looks again.
        fence(SeqCst);
        let reader = rcu::read();
        if let (Some(old), Some(new)) = (old, slot.load(&reader)) {
            let marked = old.0.iter().map(|one| one.load(Relaxed));
            let ended = marked.filter(|pid| *pid < 0).map(|pid| pid & !ENDED);
            ended
                .filter(|pid| !add.contains(pid))
                .for_each(|pid| new.end(pid));
        }
        Ok(())
    }

    /// `parent` has made `child`, which may have the number of a thread that has ended.
    fn forked(&self, parent: i32, child: i32) {
        for not in [false, true] {
            let reader = rcu::read();
            let set = self.slot(not).load(&reader);
            let has = |pid| set.is_some_and(|set| set.has(pid));
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

    /// There is no such thread any more. In any context.
    fn ended(&self, pid: i32) {
        let reader = rcu::read();
        for slot in [&self.only, &self.not] {
            while let Some(found) = slot.found(&reader) {
                found.value().end(pid);
                // Whoever changes the set copies it before, or sees the mark afterwards.
                fence(SeqCst);
                if slot.found(&reader).is_some_and(|now| now.is(found)) {
                    break;
                }
            }
        }
    }
}

/// The list of those that follow becomes what `change` makes of it. `ENOMEM`: it is as before.
fn publish(change: impl FnOnce(&mut Vec<Arc<Pids>>)) -> Result<(), Errno> {
    let old = FOLLOWING.get(&rcu::read());
    let old = old.as_ref().map_or(&[][..], |list| &list.0);
    let mut new = Vec::new();
    room_exact(&mut new, old.len() + 1)?;
    new.extend_from_slice(old);
    change(&mut new);
    let new = fallible(|| Shared::try_new(Followers(new))).ok_or(Errno::ENOMEM)?;
    drop(FOLLOWING.replace(Some(new)));
    Ok(())
}

/// The option `event-fork` of the instance that has these sets is turned on or off by `turn`, which returns
/// whether it was on. May sleep. `ENOMEM`: it was not turned.
pub fn follow_forks(pids: &Arc<Pids>, on: bool, turn: impl FnOnce() -> bool) -> Result<(), Errno> {
    let mut events: Vec<(usize, &Event, MutexGuard<'_, ()>)> = Vec::new();
    room(&mut events, LIVES.len())?;
    // Whoever turns it the other way at the same time counts before or after. In the order of events.
    const { assert!(LIVES[0] < LIVES[1]) };
    for place in LIVES {
        let event = list::all()?.get(place).ok_or(Errno::ENOENT)?;
        let changing = match events.len() {
            0 => event.changing.lock(),
            others => event.changing.lock_nested(others),
        };
        events.push((place, event, changing));
    }
    let is = |one: &Arc<Pids>| Arc::ptr_eq(one, pids);
    let turned = (|| {
        if on {
            for (place, ..) in &events {
                jump_label::enable(*place)?;
            }
            publish(|list| {
                list.retain(|one| !is(one));
                list.push(pids.clone());
            })?;
        }
        match (turn(), on) {
            (false, true) => _ = FOLLOWERS.fetch_add(1, Relaxed),
            (true, false) => _ = FOLLOWERS.fetch_sub(1, Relaxed),
            _ => {}
        }
        pids.follows.store(on, Relaxed);
        if !on {
            // Without memory it stays there, and does not follow.
            let _ = publish(|list| list.retain(|one| !is(one)));
        }
        Ok(())
    })();
    for (place, event, _changing) in &events {
        if !needs(*place) && !event.is_wanted() {
            jump_label::disable(*place);
        }
    }
    turned
}

/// Whether somebody follows forks, or a point is on for that: for a self-test.
pub(super) fn follows_forks() -> bool {
    FOLLOWERS.load(Relaxed) != 0 || LIVES.into_iter().any(jump_label::is_turned_on)
}

/// A declared event comes. Threads are made where the running thread may sleep; they end in any context.
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
    let follows = |pids: &&Arc<Pids>| pids.follows.load(Relaxed);
    if place == SchedProcessFork::INDEX {
        let list = FOLLOWING.get(&rcu::read());
        let all = list.iter().flat_map(|list| &list.0);
        all.filter(follows)
            .for_each(|pids| pids.forked(pid("parent_pid"), pid("child_pid")));
        return;
    }
    let pid = pid("pid");
    // Threads of the kernel have no number, and this one may be another's already.
    if pid == 0 || find_task(pid).is_some() {
        return;
    }
    let reader = rcu::read();
    let all = FOLLOWING.load(&reader).into_iter().flat_map(|list| &list.0);
    all.filter(follows).for_each(|pids| pids.ended(pid));
}
