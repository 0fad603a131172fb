//! Changing mappings that exist (`mprotect`, `madvise`, `mlock` and the like), and asking about them
//! (`mincore`, `msync`).

use super::fault::FaultError;
use super::gather::Gather;
use super::mmap::{account, may_lock, page_up};
use super::space::{AddressSpace, Regions};
use super::vma::{Backing, VmFlags, Vma};
use super::{PAGE_SHIFT, PAGE_SIZE, Prot, commit, table};
use crate::arch::mmu::USER_END;
use core::ops::Range;
use limen_linux_abi::Errno;
use limen_linux_abi::SysResult;
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

/// `[addr, addr + len)` in whole pages, checked as most system calls do it. `EINVAL`: the start is not
/// aligned, or the end overflows.
fn page_range(addr: usize, len: usize) -> Result<(usize, usize), Errno> {
    if addr & (PAGE_SIZE - 1) != 0 {
        return Err(Errno::EINVAL);
    }
    let len = page_up(len).ok_or(Errno::EINVAL)?;
    Ok((addr, addr.checked_add(len).ok_or(Errno::EINVAL)?))
}

impl Regions {
    /// Applies `change` to every mapping in `[start, end)`. Mappings are split at both ends, and joined
    /// afterwards where they continue each other. `ENOMEM`: part of the range is not mapped; mappings before
    /// the hole have been changed, those behind it only with `over_holes`. `EAGAIN`: there would be too many
    /// mappings.
    fn change(
        &mut self,
        space: &AddressSpace,
        (start, end, over_holes): (usize, usize, bool),
        change: impl FnMut(&Regions, usize, usize, &Vma) -> Result<VmFlags, Errno>,
    ) -> Result<(), Errno> {
        let first = self.map.lower(start);
        self.change_from(space, first, (start, end, over_holes), change, |_, _, _| ())
    }

