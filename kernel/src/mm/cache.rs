//! A file's pages: the storage of files in memory, and what mappings of a file share. Called by the file system's read, write and
//! truncate, and by page faults on file mappings.
//!
//! Sparse: pages exist only where something was written (or touched through a shared mapping). Whoever changes the size or removes
//! pages holds the inode's write lock; lookups only take the map's spinlock for an instant.

use super::{PAGE_SHIFT, PAGE_SIZE, Page, frame};
use crate::fs::{IoDst, IoSrc};
use crate::sync::SpinLock;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use limen_linux_abi::Errno;

/// Who pays for pages: a file system with a size limit.
pub trait PageAccount: Send + Sync {
    /// One more page; `false` refuses (`ENOSPC`, or `SIGBUS` for a fault).
    fn charge(&self) -> bool;
    /// `n` pages are gone.
    fn uncharge(&self, n: usize);
}

/// A mapping of the file into an address space, as far as the file cares.
pub trait CacheMapping: Send + Sync {
    /// Pages `first..end` are going away: no translation to them may remain when this returns.
    fn unmap(&self, first: u64, end: u64);
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
        let chunk = self.chunks.entry(index / CHUNK as u64).or_insert_with(|| Box::new([const { None }; CHUNK]));
        &mut chunk[index as usize % CHUNK]
    }
}

/// The pages of a file.
pub struct PageCache {
    map: SpinLock<Map>,
    size: AtomicU64,
    account: Option<Arc<dyn PageAccount>>,
    mappings: SpinLock<Vec<Weak<dyn CacheMapping>>>,
    mapping_count: AtomicUsize,
}

impl PageCache {
    /// An empty file's pages, paid for by `account`.
    pub fn new(account: Option<Arc<dyn PageAccount>>) -> Arc<Self> {
        Arc::new(Self {
            map: SpinLock::new(Map::default()),
            size: AtomicU64::new(0),
            account,
            mappings: SpinLock::new(Vec::new()),
            mapping_count: AtomicUsize::new(0),
        })
    }
    /// The file's size in bytes.
    #[inline]
    pub fn size(&self) -> u64 {
        self.size.load(Ordering::Acquire)
    }
    /// Sets the size upwards; see [`PageCache::truncate`] for the other direction. The inode's write lock is held.
    pub fn grow(&self, size: u64) {
        self.size.fetch_max(size, Ordering::AcqRel);
    }
    /// Pages it has.
    pub fn page_count(&self) -> usize {
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
    /// Adopts `page` as the page at `index` unless there is one already; gives the one that is there afterwards.
    pub fn put(&self, index: u64, page: Page) -> Result<Page, Errno> {
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
            account.uncharge(n);
        }
    }
    /// The first page at or after `index` that exists (`SEEK_DATA`).
    pub fn next_present(&self, index: u64) -> Option<u64> {
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
    pub fn next_absent(&self, mut index: u64) -> u64 {
        let map = self.map.lock();
        while map.get(index).is_some() {
            index += 1;
        }
        index
    }

    /// Reads from `pos`; 0 at and after the end.
    pub fn read_at(&self, mut pos: u64, dst: &mut IoDst<'_>) -> Result<usize, Errno> {
        let mut done = 0;
        loop {
            let size = self.size();
            if pos >= size || dst.remaining() == 0 {
                return Ok(done);
            }
            let offset = pos as usize % PAGE_SIZE;
            let n = (PAGE_SIZE - offset).min(dst.remaining()).min((size - pos).min(usize::MAX as u64) as usize);
            let moved = match self.get(pos >> PAGE_SHIFT) {
                Some(page) => dst.put(&page.bytes()[offset..offset + n]),
                None => dst.put_zeros(n),
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
    pub fn write_at(&self, mut pos: u64, src: &mut IoSrc<'_>) -> Result<usize, Errno> {
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
                    self.grow(pos);
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
        self.unmap(first, u64::MAX);
        self.remove(first, u64::MAX);
        let tail = size as usize % PAGE_SIZE;
        if tail != 0
            && let Some(page) = self.get(size >> PAGE_SHIFT)
        {
            page.clear(tail, PAGE_SIZE - tail);
        }
    }

    /// Makes `start..end` (bytes) read as zeros and frees whole pages of it. The inode's write lock is held.
    pub fn punch(&self, start: u64, end: u64) {
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
            self.unmap(first, last);
            self.remove(first, last);
        }
    }

    fn remove(&self, first: u64, end: u64) {
        loop {
            let mut gone = Vec::new();
            let mut map = self.map.lock();
            let Some((&c, chunk)) = map.chunks.range_mut(first / CHUNK as u64..).next() else { return };
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
                return if next < end && next > first { self.remove(next, end) } else { () };
            }
        }
    }

    /// Registers a mapping, to be told of truncation.
    pub fn add_mapping(&self, mapping: Weak<dyn CacheMapping>) {
        let mut list = self.mappings.lock();
        list.retain(|m| m.strong_count() != 0);
        list.push(mapping);
        self.mapping_count.store(list.len(), Ordering::Release);
    }
    fn unmap(&self, first: u64, end: u64) {
        if self.mapping_count.load(Ordering::Acquire) == 0 {
            return;
        }
        let list = self.mappings.lock().clone();
        for m in list.iter().filter_map(Weak::upgrade) {
            m.unmap(first, end);
        }
    }
}

impl Drop for PageCache {
    fn drop(&mut self) {
        let count = self.map.get_mut().count;
        self.uncharge(count);
    }
}
