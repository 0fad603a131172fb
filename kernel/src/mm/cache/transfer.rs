//! Reading and writing a file's pages. An access within one page takes a short way. For more, several pages
//! are looked up together, and pages that are neighbours in memory are copied together.

use super::super::page::{Page, bytes_of};
use super::super::{PAGE_SHIFT, PAGE_SIZE, alloc_page, zero_page};
use super::{PageCache, Writing};
use core::mem::ManuallyDrop;
use core::sync::atomic::Ordering::Release;
use limen_linux_abi::Errno;
use limen_linux_abi::SysResult;

/// Where bytes read from a file go.
pub trait Sink {
    /// How many more bytes it takes.
    fn remaining(&self) -> usize;
    /// Takes some or all of `bytes` (at least one) and returns how many, or an error if it takes none. It
    /// takes fewer only if it is full or an error came after some.
    fn put(&mut self, bytes: &[u8]) -> Result<usize, Errno>;
}

/// Where bytes written to a file come from.
pub trait Source {
    /// How many more bytes it has.
    fn remaining(&self) -> usize;
    /// Fills some or all of `to` (at least one byte) and returns how much, or an error if it fills nothing.
    /// It fills less only at its end or if an error came after some.
    fn take(&mut self, to: &mut [u8]) -> Result<usize, Errno>;
}

/// Whether the running task is being killed: nobody needs the rest of a long transfer.
#[inline(always)]
fn is_killed() -> bool {
    crate::sched::current().fatal_signal_pending()
}

/// Pages that reading and writing look up at a time.
const BATCH: usize = 16;

/// Consecutive pages of a file, used up from the front. Only `next..end` of the array are in use.
struct Batch {
    pages: ManuallyDrop<[Option<Page>; BATCH]>,
    next: usize,
    end: usize,
}

impl Batch {
    #[inline(always)]
    const fn new() -> Self {
        Self {
            pages: ManuallyDrop::new([const { None }; BATCH]),
            next: 0,
            end: 0,
        }
    }
    #[inline(always)]
    fn is_empty(&self) -> bool {
        self.next == self.end
    }
    #[inline(always)]
    fn rest(&self) -> &[Option<Page>] {
        &self.pages[self.next..self.end]
    }
    #[inline(always)]
    fn skip(&mut self, count: usize) {
        for page in &mut self.pages[self.next..self.next + count] {
            drop(page.take());
        }
        self.next += count;
    }
}

impl Drop for Batch {
    #[inline(always)]
    fn drop(&mut self) {
        self.skip(self.end - self.next);
    }
}

impl PageCache {
    /// Fills the empty `batch` with the pages that are touched by `bytes` bytes from the start of page
    /// `first`, or with the first few of them.
    #[inline(always)]
    fn look_up(&self, first: u64, bytes: usize, batch: &mut Batch) {
        let count = bytes.div_ceil(PAGE_SIZE).min(BATCH);
        let pages = self.pages.lock();
        let slots = pages.neighbours(first);
        let count = count.min(slots.len());
        for (to, slot) in batch.pages.iter_mut().zip(&slots[..count]) {
            if let Some(page) = slot {
                // The place was empty: nothing to drop.
                core::mem::forget(to.replace(page.clone()));
            }
        }
        // If the tree has no leaf there, the first page is known to be missing.
        (batch.next, batch.end) = (0, count.max(1));
    }

    /// Reads from `pos` until the sink is full or the file ends. Returns an error only if nothing was read.
    #[inline(always)]
    pub fn read_at<S: Sink + ?Sized>(&self, pos: u64, to: &mut S) -> SysResult {
        let want = (to.remaining() as u64).min(self.size().saturating_sub(pos)) as usize;
        let (index, offset) = (pos >> PAGE_SHIFT, pos as usize & (PAGE_SIZE - 1));
        if want > PAGE_SIZE - offset {
            return self.read_pages(pos, to);
        }
        if want == 0 {
            return Ok(0);
        }
        match self.get(index) {
            Some(page) => {
                let put = to.put(&page.bytes()[offset..offset + want]);
                page.put_back();
                put
            }
            None => self.read_missing(index, offset, want, to),
        }
    }

    /// [`PageCache::read_at`] over several pages. If the task is being killed, stops early.
    #[inline(never)]
    fn read_pages<S: Sink + ?Sized>(&self, pos: u64, to: &mut S) -> SysResult {
        let mut done = 0;
        let mut batch = Batch::new();
        loop {
            let at = pos + done as u64;
            let want = (to.remaining() as u64).min(self.size().saturating_sub(at)) as usize;
            if want == 0 {
                return Ok(done);
            }
            let (index, offset) = (at >> PAGE_SHIFT, at as usize & (PAGE_SIZE - 1));
            if batch.is_empty() {
                if done > 0 && is_killed() {
                    return Ok(done);
                }
                self.look_up(index, offset + want, &mut batch);
            }
            let (n, put) = match bytes_of(batch.rest()) {
                Some(bytes) => {
                    let n = want.min(bytes.len() - offset);
                    (n, to.put(&bytes[offset..offset + n]))
                }
                None => {
                    let n = want.min(PAGE_SIZE - offset);
                    (n, self.read_missing(index, offset, n, to))
                }
            };
            match put {
                Ok(0) => return if done > 0 { Ok(done) } else { Err(Errno::EFAULT) },
                Ok(n_put) => {
                    done += n_put;
                    if n_put < n || n == want {
                        return Ok(done);
                    }
                }
                Err(e) => return if done > 0 { Ok(done) } else { Err(e) },
            }
            batch.skip((offset + n) >> PAGE_SHIFT);
        }
    }

