//! Which namespaces threads have left by `setns`, and may have made segments there: what they made goes with
//! them wherever it is.

use super::Table;
use crate::ipc::ns::{Place, own_shm};
use crate::mm::reserve;
use crate::sync::SpinLock;
use crate::task::Task;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use limen_linux_abi::Errno;

/// A table that does not end later because of this.
enum Noted {
    Initial,
    Made(Weak<Table>),
}

impl Noted {
    fn of(table: &Place<Table>) -> Self {
        match table {
            Place::Initial(_) => Self::Initial,
            Place::Made(table) => Self::Made(Arc::downgrade(table)),
        }
    }
    /// The table, if it is still there.
    fn get(&self) -> Option<Place<Table>> {
        match self {
            Self::Initial => Some(Place::Initial(&super::INITIAL)),
            Self::Made(table) => table.upgrade().map(Place::Made),
        }
    }
    /// Whether `other` can take this one's place: it is the same, or this one is of a table that is gone.
    fn yields_to(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Initial, Self::Initial) => true,
            (Self::Made(one), Self::Made(other)) => one.strong_count() == 0 || one.ptr_eq(other),
            (Self::Made(one), Self::Initial) => one.strong_count() == 0,
            (Self::Initial, Self::Made(_)) => false,
        }
    }
}

/// Threads by their addresses, in that order, and what each has left. Few threads do that.
static LEFT: SpinLock<Vec<(usize, Noted)>> = SpinLock::new(Vec::new());

fn address(task: &Task) -> usize {
    core::ptr::from_ref(task).addr()
}

/// The running thread, which has made segments, will leave its namespace. `ENOMEM`. May sleep.
pub fn note(task: &Task) -> Result<(), Errno> {
    let me = address(task);
    let new = Noted::of(&own_shm());
    let mut left = reserve::room_behind(|| LEFT.lock(), |left: &mut Vec<_>| left, 1)?;
    let first = left.partition_point(|(thread, _)| *thread < me);
    let mine = left[first..].iter().take_while(|(thread, _)| *thread == me);
    let same = mine
        .map(|(_, noted)| noted)
        .position(|noted| noted.yields_to(&new));
    let old = match same {
        Some(n) => Some(core::mem::replace(&mut left[first + n].1, new)),
        None => {
            left.insert(first, (me, new));
            None
        }
    };
    drop(left);
    drop(old);
    Ok(())
}

/// Calls `f` with each table that a thread has left, and forgets it.
pub fn forget(task: &Task, f: impl Fn(&Table)) {
    let me = address(task);
    let next = || {
        let mut left = LEFT.lock();
        let first = left.partition_point(|(thread, _)| *thread < me);
        let is_mine = left.get(first).is_some_and(|(thread, _)| *thread == me);
        is_mine.then(|| left.remove(first).1)
    };
    while let Some(noted) = next() {
        if let Some(table) = noted.get() {
            f(&table);
        }
    }
}
