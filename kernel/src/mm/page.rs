//! `Page`: a counted handle of one page frame. Page tables hold counts, too: [`Page::into_raw`] and [`Page::from_raw`] move a count
//! into and out of an entry.

use super::frame::{self, For, Pfn};
use super::{PAGE_SIZE, PhysAddr};
use crate::arch::mmu;
use core::num::NonZeroU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// What a page belongs to, kept in its frame's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    /// Some process's own memory, or the kernel's.
    Anonymous,
    /// A file's.
    Cache,
}

/// In `Frame::info`: the page belongs to a file.
const CACHE: u32 = 1;
/// In `Frame::info`: instruction fetch sees what was written.
const SYNCED: u32 = 2;

/// Whether the frame belongs to a file.
#[inline(always)]
pub(in crate::mm) fn is_cache(pfn: Pfn) -> bool {
    frame::record(pfn).info.load(Relaxed) & CACHE != 0
}

/// Makes sure that instruction fetch sees the frame's content, before it is mapped executable.
#[inline(always)]
pub(in crate::mm) fn sync_for_exec(pfn: Pfn) {
    let info = &frame::record(pfn).info;
    if info.load(Relaxed) & SYNCED == 0 {
        mmu::sync_instructions(frame::phys(pfn));
        info.fetch_or(SYNCED | frame::INFO_OWNED, Relaxed);
    }
}

/// A counted reference to a page frame: `clone` counts, `drop` frees the frame with the last one.
#[derive(Debug)]
pub struct Page(NonZeroU32);

impl Page {
    /// A page with arbitrary content, for `whom`. Does not wait.
    #[inline(always)]
    pub fn alloc(whom: For) -> Option<Self> {
        NonZeroU32::new(frame::alloc(whom)?).map(Self)
    }
    /// A zeroed page, for `whom`. Does not wait.
    #[inline]
    pub fn alloc_zeroed(whom: For) -> Option<Self> {
        let page = Self::alloc(whom)?;
        mmu::clear_page(page.phys());
        Some(page)
    }
    /// The frame number.
    #[inline(always)]
    pub fn pfn(&self) -> Pfn {
        self.0.get()
    }
    /// The physical address.
    #[inline(always)]
    pub fn phys(&self) -> PhysAddr {
        frame::phys(self.0.get())
    }
    /// Where the kernel can read and write it (others may hold it, too: bytes may change underneath).
    #[inline(always)]
    pub fn as_ptr(&self) -> *mut u8 {
        frame::virt(self.0.get())
    }
    /// Whether this is the only reference.
    #[inline(always)]
    pub fn is_sole(&self) -> bool {
        frame::record(self.0.get()).refs.load(Acquire) == 1
    }
    /// Notes what the page belongs to.
    pub(in crate::mm) fn set_kind(&self, kind: PageKind) {
        let info = &frame::record(self.0.get()).info;
        match kind {
            PageKind::Cache => info.fetch_or(CACHE | frame::INFO_OWNED, Relaxed),
            PageKind::Anonymous => info.fetch_and(!CACHE, Relaxed),
        };
    }
    /// The kernel wrote to the page: instruction fetch must be told before it is mapped executable again.
    #[inline(always)]
    pub(in crate::mm) fn written(&self) {
        let info = &frame::record(self.0.get()).info;
        if info.load(Relaxed) & SYNCED != 0 {
            info.fetch_and(!SYNCED, Relaxed);
        }
    }
    /// References to the frame.
    pub fn count(&self) -> u32 {
        frame::record(self.0.get()).refs.load(Relaxed)
    }
    /// Gives up the handle but keeps its count: it now belongs to a page table entry.
    #[inline(always)]
    pub fn into_raw(self) -> Pfn {
        let pfn = self.0.get();
        core::mem::forget(self);
        pfn
    }
    /// Takes over a count that a page table entry (or [`Page::into_raw`]) held. `pfn` must be such a frame's number.
    #[inline(always)]
    pub(in crate::mm) fn from_raw(pfn: Pfn) -> Self {
        debug_assert!(pfn != 0);
        Self(NonZeroU32::new(pfn).unwrap_or(NonZeroU32::MIN))
    }
    /// Copies bytes out of the page. `offset + to.len()` must lie within the page.
    pub fn read(&self, offset: usize, to: &mut [u8]) {
        assert!(offset <= PAGE_SIZE && to.len() <= PAGE_SIZE - offset);
        // SAFETY: the range lies in the page, which this handle keeps; `to` is a different allocation.
        unsafe { core::ptr::copy_nonoverlapping(self.as_ptr().add(offset), to.as_mut_ptr(), to.len()) }
    }
    /// Copies bytes into the page. `offset + from.len()` must lie within the page.
    pub fn write(&self, offset: usize, from: &[u8]) {
        assert!(offset <= PAGE_SIZE && from.len() <= PAGE_SIZE - offset);
        // SAFETY: as for `read`.
        unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), self.as_ptr().add(offset), from.len()) }
    }
    /// Zeroes part of the page.
    pub fn clear(&self, offset: usize, len: usize) {
        assert!(offset <= PAGE_SIZE && len <= PAGE_SIZE - offset);
        // SAFETY: as for `read`.
        unsafe { self.as_ptr().add(offset).write_bytes(0, len) }
    }
    /// The page's bytes, for handing to a reader (a copy to user space). User mappings and writers may change them meanwhile, as
    /// with any file page; nothing here interprets them.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the handle keeps the frame; its memory is always initialised (a number of bytes), and the slice lives no longer than the handle.
        unsafe { core::slice::from_raw_parts(self.as_ptr(), PAGE_SIZE) }
    }
    /// The page's bytes, for filling in (a copy from user space). See [`Page::bytes`] about others.
    #[allow(
        clippy::mut_from_ref,
        reason = "the bytes are not the handle's own; see below"
    )]
    pub fn bytes_mut(&self) -> &mut [u8] {
        // SAFETY: as for `bytes`; concurrent writers store plain bytes only, as with any shared file page.
        unsafe { core::slice::from_raw_parts_mut(self.as_ptr(), PAGE_SIZE) }
    }
}

/// Drops a count; true if it was the last one and the frame is now the caller's to free.
#[inline(always)]
pub(in crate::mm) fn put(pfn: Pfn) -> bool {
    let refs = &frame::record(pfn).refs;
    // A sole owner needs no read-modify-write: nobody else can add a count.
    if refs.load(Acquire) == 1 {
        return true;
    }
    refs.fetch_sub(1, Release) == 1 && {
        core::sync::atomic::fence(Acquire);
        true
    }
}

/// Adds a count.
#[inline(always)]
pub(in crate::mm) fn get(pfn: Pfn) {
    frame::record(pfn).refs.fetch_add(1, Relaxed);
}

impl Clone for Page {
    #[inline]
    fn clone(&self) -> Self {
        get(self.0.get());
        Self(self.0)
    }
}

impl Drop for Page {
    #[inline]
    fn drop(&mut self) {
        let pfn = self.0.get();
        if put(pfn) {
            frame::free(pfn);
        }
    }
}
