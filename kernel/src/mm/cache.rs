//! `PageCache`: a file's pages. It is tmpfs's storage, what file mappings map, and the memory behind shared anonymous mappings. Sparse:
//! a page that was never written takes no memory and reads as zeros.
//!
//! Locks: who writes or takes pages out ([`Writing`]) is outside; the mapping lock of an address space comes next; the other locks in here
//! are innermost and short.

use super::PAGE_SIZE;
use super::frame::FrameList;
use super::page::{Page, PageKind};
use super::space::AddressSpace;
use super::vma::VmFlags;
use crate::sync::{Mutex, SpinLock};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use limen_linux_abi::Errno;
use limen_radix::Radix;

mod transfer;
mod writing;

pub use transfer::{Sink, Source};
pub use writing::Writing;

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

/// Who maps a file.
struct Mappers {
    /// By the address spaces' numbers.
    spaces: BTreeMap<u64, Mapper>,
    /// Mappings that write to the file or may come to, and those that are being made.
    writing: usize,
    /// There will be no more of these: a seal.
    sealed: bool,
}

/// Whether a mapping writes to the file it maps, or may come to.
#[inline(always)]
pub(super) fn may_write(flags: VmFlags) -> bool {
    flags.contains(VmFlags::SHARED.union(VmFlags::MAYWRITE))
}

/// A mapping that may write to the file is being made or moved: no seal can come in between.
pub(super) struct WillWrite(Arc<PageCache>);

impl Drop for WillWrite {
    fn drop(&mut self) {
        self.0.mappers.lock().writing -= 1;
    }
}

/// A file's pages and size.
pub struct PageCache {
    /// Held by the one who writes: [`Writing`].
    writer: Mutex<()>,
    pages: SpinLock<Radix<Page>>,
    /// How many they are: told under the lock, read without.
    resident: AtomicUsize,
    size: AtomicU64,
    mappers: SpinLock<Mappers>,
    budget: Option<Arc<Budget>>,
    filler: Option<Box<dyn Filler>>,
    /// What tells it from all others that ever were, from the first time somebody asks.
    number: AtomicU64,
}

/// The next [`PageCache::number`].
static NUMBERS: AtomicU64 = AtomicU64::new(1);

impl PageCache {
    /// An empty file in memory.
    pub fn new() -> Arc<Self> {
        Self::with(None, None)
    }

    /// An empty file in memory that counts against `budget`, or one whose content comes from elsewhere.
    pub fn with(budget: Option<Arc<Budget>>, filler: Option<Box<dyn Filler>>) -> Arc<Self> {
        Arc::new(Self {
            writer: Mutex::new(()),
            pages: SpinLock::new(Radix::new()),
            resident: AtomicUsize::new(0),
            size: AtomicU64::new(0),
            mappers: SpinLock::new(Mappers {
                spaces: BTreeMap::new(),
                writing: 0,
                sealed: false,
            }),
            budget,
            filler,
            number: AtomicU64::new(0),
        })
    }

    /// A number no other file in memory has or had, odd, so that it is no address either.
    #[inline]
    pub fn number(&self) -> u64 {
        match self.number.load(Relaxed) {
            0 => self.choose_number(),
            number => number,
        }
    }
    #[cold]
    fn choose_number(&self) -> u64 {
        // In steps of 16: who hashes it like an address finds all of it.
        let new = NUMBERS.fetch_add(16, Relaxed);
        match self.number.compare_exchange(0, new, Relaxed, Relaxed) {
            Ok(_) => new,
            Err(number) => number,
        }
    }

    /// Size in bytes. Who sees it sees what was written up to there.
    #[inline]
    pub fn size(&self) -> u64 {
        self.size.load(Acquire)
    }

    /// Sets the size without touching pages (a file whose storage is elsewhere grew). [`Writing::truncate`] is for everything else.
    pub fn set_size(&self, size: u64) {
        self.size.store(size, Release);
    }

    /// Pages that take memory (`st_blocks`).
    #[inline]
    pub fn resident(&self) -> usize {
        self.resident.load(Relaxed)
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
        self.make(index, false)
    }

    /// [`PageCache::get_or_create`] for those who don't write, as faults: truncation goes on meanwhile. `EFAULT` behind the end of the file.
    pub(super) fn get_or_create_within(&self, index: u64) -> Result<Page, Errno> {
        self.make(index, true)
    }

