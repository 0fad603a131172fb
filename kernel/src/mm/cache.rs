//! `PageCache`: a file's pages. It is tmpfs's storage, what file mappings map, and the memory behind shared anonymous mappings. Sparse:
//! a page that was never written takes no memory and reads as zeros.
//!
//! Locks: the file room's inode lock (writes, truncation) is outside; the mapping lock of an address space comes next; the locks in here
//! are innermost and short.

use super::page::{Page, PageKind};
use super::space::AddressSpace;
use super::{PAGE_SHIFT, PAGE_SIZE};
use crate::sync::SpinLock;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use limen_linux_abi::Errno;
use limen_radix::Radix;

mod transfer;

pub use transfer::{Sink, Source};

/// Fetches pages of files whose storage is elsewhere. May sleep.
pub trait Filler: Send + Sync {
    /// Fills the zeroed `page` with the file's content at `index`.
    fn fill(&self, index: u64, page: &Page) -> Result<(), Errno>;
}

/// How many pages the files of one file system may take together.
#[derive(Debug)]
pub struct Budget {
    limit: AtomicUsize,
    used: AtomicUsize,
}

impl Budget {
    /// At most `limit` pages.
    pub const fn new(limit: usize) -> Self {
        Self {
            limit: AtomicUsize::new(limit),
            used: AtomicUsize::new(0),
        }
    }
    /// The limit, in pages.
    pub fn limit(&self) -> usize {
        self.limit.load(Relaxed)
    }
    /// Pages in use.
    pub fn used(&self) -> usize {
        self.used.load(Relaxed)
    }
    /// Changes the limit (remount).
    pub fn set_limit(&self, limit: usize) {
        self.limit.store(limit, Relaxed);
    }
    fn charge(&self) -> Result<(), Errno> {
        if self.used.fetch_add(1, Relaxed) >= self.limit() {
            self.used.fetch_sub(1, Relaxed);
            return Err(Errno::ENOSPC);
        }
        Ok(())
    }
}

/// Pages in all caches, for `/proc/meminfo`.
static CACHED: AtomicUsize = AtomicUsize::new(0);

/// Pages in all caches.
pub fn cached_pages() -> usize {
    CACHED.load(Relaxed)
}

struct Mapper {
    space: Weak<AddressSpace>,
    /// Mappings of the cache in that address space.
    count: usize,
}

/// A file's pages and size.
pub struct PageCache {
    pages: SpinLock<Radix<Page>>,
    size: AtomicU64,
    mappers: SpinLock<BTreeMap<usize, Mapper>>,
    budget: Option<Arc<Budget>>,
    filler: Option<Box<dyn Filler>>,
}

impl PageCache {
    /// An empty file in memory.
    pub fn new() -> Arc<Self> {
        Self::with(None, None)
    }

    /// An empty file in memory that counts against `budget`, or one whose content comes from elsewhere.
    pub fn with(budget: Option<Arc<Budget>>, filler: Option<Box<dyn Filler>>) -> Arc<Self> {
        Arc::new(Self {
            pages: SpinLock::new(Radix::new()),
            size: AtomicU64::new(0),
            mappers: SpinLock::new(BTreeMap::new()),
            budget,
            filler,
        })
    }

    /// Size in bytes.
    #[inline]
    pub fn size(&self) -> u64 {
        self.size.load(Relaxed)
    }

    /// Sets the size without touching pages (a file whose storage is elsewhere grew). [`PageCache::truncate`] is for everything else.
    pub fn set_size(&self, size: u64) {
        self.size.store(size, Relaxed);
    }

    /// Pages that take memory (`st_blocks`).
    pub fn resident(&self) -> usize {
        self.pages.lock().len()
    }

    /// The page at `index`, if it takes memory.
    #[inline]
    pub fn get(&self, index: u64) -> Option<Page> {
        self.pages.lock().get(index).cloned()
    }

    /// Calls `f(i, page)` for those of the pages `first + i`, `i < count`, that are there and near the first in the tree. The cache is locked
    /// meanwhile.
    #[inline(always)]
    pub(super) fn each_near(&self, first: u64, count: usize, mut f: impl FnMut(usize, &Page)) {
        let pages = self.pages.lock();
        let slots = pages.neighbours(first);
        for (i, slot) in slots[..count.min(slots.len())].iter().enumerate() {
            if let Some(page) = slot {
                f(i, page);
            }
        }
    }

    /// The page at `index`, made (zeroed, or fetched) if it is not there. `ENOSPC` beyond the budget, `ENOMEM`, or what fetching gave.
    pub fn get_or_create(&self, index: u64) -> Result<Page, Errno> {
        if let Some(page) = self.get(index) {
            return Ok(page);
        }
        let page = super::alloc_zeroed_page().ok_or(Errno::ENOMEM)?;
        if let Some(filler) = &self.filler {
            filler.fill(index, &page)?;
        }
        self.add(index, page)
    }

