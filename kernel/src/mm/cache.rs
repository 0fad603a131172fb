//! A file's pages: the storage of files in memory, and what mappings of a file share. Called by the file system's read, write and
//! truncate, and by page faults on file mappings.
//!
//! Sparse: pages exist only where something was written (or touched through a shared mapping). Whoever changes the size or removes
//! pages holds the inode's write lock; lookups only take the map's spinlock for an instant.

use super::{PAGE_SHIFT, PAGE_SIZE, Page, frame};
use crate::sync::SpinLock;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use limen_linux_abi::Errno;

/// Where bytes read from a file go.
pub trait Sink {
    /// How many more bytes it takes.
    fn remaining(&self) -> usize;
    /// Takes some or all of `bytes`; fewer only at an error behind them.
    fn put(&mut self, bytes: &[u8]) -> Result<usize, Errno>;
}

/// Where bytes written to a file come from.
pub trait Source {
    /// How many more bytes it has.
    fn remaining(&self) -> usize;
    /// Fills some or all of `to`; fewer only at its end or an error.
    fn take(&mut self, to: &mut [u8]) -> Result<usize, Errno>;
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
        self.limit.load(Ordering::Relaxed)
    }
    /// Pages in use.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
    /// Changes the limit (remount).
    pub fn set_limit(&self, limit: usize) {
        self.limit.store(limit, Ordering::Relaxed);
    }
    fn charge(&self) -> bool {
        let refused = self.used.fetch_add(1, Ordering::Relaxed) >= self.limit();
        if refused {
            self.used.fetch_sub(1, Ordering::Relaxed);
        }
        !refused
    }
}

/// Pages of one chunk.
const CHUNK: usize = 32;

type Chunk = Box<[Option<Page>; CHUNK]>;

#[derive(Default)]
struct Map {
    chunks: BTreeMap<u64, Chunk>,
    count: usize,
}

impl Map {
    #[inline]
    fn get(&self, index: u64) -> Option<&Page> {
        self.chunks.get(&(index / CHUNK as u64))?[index as usize % CHUNK].as_ref()
    }
    fn slot(&mut self, index: u64) -> &mut Option<Page> {
        let chunk = self
            .chunks
            .entry(index / CHUNK as u64)
            .or_insert_with(|| Box::new([const { None }; CHUNK]));
        &mut chunk[index as usize % CHUNK]
    }
}

/// The pages of a file.
pub struct PageCache {
    map: SpinLock<Map>,
    size: AtomicU64,
    account: Option<Arc<Budget>>,
}

impl PageCache {
    /// An empty file in memory.
    pub fn new() -> Arc<Self> {
        Self::with(None, None)
    }
    /// An empty file in memory that counts against `budget`. (Nothing comes from elsewhere yet.)
    pub fn with(budget: Option<Arc<Budget>>, _filler: Option<()>) -> Arc<Self> {
        Arc::new(Self {
            map: SpinLock::new(Map::default()),
            size: AtomicU64::new(0),
            account: budget,
        })
    }
    /// The file's size in bytes.
    #[inline]
    pub fn size(&self) -> u64 {
        self.size.load(Ordering::Acquire)
    }
    /// Sets the size upwards; see [`PageCache::truncate`] for the other direction. The inode's write lock is held.
    pub fn set_size(&self, size: u64) {
        self.size.store(size, Ordering::Release);
    }
    /// Pages it has.
    pub fn resident(&self) -> usize {
        self.map.lock().count
    }
    /// The page at `index` (in pages), if there is one.
    #[inline]
    pub fn get(&self, index: u64) -> Option<Page> {
        self.map.lock().get(index).cloned()
    }
    /// The page at `index`, made (zeroed) if there is none. `ENOSPC`: its owner's limit; `ENOMEM`.
    pub fn get_or_create(&self, index: u64) -> Result<Page, Errno> {
        if let Some(page) = self.get(index) {
            return Ok(page);
        }
        let page = Page::alloc_zeroed(frame::For::User).ok_or(Errno::ENOMEM)?;
        self.put(index, page)
    }
    /// Hands over a filled page. The size is the caller's to set.
    pub fn insert_page(&self, index: u64, page: Page) -> Result<(), Errno> {
        self.put(index, page).map(drop)
    }
    /// Adopts `page` as the page at `index` unless there is one already; gives the one that is there afterwards.
    fn put(&self, index: u64, page: Page) -> Result<Page, Errno> {
        if let Some(account) = &self.account
            && !account.charge()
        {
            return Err(Errno::ENOSPC);
        }
        let mut map = self.map.lock();
        let slot = map.slot(index);
        if let Some(other) = slot {
            let other = other.clone();
            drop(map);
            self.uncharge(1);
            return Ok(other);
        }
        *slot = Some(page.clone());
        map.count += 1;
        Ok(page)
    }
    fn uncharge(&self, n: usize) {
        if let Some(account) = &self.account
            && n != 0
        {
            account.used.fetch_sub(n, Ordering::Relaxed);
        }
    }
    /// The first page at or after `index` that exists (`SEEK_DATA`).
    pub fn next_data(&self, index: u64) -> Option<u64> {
        let map = self.map.lock();
        for (c, chunk) in map.chunks.range(index / CHUNK as u64..) {
            let base = c * CHUNK as u64;
            let from = index.saturating_sub(base) as usize;
            if let Some(i) = (from..CHUNK).find(|i| chunk[*i].is_some()) {
                return Some(base + i as u64);
            }
        }
        None
    }
    /// The first page at or after `index` that does not exist (`SEEK_HOLE`).
    pub fn next_hole(&self, mut index: u64) -> u64 {
        let map = self.map.lock();
        while map.get(index).is_some() {
            index += 1;
        }
        index
    }

