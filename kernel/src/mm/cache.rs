//! `PageCache`: a file's pages. It is what tmpfs stores its files in, what file mappings map, and the memory
//! behind shared anonymous mappings. A page that was never written takes no memory and reads as zeros.
//!
//! Lock order: [`Writing`], which a writer and whoever removes pages holds, comes first, then the mapping
//! lock of an address space. The other locks in here are held shortly, and no lock is taken under them.

use super::PAGE_SIZE;
use super::frame::FrameList;
use super::linear;
use super::page::{self, Page, PageKind};
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

/// Fetches pages of files that are stored elsewhere. May sleep.
pub trait Filler: Send + Sync {
    /// Fills the zeroed `page` with the file's content at `index`.
    fn fill(&self, index: u64, page: &Page) -> Result<(), Errno>;
}

/// How many pages all files of one file system may have together.
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
    /// Changes the limit (`mount -o remount,size=`).
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

/// Who counts the mappings of a file (System V shared memory). Both are called with the regions of an address
/// space locked, or with no thread in it, and do not sleep.
pub trait Attached: Send + Sync {
    /// There is one more mapping.
    fn mapped(&self);
    /// There is one mapping less. The pages stay until the caller lets go of the file.
    fn unmapped(&self);
}

struct Mapper {
    space: Weak<AddressSpace>,
    /// Mappings of the cache in that address space.
    count: usize,
}

/// The mappings of a file.
struct Mappers {
    /// By the numbers of the address spaces.
    spaces: BTreeMap<u64, Mapper>,
    /// How many mappings write to the file, or may be allowed to, including those just being made.
    writing: usize,
    /// A seal (`F_SEAL_FUTURE_WRITE`, `F_SEAL_WRITE`) forbids new ones.
    sealed: bool,
}

/// Whether a mapping writes to the file it maps, or `mprotect` could allow it to.
#[inline(always)]
pub(super) fn may_write(flags: VmFlags) -> bool {
    flags.contains(VmFlags::SHARED.union(VmFlags::MAYWRITE))
}

/// A mapping that may write to the file is being made or moved. While this exists, the file cannot be sealed.
pub(super) struct WillWrite(Arc<PageCache>);

impl Drop for WillWrite {
    fn drop(&mut self) {
        self.0.mappers.lock().writing -= 1;
    }
}

/// Whether a page was written or mapped; not so if `fallocate` made it and nothing used it since.
fn is_filled(page: &Page) -> bool {
    !page::is_untouched(page.pfn())
}

/// A file's pages and size.
pub struct PageCache {
    /// The lock of the one writer: [`Writing`].
    writer: Mutex<()>,
    pages: SpinLock<Radix<Page>>,
    /// How many pages there are; none of a secret file count, as on Linux. Written under the lock, read
    /// without.
    resident: AtomicUsize,
    size: AtomicU64,
    mappers: SpinLock<Mappers>,
    budget: Option<Arc<Budget>>,
    filler: Option<Box<dyn Filler>>,
    /// Who counts its mappings.
    attached: Option<Box<dyn Attached>>,
    /// Its pages are not in the linear map (`memfd_secret`).
    secret: bool,
    /// The file's [`PageCache::number`], 0 until it is asked for.
    number: AtomicU64,
}

/// The next [`PageCache::number`].
static NUMBERS: AtomicU64 = AtomicU64::new(1);

impl PageCache {
    /// An empty file in memory.
    pub fn new() -> Arc<Self> {
        Self::with(None, None)
    }

    /// An empty file whose pages the kernel itself cannot reach: only programs that map it can.
    pub fn new_secret() -> Arc<Self> {
        let mut cache = Self::make_with(None, None);
        cache.secret = true;
        Arc::new(cache)
    }

    /// A file of `size` bytes in memory whose mappings `attached` counts. They are never joined.
    pub fn new_attached(size: u64, attached: Box<dyn Attached>) -> Arc<Self> {
        let mut cache = Self::make_with(None, None);
        cache.attached = Some(attached);
        cache.set_size(size);
        Arc::new(cache)
    }

    /// Whether somebody counts its mappings.
    #[inline(always)]
    pub(super) fn is_attached(&self) -> bool {
        self.attached.is_some()
    }

    /// Whether only programs that map the file can reach its pages.
    #[inline(always)]
    pub fn is_secret(&self) -> bool {
        self.secret
    }