    /// [`PageCache::read_at`] within a page that is not in memory.
    #[inline(never)]
    fn read_missing<S: Sink + ?Sized>(&self, index: u64, offset: usize, n: usize, to: &mut S) -> SysResult {
        if self.filler.is_some() {
            to.put(&self.get_or_create(index)?.bytes()[offset..offset + n])
        } else {
            to.put(&zero_page().bytes()[offset..offset + n])
        }
    }
}

impl Writing<'_> {
    /// Writes all that the source has, which is `left` bytes and at least one, at `pos`. The file grows as
    /// needed. Returns an error only if nothing was written.
    #[inline(always)]
    pub fn write_at<S: Source + ?Sized>(&mut self, pos: u64, from: &mut S, left: usize) -> SysResult {
        let (index, offset) = (pos >> PAGE_SHIFT, pos as usize & (PAGE_SIZE - 1));
        if left > PAGE_SIZE - offset {
            return self.write_pages(pos, from);
        }
        let taken = match self.staying(index) {
            Some(page) => {
                page.written();
                from.take(&mut page.bytes()[offset..offset + left])
            }
            None => self.write_missing(index, offset, left, from),
        }?;
        self.reaches(pos + taken as u64);
        Ok(taken)
    }

    /// The file has been written up to `end`: it grows to that.
    #[inline]
    fn reaches(&self, end: u64) {
        if end > self.size() {
            self.size.fetch_max(end, Release);
        }
    }

    /// [`Writing::write_at`] over several pages. If the task is being killed, stops early.
    #[inline(never)]
    fn write_pages<S: Source + ?Sized>(&mut self, pos: u64, from: &mut S) -> SysResult {
        let mut done = 0;
        let mut batch = Batch::new();
        loop {
            let left = from.remaining();
            if left == 0 {
                return Ok(done);
            }
            let at = pos + done as u64;
            let (index, offset) = (at >> PAGE_SHIFT, at as usize & (PAGE_SIZE - 1));
            if batch.is_empty() {
                if done > 0 && is_killed() {
                    return Ok(done);
                }
                self.look_up(index, offset + left, &mut batch);
            }
            let (n, taken) = match bytes_of(batch.rest()) {
                Some(mut bytes) => {
                    let n = left.min(bytes.len() - offset);
                    let touched = (offset + n).div_ceil(PAGE_SIZE);
                    batch.rest()[..touched].iter().flatten().for_each(Page::written);
                    (n, from.take(&mut bytes[offset..offset + n]))
                }
                None => {
                    let n = left.min(PAGE_SIZE - offset);
                    (n, self.write_missing(index, offset, n, from))
                }
            };
            match taken {
                Ok(0) => return if done > 0 { Ok(done) } else { Err(Errno::EFAULT) },
                Ok(n_taken) => {
                    done += n_taken;
                    self.reaches(pos + done as u64);
                    if n_taken < n || n == left {
                        return Ok(done);
                    }
                }
                Err(e) => return if done > 0 { Ok(done) } else { Err(e) },
            }
            batch.skip((offset + n) >> PAGE_SHIFT);
        }
    }

    /// [`Writing::write_at`] within a page that is not in memory.
    #[inline(never)]
    fn write_missing<S: Source + ?Sized>(
        &self,
        index: u64,
        offset: usize,
        n: usize,
        from: &mut S,
    ) -> SysResult {
        if self.filler.is_some() && n < PAGE_SIZE {
            let page = self.get_or_create(index)?;
            page.written();
            return from.take(&mut page.bytes()[offset..offset + n]);
        }
        self.write_new_page(index, offset, n, from)
    }

    /// Fills a new page before it is added to the file, so that the part that is written need not be zeroed
    /// first.
    fn write_new_page<S: Source + ?Sized>(
        &self,
        index: u64,
        offset: usize,
        n: usize,
        from: &mut S,
    ) -> SysResult {
        let page = alloc_page().ok_or(Errno::ENOMEM)?;
        let mut bytes = page.bytes();
        bytes[..offset].fill(0);
        let taken = from.take(&mut bytes[offset..offset + n]);
        let end = offset + *taken.as_ref().unwrap_or(&0);
        bytes[end..].fill(0);
        let taken = taken?;
        let there = self.add(index, page.clone(), false)?;
        if there.pfn() != page.pfn() {
            // A fault added a page meanwhile: write to that one.
            there.write(offset, &bytes[offset..end]);
        }
        Ok(taken)
    }
}
