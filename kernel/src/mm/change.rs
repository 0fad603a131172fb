//! Changing mappings that exist: `mprotect`, `madvise`, `mlock` and friends, and what asks about them (`mincore`, `msync`).

use super::fault::FaultError;
use super::gather::Gather;
use super::mmap::{MAX_MAP_COUNT, account, may_lock, page_up};
use super::space::{AddressSpace, Regions};
use super::vma::{Backing, VmFlags, Vma};
use super::{PAGE_SHIFT, PAGE_SIZE, Prot, commit, table};
use crate::arch::mmu::USER_END;
use crate::syscall::SysResult;
use core::sync::atomic::Ordering::Relaxed;
use limen_linux_abi::Errno;
use limen_region_map::Pos;

/// `madvise`'s advice.
#[allow(missing_docs, reason = "the names are Linux's")]
pub mod advice {
    pub const NORMAL: i32 = 0;
    pub const RANDOM: i32 = 1;
    pub const SEQUENTIAL: i32 = 2;
    pub const WILLNEED: i32 = 3;
    pub const DONTNEED: i32 = 4;
    pub const FREE: i32 = 8;
    pub const REMOVE: i32 = 9;
    pub const DONTFORK: i32 = 10;
    pub const DOFORK: i32 = 11;
    pub const MERGEABLE: i32 = 12;
    pub const UNMERGEABLE: i32 = 13;
    pub const HUGEPAGE: i32 = 14;
    pub const NOHUGEPAGE: i32 = 15;
    pub const DONTDUMP: i32 = 16;
    pub const DODUMP: i32 = 17;
    pub const WIPEONFORK: i32 = 18;
    pub const KEEPONFORK: i32 = 19;
    pub const COLD: i32 = 20;
    pub const PAGEOUT: i32 = 21;
    pub const POPULATE_READ: i32 = 22;
    pub const POPULATE_WRITE: i32 = 23;
    pub const DONTNEED_LOCKED: i32 = 24;
}

/// `[addr, addr + len)` in whole pages, as most calls check it: `EINVAL` for an unaligned start or a length that overflows.
fn page_range(addr: usize, len: usize) -> Result<(usize, usize), Errno> {
    if addr & (PAGE_SIZE - 1) != 0 {
        return Err(Errno::EINVAL);
    }
    let len = page_up(len).ok_or(Errno::EINVAL)?;
    Ok((addr, addr.checked_add(len).ok_or(Errno::EINVAL)?))
}

impl Regions {
    /// Applies `change` to every mapping in `[start, end)`, split at the rims; joins afterwards. `ENOMEM` if part of the range is not
    /// mapped (what is mapped was changed) or there would be too many mappings.
    fn change(
        &mut self,
        space: &AddressSpace,
        start: usize,
        end: usize,
        change: impl FnMut(&Regions, usize, usize, &Vma) -> Result<VmFlags, Errno>,
    ) -> Result<(), Errno> {
        self.change_from(space, self.map.lower(start), (start, end), change, |_, _, _| ())
    }

    /// [`Regions::change`] for those who know the place of `start`. `changed` is told of each part that got other flags.
    fn change_from(
        &mut self,
        space: &AddressSpace,
        first: Pos,
        (start, end): (usize, usize),
        mut change: impl FnMut(&Regions, usize, usize, &Vma) -> Result<VmFlags, Errno>,
        mut changed: impl FnMut(usize, usize, VmFlags),
    ) -> Result<(), Errno> {
        let mut at = start;
        let mut known = Some(first);
        let mut split = false;
        let mut hole = false;
        let mut result = Ok(());
        while at < end {
            let mut pos = known.take().unwrap_or_else(|| self.map.lower(at));
            let Some(region) = self.map.at(pos) else {
                hole = true;
                break;
            };
            if region.start >= end {
                hole = true;
                break;
            }
            hole |= region.start > at;
            let (from, to) = (region.start.max(at), region.end.min(end));
            let whole = from == region.start && to == region.end;
            let old = region.value.flags;
            at = to;
            let flags = match change(self, from, to, &region.value) {
                Ok(flags) => flags,
                Err(e) => {
                    result = Err(e);
                    break;
                }
            };
            if flags == old {
                continue;
            }
            if !whole {
                if self.map.len() >= MAX_MAP_COUNT.load(Relaxed) {
                    result = Err(Errno::ENOMEM);
                    break;
                }
                self.split_at(space, from);
                self.split_at(space, to);
                split = true;
                pos = self.map.lower(from);
            }
            let pages = (to - from) >> PAGE_SHIFT;
            self.count(old, pages, false);
            self.count(flags, pages, true);
            if let Some(vma) = self.map.value_mut(pos) {
                vma.flags = flags;
            }
            changed(from, to, flags);
        }
        let first = if split { self.map.lower(start) } else { first };
        self.join_range(space, first, start, at.max(start));
        result?;
        if hole { Err(Errno::ENOMEM) } else { Ok(()) }
    }

