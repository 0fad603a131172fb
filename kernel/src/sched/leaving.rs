//! Threads that end. One gives back its number before it has ended, and runs on for a while where nobody
//! finds it by that. Who must know of all threads that may still execute something (live patching) finds it
//! here, from before that until the CPU has switched away from it for the last time.
//!
//! Each CPU has a list, whose links are fields of the tasks.

use crate::arch::smp;
use crate::sync::{MAX_CPUS, SpinLock, without_preemption};
use crate::task::Task;
use core::cell::Cell;
use core::ptr;

/// A thread's place in a list.
pub struct Link {
    next: Cell<*const Task>,
    prev: Cell<*const Task>,
    /// The number of the list in which it is, plus one; 0: it is in none.
    list: Cell<usize>,
}

// SAFETY: `list` is written by the thread itself, before it ends, and by who switched away from it for the
// last time. The others are used only under the lock of the list.
unsafe impl Sync for Link {}
// SAFETY: as for `Sync`.
unsafe impl Send for Link {}

impl Link {
    /// In no list.
    pub const fn new() -> Self {
        Self {
            next: Cell::new(ptr::null()),
            prev: Cell::new(ptr::null()),
            list: Cell::new(0),
        }
    }
}

/// A list, on a line of its own.
#[repr(align(64))]
struct List(SpinLock<First>);

struct First(*const Task);

// SAFETY: the lock of the list orders all accesses; the tasks in it are alive.
unsafe impl Send for First {}

static LISTS: [List; MAX_CPUS] = [const { List(SpinLock::new(First(ptr::null()))) }; MAX_CPUS];

/// The running thread ends: [`each_leaving`] finds it from now on. Once, before its number is given back.
pub fn leave() {
    let task = super::current();
    let at = without_preemption(smp::cpu_id);
    let link = &task.sched.leaving;
    let mut first = LISTS[at].0.lock();
    link.list.set(at + 1);
    link.next.set(first.0);
    // SAFETY: the first of the list is alive: it is taken out before it is dropped.
    if let Some(second) = unsafe { first.0.as_ref() } {
        second.sched.leaving.prev.set(&raw const **task);
    }
    first.0 = &raw const **task;
}

/// `task` was switched away from for the last time, and is dropped next.
pub(super) fn left(task: &Task) {
    let link = &task.sched.leaving;
    // A thread of the kernel is in none.
    let Some(at) = link.list.get().checked_sub(1) else {
        return;
    };
    let mut first = LISTS[at].0.lock();
    let (next, prev) = (link.next.get(), link.prev.get());
    // SAFETY: its neighbours are alive: they are taken out before they are dropped.
    let (behind, before) = unsafe { (next.as_ref(), prev.as_ref()) };
    if let Some(behind) = behind {
        behind.sched.leaving.prev.set(prev);
    }
    match before {
        Some(before) => before.sched.leaving.next.set(next),
        None => first.0 = next,
    }
    link.list.set(0);
}

/// Calls `f` with all threads that have begun to end and may still execute something. Who looked for a thread
/// by its number before, and did not find it because it has ended, finds it here if it has not. `f` runs with
/// a spinlock held: it must not sleep.
pub fn each_leaving(mut f: impl FnMut(&Task)) {
    for list in &LISTS {
        let first = list.0.lock();
        let mut at = first.0;
        // SAFETY: a task is alive as long as it is in the list, whose lock is held.
        while let Some(task) = unsafe { at.as_ref() } {
            f(task);
            at = task.sched.leaving.next.get();
        }
    }
}