    /// Puts `page` at `index` unless there is one already; returns the one that is there now.
    fn add(&self, index: u64, page: Page) -> Result<Page, Errno> {
        if let Some(budget) = &self.budget {
            budget.charge()?;
        }
        let mut pages = self.pages.lock();
        if let Some(found) = pages.get(index) {
            let found = found.clone();
            drop(pages);
            self.uncharge(1);
            return Ok(found);
        }
        page.set_kind(PageKind::Cache);
        pages.insert(index, page.clone());
        drop(pages);
        CACHED.fetch_add(1, Relaxed);
        Ok(page)
    }

    fn uncharge(&self, pages: usize) {
        if let Some(budget) = &self.budget {
            budget.used.fetch_sub(pages, Relaxed);
        }
    }

    /// Sets the size; pages beyond go away, also from mappings. The caller holds the inode's lock.
    pub fn truncate(&self, size: u64) {
        let old = self.size.swap(size, Relaxed);
        let boundary = size.min(old);
        let offset = boundary as usize & (PAGE_SIZE - 1);
        if offset != 0
            && let Some(page) = self.get(boundary >> PAGE_SHIFT)
        {
            page.clear(offset, PAGE_SIZE - offset);
        }
        if size < old {
            let first = size.div_ceil(PAGE_SIZE as u64);
            self.remove(first, u64::MAX, true);
        }
    }

    /// Makes `[start, end)` read as zeros and frees its whole pages (`FALLOC_FL_PUNCH_HOLE`). The caller holds the inode's lock.
    pub fn punch_hole(&self, start: u64, end: u64) {
        let page_size = PAGE_SIZE as u64;
        let (first, last) = (start.div_ceil(page_size), end / page_size);
        let clear = |from: u64, to: u64| {
            if from < to
                && let Some(page) = self.get(from / page_size)
            {
                page.clear((from % page_size) as usize, (to - from) as usize);
            }
        };
        if first > last {
            return clear(start, end);
        }
        clear(start, first * page_size);
        clear(last * page_size, end);
        if first < last {
            self.remove(first, last, false);
        }
    }

    /// Takes pages out of the file, then out of every mapping (a fault in between can't find them any more), then lets them go.
    fn remove(&self, first: u64, end: u64, private_too: bool) {
        let mapped = self.is_mapped();
        let mut gone = Vec::new();
        let mut from = first;
        // In pieces: the lock keeps preemption off.
        loop {
            let mut pages = self.pages.lock();
            let stop = match pages.next(from) {
                Some((index, _)) if index < end => index.saturating_add(256).min(end),
                _ => break,
            };
            pages.remove_range(from, stop, |_, page| gone.push(page));
            drop(pages);
            if !mapped {
                self.release(&mut gone);
            }
            from = stop;
        }
        if mapped {
            self.unmap(first, end, private_too);
        }
        self.release(&mut gone);
    }

    fn release(&self, gone: &mut Vec<Page>) {
        CACHED.fetch_sub(gone.len(), Relaxed);
        self.uncharge(gone.len());
        for page in gone.drain(..) {
            page.set_kind(PageKind::Anonymous);
        }
    }

    /// The first index at or after `index` that takes memory (`SEEK_DATA`).
    pub fn next_data(&self, index: u64) -> Option<u64> {
        self.pages.lock().next(index).map(|(i, _)| i)
    }

    /// The first index at or after `index` that takes none (`SEEK_HOLE`).
    pub fn next_hole(&self, mut index: u64) -> u64 {
        let pages = self.pages.lock();
        while pages.get(index).is_some() {
            index += 1;
        }
        index
    }

    /// Takes `[first, end)` (page indices) out of every address space that maps it. `private_too`: also what was copied on write.
    fn unmap(&self, first: u64, end: u64, private_too: bool) {
        let spaces: Vec<Arc<AddressSpace>> = self
            .mappers
            .lock()
            .values()
            .filter_map(|m| m.space.upgrade())
            .collect();
        for space in spaces {
            space.unmap_cache(self, first, end, private_too);
        }
    }

    /// Whether anybody maps it.
    pub fn is_mapped(&self) -> bool {
        !self.mappers.lock().is_empty()
    }

    /// One more mapping of this cache in `space`.
    pub(super) fn map_added(&self, space: &Weak<AddressSpace>) {
        let mut mappers = self.mappers.lock();
        let entry = mappers.entry(space.as_ptr() as usize);
        entry
            .or_insert_with(|| Mapper {
                space: space.clone(),
                count: 0,
            })
            .count += 1;
    }

    /// One mapping fewer.
    pub(super) fn map_removed(&self, space: &Weak<AddressSpace>) {
        let mut mappers = self.mappers.lock();
        let key = space.as_ptr() as usize;
        if let Some(mapper) = mappers.get_mut(&key) {
            mapper.count -= 1;
            if mapper.count == 0 {
                let gone = mappers.remove(&key);
                drop(mappers);
                drop(gone);
            }
        }
    }
}

impl Drop for PageCache {
    fn drop(&mut self) {
        let pages = core::mem::take(self.pages.get_mut());
        CACHED.fetch_sub(pages.len(), Relaxed);
        self.uncharge(pages.len());
    }
}
