//! Page faults: finding the page that belongs at an address and mapping it. `mm::space` has the rules for
//! changing page table entries.
//!
//! * [`fill`]: what an entry becomes;
//! * [`handle`]: faults as the architecture tells of them.

mod fill;
mod handle;

pub use handle::{handle_fault, note};

use super::frame;
use super::gather::Gather;
use super::page::{self, Page};
use super::space::{AddressSpace, Regions, STACK_GAP};
use super::vma::{Backing, VmFlags};
use super::{PAGE_SHIFT, PAGE_SIZE, Prot, oom, table};
use crate::arch::mmu;
use fill::Stop;

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
