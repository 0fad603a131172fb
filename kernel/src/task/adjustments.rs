//! What a thread's end does to semaphores of System V (`SEM_UNDO`), which threads can share. The thing itself
//! is the room `ipc`'s: it is done when the last thread lets go of it.
//!
//! Threads that are made to share (`CLONE_SYSVSEM`, so all that `pthread_create` makes) have those of their
//! process, which are made at their first use: until then sharing costs a count.

use super::{Process, Task};
use crate::sync::{Once, SpinLock};
use alloc::sync::Arc;
use core::any::Any;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// What is shared.
pub type Shared = Arc<dyn Any + Send + Sync>;

/// Makes one without adjustments.
static MAKE: Once<fn() -> Shared> = Once::new();

/// From now on `make` makes them. Boot.
pub fn made_by(make: fn() -> Shared) {
    let _ = MAKE.set(make);
}

/// Adjustments, or none yet. Mostly none, which can be seen without the lock.
struct Place {
    any: AtomicBool,
    list: SpinLock<Option<Shared>>,
}

impl Place {
    const fn new() -> Self {
        Self {
            any: AtomicBool::new(false),
            list: SpinLock::new(None),
        }
    }

    /// `None`: nobody makes them yet.
    fn get_or_make(&self) -> Option<Shared> {
        if self.any.load(Ordering::Acquire)
            && let Some(there) = self.list.lock().clone()
        {
            return Some(there);
        }
        let new = MAKE.get()?();
        let mut list = self.list.lock();
        if let Some(there) = list.clone() {
            // Another thread that shares them was faster. `new` is dropped without the lock.
            drop(list);
            return Some(there);
        }
        *list = Some(new.clone());
        self.any.store(true, Ordering::Release);
        drop(list);
        Some(new)
    }

    fn set(&self, new: Shared) {
        *self.list.lock() = Some(new);
        self.any.store(true, Ordering::Release);
    }

    /// May sleep.
    #[cold]
    #[inline(never)]
    fn let_go(&self) {
        let list = self.list.lock().take();
        self.any.store(false, Ordering::Relaxed);
        drop(list);
    }
}

/// A thread's.
pub struct Adjustments {
    /// It has its process's. Only the thread itself changes that.
    shares: AtomicBool,
    own: Place,
}

/// A process's, for the threads that share them.
pub struct OfProcess {
    sharers: AtomicUsize,
    place: Place,
}

impl Adjustments {
    pub(super) const fn new() -> Self {
        Self {
            shares: AtomicBool::new(false),
            own: Place::new(),
        }
    }
}

impl OfProcess {
    /// Of a new process, whose first thread has them.
    pub(super) const fn new() -> Self {
        Self {
            sharers: AtomicUsize::new(1),
            place: Place::new(),
        }
    }
}

fn place<'a>(own: &'a Adjustments, process: &'a Process) -> &'a Place {
    if own.shares.load(Ordering::Relaxed) {
        &process.adjustments.place
    } else {
        &own.own
    }
}

/// Those of the running thread `task`, made if it has none. `None`: nobody makes them yet.
pub fn get_or_make(task: &Task) -> Option<Shared> {
    place(&task.adjustments, &task.process).get_or_make()
}

/// Where those of `task` are, or will be if it shares them; 0 if it has none. Whoever looks at another
/// thread's holds no reference: the last thread that shares them is the one that undoes them, before its
/// end is told.
pub fn address(task: &Task) -> usize {
    let process = &task.process.adjustments;
    let place = place(&task.adjustments, &task.process);
    let list = place.list.lock();
    let shared = core::ptr::eq(place, &process.place) && process.sharers.load(Ordering::Relaxed) > 1;
    match &*list {
        Some(list) => Arc::as_ptr(list).addr(),
        None if shared => (&raw const *place).addr(),
        None => 0,
    }
}

/// `parent`, which is running, has made `child`, which exists and has not run. `share`: they have the same.
#[inline(always)]
pub(super) fn inherit(parent: &Task, child: &Task, share: bool) {
    let is_thread = Arc::ptr_eq(&parent.process, &child.process);
    if is_thread && share && parent.adjustments.shares.load(Ordering::Relaxed) {
        child.process.adjustments.sharers.fetch_add(1, Ordering::Relaxed);
    } else if share {
        return pass_on(parent, child, is_thread);
    } else if is_thread {
        return;
    }
    child.adjustments.shares.store(true, Ordering::Relaxed);
}

/// `child` shares with a thread that has its own, or that is another process's.
#[cold]
#[inline(never)]
fn pass_on(parent: &Task, child: &Task, is_thread: bool) {
    child.adjustments.shares.store(!is_thread, Ordering::Relaxed);
    if let Some(theirs) = get_or_make(parent) {
        place(&child.adjustments, &child.process).set(theirs);
    }
}

/// The running thread `task` ends, or shares no longer. May sleep.
#[inline(always)]
pub(super) fn let_go(task: &Task) {
    let (own, process) = (&task.adjustments, &task.process.adjustments);
    let place = if own.shares.load(Ordering::Relaxed) {
        own.shares.store(false, Ordering::Relaxed);
        if process.sharers.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        &process.place
    } else {
        &own.own
    };
    if place.any.load(Ordering::Acquire) {
        place.let_go();
    }
}
