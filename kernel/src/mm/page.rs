//! `Page`: a counted handle of one page frame. An entry of a page table holds a reference, too:
//! [`Page::into_raw`] and [`Page::from_raw`] move a reference into and out of an entry.

use super::frame::{self, For, Pfn};
use super::{PAGE_SIZE, PhysAddr};
use crate::arch::mmu;
use core::marker::PhantomData;
use core::num::NonZeroU32;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// What a page belongs to. Kept in its frame's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    /// A process's private memory, or memory of the kernel.
    Anonymous,
    /// A file's.
    Cache,
}

/// In `Frame::info`: the page belongs to a file's page cache.
const CACHE: u32 = 1;
/// In `Frame::info`: instruction fetch sees the page's content.
const SYNCED: u32 = 2;
/// In `Frame::info`: `fallocate` gave the file this page, and it has not been written or mapped since.
const UNTOUCHED: u32 = 4;

/// Whether the frame's page belongs to a file and was never written or mapped.
#[inline(always)]
pub(in crate::mm) fn is_untouched(pfn: Pfn) -> bool {
    frame::record(pfn).info.load(Relaxed) & UNTOUCHED != 0
}

/// Whether the frame belongs to a file.
#[inline(always)]
pub(in crate::mm) fn is_cache(pfn: Pfn) -> bool {
    frame::record(pfn).info.load(Relaxed) & CACHE != 0
}

/// Makes instruction fetch see the frame's content. Before the frame is mapped executable.
#[inline(always)]
pub(in crate::mm) fn sync_for_exec(pfn: Pfn) {
    let info = &frame::record(pfn).info;
    if info.load(Relaxed) & SYNCED == 0 {
        mmu::sync_instructions(frame::phys(pfn));
        info.fetch_or(SYNCED | frame::INFO_OWNED, Relaxed);
    }
}

/// What the kernel shares with programs that map its page: only atomics, for which any bits are valid.
///
/// # Safety
/// The implementer is that, and fits into a page.
pub unsafe trait Shared: Sync + 'static {}

// SAFETY: all its members are atomics.
unsafe impl Shared for limen_vdso::ClockData {}

/// A counted reference to a page frame. `clone` counts up; dropping the last one frees the frame.
#[derive(Debug)]
pub struct Page(NonZeroU32);

