//! What an entry of the page tables becomes: a fresh page, a file's, a copy, the same with more permissions.

use super::AddressSpace;
use super::FaultError;
use crate::arch::mmu::{self, Entry};
use crate::mm::frame::{self, For};
use crate::mm::page::{self, Page};
use crate::mm::vma::{Backing, VmFlags, Vma};
use crate::mm::{PAGE_SHIFT, PAGE_SIZE, PageCache, Prot, oom, table, zero_page};
use crate::sched::preempt;
use core::sync::atomic::Ordering;
use limen_region_map::Region;

/// How many neighbouring file pages are mapped along with the faulting one, if they are in memory.
const AROUND: usize = 65536 >> PAGE_SHIFT;

impl AddressSpace {
    #[inline(never)]
    pub(super) fn fill_special(
        &self,
        region: &Region<Vma>,
        at: usize,
        slot: &mmu::Slot,
        write: bool,
        force: bool,
    ) -> Result<Option<Page>, Stop> {
        let vma = &region.value;
        let Backing::Special(special) = &vma.backing else {
            return Err(Stop::Again);
        };
        let index = vma.index_at(at - region.start) as usize;
        let page = special
            .pages
            .get(index)
            .ok_or(Stop::Fail(FaultError::Bus))?
            .clone();
        if write {
            return self.install_copy(vma, &page, at, slot, force);
        }
        let prot = vma.flags.prot().difference(Prot::WRITE);
        if prot.contains(Prot::EXEC) {
            page::sync_for_exec(page.pfn());
        }
        self.install(slot, Entry::EMPTY, page, prot, at, force)
    }

    /// Fills an empty entry with the process's own copy of a page that it may not share.
    fn install_copy(
        &self,
        vma: &Vma,
        page: &Page,
        at: usize,
        slot: &mmu::Slot,
        force: bool,
    ) -> Result<Option<Page>, Stop> {
        vma.private.note();
        let copy = self.new_page().ok_or(Stop::Memory)?;
        mmu::copy_page(copy.phys(), page.phys());
        let prot = vma.flags.prot();
        if prot.contains(Prot::EXEC) {
            page::sync_for_exec(copy.pfn());
        }
        self.install(slot, Entry::EMPTY, copy, prot, at, force)
    }

    /// A page is mapped but does not allow the access.
    #[inline(never)]
    pub(super) fn refill(
        &self,
        vma: &Vma,
        at: usize,
        slot: &mmu::Slot,
        entry: Entry,
        access: Prot,
        force: bool,
    ) -> Result<Option<Page>, Stop> {
        let write = access.contains(Prot::WRITE);
        let prot = vma.flags.prot();
        let now = entry.prot();
        if now.is_empty() && !prot.is_empty() {
            // Another CPU is just replacing the page by a copy.
            crate::arch::irq::spin_hint();
            return Err(Stop::Again);
        }
        if write && !now.contains(Prot::WRITE) {
            return self.break_sharing(vma, at, slot, entry, force);
        }
        if force {
            return Ok(Some(self.counted(entry)));
        }
        // Another thread resolved the same fault, or this CPU used an outdated translation.
        if !now.contains(access) && access != Prot::READ {
            let wanted = if now.contains(Prot::WRITE) {
                prot
            } else {
                prot.difference(Prot::WRITE)
            };
            if wanted.contains(Prot::EXEC) {
                page::sync_for_exec(frame::pfn(entry.phys()));
            }
            exchange(slot, entry, entry.with_prot(wanted))?;
        }
        mmu::update_user(&self.context, at, true);
        Ok(None)
    }

