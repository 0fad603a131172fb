//! Priority-inheriting locks: `FUTEX_LOCK_PI`, `FUTEX_TRYLOCK_PI`, `FUTEX_UNLOCK_PI`.
//!
//! The word holds the owner's thread identifier. A contender sets the waiters bit, lends the owner its priority and sleeps; the owner's
//! unlock (in the kernel, because of that bit) hands the lock to the most urgent waiter by writing its identifier. The owner runs
//! at the highest priority of its waiters; when it gives a lock away it goes back to its own.

use super::table::{Entry, List, bucket_of};
use super::{Key, MATCH_ANY, OWNER_DIED, TID_MASK, WAITERS, exchange, fault_in, key_of, peek};
use crate::sched::{TaskState, current, policy, schedule, sleep_timer};
use crate::time::now_ns;
use core::sync::atomic::Ordering;
use limen_linux_abi::Errno;

/// Takes the lock at `addr`. `EDEADLK`: it is ours already; `ESRCH`: the word names no thread; `EAGAIN` (`only_try`): taken;
/// `ETIMEDOUT`; `ERESTARTNOINTR` on a signal.
pub fn lock_pi(addr: usize, shared: bool, deadline: Option<u64>, only_try: bool) -> Result<(), Errno> {
    let me = current();
    let tid = me.tid() as u32;
    let timer = deadline.map(|at| {
        let timer = sleep_timer(&me);
        timer.arm(at);
        timer
    });
    let result = 'again: loop {
        let key = match key_of(addr, shared) {
            Ok(key) => key,
            Err(e) => break Err(e),
        };
        let bucket = bucket_of(&key);
        let entry = Entry::new(&me, key, MATCH_ANY, true);
        bucket.announce();
        let mut list = bucket.lock();
        let step = take_or_mark(&mut list, &key, addr, tid, only_try);
        let owner = match step {
            Ok(Step::Taken) => {
                drop(list);
                bucket.retract();
                break Ok(());
            }
            Ok(Step::OwnedBy(owner)) => owner,
            Ok(Step::NotThere) => {
                drop(list);
                bucket.retract();
                match fault_in(addr, true) {
                    Ok(()) => continue 'again,
                    Err(e) => break Err(e),
                }
            }
            Err(e) => {
                drop(list);
                bucket.retract();
                break Err(e);
            }
        };
        let Some(owner) = crate::task::find_task(owner as i32) else {
            drop(list);
            bucket.retract();
            break Err(Errno::ESRCH);
        };
        me.sched.set_state(TaskState::INTERRUPTIBLE);
        list.push(&entry, bucket);
        lend(&owner, &mut list, &key);
        drop(list);
        while entry.is_queued() {
            if deadline.is_some_and(|at| now_ns() >= at) || me.signal_pending() {
                break;
            }
            schedule();
            // Under the lock: a waker finds the entry queued and the state set, or neither.
            let list = bucket.lock();
            if entry.is_queued() {
                me.sched.set_state(TaskState::INTERRUPTIBLE);
            }
            drop(list);
        }
        me.sched.set_state(TaskState::RUNNING);
        let still_waiting = entry.unqueue();
        if entry.granted.load(Ordering::Acquire) {
            break Ok(());
        }
        if !still_waiting {
            // Woken without the lock: its owner died. Look again.
            continue;
        }
        lend(&owner, &mut bucket.lock(), &key);
        if deadline.is_some_and(|at| now_ns() >= at) {
            break Err(Errno::ETIMEDOUT);
        }
        if me.signal_pending() {
            break Err(Errno::ERESTARTNOINTR);
        }
    };
    if let Some(timer) = timer {
        timer.cancel();
    }
    result
}

enum Step {
    Taken,
    OwnedBy(u32),
    /// The page is not there.
    NotThere,
}

/// Takes a free lock, or sets the waiters bit of a taken one.
fn take_or_mark(list: &mut List, key: &Key, addr: usize, tid: u32, only_try: bool) -> Result<Step, Errno> {
    loop {
        let Some(word) = peek(addr) else {
            return Ok(Step::NotThere);
        };
        let owner = word & TID_MASK;
        let new = if owner == 0 {
            let waiters = if list.has_pi(key) { WAITERS } else { 0 };
            tid | word & OWNER_DIED | waiters
        } else if owner == tid {
            return Err(Errno::EDEADLK);
        } else if only_try {
            return Err(Errno::EAGAIN);
        } else {
            word | WAITERS
        };
        match exchange(addr, word, new) {
            None => return Ok(Step::NotThere),
            Some(found) if found == word => {
                return Ok(if owner == 0 {
                    Step::Taken
                } else {
                    Step::OwnedBy(owner)
                });
            }
            Some(_) => {}
        }
    }
}

/// Lends `owner` the highest priority among the waiters of `key`.
fn lend(owner: &crate::task::Task, list: &mut List, key: &Key) {
    let mut level = 0;
    list.for_each(key, |_, entry| {
        if entry.pi {
            level = level.max(policy::effective_priority(&entry.task()));
        }
        true
    });
    policy::inherit(owner, level);
}

/// Gives the lock at `addr` up, to the most urgent waiter if there is one. `EPERM`: it is not ours.
pub fn unlock_pi(addr: usize, shared: bool) -> Result<(), Errno> {
    let me = current();
    let tid = me.tid() as u32;
    loop {
        let key = key_of(addr, shared)?;
        let bucket = bucket_of(&key);
        let mut list = bucket.lock();
        let Some(word) = peek(addr) else {
            drop(list);
            fault_in(addr, true)?;
            continue;
        };
        if word & TID_MASK != tid {
            return Err(Errno::EPERM);
        }
        let mut best: Option<(u8, u32)> = None;
        let mut waiting = 0;
        list.for_each(&key, |_, entry| {
            if entry.pi {
                let task = entry.task();
                let level = policy::effective_priority(&task);
                waiting += 1;
                if best.is_none_or(|(b, _)| level > b) {
                    best = Some((level, task.tid() as u32));
                }
            }
            true
        });
        let new = match best {
            Some((_, next)) => next | if waiting > 1 { WAITERS } else { 0 },
            None => 0,
        };
        match exchange(addr, word, new) {
            None => {
                drop(list);
                fault_in(addr, true)?;
                continue;
            }
            Some(found) if found != word => continue,
            Some(_) => {}
        }
        if let Some((_, next)) = best {
            let mut owner = None;
            list.for_each(&key, |list, entry| {
                let mine = entry.pi && entry.task().tid() as u32 == next;
                if mine {
                    owner = Some((*entry.task()).clone());
                    entry.granted.store(true, Ordering::Release);
                    list.release(entry);
                }
                !mine
            });
            if let Some(owner) = &owner {
                lend(owner, &mut list, &key);
            }
            drop(list);
            drop(owner);
        } else {
            drop(list);
        }
        policy::inherit(&me, 0);
        return Ok(());
    }
}