    /// An empty file in memory that counts against `budget`, or one whose content comes from elsewhere.
    pub fn with(budget: Option<Arc<Budget>>, filler: Option<Box<dyn Filler>>) -> Arc<Self> {
        Arc::new(Self::make_with(budget, filler))
    }

    fn make_with(budget: Option<Arc<Budget>>, filler: Option<Box<dyn Filler>>) -> Self {
        Self {
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
            attached: None,
            secret: false,
            number: AtomicU64::new(0),
        }
    }

    /// A number that no other file in memory has or ever had. It is odd, so it is no address either (futex
    /// keys).
    #[inline]
    pub fn number(&self) -> u64 {
        match self.number.load(Relaxed) {
            0 => self.choose_number(),
            number => number,
        }
    }
    #[cold]
    fn choose_number(&self) -> u64 {
        // In steps of 16: the low bits of an address carry nothing, so hashes of addresses ignore them.
        let new = NUMBERS.fetch_add(16, Relaxed);
        match self.number.compare_exchange(0, new, Relaxed, Relaxed) {
            Ok(_) => new,
            Err(number) => number,
        }
    }

    /// Size in bytes. Whoever reads it sees the bytes that were written before it grew to that.
    #[inline]
    pub fn size(&self) -> u64 {
        self.size.load(Acquire)
    }

    /// Sets the size and leaves the pages alone: a file that is stored elsewhere grew. In all other cases use
    /// [`Writing::truncate`].
    pub fn set_size(&self, size: u64) {
        self.size.store(size, Release);
    }

    /// How many pages take memory (for `st_blocks`).
    #[inline]
    pub fn resident(&self) -> usize {
        self.resident.load(Relaxed)
    }

    /// The page at `index` if it is in memory.
    #[inline]
    pub fn get(&self, index: u64) -> Option<Page> {
        self.pages.lock().get(index).cloned()
    }

    /// Calls `f(i, page)` for those of the pages `first + i`, `i < count`, that are in memory and in the same
    /// leaf of the tree as `first`. `f` runs under the cache's spinlock.
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

    /// The page at `index`. If it is not in memory, it is made (zeroed) or fetched. `ENOSPC`: the budget is
    /// used up; `ENOMEM`; or the error of fetching. May sleep.
    pub fn get_or_create(&self, index: u64) -> Result<Page, Errno> {
        self.make(index, false)
    }

    /// [`PageCache::get_or_create`] for page faults, which do not hold [`Writing`], so that a truncation may
    /// come in between. `EFAULT`: the page is behind the end of the file.
    pub(super) fn get_or_create_within(&self, index: u64) -> Result<Page, Errno> {
        self.make(index, true)
    }

    fn make(&self, index: u64, within: bool) -> Result<Page, Errno> {
        if let Some(page) = self.get(index) {
            return Ok(page);
        }
        if self.secret {
            return self.make_secret(index, within);
        }
        let page = super::alloc_zeroed_page().ok_or(Errno::ENOMEM)?;
        if let Some(filler) = &self.filler {
            filler.fill(index, &page)?;
        }
        self.add(index, page, within)
    }

    /// [`PageCache::make`], where the page leaves the linear map before anybody can map it.
    fn make_secret(&self, index: u64, within: bool) -> Result<Page, Errno> {
        let page = super::alloc_zeroed_page().ok_or(Errno::ENOMEM)?;
        linear::set_present(page.phys(), 1, false, linear::Reason::Secret)?;
        let new = page.clone();
        let there = self.add(index, page, within);
        if !matches!(&there, Ok(page) if page.pfn() == new.pfn()) {
            forget_secret(new);
        }
        there
    }

