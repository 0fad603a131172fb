//! What is mounted on a name. It is kept with the name, so that walks which cross different mounts take
//! different locks, and most none.

use crate::fs::mount::Mount;
use crate::rcu::{Found, Reader, Retire, Shared, Slot, read};
use crate::sync::SpinLock;
use core::sync::atomic::{AtomicU32, Ordering};

/// A mount at this name.
struct Hung {
    /// The address of the mount in which the name is: a tree may be mounted several times.
    below: usize,
    /// Nothing once it is removed, so that the mount need not wait for a grace period.
    mnt: Slot<Mount>,
    next: Slot<Hung>,
}

impl Retire for Hung {}

/// The mounts at a name. Most names have none.
pub struct Mountpoint {
    /// How many there are, so that a load tells that there is none.
    count: AtomicU32,
    first: Slot<Hung>,
    /// Held by who changes the mounts here, and by who must not miss one.
    changes: SpinLock<()>,
}

impl Mountpoint {
    /// Nothing is mounted.
    #[cfg_attr(feature = "lockdep", track_caller)]
    pub const fn new() -> Self {
        Self {
            count: AtomicU32::new(0),
            first: Slot::empty(),
            changes: SpinLock::new(()),
        }
    }
    /// Whether something is mounted here, in any of the mounts of this tree.
    #[inline(always)]
    pub fn is_used(&self) -> bool {
        self.count.load(Ordering::Acquire) != 0
    }
    /// The mount at this name in the mount at address `below`, for readers. `None`: there is none, or it
    /// cannot be seen now, while mounts here change.
    #[inline(always)]
    pub fn found<'r>(&self, below: usize, reader: &'r Reader) -> Option<Found<'r, Mount>> {
        let mnt = self.hung(below, reader)?.mnt.found(reader)?;
        mnt.value().used();
        Some(mnt)
    }
    #[inline(always)]
    fn hung<'r>(&self, below: usize, reader: &'r Reader) -> Option<&'r Hung> {
        let mut at = self.first.load(reader);
        while let Some(hung) = at
            && hung.below != below
        {
            at = hung.next.load(reader);
        }
        at
    }
    /// The mount at this name in the mount `below`.
    pub fn find(&self, below: &Shared<Mount>) -> Option<Shared<Mount>> {
        let _changes = self.changes.lock();
        self.found(Shared::address(below), &read())?.get()
    }
    /// One of the mounts here of which `f` is true. `f` may take locks under which nothing is mounted.
    pub fn one_that(&self, f: impl Fn(&Mount) -> bool) -> Option<Shared<Mount>> {
        let _changes = self.changes.lock();
        let reader = read();
        let mut at = self.first.load(&reader);
        while let Some(hung) = at {
            if let Some(mnt) = hung.mnt.found(&reader)
                && f(mnt.value())
            {
                return mnt.get();
            }
            at = hung.next.load(&reader);
        }
        None
    }
    /// Whether `f` is true of one of the mounts here. It takes no reference, which would make a mount busy
    /// for who unmounts it.
    pub fn has_one(&self, f: impl Fn(&Mount) -> bool) -> bool {
        let _changes = self.changes.lock();
        let reader = read();
        let mut at = self.first.load(&reader);
        while let Some(hung) = at {
            if hung.mnt.found(&reader).is_some_and(|mnt| f(mnt.value())) {
                return true;
            }
            at = hung.next.load(&reader);
        }
        false
    }
    /// Adds `mnt` in `below`, where nothing is mounted on this name. It comes behind the others: how long it
    /// takes to find the mounts of the first namespace does not depend on how many others there are.
    pub fn add(&self, below: &Shared<Mount>, mnt: Shared<Mount>) {
        let new = Shared::new(Hung {
            below: Shared::address(below),
            mnt: Slot::new(mnt),
            next: Slot::empty(),
        });
        let _changes = self.changes.lock();
        let reader = read();
        let mut place = &self.first;
        while let Some(hung) = place.load(&reader) {
            place = &hung.next;
        }
        drop(place.replace(Some(new)));
        self.count.fetch_add(1, Ordering::Release);
    }
    /// Replaces the mount in `below` by `mnt`.
    pub fn replace(&self, below: &Shared<Mount>, mnt: Shared<Mount>) {
        let old = {
            let _changes = self.changes.lock();
            let reader = read();
            self.hung(Shared::address(below), &reader)
                .and_then(|hung| hung.mnt.replace(Some(mnt)))
        };
        drop(old);
    }
    /// Removes the mount in `below`.
    pub fn remove(&self, below: &Shared<Mount>) {
        self.remove_at(Shared::address(below));
    }
    /// Removes the mount in the one at address `below`, if there is one.
    pub fn remove_at(&self, below: usize) {
        let gone = {
            let _changes = self.changes.lock();
            let reader = read();
            let mut place = &self.first;
            while let Some(hung) = place.load(&reader)
                && hung.below != below
            {
                place = &hung.next;
            }
            let gone = place.replace(None);
            if let Some(gone) = &gone {
                place.replace(gone.next.replace(None));
                self.count.fetch_sub(1, Ordering::Release);
            }
            gone.and_then(|hung| hung.mnt.replace(None))
        };
        // Perhaps the last reference; it is dropped without the lock.
        drop(gone);
    }
}
