//! Epoll files in epoll files: which may be added to which.
//!
//! A wake-up goes outwards from queue to queue, and a question inwards from file to file, each on the stack of the one before. So there are no
//! cycles, and the longest way through epoll files is short, counted through the two that come together in both directions. A walk comes by
//! each epoll file once, however many ways lead there.

use super::{Epoll, Item, Key};
use crate::sync::{Mutex, MutexGuard};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::ops::Bound;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use limen_linux_abi::Errno;

/// How many steps there may be from an epoll file to one in it, from that one to one in it, and so on (`EP_MAX_NESTS`).
const MAX_NESTS: usize = 4;

/// Only one change of nesting at a time, so that cycles are seen; the number of the last walk.
static NESTING: Mutex<u64> = Mutex::new(0);

/// Where an epoll file is among others. Only looked at with `NESTING`.
pub(super) struct Place {
    /// The items of other epoll files that watch this one; those that are dead do not count.
    outer: Mutex<Vec<Weak<Item>>>,
    /// The walk that came by here last, and how many steps it found to be before it from here.
    walk: AtomicU64,
    nests: AtomicUsize,
}

impl Place {
    /// In no other, and with no other in it.
    pub(super) fn new() -> Self {
        Self {
            outer: Mutex::new(Vec::new()),
            walk: AtomicU64::new(0),
            nests: AtomicUsize::new(0),
        }
    }
}

/// An epoll file is about to be added to another one.
pub(super) struct Nesting<'a> {
    inner: &'a Epoll,
    _alone: MutexGuard<'static, u64>,
}

impl Nesting<'_> {
    /// It was, by this item.
    pub(super) fn done(self, item: &Arc<Item>) {
        self.inner.place.outer.lock().push(Arc::downgrade(item));
    }
}

impl Epoll {
    /// Whether this epoll file may be added to `outer`: `ELOOP` if that made a cycle, or too many steps.
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
            all.try_reserve(more).map_err(|_| Errno::ENOMEM)?;
        }
        drop(all);
        Ok(Nesting {
            inner: self,
            _alone: walks,
        })
    }

    /// What a walk found here, if it has come by already.
    fn found_by(&self, walk: u64) -> Option<usize> {
        (self.place.walk.load(Ordering::Relaxed) == walk).then(|| self.place.nests.load(Ordering::Relaxed))
    }
    /// For when it comes by again.
    fn note(&self, walk: u64, nests: usize) -> usize {
        self.place.nests.store(nests, Ordering::Relaxed);
        self.place.walk.store(walk, Ordering::Relaxed);
        nests
    }
    /// The first of its items behind `last` that is about an epoll file.
    fn next_nested(&self, last: Option<Key>) -> Option<(Key, Arc<Item>)> {
        let items = self.items.lock();
        let mut rest = items.range((last.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded));
        rest.find(|(_, item)| item.nested)
            .map(|(key, item)| (*key, item.clone()))
    }
    /// How many steps there are inwards from this epoll file, which `depth` lead to; `ELOOP` if `target` is on the way, or there are too many.
    fn nests_below(&self, target: *const Epoll, depth: usize, walk: u64) -> Result<usize, Errno> {
        if core::ptr::eq(self, target) || depth > MAX_NESTS {
            return Err(Errno::ELOOP);
        }
        if let Some(nests) = self.found_by(walk) {
            return Ok(nests);
        }
        let (mut nests, mut last) = (0, None);
        while let Some((key, item)) = self.next_nested(last) {
            last = Some(key);
            let file = item.file.upgrade();
            if let Some(inner) = file.as_ref().and_then(|f| f.ops().epoll()) {
                nests = nests.max(1 + inner.nests_below(target, depth + 1, walk)?);
            }
        }
        Ok(self.note(walk, nests))
    }
    /// How many steps there are outwards from this epoll file, which `depth` lead to.
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
