//! Page faults: finding the page that belongs at an address and mapping it. `mm::space` has the rules for
//! changing page table entries.

use super::frame::{self, For};
use super::gather::Gather;
use super::page::{self, Page};
use super::space::{AddressSpace, Regions, STACK_GAP};
use super::vma::{Backing, VmFlags, Vma};
use super::{PAGE_SHIFT, PAGE_SIZE, PageCache, Prot, oom, table};
use crate::arch::mmu::{self, Entry, USER_END};
use crate::sched::preempt;
use core::sync::atomic::Ordering;
use limen_region_map::Region;

/// Why an access cannot be made possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultError {
    /// Nothing is mapped there.
    NotMapped,
    /// The mapping does not allow it.
    Access,
    /// Beyond the end of the file.
    Bus,
    /// There is no memory, and the running task is to be killed for it.
    NoMemory,
}

/// How many neighbouring file pages are mapped along with the faulting one, if they are in memory.
const AROUND: usize = 65536 >> PAGE_SHIFT;

impl AddressSpace {
    /// Makes an access to `addr` possible, if the mapping there allows it. May sleep.
    pub fn fault(&self, addr: usize, access: Prot) -> Result<(), FaultError> {
        if let Err(stop) = self.attempt::<false, true>(addr, access) {
            self.insist::<false, true>(addr, access, stop)?;
        }
        crate::sched::current().count_fault();
        Ok(())
    }

    /// Goes on after an attempt that ended early: removes the obstacle and tries again until there is a
    /// result.
    #[cold]
    fn insist<const FORCE: bool, const CHECK: bool>(
        &self,
        addr: usize,
        access: Prot,
        mut stop: Stop,
    ) -> Result<Option<Page>, FaultError> {
        let mut grown = false;
        loop {
            match stop {
                Stop::Again => {}
                Stop::Fail(e) => return Err(e),
                Stop::Memory => oom::make_room().map_err(|_| FaultError::NoMemory)?,
                Stop::NoRegion => {
                    if grown || !self.grow_stack(addr) {
                        return Err(FaultError::NotMapped);
                    }
                    grown = true;
                }
            }
            match self.attempt_again::<FORCE, CHECK>(addr, access) {
                Ok(page) => return Ok(page),
                Err(next) => stop = next,
            }
        }
    }

    /// [`AddressSpace::attempt`], not inlined, for where speed does not matter.
    #[inline(never)]
    fn attempt_again<const FORCE: bool, const CHECK: bool>(
        &self,
        addr: usize,
        access: Prot,
    ) -> Result<Option<Page>, Stop> {
        self.attempt::<FORCE, CHECK>(addr, access)
    }

    /// Makes an access to `addr` possible if there is no obstacle. `CHECK`: only if the mapping allows it;
    /// otherwise (for debuggers) private mappings may be written and all may be read whatever their
    /// permissions. `FORCE`: for others than the program; the page is returned, counted, unless it is of a
    /// kind that only the program reaches.
    #[inline(always)]
    fn attempt<const FORCE: bool, const CHECK: bool>(
        &self,
        addr: usize,
        access: Prot,
    ) -> Result<Option<Page>, Stop> {
        let regions = self.regions.read();
        self.attempt_under::<FORCE, CHECK>(&regions, addr, access)
    }

    /// [`AddressSpace::attempt_under`], not inlined.
    #[inline(never)]
    fn attempt_in<const FORCE: bool, const CHECK: bool>(
        &self,
        regions: &Regions,
        addr: usize,
        access: Prot,
    ) -> Result<Option<Page>, Stop> {
        self.attempt_under::<FORCE, CHECK>(regions, addr, access)
    }

    /// [`AddressSpace::attempt`] for who has locked the regions.
    #[inline(always)]
    fn attempt_under<const FORCE: bool, const CHECK: bool>(
        &self,
        regions: &Regions,
        addr: usize,
        access: Prot,
    ) -> Result<Option<Page>, Stop> {
        let at = addr & !(PAGE_SIZE - 1);
        let region = regions.map.containing(addr).ok_or(Stop::NoRegion)?;
        let flags = region.value.flags;
        if CHECK {
            check_access(flags, access).map_err(Stop::Fail)?;
        } else if access.contains(Prot::WRITE) && !may_force_write(flags) {
            return Err(Stop::Fail(FaultError::Access));
        }
        if FORCE && (flags.contains(VmFlags::KERNEL_DATA) || region.value.is_secret()) {
            return Err(Stop::Fail(FaultError::Access));
        }
        let slot = self.slot(at).ok_or(Stop::Memory)?;
        let entry = table::load(slot);
        let vma = &region.value;
        let write = access.contains(Prot::WRITE);
        if !entry.is_empty() {
            return self.refill(vma, at, slot, entry, access, FORCE);
        }
        if FORCE {
            // A fault of a debugger's access counts as the debugger's own.
            crate::sched::current().count_fault();
        }
        match &vma.backing {
            Backing::Anonymous => self.fill_anonymous::<FORCE>(vma, at, slot, write),
            Backing::File { cache, .. } => self.fill_file(region, cache, at, slot, write, FORCE),
            Backing::Special(_) => self.fill_special(region, at, slot, write, FORCE),
        }
    }