    #[inline(always)]
    pub(super) fn fill_anonymous<const FORCE: bool>(
        &self,
        vma: &Vma,
        at: usize,
        slot: &mmu::Slot,
        write: bool,
    ) -> Result<Option<Page>, Stop> {
        let prot = vma.flags.prot();
        if !write {
            let zero = zero_page();
            let entry = Entry::user_page(zero.phys(), prot.difference(Prot::WRITE));
            exchange(slot, Entry::EMPTY, entry)?;
            mmu::update_user(&self.context, at, false);
            return Ok(FORCE.then(|| zero.clone()));
        }
        let page = self.new_page().ok_or(Stop::Memory)?;
        mmu::clear_page(page.phys());
        if prot.contains(Prot::EXEC) {
            page::sync_for_exec(page.pfn());
        }
        self.install(slot, Entry::EMPTY, page, prot, at, FORCE)
    }

    /// A page for this address space. The OOM killer's victim may use part of the reserve for it.
    #[inline(always)]
    fn new_page(&self) -> Option<Page> {
        Page::alloc(For::User).or_else(|| {
            if oom::is_dying() {
                Page::alloc(For::Dying)
            } else {
                None
            }
        })
    }

    /// Puts `page` into `slot` if the entry is still `old`. The entry takes over the reference.
    #[inline(always)]
    fn install(
        &self,
        slot: &mmu::Slot,
        old: Entry,
        page: Page,
        prot: Prot,
        at: usize,
        force: bool,
    ) -> Result<Option<Page>, Stop> {
        exchange(slot, old, Entry::user_page(page.phys(), prot))?;
        let counted = force.then(|| page.clone());
        let counter = if page::is_cache(page.pfn()) {
            &self.file
        } else {
            &self.anon
        };
        counter.fetch_add(1, Ordering::Relaxed);
        let _ = page.into_raw();
        mmu::update_user(&self.context, at, !old.is_empty());
        Ok(counted)
    }

    #[inline(never)]
    pub(super) fn fill_file(
        &self,
        region: &Region<Vma>,
        cache: &PageCache,
        at: usize,
        slot: &mmu::Slot,
        write: bool,
        force: bool,
    ) -> Result<Option<Page>, Stop> {
        let vma = &region.value;
        let index = vma.index_at(at - region.start);
        if index >= cache.size().div_ceil(PAGE_SIZE as u64) {
            return Err(Stop::Fail(FaultError::Bus));
        }
        let page = match cache.get(index) {
            Some(page) => {
                page.touched();
                page
            }
            None => cache.get_or_create_within(index).map_err(|e| match e {
                limen_linux_abi::Errno::ENOMEM => Stop::Memory,
                _ => Stop::Fail(FaultError::Bus),
            })?,
        };
        let mut prot = vma.flags.prot();
        if write && !vma.flags.contains(VmFlags::SHARED) {
            return self.install_copy(vma, &page, at, slot, force);
        }
        if !vma.flags.contains(VmFlags::SHARED) {
            prot.remove(Prot::WRITE);
        }
        if prot.contains(Prot::EXEC) {
            page::sync_for_exec(page.pfn());
        }
        let done = self.install(slot, Entry::EMPTY, page, prot, at, force)?;
        if !write {
            self.fill_around(region, cache, at, prot);
        }
        Ok(done)
    }

    /// Maps neighbours of `at` that are in memory: a program's text is touched page after page.
    fn fill_around(&self, region: &Region<Vma>, cache: &PageCache, at: usize, prot: Prot) {
        let window = (AROUND << PAGE_SHIFT).min(1 << table::level_shift(1));
        let first = (at & !(window - 1)).max(region.start);
        let last = ((at & !(window - 1)) + window).min(region.end);
        let size_pages = cache.size().div_ceil(PAGE_SIZE as u64);
        let from = region.value.index_at(first - region.start);
        let count = (((last - first) >> PAGE_SHIFT) as u64).min(size_pages.saturating_sub(from)) as usize;
        // Only those in the leaf table of `at`, which exists.
        let span = 1usize << table::level_shift(1);
        let Some(leaf) = table::find(self.root, at & !(span - 1)) else {
            return;
        };
        let slots = &table::table_of(leaf)[table::index(first, 0)..];
        let exec = prot.contains(Prot::EXEC);
        let mut added = 0;
        cache.each_near(from, count, |i, page| {
            let pfn = page.pfn();
            if !table::load(&slots[i]).is_empty() || page::is_untouched(pfn) {
                return;
            }
            if exec {
                page::sync_for_exec(pfn);
            }
            let page = page.clone();
            if exchange(&slots[i], Entry::EMPTY, Entry::user_page(page.phys(), prot)).is_ok() {
                let _ = page.into_raw();
                added += 1;
            }
        });
        if added > 0 {
            self.file.fetch_add(added, Ordering::Relaxed);
        }
    }