    fn make(&self, index: u64, within: bool) -> Result<Page, Errno> {
        if let Some(page) = self.get(index) {
            return Ok(page);
        }
        let page = super::alloc_zeroed_page().ok_or(Errno::ENOMEM)?;
        if let Some(filler) = &self.filler {
            filler.fill(index, &page)?;
        }
        self.add(index, page, within)
    }

    /// Puts `page` at `index` unless there is one already; returns the one that is there now. `within`: `EFAULT` if it lies behind the end of the
    /// file. Who makes the file shorter says so before the pages behind the new end are taken out.
    fn add(&self, index: u64, page: Page, within: bool) -> Result<Page, Errno> {
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
        if within && index >= self.size().div_ceil(PAGE_SIZE as u64) {
            drop(pages);
            self.uncharge(1);
            return Err(Errno::EFAULT);
        }
        page.set_kind(PageKind::Cache);
        pages.insert(index, page.clone());
        self.resident.store(pages.len(), Relaxed);
        drop(pages);
        CACHED.fetch_add(1, Relaxed);
        Ok(page)
    }

    fn uncharge(&self, pages: usize) {
        if let Some(budget) = &self.budget {
            budget.used.fetch_sub(pages, Relaxed);
        }
    }

    /// Lets go of pages that were taken out, whose counts are in the list.
    fn release(&self, mut gone: FrameList) {
        CACHED.fetch_sub(gone.len(), Relaxed);
        self.uncharge(gone.len());
        while let Some(pfn) = gone.pop() {
            Page::from_raw(pfn).set_kind(PageKind::Anonymous);
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

    /// Takes `[first, end)` (page indices) out of every address space that maps it. `private_too`: also what was copied on write. The parent comes
    /// before the child: what a fork that is not done yet copies is found in the child, and later ones find nothing to copy.
    fn unmap(&self, first: u64, end: u64, private_too: bool) {
        let mut last = 0;
        while let Some((number, space)) = self.mapper_after(last) {
            if let Some(space) = space {
                space.unmap_cache(self, first, end, private_too);
            }
            last = number;
        }
    }

    /// Of the address spaces that map it the first behind that with the number `last`: its number, and itself unless it is about to go.
    fn mapper_after(&self, last: u64) -> Option<(u64, Option<Arc<AddressSpace>>)> {
        let mappers = self.mappers.lock();
        let (&number, mapper) = mappers.spaces.range(last + 1..).next()?;
        Some((number, mapper.space.upgrade()))
    }

    /// Whether anybody maps it.
    pub fn is_mapped(&self) -> bool {
        !self.mappers.lock().spaces.is_empty()
    }

    /// Before a mapping that may write is made: holds seals off until that is done. `EPERM` if there is one.
    pub(super) fn will_write(self: &Arc<Self>) -> Result<WillWrite, Errno> {
        let mut mappers = self.mappers.lock();
        if mappers.sealed {
            return Err(Errno::EPERM);
        }
        mappers.writing += 1;
        Ok(WillWrite(self.clone()))
    }

    /// Nobody can write to the file through a mapping from now on. `EBUSY` if somebody can now.
    pub fn seal_mappings(&self) -> Result<(), Errno> {
        let mut mappers = self.mappers.lock();
        if mappers.writing != 0 {
            return Err(Errno::EBUSY);
        }
        mappers.sealed = true;
        Ok(())
    }

    /// One more mapping of this cache in `space`. Before it can be used.
    pub(super) fn map_added(&self, space: &AddressSpace, flags: VmFlags) {
        let mut mappers = self.mappers.lock();
        mappers.writing += usize::from(may_write(flags));
        let entry = mappers.spaces.entry(space.number);
        entry
            .or_insert_with(|| Mapper {
                space: space.this.clone(),
                count: 0,
            })
            .count += 1;
    }

    /// One mapping fewer. After no CPU has translations of it any more.
    pub(super) fn map_removed(&self, space: &AddressSpace, flags: VmFlags) {
        let mut mappers = self.mappers.lock();
        mappers.writing -= usize::from(may_write(flags));
        if let Some(mapper) = mappers.spaces.get_mut(&space.number) {
            mapper.count -= 1;
            if mapper.count == 0 {
                let gone = mappers.spaces.remove(&space.number);
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
