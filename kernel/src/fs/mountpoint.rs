//! What is mounted on a name, kept with the name: a walk that crosses a mount takes no lock that walks elsewhere take.

use crate::fs::mount::Mount;
use crate::sync::SpinLock;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, Ordering};

/// One mount that hangs here.
struct Hung {
    /// Address of the mount in which it does: one tree may be mounted several times.
    below: usize,
    mnt: Arc<Mount>,
    next: Option<Box<Hung>>,
}

/// The mounts that hang on one name, mostly none.
pub struct Mountpoint {
    /// How many, so that a load says none.
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
    /// Whether something is mounted here, in some mount of its tree.
    #[inline(always)]
    pub fn is_used(&self) -> bool {
        self.count.load(Ordering::Acquire) != 0
    }
    /// What is mounted here in `below`.
    pub fn find(&self, below: &Arc<Mount>) -> Option<Arc<Mount>> {
        let below = Arc::as_ptr(below).addr();
        let first = self.first.lock();
        let mut at = first.as_deref();
        while let Some(hung) = at {
            if hung.below == below {
                return Some(hung.mnt.clone());
            }
            at = hung.next.as_deref();
        }
        None
    }
    /// Hangs `mnt` up in `below`, where nothing is.
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
    /// Takes off what is mounted in `below`.
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
        // Perhaps the last reference: dropped without the lock.
        drop(gone);
    }
}
