//! Moving waiters from one word to another: `FUTEX_REQUEUE`, `FUTEX_CMP_REQUEUE`, and the pair
//! `FUTEX_WAIT_REQUEUE_PI` and `FUTEX_CMP_REQUEUE_PI`, with which a condition variable hands its waiters to a
//! priority-inheriting lock.

use super::owner::{attach, propagate};
use super::pi::{Left, Step, find_owner, leave, lock_until, sleep, take_or_mark};
use super::table::{Entry, PiWait, bucket_of, lock_two};
use super::{MATCH_ANY, Use, WAITERS, exchange, fault_in, key_of, peek, queue_if};
use crate::sched::current;
use crate::sched::{Alarm, Deadline};
use crate::task::Task;
use alloc::sync::Arc;
use limen_linux_abi::{Errno, SysResult};

/// `FUTEX_[CMP_]REQUEUE`: if the word at `from` is `expected`, wakes up to `wake` waiters of `from` and moves
/// up to `requeue` others to `to`. `shared` is for each of the two words.
pub fn requeue(
    from: usize,
    to: usize,
    shared: (bool, bool),
    wake: usize,
    requeue: usize,
    expected: Option<u32>,
) -> SysResult {
    loop {
        let from_key = key_of(from, shared.0, Use::Read)?;
        let to_key = key_of(to, shared.1, Use::Read)?;
        let (bucket_from, bucket_to) = (bucket_of(&from_key), bucket_of(&to_key));
        let (mut a, mut b) = lock_two(bucket_from, bucket_to);
        if let Some(expected) = expected {
            match peek(from) {
                None => {
                    drop((a, b));
                    fault_in(from, false)?;
                    continue;
                }
                Some(value) if value != expected => return Err(Errno::EAGAIN),
                Some(_) => {}
            }
        }
        if a.has_special(&from_key) {
            return Err(Errno::EINVAL);
        }
        let woken = a.wake(&from_key, wake, MATCH_ANY)?;
        let moved = match &mut b {
            Some(b) => a.move_to(&from_key, b, &to_key, requeue, bucket_from, bucket_to),
            None => a.rename(&from_key, &to_key, requeue),
        };
        return Ok(woken + moved);
    }
}

/// `FUTEX_WAIT_REQUEUE_PI`: sleeps while the word at `addr` is `expected`, until [`cmp_requeue_pi`] moves the
/// waiter to the lock at `to`, and returns when the caller owns that lock. `EAGAIN`: the word had another
/// value, or a signal came after the move; `ERESTARTNOINTR`: a signal came before it.
pub fn wait_requeue_pi(
    addr: usize,
    to: usize,
    shared: bool,
    expected: u32,
    deadline: Option<Deadline>,
    mask: u32,
) -> Result<(), Errno> {
    if addr == to || mask == 0 {
        return Err(Errno::EINVAL);
    }
    let me = current();
    let alarm = deadline.map(|deadline| deadline.alarm(&me));
    wait_until_moved(addr, to, shared, expected, alarm.as_ref(), mask)
}

fn wait_until_moved(
    addr: usize,
    to: usize,
    shared: bool,
    expected: u32,
    alarm: Option<&Alarm>,
    mask: u32,
) -> Result<(), Errno> {
    let me = current();
    let wait;
    let entry = loop {
        let target = key_of(to, shared, Use::Write)?;
        let key = key_of(addr, shared, Use::Read)?;
        if key == target {
            return Err(Errno::EINVAL);
        }
        let this = PiWait::new(target, false);
        // Does not fault the page in: once queued, an entry must stay where it is.
        match peek(addr) {
            Some(value) if value != expected => return Err(Errno::EAGAIN),
            Some(_) => {
                wait = this;
                break Entry::with_pi(&me, key, mask, &wait);
            }
            None => fault_in(addr, false)?,
        }
    };
    loop {
        match queue_if(bucket_of(&entry.key()), &entry, (addr, expected), true) {
            Ok(true) => break,
            Ok(false) => return Err(Errno::EAGAIN),
            Err(()) => fault_in(addr, false)?,
        }
    }
    sleep(&entry, alarm);
    match leave(&entry, &wait) {
        Left::Granted => Ok(()),
        // The lock's owner died after this waiter was moved: the lock may be free now.
        Left::LetGo(orphan_of) => lock_until(to, shared, alarm, false, orphan_of),
        // `sleep` found one or the other. A deadline that it found over may be ahead again.
        Left::Waiting if !me.signal_pending() || alarm.is_some_and(Alarm::is_over) => Err(Errno::ETIMEDOUT),
        Left::Waiting if wait.waits.get() => Err(Errno::EAGAIN),
        Left::Waiting => Err(Errno::ERESTARTNOINTR),
    }
}