    /// Whether every page of `[start, end)` is mapped.
    fn covered(&self, start: usize, end: usize) -> bool {
        let mut at = start;
        for r in self.map.range(start, end) {
            if r.start > at {
                return false;
            }
            at = r.end;
        }
        at >= end
    }
}

/// The pages `[addr, addr + len)` touches. A length that is nearly all there is wraps to none, as on Linux.
fn whole_pages(addr: usize, len: usize) -> Result<(usize, usize), Errno> {
    let start = addr & !(PAGE_SIZE - 1);
    let len = len.checked_add(addr - start).and_then(page_up).unwrap_or(0);
    Ok((start, start.checked_add(len).ok_or(Errno::EINVAL)?))
}

impl AddressSpace {
    /// `mprotect`. `grows_down`: from the start of the stack-like mapping that contains `addr`.
    pub fn mprotect(&self, addr: usize, len: usize, prot: Prot, grows_down: bool) -> SysResult {
        let (mut start, _) = page_range(addr, 0)?;
        if len == 0 {
            return Ok(0);
        }
        let len = page_up(len).ok_or(Errno::ENOMEM)?;
        let end = addr.checked_add(len).ok_or(Errno::ENOMEM)?;
        let access = VmFlags::from_prot(prot);
        let mut gather = Gather::new();
        let mut regions = self.regions.write();
        let pos = regions.map.lower(start);
        let first = regions.map.at(pos).ok_or(Errno::ENOMEM)?;
        if grows_down {
            if first.start >= end {
                return Err(Errno::ENOMEM);
            }
            if !first.value.flags.contains(VmFlags::GROWSDOWN) {
                return Err(Errno::EINVAL);
            }
            start = first.start;
        } else if first.start > start {
            return Err(Errno::ENOMEM);
        }
        let decide = |regions: &Regions, from: usize, to: usize, vma: &Vma| {
            // What `mprotect` may allow is four bits above what is allowed.
            let may = vma.flags.bits() >> 4 & 7;
            if access.bits() & !may != 0 {
                return Err(Errno::EACCES);
            }
            let mut flags = vma.flags.difference(VmFlags::ACCESS) | access;
            if access.contains(VmFlags::WRITE) && !vma.flags.contains(VmFlags::ACCOUNT) {
                flags = account(flags);
                if flags.contains(VmFlags::ACCOUNT) {
                    commit::check((to - from) >> PAGE_SHIFT)?;
                }
            }
            let becomes_data = flags.contains(VmFlags::WRITE)
                && !vma.flags.contains(VmFlags::WRITE)
                && !flags.contains(VmFlags::SHARED);
            if becomes_data {
                // Only the limit on data matters: the total stays.
                let pages = (to - from) >> PAGE_SHIFT;
                if ((regions.data + pages) << PAGE_SHIFT) as u64 > super::limits::data() {
                    return Err(Errno::ENOMEM);
                }
            }
            Ok(flags)
        };
        let result = regions.change_from(self, pos, (start, end), decide, |from, to, flags| {
            self.protect(from, to, flags, &mut gather);
        });
        let dead = gather.finish(self);
        drop(regions);
        drop(dead);
        result.map(|()| 0)
    }