    /// Runs `f` with the page at `addr`, for the access of another process (`/proc/pid/mem`, ptrace,
    /// `process_vm_readv`). The regions stay locked meanwhile: else the page might be shared by a fork and
    /// copied for the program before `f` writes to it, which only the new process would see then. `f` must
    /// not sleep or fault.
    pub(super) fn with_page<R>(
        &self,
        addr: usize,
        write: bool,
        force: bool,
        f: impl FnOnce(&Page) -> R,
    ) -> Result<R, FaultError> {
        let access = if write { Prot::WRITE } else { Prot::READ };
        loop {
            let stop = {
                let regions = self.regions.read();
                let found = match force {
                    true => self.attempt_in::<true, false>(&regions, addr, access),
                    false => self.attempt_in::<true, true>(&regions, addr, access),
                };
                match found {
                    Ok(Some(page)) => return Ok(f(&page)),
                    // The entry changed meanwhile.
                    Ok(None) => continue,
                    Err(stop) => stop,
                }
            };
            // What this finds may change again before the regions are locked.
            match force {
                true => self.insist::<true, false>(addr, access, stop)?,
                false => self.insist::<true, true>(addr, access, stop)?,
            };
        }
    }

    #[inline(never)]
    fn fill_special(
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
    fn refill(
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
    fn fill_anonymous<const FORCE: bool>(
        &self,
        vma: &Vma,
        at: usize,
        slot: &mmu::Slot,
        write: bool,
    ) -> Result<Option<Page>, Stop> {
        let prot = vma.flags.prot();
        if !write {
            let zero = super::zero_page();
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
    fn fill_file(
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
        let zero = super::zero_page();
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

    /// Extends a stack down to `addr` if there is one above and its limit allows it.
    #[cold]
    fn grow_stack(&self, addr: usize) -> bool {
        let start = addr & !(PAGE_SIZE - 1);
        let mut regions = self.regions.write();
        let pos = regions.map.lower(addr);
        let Some(region) = regions.map.at(pos) else {
            return false;
        };
        if region.start <= addr {
            return true;
        }
        let flags = region.value.flags;
        let (end, old, index) = (region.end, region.start, region.value.index);
        if !flags.contains(VmFlags::GROWSDOWN) || (end - start) as u64 > super::limits::stack() {
            return false;
        }
        if start < super::limits::mmap_min_addr() {
            return false;
        }
        if let Some(below) = regions.map.before(pos) {
            let gap = if below.value.flags.intersects(VmFlags::ACCESS)
                && !below.value.flags.contains(VmFlags::GROWSDOWN)
            {
                STACK_GAP
            } else {
                0
            };
            if below.end.saturating_add(gap) > start {
                return false;
            }
        }
        let pages = (old - start) >> PAGE_SHIFT;
        if ((regions.total + pages) << PAGE_SHIFT) as u64 > super::limits::address_space()
            || super::commit::check(pages).is_err()
            || flags.contains(VmFlags::LOCKED) && self.check_locked(&regions, pages).is_err()
        {
            return false;
        }
        regions.count(flags, pages, true);
        regions.map.set_bounds(pos, start, end);
        if let Some(vma) = regions.map.value_mut(pos) {
            vma.index = index.wrapping_sub(pages as u64);
        }
        true
    }

    /// Faults `[start, end)` in until the first error (`MAP_POPULATE`, `mlock`). Sleeps.
    pub(super) fn populate(&self, start: usize, end: usize, write: Option<bool>) -> Result<(), FaultError> {
        let mut at = start;
        while at < end {
            let (access, there) = {
                let regions = self.regions.read();
                let region = regions.map.containing(at).ok_or(FaultError::NotMapped)?;
                if region.value.is_secret() {
                    return Err(FaultError::Access);
                }
                let flags = region.value.flags;
                let access = match write {
                    Some(true) => Prot::WRITE,
                    Some(false) => Prot::READ,
                    // Private writable memory is likely to be written; all other memory is read.
                    None if flags.contains(VmFlags::WRITE) => Prot::WRITE,
                    None if flags.contains(VmFlags::READ) => Prot::READ,
                    None => Prot::EXEC,
                };
                let there = table::find(self.root, at).map_or(Prot::empty(), |slot| table::load(slot).prot());
                (access, there.contains(access))
            };
            if !there {
                self.fault(at, access)?;
            }
            if super::is_dying() {
                return Err(FaultError::NoMemory);
            }
            at += PAGE_SIZE;
        }
        Ok(())
    }

    /// Changes the permissions of the mapped pages in `[start, end)` to those of `flags`, the new flags. The
    /// regions are locked for writing.
    pub(super) fn protect(&self, start: usize, end: usize, flags: VmFlags, gather: &mut Gather) {
        let prot = flags.prot();
        table::for_each(self.root, start, end, |addr, slot, entry| {
            // Never adds permission to write: a later fault finds out whether the page has to be copied
            // first.
            let now = entry.prot();
            let wanted = if now.contains(Prot::WRITE) {
                prot
            } else {
                prot.difference(Prot::WRITE)
            };
            if wanted == now {
                return;
            }
            if wanted.contains(Prot::EXEC) && !now.contains(Prot::EXEC) {
                page::sync_for_exec(frame::pfn(entry.phys()));
            }
            table::store(slot, entry.with_prot(wanted));
            gather.note(addr);
        });
    }
}

/// Why an attempt to fill an entry ended early.
enum Stop {
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

/// Whether a mapping allows an access.
#[inline(always)]
fn check_access(flags: VmFlags, access: Prot) -> Result<(), FaultError> {
    let fine = if access.contains(Prot::WRITE) {
        flags.contains(VmFlags::WRITE)
    } else if access.contains(Prot::EXEC) {
        flags.contains(VmFlags::EXEC)
    } else {
        flags.intersects(VmFlags::from_prot(mmu::READABLE))
    };
    if fine { Ok(()) } else { Err(FaultError::Access) }
}

fn may_force_write(flags: VmFlags) -> bool {
    flags.contains(VmFlags::WRITE) || flags.is_cow()
}

/// A page fault, decoded by the architecture. Runs as the threshold's fault handler. From user mode: resolves
/// it or sends a signal. From kernel mode, if the instruction is in the exception table: resolves it or
/// continues at the fix-up. All others panic. Returns whether it became a signal.
pub fn handle_fault(
    frame: &mut crate::arch::frame::Frame,
    addr: usize,
    access: Prot,
    from_user: bool,
) -> bool {
    if from_user && addr < USER_END {
        // Nearly always this resolves it.
        match super::current_space().map(|space| space.fault(addr, access)) {
            Some(Ok(())) => false,
            Some(Err(error)) => refuse(addr, error),
            None => refuse(addr, FaultError::NotMapped),
        }
    } else if from_user {
        refuse(addr, FaultError::NotMapped)
    } else {
        kernel_fault(frame, addr, access);
        false
    }
}

/// The running thread made an access that cannot be made possible: sends the signal, or lets the OOM killer
/// end the process. Returns whether it sent one.
#[cold]
#[inline(never)]
fn refuse(addr: usize, error: FaultError) -> bool {
    let users = oom::users();
    if matches!(error, FaultError::NoMemory) {
        users.kill_current();
        return false;
    }
    users.bad_access(addr, error);
    true
}

/// A fault of the kernel itself. Only copies to and from user memory, and what asks for it, may fault.
#[inline(never)]
fn kernel_fault(frame: &mut crate::arch::frame::Frame, addr: usize, access: Prot) {
    use crate::arch::{irq, nofault, uaccess};
    let nofault = nofault::is_nofault(frame.ip());
    if (addr < USER_END || nofault)
        && let Some(fixup) = uaccess::fixup(frame.ip())
    {
        // Where sleeping is not allowed, the copy fails instead.
        let resolved = !nofault
            && crate::sched::preempt::count() == 0
            && irq::enabled()
            && super::current_space().is_some_and(|space| space.fault(addr, access).is_ok());
        if !resolved {
            frame.set_ip(fixup);
        }
        return;
    }
    let what = if access.contains(Prot::WRITE) {
        "write to"
    } else if access.contains(Prot::EXEC) {
        "execution of"
    } else {
        "read of"
    };
    let note = if super::stack::is_guard(addr) {
        " (kernel stack overflow?)"
    } else {
        note(addr)
    };
    panic!(
        "unable to handle kernel {what} {addr:#x} at {:#x} ({}){note}",
        frame.ip(),
        super::symbols::Symbol(frame.ip())
    );
}

/// What is to be said of an address of the kernel's that faulted, in a report: nothing, mostly. Any context.
pub fn note(addr: usize) -> &'static str {
    if frame::debug_pagealloc::is_free(addr) {
        " (debug_pagealloc: the page is free)"
    } else {
        ""
    }
}
