//! What only one thread at a time does with a file's pages: writing, and removing pages.

use super::super::{PAGE_SHIFT, PAGE_SIZE};
use super::{CACHED, PageCache};
use crate::mm::Page;
use crate::mm::frame::FrameList;
use crate::mm::page::PageKind;
use crate::sync::MutexGuard;
use alloc::vec::Vec;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::sync::atomic::Ordering::{Relaxed, Release};
use limen_linux_abi::Errno;
use limen_radix::Radix;

/// The exclusive right to write to the file and to remove pages from it. Other threads can still read and map
/// the file, and fault pages in.
pub struct Writing<'a> {
    pub(super) cache: &'a PageCache,
    _lock: MutexGuard<'a, ()>,
}

/// A page that stays in its file as long as the borrowed [`Writing`] lives, since only its owner removes
/// pages. So it needs no reference of its own.
pub(super) struct Staying<'a> {
    page: ManuallyDrop<Page>,
    writing: PhantomData<&'a Writing<'a>>,
}

impl Deref for Staying<'_> {
    type Target = Page;
    #[inline(always)]
    fn deref(&self) -> &Page {
        &self.page
    }
}

impl PageCache {
    /// Waits until no other thread writes. Sleeps.
    #[inline(always)]
    #[cfg_attr(any(debug_assertions, feature = "lockdep"), track_caller)]
    pub fn writing(&self) -> Writing<'_> {
        Writing {
            _lock: self.writer.lock(),
            cache: self,
        }
    }
}

impl Deref for Writing<'_> {
    type Target = PageCache;
    #[inline(always)]
    fn deref(&self) -> &PageCache {
        self.cache
    }
}

impl Writing<'_> {
    /// The page at `index` if it is in memory.
    #[inline(always)]
    pub(super) fn staying(&self, index: u64) -> Option<Staying<'_>> {
        let pfn = self.cache.pages.lock().get(index)?.pfn();
        Some(Staying {
            // This borrows the tree's reference: see [`Staying`].
            page: ManuallyDrop::new(Page::from_raw(pfn)),
            writing: PhantomData,
        })
    }

    /// Sets the size. Pages behind it are freed, and removed from all mappings.
    pub fn truncate(&mut self, size: u64) {
        let old = self.size();
        if size < old {
            self.size.store(size, Release);
        }
        let boundary = size.min(old);
        let offset = boundary as usize & (PAGE_SIZE - 1);
        if offset != 0
            && let Some(page) = self.staying(boundary >> PAGE_SHIFT)
        {
            page.clear(offset, PAGE_SIZE - offset);
        }
        if size < old {
            let first = size.div_ceil(PAGE_SIZE as u64);
            self.remove(first, u64::MAX, true);
        } else {
            self.size.store(size, Release);
        }
    }

    /// Makes `[start, end)` read as zeros and frees its whole pages (`FALLOC_FL_PUNCH_HOLE`).
    pub fn punch_hole(&mut self, start: u64, end: u64) {
        let page_size = PAGE_SIZE as u64;
        let (first, last) = (start.div_ceil(page_size), end / page_size);
        let clear = |from: u64, to: u64| {
            if from < to
                && let Some(page) = self.staying(from / page_size)
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

    /// Makes pages for the holes of `[first, end)` (indices): for all of them or for none. `ENOSPC`: the
    /// budget is used up; `ENOMEM`; or the error of `go_on`, which is asked from time to time.
    pub fn fill_holes(
        &mut self,
        first: u64,
        end: u64,
        go_on: impl Fn() -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        if let Some(budget) = &self.budget
            && end.saturating_sub(first) > budget.limit() as u64
        {
            return Err(Errno::ENOSPC);
        }
        // They are kept apart at first: once in the file, other threads could map and write pages that may
        // have to be taken back.
        let mut new = Radix::new();
        if let Err(e) = self.make_missing(first, end, &mut new, go_on) {
            self.uncharge(new.len());
            return Err(e);
        }
        let mut twice = Vec::new();
        let mut from = first;
        // In pieces: preemption is off under the lock.
        while let Some((index, _)) = new.next(from) {
            let stop = index.saturating_add(256);
            let mut pages = self.cache.pages.lock();
            let before = pages.len();
            new.remove_range(index, stop, |index, page| {
                if pages.get(index).is_some() {
                    // A fault added a page meanwhile.
                    twice.push(page);
                } else {
                    page.set_kind(PageKind::Cache);
                    pages.insert(index, page);
                }
            });
            self.resident.store(pages.len(), Relaxed);
            CACHED.fetch_add(pages.len() - before, Relaxed);
            drop(pages);
            self.uncharge(twice.len());
            twice.clear();
            from = stop;
        }
        Ok(())
    }

    /// Makes pages for the holes of `[first, end)`. They count against the budget but are not in the file
    /// yet.
    fn make_missing(
        &self,
        first: u64,
        end: u64,
        new: &mut Radix<Page>,
        go_on: impl Fn() -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        for index in first..end {
            if (index - first).is_multiple_of(256) {
                go_on()?;
            }
            if self.cache.pages.lock().get(index).is_some() {
                continue;
            }
            let page = crate::mm::alloc_zeroed_page().ok_or(Errno::ENOMEM)?;
            if let Some(filler) = &self.filler {
                filler.fill(index, &page)?;
            }
            if let Some(budget) = &self.budget {
                budget.charge()?;
            }
            if self.filler.is_none() {
                page.set_untouched();
            }
            new.insert(index, page);
        }
        Ok(())
    }

    /// Removes pages: from the file first, so that no fault finds them again, then from every mapping; then
    /// drops them.
    fn remove(&mut self, first: u64, end: u64, private_too: bool) {
        // Removed pages are linked through their frame records, which nobody does with a page that has other
        // references.
        let mut gone = FrameList::new();
        let mut from = first;
        // In pieces: preemption is off under the lock.
        loop {
            let mut pages = self.cache.pages.lock();
            let stop = match pages.next(from) {
                Some((index, _)) if index < end => index.saturating_add(256).min(end),
                _ => break,
            };
            pages.remove_range(from, stop, |_, page| gone.push(page.into_raw()));
            self.resident.store(pages.len(), Relaxed);
            drop(pages);
            from = stop;
        }
        // Asked only now: a mapping that is made from now on finds none of these pages.
        if self.is_mapped() {
            self.unmap(first, end, private_too);
        }
        self.release(gone);
    }
}