    /// `madvise`.
    pub fn madvise(&self, addr: usize, len: usize, what: i32) -> SysResult {
        use advice::*;
        let known = matches!(what, NORMAL..=DONTNEED | FREE..=DONTNEED_LOCKED);
        if !known {
            return Err(Errno::EINVAL);
        }
        let (start, end) = page_range(addr, len)?;
        if start == end {
            return Ok(0);
        }
        match what {
            DONTNEED | DONTNEED_LOCKED | FREE => self.discard(start, end, what),
            POPULATE_READ | POPULATE_WRITE => self.advise_populate(start, end, what == POPULATE_WRITE),
            REMOVE => self.remove_pages(start, end),
            WILLNEED | COLD | PAGEOUT => {
                let regions = self.regions.read();
                if regions.covered(start, end) {
                    Ok(0)
                } else {
                    Err(Errno::ENOMEM)
                }
            }
            _ => {
                let mut regions = self.regions.write();
                regions
                    .change(self, start, end, |_, _, _, vma| advised(vma, what))
                    .map(|()| 0)
            }
        }
    }

    /// `MADV_DONTNEED` and `MADV_FREE`: private changes are forgotten.
    fn discard(&self, start: usize, end: usize, what: i32) -> SysResult {
        let mut gather = Gather::new();
        let regions = self.regions.write();
        let mut result = if regions.covered(start, end) {
            Ok(0)
        } else {
            Err(Errno::ENOMEM)
        };
        for r in regions.map.range(start, end) {
            let flags = r.value.flags;
            let locked = flags.contains(VmFlags::LOCKED) && what != advice::DONTNEED_LOCKED;
            let not_anonymous = !matches!(r.value.backing, Backing::Anonymous);
            if locked || flags.contains(VmFlags::SPECIAL) || what == advice::FREE && not_anonymous {
                result = Err(Errno::EINVAL);
                break;
            }
            self.zap(r.start.max(start), r.end.min(end), &mut gather);
        }
        let dead = gather.finish(self);
        drop(regions);
        drop(dead);
        result
    }

    fn advise_populate(&self, start: usize, end: usize, write: bool) -> SysResult {
        if !self.regions.read().covered(start, end) {
            return Err(Errno::ENOMEM);
        }
        match self.populate(start, end, Some(write)) {
            Ok(()) => Ok(0),
            Err(FaultError::NotMapped) => Err(Errno::ENOMEM),
            Err(FaultError::Access) => Err(Errno::EINVAL),
            Err(FaultError::Bus) => Err(Errno::EFAULT),
            Err(FaultError::NoMemory) => Err(Errno::ENOMEM),
        }
    }

    /// `MADV_REMOVE`: punches holes into the files behind shared mappings, one after the other. `ENOMEM` if part of the range is not mapped.
    fn remove_pages(&self, start: usize, end: usize) -> SysResult {
        let mut at = start;
        let mut hole = false;
        while at < end {
            let regions = self.regions.read();
            let Some(region) = regions.map.at(regions.map.lower(at)).filter(|r| r.start < end) else {
                return Err(Errno::ENOMEM);
            };
            hole |= region.start > at;
            let vma = &region.value;
            if vma.flags.contains(VmFlags::LOCKED) {
                return Err(Errno::EINVAL);
            }
            let Backing::File { cache, file } = &vma.backing else {
                return Err(Errno::EINVAL);
            };
            if !vma.flags.contains(VmFlags::SHARED | VmFlags::WRITE) {
                return Err(Errno::EACCES);
            }
            let (first, last) = (region.start.max(at), region.end.min(end));
            let from = vma.index_at(first - region.start) << PAGE_SHIFT;
            let to = from + (last - first) as u64;
            let (cache, file) = (cache.clone(), file.clone());
            drop(regions);
            match file {
                Some(file) => file.punch_hole(from, to)?,
                None => cache.writing().punch_hole(from, to),
            }
            at = last;
        }
        if hole { Err(Errno::ENOMEM) } else { Ok(0) }
    }

