//! What is mounted on a name. It is kept with the name, so that walks which cross different mounts take
//! different locks.

use crate::fs::mount::Mount;
use crate::sync::SpinLock;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, Ordering};

/// A mount at this name.
struct Hung {
    /// The address of the mount in which the name is: a tree may be mounted several times.
    below: usize,
    mnt: Arc<Mount>,
    next: Option<Box<Hung>>,
}

/// The mounts at a name. Most names have none.
pub struct Mountpoint {
    /// How many there are, so that a load tells that there is none.
    count: AtomicU32,
    first: SpinLock<Option<Box<Hung>>>,
}

impl Mountpoint {
    /// Nothing is mounted.
    #[cfg_attr(feature = "lockdep", track_caller)]
    pub const fn new() -> Self {
        Self {
            count: AtomicU32::new(0),
            first: SpinLock::new(None),
        }
    }
    /// Whether something is mounted here, in any of the mounts of this tree.
    #[inline(always)]
    pub fn is_used(&self) -> bool {
        self.count.load(Ordering::Acquire) != 0
    }
    /// The mount at this name in the mount `below`.
    #[inline(always)]
    pub fn find(&self, below: &Arc<Mount>) -> Option<Arc<Mount>> {
        let below = Arc::as_ptr(below).addr();
        let first = self.first.lock();
        let mut at = first.as_deref();
        while let Some(hung) = at {
            if hung.below == below {
                hung.mnt.used();
                return Some(hung.mnt.clone());
            }
            at = hung.next.as_deref();
        }
        None
    }
    /// Adds `mnt` in `below`, where nothing is mounted on this name.
    pub fn add(&self, below: &Arc<Mount>, mnt: Arc<Mount>) {
        let mut new = Box::new(Hung {
            below: Arc::as_ptr(below).addr(),
            mnt,
            next: None,
        });
        let mut first = self.first.lock();
        new.next = first.take();
        *first = Some(new);
        self.count.fetch_add(1, Ordering::Release);
    }
    /// Replaces the mount in `below` by `mnt`.
    pub fn replace(&self, below: &Arc<Mount>, mnt: Arc<Mount>) {
        let below = Arc::as_ptr(below).addr();
        let old = {
            let mut first = self.first.lock();
            let mut at = first.as_deref_mut();
            while at.as_ref().is_some_and(|hung| hung.below != below) {
                at = at.and_then(|hung| hung.next.as_deref_mut());
            }
            at.map(|hung| core::mem::replace(&mut hung.mnt, mnt))
        };
        drop(old);
    }
    /// Removes the mount in `below`.
    pub fn remove(&self, below: &Arc<Mount>) {
        let below = Arc::as_ptr(below).addr();
        let gone = {
            let mut first = self.first.lock();
            let mut at = &mut *first;
            while at.as_ref().is_some_and(|hung| hung.below != below) {
                at = &mut at.as_mut().expect("it was just there").next;
            }
            let mut gone = at.take();
            if let Some(gone) = &mut gone {
                *at = gone.next.take();
                self.count.fetch_sub(1, Ordering::Release);
            }
            gone
        };
        // Perhaps the last reference; it is dropped without the lock.
        drop(gone);
    }
}