    /// [`Regions::change`] for callers that know the place of `start`. `changed` is called for each part
    /// whose flags have changed.
    fn change_from(
        &mut self,
        space: &AddressSpace,
        first: Pos,
        (start, end, over_holes): (usize, usize, bool),
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
            if region.start > at {
                hole = true;
                if !over_holes {
                    break;
                }
            }
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
                if self.map.len() >= super::limits::max_map_count() {
                    result = Err(Errno::EAGAIN);
                    break;
                }
                // Mappings of the kernel's pages are never split.
                if old.contains(VmFlags::SPECIAL) {
                    result = Err(Errno::EINVAL);
                    break;
                }
                if let Err(e) = self.room_for_few() {
                    result = Err(e);
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

/// The error of system calls that report too many mappings like any other lack of memory.
fn too_many(error: Errno) -> Errno {
    if error == Errno::EAGAIN {
        Errno::ENOMEM
    } else {
        error
    }
}

/// The pages that `[addr, addr + len)` touches: their address, and their size in bytes. A length close to the
/// largest number wraps around, as on Linux.
fn whole_pages(addr: usize, len: usize) -> (usize, usize) {
    let start = addr & !(PAGE_SIZE - 1);
    let end = len.wrapping_add(addr - start).wrapping_add(PAGE_SIZE - 1);
    (start, end & !(PAGE_SIZE - 1))
}

impl AddressSpace {
    /// `mprotect`: allows `prot`, and those rights of `implied` that the mapping may have. `grows_down`
    /// (`PROT_GROWSDOWN`): the range begins at the start of the mapping that contains `addr`.
    pub fn mprotect(
        &self,
        addr: usize,
        len: usize,
        (prot, implied): (Prot, Prot),
        grows_down: bool,
    ) -> SysResult {
        let (mut start, _) = page_range(addr, 0)?;
        if len == 0 {
            return Ok(0);
        }
        let len = page_up(len).ok_or(Errno::ENOMEM)?;
        let end = addr.checked_add(len).ok_or(Errno::ENOMEM)?;
        let (asked, implied) = (VmFlags::from_prot(prot), VmFlags::from_prot(implied));
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
            // The `MAY...` bits are four places above the bits of what is allowed now.
            let may = vma.flags.bits() >> 4 & 7;
            let access = asked | implied & VmFlags::from_bits_truncate(may);
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
                // The limit on data matters only: the total does not change.
                let pages = (to - from) >> PAGE_SHIFT;
                if ((regions.data + pages) << PAGE_SHIFT) as u64 > super::limits::data() {
                    return Err(Errno::ENOMEM);
                }
            }
            Ok(flags)
        };
        let result = regions.change_from(self, pos, (start, end, false), decide, |from, to, flags| {
            self.protect(from, to, flags, &mut gather);
        });
        let dead = gather.finish(self);
        drop(regions);
        drop(dead);
        result.map_err(too_many).map(|()| 0)
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
                    .change(self, (start, end, true), |_, _, _, vma| advised(vma, what))
                    .map(|()| 0)
            }
        }
    }

    /// `MADV_DONTNEED` and `MADV_FREE`: drops the private pages.
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
            if locked || flags.contains(VmFlags::KERNEL_DATA) || what == advice::FREE && not_anonymous {
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

    /// What is mapped there, one part after the other: what `look` finds out of each under the lock goes to
    /// `act` without it. `ENOMEM` if there are holes in between.
    #[inline(always)]
    fn each_part<T>(
        &self,
        start: usize,
        end: usize,
        look: impl Fn(&Vma, Range<usize>) -> Result<T, Errno>,
        act: impl Fn(T, Range<usize>) -> Result<(), Errno>,
    ) -> SysResult {
        let mut at = start;
        let mut hole = false;
        while at < end {
            let regions = self.regions.read();
            let Some(region) = regions.map.at(regions.map.lower(at)).filter(|r| r.start < end) else {
                return Err(Errno::ENOMEM);
            };
            hole |= region.start > at;
            let (from, to) = (region.start.max(at), region.end.min(end));
            let found = look(&region.value, from - region.start..to - region.start)?;
            drop(regions);
            act(found, from..to)?;
            at = to;
        }
        if hole { Err(Errno::ENOMEM) } else { Ok(0) }
    }

    /// Faults in what is mapped there. `ENOMEM` if there are holes in between.
    fn advise_populate(&self, start: usize, end: usize, write: bool) -> SysResult {
        self.each_part(
            start,
            end,
            |vma, _| match vma.flags.contains(VmFlags::KERNEL_DATA) {
                true => Err(Errno::EINVAL),
                false => Ok(()),
            },
            |(), part| {
                self.populate(part.start, part.end, Some(write))
                    .map_err(|e| match e {
                        FaultError::NotMapped | FaultError::NoMemory => Errno::ENOMEM,
                        FaultError::Access => Errno::EINVAL,
                        FaultError::Bus => Errno::EFAULT,
                    })
            },
        )
    }

    /// `MADV_REMOVE`: punches holes into the files behind shared mappings. `ENOMEM` if part of the range is
    /// not mapped.
    fn remove_pages(&self, start: usize, end: usize) -> SysResult {
        let look = |vma: &Vma, part: Range<usize>| {
            if vma.flags.contains(VmFlags::LOCKED) {
                return Err(Errno::EINVAL);
            }
            let Backing::File { cache, file } = &vma.backing else {
                return Err(Errno::EINVAL);
            };
            if !vma.flags.contains(VmFlags::SHARED | VmFlags::WRITE) {
                return Err(Errno::EACCES);
            }
            let from = vma.index_at(part.start) << PAGE_SHIFT;
            Ok((cache.clone(), file.clone(), from))
        };
        self.each_part(start, end, look, |(cache, file, from), part| {
            let to = from + part.len() as u64;
            match file {
                Some(file) => file.punch_hole(from, to)?,
                None => cache.writing().punch_hole(from, to),
            }
            Ok(())
        })
    }

    /// `mlock` and `mlock2`.
    pub fn mlock(&self, addr: usize, len: usize, on_fault: bool) -> SysResult {
        let (start, len) = whole_pages(addr, len);
        may_lock()?;
        let mut regions = self.regions.write();
        let limit = start.saturating_add(len);
        let already: usize = regions
            .map
            .range(start, limit)
            .filter(|r| r.value.flags.contains(VmFlags::LOCKED))
            .map(|r| (r.end.min(limit) - r.start.max(start)) >> PAGE_SHIFT)
            .sum();
        self.check_locked(&regions, (len >> PAGE_SHIFT) - already)
            .map_err(|_| Errno::ENOMEM)?;
        let end = start.checked_add(len).ok_or(Errno::EINVAL)?;
        regions
            .change(self, (start, end, false), |_, _, _, vma| {
                let mut flags = vma.flags;
                if !flags.contains(VmFlags::SPECIAL) && !vma.is_secret() {
                    flags |= VmFlags::LOCKED;
                    flags.set(VmFlags::LOCKONFAULT, on_fault);
                }
                Ok(flags)
            })
            .map_err(too_many)?;
        drop(regions);
        if on_fault {
            return Ok(0);
        }
        match self.populate(start, end, None) {
            Ok(()) => Ok(0),
            // `populate` cannot fill a mapping without access; the mapping is locked all the same.
            Err(FaultError::NoMemory) => Err(Errno::EAGAIN),
            Err(_) => Err(Errno::ENOMEM),
        }
    }

    /// `munlock`.
    pub fn munlock(&self, addr: usize, len: usize) -> SysResult {
        let (start, len) = whole_pages(addr, len);
        let end = start.checked_add(len).ok_or(Errno::EINVAL)?;
        let mut regions = self.regions.write();
        let unlock = VmFlags::LOCKED | VmFlags::LOCKONFAULT;
        regions
            .change(self, (start, end, false), |_, _, _, vma| {
                let unlock = if vma.is_secret() { VmFlags::empty() } else { unlock };
                Ok(vma.flags.difference(unlock))
            })
            .map_err(too_many)
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
        // Holes are no error for `mlockall`.
        let _ = regions.change(self, (first, last, true), |_, _, _, vma| {
            if vma.is_secret() {
                return Ok(vma.flags);
            }
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

    /// Faults in what is mapped from `at` on. Errors are ignored.
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

    /// `msync`: files in memory have no other storage, so only the arguments are checked. Returns the files
    /// of the range, which the caller synchronises if the flags ask for it.
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
        // A length close to the largest number wraps to zero, as on Linux.
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

    /// `mincore` for up to `out.len()` pages from `addr`, but not beyond one mapping: 1 for each page that is
    /// in memory. Returns for how many pages. If the caller may not write to the file, all its pages are
    /// reported as present. `ENOMEM`: `addr` is not mapped.
    pub fn mincore(&self, addr: usize, out: &mut [u8]) -> Result<usize, Errno> {
        let end = addr
            .checked_add(out.len() << PAGE_SHIFT)
            .filter(|&e| e <= USER_END)
            .ok_or(Errno::ENOMEM)?;
        let regions = self.regions.read();
        let region = regions.map.containing(addr).ok_or(Errno::ENOMEM)?;
        let end = end.min(region.end);
        let count = (end - addr) >> PAGE_SHIFT;
        let out = &mut out[..count];
        if let Backing::File { cache, file } = &region.value.backing {
            if !file.as_ref().is_none_or(|file| file.tells_residency()) {
                out.fill(1);
                return Ok(count);
            }
            for (index, present) in (region.value.index_at(addr - region.start)..).zip(out.iter_mut()) {
                *present = u8::from(cache.is_filled(index));
            }
        } else {
            out.fill(0);
        }
        table::for_each(self.root, addr, end, |at, _, _| {
            out[(at - addr) >> PAGE_SHIFT] = 1
        });
        Ok(count)
    }
}

/// The flags of a mapping after advice that only changes flags.
fn advised(vma: &Vma, what: i32) -> Result<VmFlags, Errno> {
    use advice::*;
    let mut flags = vma.flags;
    let no_file = vma.cache().is_none();
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
        DOFORK if flags.contains(VmFlags::KERNEL_DATA) => return Err(Errno::EINVAL),
        DOFORK => flags.remove(VmFlags::DONTFORK),
        WIPEONFORK if !no_file || flags.contains(VmFlags::SHARED) => return Err(Errno::EINVAL),
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