/// `FUTEX_CMP_REQUEUE_PI`: gives the lock at `to`, if it is free, to the most urgent waiter of `from`, and
/// moves up to `requeue` others to it. Returns how many waiters that were. `EAGAIN`: the word at `from` is
/// not `expected`; `EINVAL`: a waiter does not wait to be moved to `to`.
pub fn cmp_requeue_pi(
    from: usize,
    to: usize,
    shared: bool,
    wake: usize,
    requeue: usize,
    expected: u32,
) -> SysResult {
    if wake != 1 || from == to {
        return Err(Errno::EINVAL);
    }
    // Once some were moved, no later mistake is told.
    let mut done = 0;
    let mut ended = None;
    loop {
        let before = done;
        match requeue_once(from, to, shared, requeue, expected, &mut done) {
            Ok(None) => return Ok(done),
            // It has just ended. If the word was its and stays so, nobody will ever unlock it.
            Ok(Some(owner)) if before == done && ended.replace(owner) == Some(owner) => {
                return if done > 0 { Ok(done) } else { Err(Errno::ESRCH) };
            }
            Ok(Some(_)) => {}
            Err(e) => return if done > 0 { Ok(done) } else { Err(e) },
        }
    }
}

/// [`cmp_requeue_pi`] up to where the lock's owner is found to have ended, who is told. `done`: how many were
/// served so far, first of all and now.
fn requeue_once(
    from: usize,
    to: usize,
    shared: bool,
    requeue: usize,
    expected: u32,
    done: &mut usize,
) -> Result<Option<i32>, Errno> {
    loop {
        let from_key = key_of(from, shared, Use::Read)?;
        let to_key = key_of(to, shared, Use::Write)?;
        if from_key == to_key {
            return Err(Errno::EINVAL);
        }
        let target = bucket_of(&to_key);
        let (mut a, mut b) = lock_two(bucket_of(&from_key), target);
        match peek(from) {
            None => {
                drop((a, b));
                fault_in(from, false)?;
                continue;
            }
            // It may change once the first was served.
            Some(value) if value != expected && *done == 0 => return Err(Errno::EAGAIN),
            Some(_) => {}
        }
        // A bad address is an error even if no thread waits.
        if requeue > 0 && peek(to).is_none() {
            drop((a, b));
            fault_in(to, true)?;
            continue;
        }
        // The list is sorted by urgency.
        let mut first: Option<Arc<Task>> = None;
        let mut fits = true;
        a.for_each(&from_key, |_, entry| {
            fits = entry
                .pi()
                .is_some_and(|pi| !pi.waits.get() && pi.target == to_key);
            first = Some((*entry.task()).clone());
            false
        });
        let Some(first) = first else { return Ok(None) };
        if !fits {
            return Err(Errno::EINVAL);
        }
        let list = b.as_deref_mut().unwrap_or(&mut a);
        let step = take_or_mark(list, &to_key, to, first.own_tid() as u32, None, false)?;
        let (owner, taken) = match step {
            Step::NotThere => {
                drop((a, b));
                fault_in(to, true)?;
                continue;
            }
            Step::OwnedBy(owner) => match find_owner(to, owner)? {
                Some(owner) => (owner, false),
                None => continue,
            },
            Step::Taken => (first, true),
        };
        // A waiter that is to own the lock is woken last: before that it cannot end.
        *done += usize::from(taken);
        let mut moved = 0;
        let mut failed = Ok(None);
        a.for_each(&from_key, |list, entry| {
            if taken && Arc::ptr_eq(&entry.task(), &owner) {
                return true;
            }
            if *done + moved > requeue {
                return false;
            }
            let Some(pi) = entry.pi().filter(|pi| !pi.waits.get() && pi.target == to_key) else {
                failed = Err(Errno::EINVAL);
                return false;
            };
            if !attach(entry, &owner) {
                failed = Ok(Some(owner.tid()));
                return false;
            }
            list.move_one(entry, &to_key, b.as_deref_mut(), target);
            pi.waits.set(true);
            moved += 1;
            true
        });
        if taken {
            if moved > 0 {
                mark_waiters(to);
            }
            a.for_each(&from_key, |list, entry| {
                let chosen = Arc::ptr_eq(&entry.task(), &owner);
                if chosen {
                    list.grant(entry);
                }
                !chosen
            });
        }
        drop((a, b));
        *done += moved;
        propagate(&owner, None);
        return failed;
    }
}

/// Sets `FUTEX_WAITERS` in the lock word at `addr`, which was just written.
fn mark_waiters(addr: usize) {
    while let Some(word) = peek(addr)
        && exchange(addr, word, word | WAITERS) != Some(word)
    {}
}
