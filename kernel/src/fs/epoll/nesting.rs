//! Epoll files in epoll files: which may be added to which.
//!
//! A wake-up goes outwards from queue to queue, a poll inwards from file to file, each step on the stack of
//! the one before. So cycles are forbidden, and the longest chain of epoll files is short: the chain through
//! the two files that are being joined is counted in both directions. A walk visits each epoll file once,
//! however many ways lead to it.

use super::{Epoll, Item};
use crate::sync::{Mutex, MutexGuard};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use limen_linux_abi::Errno;

/// How many steps a chain of epoll files, each watched by the next, may have (`EP_MAX_NESTS`).
const MAX_NESTS: usize = 4;

/// Locked by the one change of nesting at a time, so that no cycle is missed. The number of the last walk.
static NESTING: Mutex<u64> = Mutex::new(0);

/// An epoll file's place among others. Used only with `NESTING` locked.
pub(super) struct Place {
    /// The items by which other epoll files watch this one. Dead ones do not count.
    outer: Mutex<Vec<Weak<Item>>>,
    /// The last walk that came here, and how many steps it found from here on.
    walk: AtomicU64,
    nests: AtomicUsize,
}

impl Place {
    /// Of an epoll file that neither watches others nor is watched.
    pub(super) fn new() -> Self {
        Self {
            outer: Mutex::new(Vec::new()),
            walk: AtomicU64::new(0),
            nests: AtomicUsize::new(0),
        }
    }
}

/// An epoll file is about to be added to another one; the nesting is locked.
pub(super) struct Nesting<'a> {
    inner: &'a Epoll,
    _alone: MutexGuard<'static, u64>,
}

impl Nesting<'_> {
    /// The epoll file was added, as `item`.
    pub(super) fn done(self, item: &Arc<Item>) {
        self.inner.place.outer.lock().push(Arc::downgrade(item));
    }
}

impl Epoll {
    /// Whether this epoll file may be added to `outer`. `ELOOP`: there would be a cycle, or too many steps.
    pub(super) fn nest_in(&self, outer: &Arc<Epoll>) -> Result<Nesting<'_>, Errno> {
        let mut walks = NESTING.lock();
        *walks += 2;
        let below = self.nests_below(Arc::as_ptr(outer), 0, *walks)?;
        let above = outer.nests_above(0, *walks + 1)?;
        if below + 1 + above > MAX_NESTS {
            return Err(Errno::ELOOP);
        }
        let mut all = self.place.outer.lock();
        if all.len() == all.capacity() {
            all.retain(|item| item.upgrade().is_some_and(|i| !i.dead.load(Ordering::Acquire)));
            let more = all.len() + 1;
            crate::mm::reserve::room(&mut *all, more)?;
        }
        drop(all);
        Ok(Nesting {
            inner: self,
            _alone: walks,
        })
    }

    /// The result of this walk from here on, if it was here already.
    fn found_by(&self, walk: u64) -> Option<usize> {
        (self.place.walk.load(Ordering::Relaxed) == walk).then(|| self.place.nests.load(Ordering::Relaxed))
    }
    /// Notes the result for when the walk comes here again.
    fn note(&self, walk: u64, nests: usize) -> usize {
        self.place.nests.store(nests, Ordering::Relaxed);
        self.place.walk.store(walk, Ordering::Relaxed);
        nests
    }
    /// How many steps lead inwards from this epoll file, to which `depth` steps led. `ELOOP`: `target` is on
    /// the way, or there are too many steps.
    fn nests_below(&self, target: *const Epoll, depth: usize, walk: u64) -> Result<usize, Errno> {
        if core::ptr::eq(self, target) || depth > MAX_NESTS {
            return Err(Errno::ELOOP);
        }
        if let Some(nests) = self.found_by(walk) {
            return Ok(nests);
        }
        let (mut nests, mut last) = (0, None);
        while let Some((key, item)) = self.next_item(last, |item| item.nested) {
            last = Some(key);
            let file = item.file.upgrade();
            if let Some(inner) = file.as_ref().and_then(|f| f.ops().epoll()) {
                nests = nests.max(1 + inner.nests_below(target, depth + 1, walk)?);
            }
        }
        Ok(self.note(walk, nests))
    }
    /// How many steps lead outwards from this epoll file, to which `depth` steps led.
    fn nests_above(&self, depth: usize, walk: u64) -> Result<usize, Errno> {
        if depth > MAX_NESTS {
            return Err(Errno::ELOOP);
        }
        if let Some(nests) = self.found_by(walk) {
            return Ok(nests);
        }
        let mut nests = 0;
        for n in 0.. {
            let Some(item) = self.place.outer.lock().get(n).cloned() else {
                break;
            };
            if let Some(item) = item.upgrade()
                && !item.dead.load(Ordering::Acquire)
                && let Some(outer) = item.epoll.upgrade()
            {
                nests = nests.max(1 + outer.nests_above(depth + 1, walk)?);
            }
        }
        Ok(self.note(walk, nests))
    }
}