impl Page {
    /// A page with arbitrary content, for `whom`. Does not sleep. It lies in the linear map
    /// ([`Page::as_ptr`]) unless it is for [`For::User`].
    #[inline(always)]
    pub fn alloc(whom: For) -> Option<Self> {
        NonZeroU32::new(frame::alloc(whom)?).map(Self)
    }
    /// A zeroed page, for `whom`. Does not sleep.
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
    /// Its address in the linear map. The page may be mapped or written elsewhere, too, so its bytes can
    /// change at any time. Not for pages that were allocated for [`For::User`], which may have no address:
    /// use [`Page::bytes`].
    #[inline(always)]
    pub fn as_ptr(&self) -> *mut u8 {
        frame::virt(self.0.get())
    }
    /// The beginning of the page as a `T`. The page is never freed.
    pub fn shared_for_ever<T: Shared>(&self) -> &'static T {
        const { assert!(size_of::<T>() <= PAGE_SIZE && align_of::<T>() <= PAGE_SIZE) };
        assert!(self.is_addressed());
        let page = core::mem::ManuallyDrop::new(self.clone());
        // SAFETY: the page lies in the linear map, is aligned and large enough, and the reference that is not
        // dropped keeps it. Its memory is always initialised, any bits are valid, and `T` is made for others
        // that write to it.
        unsafe { &*page.as_ptr().cast() }
    }
    /// The beginning of the page as a `T`, as long as this reference holds the page. A page of the linear map
    /// only.
    pub fn shared<T: Shared>(&self) -> &T {
        const { assert!(size_of::<T>() <= PAGE_SIZE && align_of::<T>() <= PAGE_SIZE) };
        assert!(self.is_addressed());
        // SAFETY: as for `shared_for_ever`; this reference keeps the page.
        unsafe { &*self.as_ptr().cast() }
    }
    #[inline(always)]
    fn view(&self) -> mmu::View {
        mmu::View::new(self.phys())
    }
    /// The same content in a page of the linear map, for callers that use it for long: this page or a copy of
    /// it. `Err`: there is no memory for a copy, and the page is returned.
    #[inline(always)]
    pub fn addressed(self) -> Result<Self, Self> {
        if self.is_addressed() {
            return Ok(self);
        }
        match super::alloc_addressed_page() {
            Some(copy) => {
                mmu::copy_page(copy.phys(), self.phys());
                Ok(copy)
            }
            None => Err(self),
        }
    }
    /// Whether this is the only reference.
    #[inline(always)]
    pub fn is_sole(&self) -> bool {
        is_sole(self.0.get())
    }
    /// Records what the page belongs to.
    pub(in crate::mm) fn set_kind(&self, kind: PageKind) {
        let info = &frame::record(self.0.get()).info;
        match kind {
            PageKind::Cache => info.fetch_or(CACHE | frame::INFO_OWNED, Relaxed),
            PageKind::Anonymous => info.fetch_and(!(CACHE | UNTOUCHED), Relaxed),
        };
    }
    /// The kernel wrote to the page: before it is mapped executable, instruction fetch must be synchronised
    /// again.
    #[inline(always)]
    pub(in crate::mm) fn written(&self) {
        let info = &frame::record(self.0.get()).info;
        if info.load(Relaxed) & (SYNCED | UNTOUCHED) != 0 {
            info.fetch_and(!(SYNCED | UNTOUCHED), Relaxed);
        }
    }
    /// The page only reserves room in its file, until it is written or mapped.
    pub(in crate::mm) fn set_untouched(&self) {
        let info = &frame::record(self.0.get()).info;
        info.fetch_or(UNTOUCHED | frame::INFO_OWNED, Relaxed);
    }
    /// The page is about to be mapped.
    #[inline(always)]
    pub(in crate::mm) fn touched(&self) {
        let info = &frame::record(self.0.get()).info;
        if info.load(Relaxed) & UNTOUCHED != 0 {
            info.fetch_and(!UNTOUCHED, Relaxed);
        }
    }
    /// References to the frame.
    pub fn count(&self) -> u32 {
        frame::record(self.0.get()).refs.load(Relaxed)
    }
    /// Gives up the handle but keeps its reference, which a page table entry then holds.
    #[inline(always)]
    pub fn into_raw(self) -> Pfn {
        let pfn = self.0.get();
        core::mem::forget(self);
        pfn
    }
    /// Drops a handle that is nearly never the last one. Like `drop`, but the freeing of a last one is kept
    /// out of line.
    #[inline(always)]
    pub(in crate::mm) fn put_back(self) {
        let pfn = self.into_raw();
        if frame::record(pfn).refs.fetch_sub(1, Release) == 1 {
            free_last(pfn);
        }
    }
    /// Takes over a reference that a page table entry, or [`Page::into_raw`], held. `pfn` must be that
    /// frame's number.
    #[inline(always)]
    pub(in crate::mm) fn from_raw(pfn: Pfn) -> Self {
        debug_assert!(pfn != 0);
        Self(NonZeroU32::new(pfn).unwrap_or(NonZeroU32::MIN))
    }
    /// Copies bytes out of the page. `offset + to.len()` must lie within the page.
    pub fn read(&self, offset: usize, to: &mut [u8]) {
        assert!(offset <= PAGE_SIZE && to.len() <= PAGE_SIZE - offset);
        let view = self.view();
        // SAFETY: the range lies in the page, which this handle keeps; `to` is a different allocation.
        unsafe { core::ptr::copy_nonoverlapping(view.as_ptr().add(offset), to.as_mut_ptr(), to.len()) }
    }
    /// Copies bytes into the page. `offset + from.len()` must lie within the page.
    pub fn write(&self, offset: usize, from: &[u8]) {
        assert!(offset <= PAGE_SIZE && from.len() <= PAGE_SIZE - offset);
        let view = self.view();
        // SAFETY: as for `read`.
        unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), view.as_ptr().add(offset), from.len()) }
    }
    /// Zeroes part of the page.
    pub fn clear(&self, offset: usize, len: usize) {
        assert!(offset <= PAGE_SIZE && len <= PAGE_SIZE - offset);
        let view = self.view();
        // SAFETY: as for `read`.
        unsafe { view.as_ptr().add(offset).write_bytes(0, len) }
    }
    /// The page's bytes, for copying to user space or filling in. User mappings and other writers may change
    /// them meanwhile, as with any file page; the kernel does not interpret them. A caller that sleeps
    /// meanwhile uses [`Page::addressed`] first.
    #[inline(always)]
    pub fn bytes(&self) -> Bytes<'_> {
        Bytes {
            view: self.view(),
            len: PAGE_SIZE,
            page: PhantomData,
        }
    }
    #[inline(always)]
    fn is_addressed(&self) -> bool {
        !mmu::HIGH_MEMORY || self.phys().as_u64() < mmu::linear_end()
    }
}

