//! What only one at a time does with a file's pages: writing, and taking pages out.

use super::super::{PAGE_SHIFT, PAGE_SIZE};
use super::{CACHED, PageCache};
use crate::mm::Page;
use crate::mm::page::PageKind;
use crate::sync::MutexGuard;
use alloc::vec::Vec;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::sync::atomic::Ordering::Relaxed;
use limen_linux_abi::Errno;
use limen_radix::Radix;

/// Nobody else writes to the file or takes pages out of it. Reading, mapping and faults, which bring pages in, go on.
pub struct Writing<'a> {
    pub(super) cache: &'a PageCache,
    _lock: MutexGuard<'a, ()>,
}

/// A page that stays in its file, since taking it out needs [`Writing`] for itself: no count of its own is needed.
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
    /// Waits until nobody else writes.
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
    /// The page at `index`, if it takes memory.
    #[inline(always)]
    pub(super) fn staying(&self, index: u64) -> Option<Staying<'_>> {
        let pfn = self.cache.pages.lock().get(index)?.pfn();
        Some(Staying {
            // The tree's count is borrowed: see the type.
            page: ManuallyDrop::new(Page::from_raw(pfn)),
            writing: PhantomData,
        })
    }

    /// Sets the size; pages beyond go away, also from mappings.
    pub fn truncate(&mut self, size: u64) {
        let old = self.size.swap(size, Relaxed);
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

    /// Gives the holes of `[first, end)` (page indices) pages, all of them or none: `ENOSPC` beyond the budget, `ENOMEM`, or what `go_on` says, which is
    /// asked now and then.
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
        // Apart at first: in the file, others could map and write what must go again.
        let mut new = Radix::new();
        if let Err(e) = self.make_missing(first, end, &mut new, go_on) {
            self.uncharge(new.len());
            return Err(e);
        }
        let mut twice = Vec::new();
        let mut from = first;
        // In pieces: the lock keeps preemption off.
        while let Some((index, _)) = new.next(from) {
            let stop = index.saturating_add(256);
            let mut pages = self.cache.pages.lock();
            let before = pages.len();
            new.remove_range(index, stop, |index, page| {
                if pages.get(index).is_some() {
                    // A fault brought one in meanwhile.
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

    /// Makes pages for the holes of `[first, end)`, which count against the budget but are not in the file.
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
            new.insert(index, page);
        }
        Ok(())
    }

    /// Takes pages out of the file, then out of every mapping (a fault in between can't find them any more), then lets them go.
    fn remove(&mut self, first: u64, end: u64, private_too: bool) {
        let mapped = self.is_mapped();
        let mut gone = Vec::new();
        let mut from = first;
        // In pieces: the lock keeps preemption off.
        loop {
            let mut pages = self.cache.pages.lock();
            let stop = match pages.next(from) {
                Some((index, _)) if index < end => index.saturating_add(256).min(end),
                _ => break,
            };
            pages.remove_range(from, stop, |_, page| gone.push(page));
            self.resident.store(pages.len(), Relaxed);
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
}
