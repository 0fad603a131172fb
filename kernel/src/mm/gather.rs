//! What is removed from an address space (frames, references to shared pages, page tables, mappings) is
//! collected in a [`Gather`] until the TLBs of all CPUs have forgotten it (Linux: `mmu_gather`). The owner of
//! a `Gather` has locked the regions for writing, or no thread runs in the address space any more.

use super::frame::{self, FrameList, Pfn};
use super::space::AddressSpace;
use super::vma::Vma;
use super::{PAGE_SIZE, page, table};
use crate::arch::mmu::{self, Entry};
use alloc::boxed::Box;
use core::mem::ManuallyDrop;
use core::sync::atomic::Ordering::Relaxed;

/// How many references to pages that others use, too, one flush covers.
const SHARED: usize = 64;

/// References taken out of page tables.
struct Shared {
    pages: [Pfn; SHARED],
    count: usize,
}

/// Frames taken out of page tables, until the TLBs have forgotten them.
pub(super) struct Gather {
    /// Frames of pages to which nothing else refers.
    frames: FrameList,
    /// References to other pages. Another owner of such a page could free it at any time, so this reference
    /// is kept until no CPU has a translation of the page.
    shared: Option<Shared>,
    start: usize,
    end: usize,
    anon: usize,
    file: usize,
    tables_freed: bool,
    dead: Dead,
}

/// Removed mappings. They are dropped after the regions are unlocked, since closing a file may take locks
/// that come before that one. A linked list: there may be as many as there were mappings, too many for a
/// contiguous array.
#[derive(Default)]
pub(super) struct Dead(ManuallyDrop<Option<Box<Link>>>);

struct Link {
    vma: Vma,
    next: Option<Box<Link>>,
}

impl Dead {
    /// Tells the files that they are no longer mapped here.
    #[cold]
    fn tell(&self, space: &AddressSpace) {
        let mut at = &*self.0;
        while let Some(link) = at {
            if let Some(cache) = link.vma.cache() {
                cache.map_removed(space, link.vma.flags);
            }
            at = &link.next;
        }
    }

    /// Drops the links one by one, as dropping each inside the one before would recurse.
    #[cold]
    fn let_go(&mut self) {
        let mut next = self.0.take();
        while let Some(mut link) = next {
            next = link.next.take();
        }
    }
}

impl Drop for Dead {
    #[inline(always)]
    fn drop(&mut self) {
        if self.0.is_some() {
            self.let_go();
        }
    }
}

impl Gather {
    #[inline(always)]
    pub(super) const fn new() -> Self {
        Self {
            frames: FrameList::new(),
            shared: None,
            start: usize::MAX,
            end: 0,
            anon: 0,
            file: 0,
            tables_freed: false,
            dead: Dead(ManuallyDrop::new(None)),
        }
    }

    /// Keeps a removed mapping until the regions are unlocked. Its file is told after the flush, since until
    /// then a thread can still write to it through the mapping.
    pub(super) fn keep(&mut self, vma: Vma) {
        let next = self.dead.0.take();
        *self.dead.0 = Some(Box::new(Link { vma, next }));
    }

    /// Keeps a page table that was taken out of the tree.
    #[inline(always)]
    pub(super) fn keep_table(&mut self, pfn: Pfn) {
        self.frames.push(pfn);
    }

    /// Notes that page tables for `[start, end)` were taken out.
    #[inline(always)]
    pub(super) fn note_tables(&mut self, start: usize, end: usize) {
        self.tables_freed = true;
        self.start = self.start.min(start);
        self.end = self.end.max(end);
    }

    /// Notes that the translation for `addr` changed.
    #[inline(always)]
    pub(super) fn note(&mut self, addr: usize) {
        self.start = self.start.min(addr);
        self.end = self.end.max(addr + PAGE_SIZE);
    }

    /// Takes those pages out of `slots`, the first of which is for `addr`, for which `pick` is true. This is
    /// most of the work of unmapping and exit; it is not inlined so that it has all registers for itself.
    /// `IN_USE`: threads may run in the address space meanwhile.
    #[inline(never)]
    pub(super) fn take<const IN_USE: bool>(
        &mut self,
        space: &AddressSpace,
        addr: usize,
        slots: &[mmu::Slot],
        pick: impl Fn(Pfn) -> bool,
    ) {
        let zero = super::zero_page().pfn();
        let (mut anon, mut file) = (0, 0);
        let (mut first, mut last) = (usize::MAX, 0);
        table::each_of(slots, |i, slot, entry| {
            let pfn = frame::pfn(entry.phys());
            if !pick(pfn) {
                return;
            }
            table::store(slot, Entry::EMPTY);
            first = first.min(i);
            last = i;
            if pfn == zero {
                return;
            }
            if page::is_cache(pfn) {
                file += 1;
            } else {
                anon += 1;
            }
            let sole = if IN_USE {
                page::is_sole(pfn)
            } else {
                page::put(pfn)
            };
            if sole {
                self.frames.push(pfn);
            } else if IN_USE && self.share(pfn) {
                self.note(addr + first * PAGE_SIZE);
                self.note(addr + last * PAGE_SIZE);
                self.flush(space);
            }
        });
        self.anon += anon;
        self.file += file;
        if first <= last {
            self.note(addr + first * PAGE_SIZE);
            self.note(addr + last * PAGE_SIZE);
        }
    }

    /// Keeps a reference until the flush. Returns whether there is no room for another.
    #[inline(never)]
    fn share(&mut self, pfn: Pfn) -> bool {
        let shared = self.shared.get_or_insert(Shared {
            pages: [0; SHARED],
            count: 0,
        });
        if let Some(free) = shared.pages.get_mut(shared.count) {
            *free = pfn;
            shared.count += 1;
        }
        shared.count == SHARED
    }

    /// Lets all CPUs forget the noted translations; then the references can be dropped.
    #[inline(always)]
    fn flush(&mut self, space: &AddressSpace) {
        mmu::flush_user(&space.context, self.start, self.end, self.tables_freed);
        if self.shared.is_some() {
            self.put_shared();
        }
    }

    #[inline(never)]
    fn put_shared(&mut self) {
        (self.start, self.end) = (usize::MAX, 0);
        let Some(shared) = &mut self.shared else { return };
        for &pfn in shared.pages.iter().take(shared.count) {
            if page::put(pfn) {
                self.frames.push(pfn);
            }
        }
        shared.count = 0;
    }

    /// Flushes and frees. The result must be dropped after the regions are unlocked.
    #[must_use = "drop it after the lock"]
    #[inline(always)]
    pub(super) fn finish(&mut self, space: &AddressSpace) -> Dead {
        if self.start < self.end {
            self.flush(space);
        }
        if self.anon != 0 {
            space.anon.fetch_sub(self.anon, Relaxed);
        }
        if self.file != 0 {
            space.file.fetch_sub(self.file, Relaxed);
        }
        if !self.frames.is_empty() {
            frame::free_list(core::mem::replace(&mut self.frames, FrameList::new()));
        }
        if self.dead.0.is_some() {
            self.dead.tell(space);
        }
        Dead(ManuallyDrop::new(self.dead.0.take()))
    }
}