    /// `mlock` and `mlock2`.
    pub fn mlock(&self, addr: usize, len: usize, on_fault: bool) -> SysResult {
        let (start, end) = whole_pages(addr, len)?;
        may_lock()?;
        let mut regions = self.regions.write();
        let already: usize = regions
            .map
            .range(start, end)
            .filter(|r| r.value.flags.contains(VmFlags::LOCKED))
            .map(|r| (r.end.min(end) - r.start.max(start)) >> PAGE_SHIFT)
            .sum();
        self.check_locked(&regions, ((end - start) >> PAGE_SHIFT) - already)
            .map_err(|_| Errno::ENOMEM)?;
        regions.change(self, start, end, |_, _, _, vma| {
            let mut flags = vma.flags;
            if !flags.contains(VmFlags::SPECIAL) {
                flags |= VmFlags::LOCKED;
                flags.set(VmFlags::LOCKONFAULT, on_fault);
            }
            Ok(flags)
        })?;
        drop(regions);
        if on_fault {
            return Ok(0);
        }
        match self.populate(start, end, None) {
            Ok(()) => Ok(0),
            // A mapping without access is not filled, but it is locked.
            Err(FaultError::NoMemory) => Err(Errno::EAGAIN),
            Err(_) => Err(Errno::ENOMEM),
        }
    }

    /// `munlock`.
    pub fn munlock(&self, addr: usize, len: usize) -> SysResult {
        let (start, end) = whole_pages(addr, len)?;
        let mut regions = self.regions.write();
        let unlock = VmFlags::LOCKED | VmFlags::LOCKONFAULT;
        regions
            .change(self, start, end, |_, _, _, vma| Ok(vma.flags.difference(unlock)))
            .map(|()| 0)
    }

    /// `mlockall` (`Some(flags)`: `MCL_*`) and `munlockall` (`None`).
    pub fn mlockall(&self, flags: Option<u32>) -> SysResult {
        use limen_linux_abi::native::mman::{
            MCL_CURRENT as CURRENT, MCL_FUTURE as FUTURE, MCL_ONFAULT as ONFAULT,
        };
        let both = VmFlags::LOCKED | VmFlags::LOCKONFAULT;
        let mut set = VmFlags::empty();
        if let Some(flags) = flags {
            if flags == 0 || flags == ONFAULT || flags & !(CURRENT | FUTURE | ONFAULT) != 0 {
                return Err(Errno::EINVAL);
            }
            set |= VmFlags::LOCKED;
            set.set(VmFlags::LOCKONFAULT, flags & ONFAULT != 0);
            may_lock()?;
        }
        let flags = flags.unwrap_or(CURRENT);
        let mut regions = self.regions.write();
        if !set.is_empty() && flags & CURRENT != 0 {
            let more = regions.total - regions.locked;
            self.check_locked(&regions, more).map_err(|_| Errno::ENOMEM)?;
        }
        regions.default_flags = if flags & FUTURE != 0 {
            set
        } else {
            VmFlags::empty()
        };
        if flags & CURRENT == 0 {
            return Ok(0);
        }
        let (first, last) = match (regions.map.iter().next(), regions.map.iter().last()) {
            (Some(first), Some(last)) => (first.start, last.end),
            _ => return Ok(0),
        };
        // Holes are no error here.
        let _ = regions.change(self, first, last, |_, _, _, vma| {
            let set = if vma.flags.contains(VmFlags::SPECIAL) {
                VmFlags::empty()
            } else {
                set
            };
            Ok(vma.flags.difference(both) | set)
        });
        drop(regions);
        if set == VmFlags::LOCKED {
            self.populate_all(first);
        }
        Ok(0)
    }

    /// Faults in what is mapped from `at` on, as far as that works.
    fn populate_all(&self, mut at: usize) {
        loop {
            let regions = self.regions.read();
            let Some(region) = regions.map.at(regions.map.lower(at)) else {
                return;
            };
            let (start, end) = (region.start.max(at), region.end);
            drop(regions);
            let _ = self.populate(start, end, None);
            if super::is_dying() {
                return;
            }
            at = end;
        }
    }

