//! What is taken out of an address space waits until the TLBs of all CPUs have forgotten it: frames, counts of shared pages, page tables, mappings.
//! Who takes anything out ([`Gather`]) has the lock for writing, or nobody runs in the address space any more.

use super::frame::{self, FrameList, Pfn};
use super::space::AddressSpace;
use super::vma::Vma;
use super::{PAGE_SIZE, page, table};
use crate::arch::mmu::{self, Entry};
use alloc::boxed::Box;
use core::mem::ManuallyDrop;
use core::sync::atomic::Ordering::Relaxed;

/// How many counts of pages that others have, too, are given up with one flush.
const SHARED: usize = 64;

/// Counts taken out of page tables.
struct Shared {
    pages: [Pfn; SHARED],
    count: usize,
}

/// Frames taken out of page tables, waiting for the TLBs to forget them.
pub(super) struct Gather {
    /// Those that nobody else has.
    frames: FrameList,
    /// Counts of the others: who else has a page may give it back at any time, so they stay until no CPU has a translation of it.
    shared: Option<Shared>,
    start: usize,
    end: usize,
    anon: usize,
    file: usize,
    tables_freed: bool,
    dead: Dead,
}

/// Mappings that went away; dropped after the lock, because closing a file may sleep on locks that come before it. As many as there were, so not one
/// behind the other in memory.
#[derive(Default)]
pub(super) struct Dead(ManuallyDrop<Option<Box<Link>>>);

struct Link {
    vma: Vma,
    next: Option<Box<Link>>,
}

impl Dead {
    /// Their files hear that they are mapped no more.
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

    /// One by one, not one inside the other.
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

    /// Keeps a mapping that went away until the lock is free. Its file hears of that after the flush: until then it can be written to through it.
    pub(super) fn keep(&mut self, vma: Vma) {
        let next = self.dead.0.take();
        *self.dead.0 = Some(Box::new(Link { vma, next }));
    }

    /// Keeps a page table that was taken out of the tree.
    #[inline(always)]
    pub(super) fn keep_table(&mut self, pfn: Pfn) {
        self.frames.push(pfn);
    }

    /// Notes that page tables for `[start, end)` went away.
    #[inline(always)]
    pub(super) fn note_tables(&mut self, start: usize, end: usize) {
        self.tables_freed = true;
        self.start = self.start.min(start);
        self.end = self.end.max(end);
    }

    /// Notes that a translation changed.
    #[inline(always)]
    pub(super) fn note(&mut self, addr: usize) {
        self.start = self.start.min(addr);
        self.end = self.end.max(addr + PAGE_SIZE);
    }

    /// Takes the pages out of `slots`, of which the first is for `addr`, if `pick` says so. A function of its own: this is most of what unmapping
    /// and exit do, and has need of every register. `IN_USE`: somebody may run in the address space meanwhile.
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

    /// Notes a page whose count stays until the flush; whether that must be now.
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

    /// Lets all CPUs forget what changed. Then the counts go.
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

    /// Flushes and frees; what it returns is to be dropped without the lock.
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