/// The bytes of the first of `pages`, together with those of the following pages that follow it in physical
/// memory. `None`: the first element is.
#[inline(always)]
pub(in crate::mm) fn bytes_of(pages: &[Option<Page>]) -> Option<Bytes<'_>> {
    let (first, rest) = pages.split_first()?;
    let first = first.as_ref()?;
    let mut len = PAGE_SIZE;
    if first.is_addressed() {
        let behind = rest.iter().zip(first.pfn() + 1..);
        let is_next = |(page, pfn): &(&Option<Page>, Pfn)| {
            page.as_ref()
                .is_some_and(|page| page.pfn() == *pfn && page.is_addressed())
        };
        len += behind.take_while(is_next).count() * PAGE_SIZE;
    }
    Some(Bytes {
        view: first.view(),
        len,
        page: PhantomData,
    })
}

/// The bytes of a page, or of several consecutive ones, where the kernel can reach them.
#[derive(Debug)]
pub struct Bytes<'a> {
    view: mmu::View,
    len: usize,
    page: PhantomData<&'a Page>,
}

impl Deref for Bytes<'_> {
    type Target = [u8];
    #[inline(always)]
    fn deref(&self) -> &[u8] {
        // SAFETY: the handles keep the frames, whose memory is always initialised, and the slice lives no
        // longer than the view. Consecutive frames of the linear map have consecutive addresses.
        unsafe { core::slice::from_raw_parts(self.view.as_ptr(), self.len) }
    }
}

impl DerefMut for Bytes<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`. Concurrent writers store plain bytes only, as in any shared page of a file.
        unsafe { core::slice::from_raw_parts_mut(self.view.as_ptr(), self.len) }
    }
}

/// Whether there is only one reference; then no other thread can add one.
#[inline(always)]
pub(in crate::mm) fn is_sole(pfn: Pfn) -> bool {
    frame::record(pfn).refs.load(Acquire) == 1
}

/// Drops a reference. `true`: it was the last one, and the caller has to free the frame.
#[inline(always)]
pub(in crate::mm) fn put(pfn: Pfn) -> bool {
    // The only owner needs no atomic read-modify-write.
    if is_sole(pfn) {
        return true;
    }
    frame::record(pfn).refs.fetch_sub(1, Release) == 1 && {
        core::sync::atomic::fence(Acquire);
        true
    }
}

/// Frees a frame whose last reference was dropped.
#[cold]
#[inline(never)]
fn free_last(pfn: Pfn) {
    core::sync::atomic::fence(Acquire);
    frame::free(pfn);
}

/// Adds a reference.
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