    /// `msync`: memory files have nothing behind them to write to, so what is left is to check. Returns the files of the range, which the
    /// caller synchronises if asked to.
    pub fn msync(&self, addr: usize, len: usize, flags: u32) -> SysResult {
        const ASYNC: u32 = 1;
        const INVALIDATE: u32 = 2;
        const SYNC: u32 = 4;
        if flags & !(ASYNC | INVALIDATE | SYNC) != 0 || flags & (ASYNC | SYNC) == ASYNC | SYNC {
            return Err(Errno::EINVAL);
        }
        if addr & (PAGE_SIZE - 1) != 0 {
            return Err(Errno::EINVAL);
        }
        // A length that is nearly all there is wraps to none, as on Linux.
        let len = page_up(len).unwrap_or(0);
        let end = addr.checked_add(len).ok_or(Errno::ENOMEM)?;
        let regions = self.regions.read();
        let locked = regions
            .map
            .range(addr, end)
            .any(|r| r.value.flags.contains(VmFlags::LOCKED));
        if flags & INVALIDATE != 0 && locked {
            return Err(Errno::EBUSY);
        }
        if regions.covered(addr, end) {
            Ok(0)
        } else {
            Err(Errno::ENOMEM)
        }
    }

    /// `mincore` for up to `out.len()` pages from `addr`, as far as they are of one mapping: 1 for each that is in memory; for how many that is.
    /// `ENOMEM` if the first is not mapped.
    pub fn mincore(&self, addr: usize, out: &mut [u8]) -> Result<usize, Errno> {
        let end = addr
            .checked_add(out.len() << PAGE_SHIFT)
            .filter(|&e| e <= USER_END)
            .ok_or(Errno::ENOMEM)?;
        let regions = self.regions.read();
        let region = regions.map.containing(addr).ok_or(Errno::ENOMEM)?;
        let end = end.min(region.end);
        out.fill(0);
        for r in regions.map.range(addr, end) {
            let Some(cache) = r.value.cache() else { continue };
            for at in (r.start.max(addr)..r.end.min(end)).step_by(PAGE_SIZE) {
                let present = cache.get(r.value.index_at(at - r.start)).is_some();
                out[(at - addr) >> PAGE_SHIFT] = present as u8;
            }
        }
        table::for_each(self.root, addr, end, |at, _, _| {
            out[(at - addr) >> PAGE_SHIFT] = 1
        });
        Ok((end - addr) >> PAGE_SHIFT)
    }
}

/// The flags of a mapping after advice that only changes flags.
fn advised(vma: &Vma, what: i32) -> Result<VmFlags, Errno> {
    use advice::*;
    let mut flags = vma.flags;
    let anonymous = matches!(vma.backing, Backing::Anonymous);
    match what {
        NORMAL => flags.remove(VmFlags::SEQ_READ | VmFlags::RAND_READ),
        RANDOM => {
            flags.remove(VmFlags::SEQ_READ);
            flags |= VmFlags::RAND_READ;
        }
        SEQUENTIAL => {
            flags.remove(VmFlags::RAND_READ);
            flags |= VmFlags::SEQ_READ;
        }
        DONTFORK => flags |= VmFlags::DONTFORK,
        DOFORK if flags.contains(VmFlags::SPECIAL) => return Err(Errno::EINVAL),
        DOFORK => flags.remove(VmFlags::DONTFORK),
        WIPEONFORK if !anonymous || flags.contains(VmFlags::SHARED) => return Err(Errno::EINVAL),
        WIPEONFORK => flags |= VmFlags::WIPEONFORK,
        KEEPONFORK => flags.remove(VmFlags::WIPEONFORK),
        DONTDUMP => flags |= VmFlags::DONTDUMP,
        DODUMP if flags.contains(VmFlags::SPECIAL) => return Err(Errno::EINVAL),
        DODUMP => flags.remove(VmFlags::DONTDUMP),
        HUGEPAGE => {
            flags.remove(VmFlags::NOHUGEPAGE);
            flags |= VmFlags::HUGEPAGE;
        }
        NOHUGEPAGE => {
            flags.remove(VmFlags::HUGEPAGE);
            flags |= VmFlags::NOHUGEPAGE;
        }
        MERGEABLE => flags |= VmFlags::MERGEABLE,
        UNMERGEABLE => flags.remove(VmFlags::MERGEABLE),
        _ => {}
    }
    Ok(flags)
}
