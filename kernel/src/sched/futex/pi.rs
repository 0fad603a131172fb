//! Priority-inheriting locks: `FUTEX_LOCK_PI`, `FUTEX_TRYLOCK_PI`, `FUTEX_UNLOCK_PI`.
//!
//! The word holds the owner's thread id. A contender sets `FUTEX_WAITERS`, joins the owner's list (`owner`),
//! which lends its priority to the owner, and sleeps. Because of that bit the owner unlocks in the kernel,
//! which writes the id of the most urgent waiter into the word and so hands the lock over. When an owner dies
//! without a robust list that names the lock, its waiters are woken, look again and take the lock over.

use super::owner::{attach, detach, propagate, waits_no_more};
use super::table::{Bucket, Entry, List, PiWait, bucket_of};
use super::{Key, MATCH_ANY, OWNER_DIED, TID_MASK, Use, WAITERS, exchange, fault_in, key_of, peek};
use crate::mm::user::UserPtr;
use crate::sched::{Alarm, Deadline};
use crate::sched::{TaskState, current, policy, schedule};
use crate::task::Task;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use limen_linux_abi::Errno;

/// Takes the lock at `addr`. `EDEADLK`: the caller owns it already, or its owner waits for the caller;
/// `ESRCH`: there is no thread with the word's id; `EPERM`: it is a kernel thread's; `EAGAIN` (only with
/// `only_try`): the lock is taken; `ETIMEDOUT`; `ERESTARTNOINTR`: a signal came.
pub fn lock_pi(addr: usize, shared: bool, deadline: Option<Deadline>, only_try: bool) -> Result<(), Errno> {
    let me = current();
    let alarm = deadline.map(|deadline| deadline.alarm(&me));
    lock_until(addr, shared, alarm.as_ref(), only_try, None)
}

/// [`lock_pi`] where the timer is set already. `orphan_of`: the id of the lock's owner, if that is known to
/// have died.
pub(super) fn lock_until(
    addr: usize,
    shared: bool,
    alarm: Option<&Alarm>,
    only_try: bool,
    mut orphan_of: Option<u32>,
) -> Result<(), Errno> {
    let me = current();
    let tid = me.own_tid() as u32;
    let mut ended = None;
    loop {
        let key = key_of(addr, shared, Use::Write)?;
        let bucket = bucket_of(&key);
        let wait = PiWait::new(key, true);
        let entry = Entry::with_pi(&me, key, MATCH_ANY, &wait);
        bucket.announce();
        let mut list = bucket.lock();
        let give_up = |list| {
            drop::<crate::sync::SpinGuard<'_, List>>(list);
            bucket.retract();
        };
        let owner = match take_or_mark(&mut list, &key, addr, tid, orphan_of, only_try) {
            Ok(Step::OwnedBy(owner)) => owner,
            Ok(Step::Taken) => {
                give_up(list);
                return Ok(());
            }
            Ok(Step::NotThere) => {
                give_up(list);
                fault_in(addr, true)?;
                continue;
            }
            Err(e) => {
                give_up(list);
                return Err(e);
            }
        };
        let owner = match find_owner(addr, owner) {
            Ok(Some(owner)) => owner,
            other => {
                give_up(list);
                other?;
                continue;
            }
        };
        if only_try {
            give_up(list);
            return Err(Errno::EAGAIN);
        }
        if !attach(&entry, &owner) {
            // The thread is just ending. If the word still names it next time, nobody will ever unlock the
            // lock.
            give_up(list);
            if ended.replace(owner.tid()) == Some(owner.tid()) {
                return Err(Errno::ESRCH);
            }
            continue;
        }
        me.sched.set_state(TaskState::INTERRUPTIBLE);
        list.push(&entry, bucket);
        drop(list);
        let deadlock = propagate(&owner, Some(&me));
        if !deadlock {
            sleep(&entry, alarm);
        }
        match leave(&entry, &wait) {
            Left::Granted => return Ok(()),
            Left::LetGo(by) => {
                orphan_of = by;
                continue;
            }
            Left::Waiting => {}
        }
        if deadlock {
            return Err(Errno::EDEADLK);
        }
        if alarm.is_some_and(Alarm::is_over) {
            return Err(Errno::ETIMEDOUT);
        }
        if me.signal_pending() {
            return Err(Errno::ERESTARTNOINTR);
        }
    }
}

/// The thread that the lock word at `addr` named, by that identifier. `None`: it has ended since, and what it
/// left there, which comes before it is gone, is to be looked at. Under the bucket's lock.
pub(super) fn find_owner(addr: usize, tid: u32) -> Result<Option<Arc<Task>>, Errno> {
    let error = match crate::task::pid::find_task_here(tid as i32) {
        Some(owner) if !owner.is_kernel_thread() => return Ok(Some(owner)),
        Some(_) => Errno::EPERM,
        None => Errno::ESRCH,
    };
    if peek(addr).is_some_and(|word| word & TID_MASK == tid) {
        Err(error)
    } else {
        Ok(None)
    }
}