    /// Reads from `pos`; 0 at and after the end.
    pub fn read_at(&self, mut pos: u64, dst: &mut dyn Sink) -> Result<usize, Errno> {
        let mut done = 0;
        loop {
            let size = self.size();
            if pos >= size || dst.remaining() == 0 {
                return Ok(done);
            }
            let offset = pos as usize % PAGE_SIZE;
            let n = (PAGE_SIZE - offset)
                .min(dst.remaining())
                .min((size - pos).min(usize::MAX as u64) as usize);
            let moved = match self.get(pos >> PAGE_SHIFT) {
                Some(page) => dst.put(&page.bytes()[offset..offset + n]),
                None => dst.put(&[0; 4096][..n.min(4096)]),
            };
            match moved {
                Ok(m) => {
                    done += m;
                    pos += m as u64;
                    if m < n {
                        return Ok(done);
                    }
                }
                Err(e) => return if done != 0 { Ok(done) } else { Err(e) },
            }
        }
    }

    /// Writes at `pos`, growing the file. The inode's write lock is held.
    pub fn write_at(&self, mut pos: u64, src: &mut dyn Source) -> Result<usize, Errno> {
        let mut done = 0;
        while src.remaining() != 0 {
            let offset = pos as usize % PAGE_SIZE;
            let n = (PAGE_SIZE - offset).min(src.remaining());
            let moved = self
                .get_or_create(pos >> PAGE_SHIFT)
                .and_then(|page| src.take(&mut page.bytes_mut()[offset..offset + n]));
            match moved {
                Ok(m) => {
                    done += m;
                    pos += m as u64;
                    self.size.fetch_max(pos, Ordering::AcqRel);
                    if m < n {
                        break;
                    }
                }
                Err(e) => return if done != 0 { Ok(done) } else { Err(e) },
            }
        }
        Ok(done)
    }

    /// Sets the size. Pages beyond are unmapped everywhere and dropped; the rest of the last page is zeroed. The inode's write lock is held.
    pub fn truncate(&self, size: u64) {
        let old = self.size.swap(size, Ordering::AcqRel);
        if size >= old {
            return;
        }
        let first = size.div_ceil(PAGE_SIZE as u64);
        self.remove(first, u64::MAX);
        let tail = size as usize % PAGE_SIZE;
        if tail != 0
            && let Some(page) = self.get(size >> PAGE_SHIFT)
        {
            page.clear(tail, PAGE_SIZE - tail);
        }
    }

    /// Makes `start..end` (bytes) read as zeros and frees whole pages of it. The inode's write lock is held.
    pub fn punch_hole(&self, start: u64, end: u64) {
        let page = PAGE_SIZE as u64;
        let (first, last) = (start.div_ceil(page), end / page);
        let zero = |from: u64, to: u64| {
            if let Some(p) = self.get(from >> PAGE_SHIFT)
                && from < to
            {
                p.clear((from % page) as usize, (to - from) as usize);
            }
        };
        if first > last {
            zero(start, end);
            return;
        }
        zero(start, (first * page).min(end));
        zero((last * page).max(start), end);
        if first < last {
            self.remove(first, last);
        }
    }

    fn remove(&self, first: u64, end: u64) {
        loop {
            let mut gone = Vec::new();
            let mut map = self.map.lock();
            let Some((&c, chunk)) = map.chunks.range_mut(first / CHUNK as u64..).next() else {
                return;
            };
            let base = c * CHUNK as u64;
            if base >= end {
                return;
            }
            for i in 0..CHUNK as u64 {
                if base + i >= first
                    && base + i < end
                    && let Some(p) = chunk[i as usize].take()
                {
                    gone.push(p);
                }
            }
            let empty = chunk.iter().all(Option::is_none);
            map.count -= gone.len();
            let old = if empty { map.chunks.remove(&c) } else { None };
            drop(map);
            drop(old);
            self.uncharge(gone.len());
            if !empty {
                // The first and last chunk may stay, half filled.
                let next = base + CHUNK as u64;
                return if next < end && next > first {
                    self.remove(next, end)
                } else {
                    ()
                };
            }
        }
    }
}

impl Drop for PageCache {
    fn drop(&mut self) {
        let count = self.map.get_mut().count;
        self.uncharge(count);
    }
}