    /// A write to a page that is mapped read-only. A shared page of a file just becomes writable. A private
    /// page is copied, unless nothing else refers to it.
    fn break_sharing(
        &self,
        vma: &Vma,
        at: usize,
        slot: &mmu::Slot,
        entry: Entry,
        force: bool,
    ) -> Result<Option<Page>, Stop> {
        let pfn = frame::pfn(entry.phys());
        let mut prot = vma.flags.prot();
        let zero = zero_page();
        if vma.flags.contains(VmFlags::SHARED) {
            exchange(slot, entry, entry.with_prot(prot))?;
            mmu::update_user(&self.context, at, true);
            return Ok(force.then(|| self.counted(entry)));
        }
        if !vma.flags.contains(VmFlags::WRITE) {
            // A debugger forced the write: the program itself still must not write to the copy.
            prot.remove(Prot::WRITE);
        }
        let sole = pfn != zero.pfn() && !page::is_cache(pfn) && page::is_sole(pfn);
        if sole {
            exchange(slot, entry, entry.with_prot(prot))?;
            mmu::update_user(&self.context, at, true);
            return Ok(force.then(|| self.counted(entry)));
        }
        vma.private.note();
        let copy = self.new_page().ok_or(Stop::Memory)?;
        if pfn == zero.pfn() {
            mmu::clear_page(copy.phys());
        } else {
            mmu::copy_page(copy.phys(), entry.phys());
        }
        if prot.contains(Prot::EXEC) {
            page::sync_for_exec(copy.pfn());
        }
        // Other CPUs may still read the old page through cached translations. They must forget it before any
        // thread can write to the new page: else they would miss those writes. Meanwhile the old page stays
        // mapped without permissions. A thread that faults on such an entry waits (`refill`); preemption is
        // off here, so that it never waits for a thread that does not run.
        let held = entry.with_prot(Prot::empty());
        preempt::disable();
        let done = exchange(slot, entry, held).and_then(|()| {
            mmu::flush_user(&self.context, at, at + PAGE_SIZE, false);
            exchange(slot, held, Entry::user_page(copy.phys(), prot))
        });
        preempt::enable();
        done?;
        let counted = force.then(|| copy.clone());
        let _ = copy.into_raw();
        if pfn == zero.pfn() {
            self.anon.fetch_add(1, Ordering::Relaxed);
        } else {
            if page::is_cache(pfn) {
                self.file.fetch_sub(1, Ordering::Relaxed);
                self.anon.fetch_add(1, Ordering::Relaxed);
            }
            drop(Page::from_raw(pfn));
        }
        mmu::update_user(&self.context, at, false);
        Ok(counted)
    }

    /// A counted handle of the page that an entry maps. The regions are locked, so the entry keeps its
    /// reference.
    fn counted(&self, entry: Entry) -> Page {
        let pfn = frame::pfn(entry.phys());
        page::get(pfn);
        Page::from_raw(pfn)
    }
}

/// Why an attempt to fill an entry ended early.
pub(super) enum Stop {
    /// Nothing is mapped at the address.
    NoRegion,
    /// The entry changed meanwhile.
    Again,
    /// A page could not be allocated.
    Memory,
    /// The access cannot be made possible.
    Fail(FaultError),
}

#[inline(always)]
fn exchange(slot: &mmu::Slot, old: Entry, new: Entry) -> Result<(), Stop> {
    match slot.compare_exchange(old.0, new.0, Ordering::AcqRel, Ordering::Relaxed) {
        Ok(_) => Ok(()),
        Err(_) => Err(Stop::Again),
    }
}