    /// Puts `page` at `index` unless there is one; returns the page that is there now. `within`: `EFAULT` if
    /// `index` is behind the end of the file. That is enough against a truncation, which sets the size first
    /// and then removes the pages behind it.
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
        if !self.secret {
            self.resident.store(pages.len(), Relaxed);
        }
        drop(pages);
        CACHED.fetch_add(1, Relaxed);
        Ok(page)
    }

    fn uncharge(&self, pages: usize) {
        if let Some(budget) = &self.budget {
            budget.used.fetch_sub(pages, Relaxed);
        }
    }

    /// Drops the references to pages that were removed. They lie in the list once each.
    fn release(&self, mut gone: FrameList) {
        CACHED.fetch_sub(gone.len(), Relaxed);
        self.uncharge(gone.len());
        while let Some(pfn) = gone.pop() {
            Page::from_raw(pfn).set_kind(PageKind::Anonymous);
        }
    }

    /// Whether the page at `index` was written or mapped, so that there is more than room for it.
    pub fn is_filled(&self, index: u64) -> bool {
        self.pages.lock().get(index).is_some_and(is_filled)
    }

    /// The first index, `index` or later, of a page that was written or mapped (`SEEK_DATA`).
    pub fn next_data(&self, mut index: u64) -> Option<u64> {
        // In pieces: preemption is off under the lock.
        loop {
            let pages = self.pages.lock();
            for _ in 0..256 {
                let (at, page) = pages.next(index)?;
                if is_filled(page) {
                    return Some(at);
                }
                index = at + 1;
            }
        }
    }

    /// The first index, `index` or later, of a page that was neither written nor mapped (`SEEK_HOLE`).
    pub fn next_hole(&self, mut index: u64) -> u64 {
        loop {
            let pages = self.pages.lock();
            for _ in 0..256 {
                if !pages.get(index).is_some_and(is_filled) {
                    return index;
                }
                index += 1;
            }
        }
    }

    /// Removes the pages `[first, end)` (indices) from every address space that maps them. `private_too`:
    /// also the copies that private mappings made on write. Parents come before children: what a fork in
    /// progress copies is then found in the child, and a later fork finds nothing to copy.
    fn unmap(&self, first: u64, end: u64, private_too: bool) {
        let mut last = 0;
        while let Some((number, space)) = self.mapper_after(last) {
            if let Some(space) = space {
                space.unmap_cache(self, first, end, private_too);
            }
            last = number;
        }
    }

    /// Of the address spaces that map the file, the first one with a number above `last`: its number, and the
    /// space unless it is just being freed.
    fn mapper_after(&self, last: u64) -> Option<(u64, Option<Arc<AddressSpace>>)> {
        let mappers = self.mappers.lock();
        let (&number, mapper) = mappers.spaces.range(last + 1..).next()?;
        Some((number, mapper.space.upgrade()))
    }

    /// Whether any address space maps the file.
    pub fn is_mapped(&self) -> bool {
        !self.mappers.lock().spaces.is_empty()
    }

    /// To be called before a mapping that may write is made. Until the result is dropped, the file cannot be
    /// sealed. `EPERM`: it is sealed.
    pub(super) fn will_write(self: &Arc<Self>) -> Result<WillWrite, Errno> {
        let mut mappers = self.mappers.lock();
        if mappers.sealed {
            return Err(Errno::EPERM);
        }
        mappers.writing += 1;
        Ok(WillWrite(self.clone()))
    }

    /// From now on nobody can write to the file through a new mapping. `EBUSY`: a mapping can write to it
    /// now.
    pub fn seal_mappings(&self) -> Result<(), Errno> {
        let mut mappers = self.mappers.lock();
        if mappers.writing != 0 {
            return Err(Errno::EBUSY);
        }
        mappers.sealed = true;
        Ok(())
    }

    /// Counts one more mapping of the file in `space`, before it can be used.
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
        drop(mappers);
        if let Some(attached) = &self.attached {
            attached.mapped();
        }
    }

    /// Counts one mapping less, after all CPUs have forgotten its translations.
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
        if let Some(attached) = &self.attached {
            attached.unmapped();
        }
    }
}

impl PageCache {
    /// Frees all pages. Nobody uses the file any more, but its size may still be asked for.
    pub fn empty(&self) {
        let pages = core::mem::take(&mut *self.pages.lock());
        if self.secret {
            let mut at = 0;
            while let Some((index, page)) = pages.next(at) {
                forget_secret(page.clone());
                at = index + 1;
            }
        }
        self.resident.store(0, Relaxed);
        CACHED.fetch_sub(pages.len(), Relaxed);
        self.uncharge(pages.len());
    }
}

/// A secret page is an ordinary one again, without its content. If the linear map cannot have it back (there
/// is no memory to split a block), nobody else gets it.
fn forget_secret(page: Page) {
    match linear::set_present(page.phys(), 1, true, linear::Reason::Secret) {
        Ok(()) => crate::arch::mmu::clear_page(page.phys()),
        Err(_) => core::mem::forget(page),
    }
}

impl Drop for PageCache {
    fn drop(&mut self) {
        self.empty();
    }
}