/// Sleeps until `entry` leaves the queue, a signal comes or the deadline passes. The thread's state was set
/// when the entry was queued.
pub(super) fn sleep(entry: &Entry, alarm: Option<&Alarm>) {
    let me = current();
    while entry.is_queued() {
        if alarm.is_some_and(Alarm::is_over) || me.signal_pending() {
            break;
        }
        schedule();
        entry.sleep_again(&me);
    }
    me.sched.set_state(TaskState::RUNNING);
}

/// How a waiter left the queue.
pub(super) enum Left {
    /// The lock was handed to it.
    Granted,
    /// It was woken to look at the word again, because the lock's owner, with that id, died.
    LetGo(Option<u32>),
    /// It was still in the queue: a signal or the deadline ended its sleep.
    Waiting,
}

/// Takes `entry`, the running thread's, out of every list, and works out the priority of the owners for whom
/// the thread waited.
pub(super) fn leave(entry: &Entry, wait: &PiWait) -> Left {
    let me = current();
    me.sched.set_state(TaskState::RUNNING);
    let waiting = entry.unqueue();
    if let Some(owner) = waits_no_more(&me) {
        propagate(&owner, None);
    }
    if wait.granted.load(Ordering::Acquire) {
        Left::Granted
    } else if waiting {
        Left::Waiting
    } else {
        Left::LetGo(Some(wait.orphan_of.get()).filter(|&tid| tid != 0))
    }
}

/// What became of the word.
pub(super) enum Step {
    Taken,
    OwnedBy(u32),
    /// The word's page is not present, or not writable.
    NotThere,
}

/// Takes a free lock for the thread with id `tid`; sets `FUTEX_WAITERS` in a taken one, unless `only_try`.
/// The bucket is locked. A lock whose owner is `orphan_of` counts as free.
pub(super) fn take_or_mark(
    list: &mut List,
    key: &Key,
    addr: usize,
    tid: u32,
    orphan_of: Option<u32>,
    only_try: bool,
) -> Result<Step, Errno> {
    loop {
        let Some(word) = peek(addr) else {
            return Ok(Step::NotThere);
        };
        let owner = word & TID_MASK;
        let orphaned = owner != 0 && orphan_of == Some(owner);
        let free = owner == 0 || orphaned;
        let new = if free {
            let waiters = if list.has_pi(key) { WAITERS } else { 0 };
            let died = if orphaned { OWNER_DIED } else { word & OWNER_DIED };
            tid | died | waiters
        } else if owner == tid {
            return Err(Errno::EDEADLK);
        } else if only_try {
            return Ok(Step::OwnedBy(owner));
        } else {
            word | WAITERS
        };
        match exchange(addr, word, new) {
            None => return Ok(Step::NotThere),
            Some(found) if found == word => {
                return Ok(if free { Step::Taken } else { Step::OwnedBy(owner) });
            }
            Some(_) => {}
        }
    }
}

/// Unlocks the lock at `addr` and hands it to the most urgent waiter, if there is one. `EPERM`: the caller
/// does not own it.
pub fn unlock_pi(addr: usize, shared: bool) -> Result<(), Errno> {
    let me = current();
    let tid = me.own_tid() as u32;
    loop {
        // The owner is checked before the word's other errors, as on Linux.
        if UserPtr::<u32>::new(addr).read()? & TID_MASK != tid {
            return Err(Errno::EPERM);
        }
        let key = key_of(addr, shared, Use::Write)?;
        let bucket: &Bucket = bucket_of(&key);
        let mut list = bucket.lock();
        let Some(word) = peek(addr) else {
            drop(list);
            fault_in(addr, true)?;
            continue;
        };
        if word & TID_MASK != tid {
            return Err(Errno::EPERM);
        }
        let mut best: Option<(u8, Arc<Task>)> = None;
        let mut waiting = 0;
        list.for_each(&key, |_, entry| {
            if entry.waits_pi().is_some() {
                let level = policy::effective_priority(&entry.task());
                waiting += 1;
                if best.as_ref().is_none_or(|(b, _)| level > *b) {
                    best = Some((level, (*entry.task()).clone()));
                }
            }
            true
        });
        let new = match &best {
            Some((_, next)) => next.own_tid() as u32 | if waiting > 1 { WAITERS } else { 0 },
            None => 0,
        };
        match exchange(addr, word, new) {
            None => {
                drop(list);
                drop(best);
                fault_in(addr, true)?;
                continue;
            }
            Some(found) if found != word => continue,
            Some(_) => {}
        }
        let Some((_, next)) = best else {
            return Ok(());
        };
        // The other waiters wait for the new owner from now on. They are moved first: while the new owner is
        // in this queue it cannot end.
        list.for_each(&key, |_, entry| {
            if entry.waits_pi().is_some() && !Arc::ptr_eq(&entry.task(), &next) {
                detach(entry);
                attach(entry, &next);
            }
            true
        });
        list.for_each(&key, |list, entry| {
            let chosen = entry.waits_pi().is_some() && Arc::ptr_eq(&entry.task(), &next);
            if chosen {
                detach(entry);
                drop(waits_no_more(&next));
                list.grant(entry);
            }
            !chosen
        });
        drop(list);
        propagate(&next, None);
        propagate(&me, None);
        return Ok(());
    }
}
