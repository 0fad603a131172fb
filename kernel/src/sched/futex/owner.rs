//! Which thread waits for which owner of a priority-inheriting lock: each thread has a list of the waiters
//! for the locks that it owns, and knows the owner of the lock for which it waits itself.
//!
//! An owner runs at least at the priority of its most urgent waiter. If the owner itself waits for a lock, so
//! does that lock's owner, and so on along the chain. [`propagate`] always works the priorities out from the
//! lists, so the order of events does not matter.
//!
//! Lock order: a futex bucket, then one thread's list, then the scheduler's locks. Two lists are never locked
//! at the same time.

use super::table::{Entry, PiWait, bucket_of};
use crate::sched::policy;
use crate::sync::{SpinGuard, SpinLock};
use crate::task::Task;
use alloc::sync::Arc;
use core::ptr;
use core::sync::atomic::{AtomicU8, Ordering};

/// No thread ever waited for a lock of this one.
const UNUSED: u8 = 0;
/// A thread waits, or waited, for a lock of this one.
const USED: u8 = 1;
/// The thread has ended: no thread may begin to wait for it.
const GONE: u8 = 2;

/// How many threads of a chain are followed at most.
const LONGEST_CHAIN: usize = 1024;

/// A thread's part in priority inheritance.
pub struct PiOwner {
    /// Spares the end of a thread that never had a waiter the lock.
    use_state: AtomicU8,
    links: SpinLock<Links>,
}

struct Links {
    /// The first entry of the threads that wait for locks of this one.
    first: *const Entry,
    /// The owner of the lock for which this thread waits.
    waits_for: Option<Arc<Task>>,
}

// SAFETY: the entries are used under this lock only, and unlinked before they go away.
unsafe impl Send for Links {}

impl PiOwner {
    /// Of a new thread.
    pub const fn new() -> Self {
        Self {
            use_state: AtomicU8::new(UNUSED),
            links: SpinLock::new(Links {
                first: ptr::null(),
                waits_for: None,
            }),
        }
    }
}

impl Links {
    /// The highest priority among the waiters.
    fn most_urgent(&self) -> u8 {
        let mut level = 0;
        let mut at = self.first;
        // SAFETY: linked entries are alive.
        while let Some(entry) = unsafe { at.as_ref() } {
            level = level.max(policy::effective_priority(&entry.task()));
            at = entry.pi().map_or(ptr::null(), |pi| pi.next.get());
        }
        level
    }
}

fn links(task: &Task) -> SpinGuard<'_, Links> {
    task.pi.links.lock()
}

/// The links of an entry whose list is locked; `None` at the list's end.
fn linked<'a>(entry: *const Entry) -> Option<&'a PiWait> {
    // SAFETY: linked entries are alive as long as the list is locked, and no caller keeps the reference for
    // longer.
    unsafe { entry.as_ref() }.and_then(Entry::pi)
}

/// Notes that `entry`'s thread waits for a lock of `owner`. The bucket is locked. `false`: `owner` has ended.
pub(super) fn attach(entry: &Entry, owner: &Arc<Task>) -> bool {
    let Some(wait) = entry.pi() else { return true };
    {
        let mut links = links(owner);
        let state = &owner.pi.use_state;
        let _ = state.compare_exchange(UNUSED, USED, Ordering::SeqCst, Ordering::SeqCst);
        if state.load(Ordering::SeqCst) == GONE {
            return false;
        }
        wait.prev.set(ptr::null());
        wait.next.set(links.first);
        if let Some(first) = linked(links.first) {
            first.prev.set(entry);
        }
        links.first = entry;
        wait.owner.set(Arc::as_ptr(owner));
    }
    let old = links(&entry.task()).waits_for.replace(owner.clone());
    // The replaced owner is the running thread, which hands its lock over: this is never its last reference.
    drop(old);
    true
}

/// Undoes [`attach`], except that the waiter still notes for whom it waits. The bucket is locked.
pub(super) fn detach(entry: &Entry) {
    let Some(wait) = entry.pi() else { return };
    // SAFETY: the waiter's `waits_for` holds a count of the owner as long as the entry names it.
    let Some(owner) = (unsafe { wait.owner.get().as_ref() }) else {
        return;
    };
    let mut links = links(owner);
    match linked(wait.prev.get()) {
        Some(prev) => prev.next.set(wait.next.get()),
        None => links.first = wait.next.get(),
    }
    if let Some(next) = linked(wait.next.get()) {
        next.prev.set(wait.prev.get());
    }
    wait.owner.set(ptr::null());
}

/// The running thread no longer waits. Returns the owner for whom it waited, whose priority must be worked
/// out again. The entry has been detached.
pub(super) fn waits_no_more(task: &Task) -> Option<Arc<Task>> {
    links(task).waits_for.take()
}

/// Works out the priority of `start` and of all owners along the chain. `true`: the chain leads to `me`,
/// which would wait for itself. The caller holds no lock of a futex.
pub(super) fn propagate(start: &Arc<Task>, me: Option<&Task>) -> bool {
    let mut at = start.clone();
    for _ in 0..LONGEST_CHAIN {
        let next = {
            let links = links(&at);
            policy::inherit(&at, links.most_urgent());
            links.waits_for.clone()
        };
        let Some(next) = next else { return false };
        if me.is_some_and(|me| ptr::eq(me, Arc::as_ptr(&next))) {
            return true;
        }
        at = next;
    }
    true
}

/// `task`'s own priority has changed: the owners for whom it waits may have to follow.
pub fn priority_changed(task: &Task) {
    if task.pi.use_state.load(Ordering::Relaxed) == USED {
        let level = links(task).most_urgent();
        policy::inherit(task, level);
    }
    let owner = links(task).waits_for.clone();
    if let Some(owner) = owner {
        propagate(&owner, None);
    }
}

/// The running thread ends (`last`) or executes another program: its waiters are woken, look at their locks
/// again and take them over.
pub fn release_waiters(task: &Arc<Task>, last: bool) {
    let state = if last {
        task.pi.use_state.swap(GONE, Ordering::SeqCst)
    } else {
        task.pi.use_state.load(Ordering::SeqCst)
    };
    if state != USED {
        return;
    }
    loop {
        // A linked entry's key does not change, but the lock of its bucket has to be taken first.
        let key = {
            let links = links(task);
            // SAFETY: linked entries are alive.
            match unsafe { links.first.as_ref() } {
                Some(first) => first.key(),
                None => break,
            }
        };
        bucket_of(&key).lock().for_each(&key, |list, entry| {
            if let Some(wait) = entry.waits_pi()
                && ptr::eq(wait.owner.get(), Arc::as_ptr(task))
            {
                detach(entry);
                drop(waits_no_more(&entry.task()));
                wait.orphan_of.set(task.own_tid() as u32);
                list.release(entry);
            }
            true
        });
    }
    policy::inherit(task, 0);
}
