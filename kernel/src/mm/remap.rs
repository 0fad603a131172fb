//! `mremap` and `remap_file_pages`.

use super::cache::may_write;
use super::gather::Gather;
use super::mmap::{check_low, is_in_file, page_up, room_below};
use super::space::{AddressSpace, Regions};
use super::vma::{Backing, VmFlags, Vma};
use super::{PAGE_SHIFT, PAGE_SIZE, commit, table};
use crate::arch::mmu::{Entry, USER_END};
use alloc::sync::Arc;
use core::sync::atomic::Ordering::Relaxed;
use limen_linux_abi::Errno;
use limen_linux_abi::SysResult;

/// The mapping may move (`MREMAP_MAYMOVE`).
pub const MAYMOVE: u32 = 1;
/// It moves to the given address (`MREMAP_FIXED`).
pub const FIXED: u32 = 2;
/// The old mapping stays, without its pages (`MREMAP_DONTUNMAP`).
pub const DONTUNMAP: u32 = 4;

/// The arguments, rounded to pages.
struct Request {
    addr: usize,
    old_len: usize,
    new_len: usize,
    flags: u32,
    new_addr: usize,
    /// Where the kernel chooses the place, it ends there at the latest.
    limit: usize,
}

impl Request {
    /// `EINVAL`: the new address is not aligned, the new range not in user space, or it overlaps the old one.
    fn check_target(&self) -> Result<(), Errno> {
        let (new_addr, new_len) = (self.new_addr, self.new_len);
        if new_addr & (PAGE_SIZE - 1) != 0 || new_len > USER_END || new_addr > USER_END - new_len {
            return Err(Errno::EINVAL);
        }
        // The old length may have any value. As on Linux an end beyond all addresses wraps around.
        if self.addr.wrapping_add(self.old_len) > new_addr && new_addr + new_len > self.addr {
            return Err(Errno::EINVAL);
        }
        Ok(())
    }

    /// The part of the old range behind the new length. `EINVAL`: it ends beyond user space.
    fn tail(&self) -> Result<(usize, usize), Errno> {
        let (from, len) = (self.addr + self.new_len, self.old_len - self.new_len);
        if from > USER_END || len > USER_END - from {
            return Err(Errno::EINVAL);
        }
        Ok((from, from + len))
    }

    fn has(&self, flags: u32) -> bool {
        self.flags & flags != 0
    }
}

/// The mapping that is to be resized or moved: its bounds, and a copy of it.
struct Old {
    start: usize,
    end: usize,
    vma: Vma,
}

impl Regions {
    /// The mapping that contains `addr`. `EFAULT`: there is none.
    fn old(&self, addr: usize) -> Result<Old, Errno> {
        let region = self.map.containing(addr).ok_or(Errno::EFAULT)?;
        Ok(Old {
            start: region.start,
            end: region.end,
            vma: region.value.clone(),
        })
    }
}

impl AddressSpace {
    /// `mremap`. Returns the mapping's new address, which ends below `limit` if the kernel chooses it.
    pub fn mremap(
        &self,
        addr: usize,
        old_len: usize,
        new_len: usize,
        flags: u32,
        new_addr: usize,
        limit: usize,
    ) -> SysResult {
        if flags & !(MAYMOVE | FIXED | DONTUNMAP) != 0
            || flags & (FIXED | DONTUNMAP) != 0 && flags & MAYMOVE == 0
            || flags & DONTUNMAP != 0 && old_len != new_len
        {
            return Err(Errno::EINVAL);
        }
        if addr & (PAGE_SIZE - 1) != 0 {
            return Err(Errno::EINVAL);
        }
        // A length close to the largest number wraps to zero, as on Linux.
        let old_len = page_up(old_len).unwrap_or(0);
        let new_len = page_up(new_len).filter(|&l| l != 0).ok_or(Errno::EINVAL)?;
        let mut request = Request {
            addr,
            old_len,
            new_len,
            flags,
            new_addr,
            limit,
        };
        let mut gather = Gather::new();
        let mut regions = self.regions.write();
        let result = if request.has(FIXED | DONTUNMAP) {
            self.remap_to(&mut regions, &mut request, &mut gather)
        } else {
            self.resize(&mut regions, &request, &mut gather)
        };
        let locked = matches!(&result, Ok((_, flags)) if flags.contains(VmFlags::LOCKED)
            && !flags.contains(VmFlags::LOCKONFAULT));
        let dead = gather.finish(self);
        drop(regions);
        drop(dead);
        let (at, _) = result?;
        if locked && new_len > old_len {
            let _ = self.populate(at + old_len, at + new_len, None);
        }
        Ok(at)
    }

    /// Without `MREMAP_FIXED`: resizes the mapping where it is, or moves it to where there is room.
    fn resize(
        &self,
        regions: &mut Regions,
        r: &Request,
        gather: &mut Gather,
    ) -> Result<(usize, VmFlags), Errno> {
        let old = regions.old(r.addr)?;
        let flags = old.vma.flags;
        // The mapping shrinks where it is: its tail is unmapped.
        if r.old_len >= r.new_len {
            if r.old_len > r.new_len {
                let (from, to) = r.tail()?;
                regions.unmap(self, from, to, gather)?;
            }
            return Ok((r.addr, flags));
        }
        self.may_resize(regions, r, &old)?;
        // There is room behind the mapping: it grows where it is.
        if r.old_len != 0 && r.addr + r.old_len == old.end {
            let new_end = r.addr.checked_add(r.new_len);
            let pos = regions.map.lower(r.addr);
            let ceiling = match regions.map.at(regions.map.next(pos)) {
                Some(next) => next.start.saturating_sub(room_below(&next.value)),
                None => USER_END,
            };
            if let Some(new_end) = new_end.filter(|&end| end <= ceiling) {
                regions.count(flags, (r.new_len - r.old_len) >> PAGE_SHIFT, true);
                regions.map.set_bounds(pos, old.start, new_end);
                regions.join_next(self, old.start);
                return Ok((r.addr, flags));
            }
        }
        if !r.has(MAYMOVE) {
            return Err(Errno::ENOMEM);
        }
        let target = regions.find_place(0, r.new_len, r.limit)?;
        self.move_mapping(regions, r, &old, target, gather)?;
        Ok((target, flags))
    }

    /// With `MREMAP_FIXED` or `MREMAP_DONTUNMAP`. What is mapped at the new place, and the part of the old
    /// mapping behind the new length, are unmapped first and stay so even if the rest fails, as on Linux.
    fn remap_to(
        &self,
        regions: &mut Regions,
        r: &mut Request,
        gather: &mut Gather,
    ) -> Result<(usize, VmFlags), Errno> {
        regions.map.containing(r.addr).ok_or(Errno::EFAULT)?;
        r.check_target()?;
        if regions.map.len() + 2 >= super::limits::max_map_count() {
            return Err(Errno::ENOMEM);
        }
        regions.room_for_few()?;
        if r.has(FIXED) {
            regions.unmap(self, r.new_addr, r.new_addr + r.new_len, gather)?;
        }
        if r.old_len > r.new_len {
            let (from, to) = r.tail()?;
            regions.unmap(self, from, to, gather)?;
            r.old_len = r.new_len;
        }
        let old = regions.old(r.addr)?;
        let flags = old.vma.flags;
        self.may_resize(regions, r, &old)?;
        if r.has(DONTUNMAP) && !regions.may_grow(flags, r.old_len >> PAGE_SHIFT) {
            return Err(Errno::ENOMEM);
        }
        let target = if r.has(FIXED) {
            check_low(r.new_addr)?;
            r.new_addr
        } else {
            regions.find_place(r.new_addr, r.new_len, r.limit)?
        };
        self.move_mapping(regions, r, &old, target, gather)?;
        Ok((target, flags))
    }

    /// Checks whether a mapping may get another length. `EINVAL`, `EFAULT`, or the error of the limit that
    /// forbids it.
    fn may_resize(&self, regions: &Regions, r: &Request, old: &Old) -> Result<(), Errno> {
        let flags = old.vma.flags;
        let special = flags.contains(VmFlags::SPECIAL);
        if r.old_len == 0 && !flags.contains(VmFlags::SHARED) || r.has(DONTUNMAP) && special {
            return Err(Errno::EINVAL);
        }
        if r.old_len > old.end - r.addr {
            return Err(Errno::EFAULT);
        }
        if r.new_len == r.old_len {
            return Ok(());
        }
        let index = old.vma.index_at(r.addr - old.start);
        if !is_in_file(index, (r.new_len >> PAGE_SHIFT) as u64) {
            return Err(Errno::EINVAL);
        }
        if special {
            return Err(Errno::EFAULT);
        }
        let grow = r.new_len.saturating_sub(r.old_len) >> PAGE_SHIFT;
        if flags.contains(VmFlags::LOCKED) {
            self.check_locked(regions, grow)?;
        }
        if !regions.may_grow(flags, grow) {
            return Err(Errno::ENOMEM);
        }
        if flags.contains(VmFlags::ACCOUNT) {
            commit::check(grow)?;
        }
        Ok(())
    }

    fn move_mapping(
        &self,
        regions: &mut Regions,
        r: &Request,
        Old { start, end, vma }: &Old,
        target: usize,
        gather: &mut Gather,
    ) -> Result<(), Errno> {
        if regions.map.len() + 3 >= super::limits::max_map_count() {
            return Err(Errno::ENOMEM);
        }
        let whole = r.addr == *start && r.addr + r.old_len == *end;
        if vma.flags.contains(VmFlags::SPECIAL) && !whole {
            return Err(Errno::EINVAL);
        }
        let _will_write = match vma.cache() {
            Some(cache) if may_write(vma.flags) => Some(cache.will_write()?),
            _ => None,
        };
        let move_len = r.old_len.min(r.new_len);
        self.move_pages(r.addr, target, move_len, gather)?;
        if vma.flags.contains(VmFlags::SPECIAL) {
            // The vDSO, with the code that returns from signal handlers, may be moved.
            self.update_layout(|layout| {
                if layout.vdso.wrapping_sub(r.addr) < move_len {
                    layout.vdso = layout.vdso - r.addr + target;
                }
            });
        }
        let mut new = vma.tail(r.addr - *start);
        if matches!(new.backing, Backing::Anonymous) && !vma.flags.contains(VmFlags::SHARED) {
            new.index = (target >> PAGE_SHIFT) as u64;
        }
        if r.flags & DONTUNMAP == 0 && r.old_len != 0 {
            // The new mapping is counted before the old one is removed, because that frees page tables in
            // which nothing is mapped, and the pages have moved already. Counting both must not raise the
            // peak.
            let peak = self.peak_total.load(Relaxed);
            regions.add(self, target, target + r.new_len, new);
            regions.unmap(self, r.addr, r.addr + r.old_len, gather)?;
            self.peak_total.store(peak, Relaxed);
            return Ok(());
        }
        if r.flags & DONTUNMAP != 0 {
            // The old mapping stays, but it is no longer locked.
            regions.split_at(self, r.addr);
            regions.split_at(self, r.addr + r.old_len);
            let pos = regions.map.lower(r.addr);
            let locked = VmFlags::LOCKED | VmFlags::LOCKONFAULT;
            if vma.flags.intersects(locked) {
                let pages = r.old_len >> PAGE_SHIFT;
                regions.count(vma.flags, pages, false);
                regions.count(vma.flags.difference(locked), pages, true);
                if let Some(old) = regions.map.value_mut(pos) {
                    old.flags.remove(locked);
                }
            }
        }
        regions.add(self, target, target + r.new_len, new);
        Ok(())
    }

    /// Moves the pages in `[from, from + len)` to `to`.
    fn move_pages(&self, from: usize, to: usize, len: usize, gather: &mut Gather) -> Result<(), Errno> {
        // All tables are made first, so that moving cannot fail halfway.
        let mut missing = false;
        let mut done = usize::MAX;
        table::for_each(self.root, from, from + len, |addr, _, _| {
            let span = (to + (addr - from)) >> table::level_shift(1);
            if span != done && !missing {
                done = span;
                missing = self.slot(to + (addr - from)).is_none();
            }
        });
        if missing {
            return Err(Errno::ENOMEM);
        }
        table::for_each(self.root, from, from + len, |addr, slot, entry| {
            if let Some(target) = table::find(self.root, to + (addr - from)) {
                table::store(slot, Entry::EMPTY);
                table::store(target, entry);
                gather.note(addr);
            }
        });
        Ok(())
    }

    /// `remap_file_pages`: `[addr, addr + size)` of a shared mapping shows the pages of its file from page
    /// `index` on. `load`: faults them in. `EINVAL`: the range is not in one such mapping or in consecutive
    /// ones of the same file. `EOVERFLOW`: files have no such pages.
    pub fn remap_file_pages(&self, addr: usize, size: usize, index: u64, load: bool) -> SysResult {
        let start = addr & !(PAGE_SIZE - 1);
        let pages = (size >> PAGE_SHIFT) as u64;
        let end = start
            .checked_add(size & !(PAGE_SIZE - 1))
            .filter(|&end| end > start && index.checked_add(pages).is_some())
            .ok_or(Errno::EINVAL)?;
        let mut gather = Gather::new();
        let mut regions = self.regions.write();
        let result = self.show_other_pages(&mut regions, start, end, index, &mut gather);
        let dead = gather.finish(self);
        drop(regions);
        drop(dead);
        result?;
        if load {
            let _ = self.populate(start, end, None);
        }
        Ok(0)
    }

    fn show_other_pages(
        &self,
        regions: &mut Regions,
        start: usize,
        end: usize,
        index: u64,
        gather: &mut Gather,
    ) -> Result<(), Errno> {
        let region = regions.map.containing(start).ok_or(Errno::EINVAL)?;
        let mut new = region.value.clone();
        let cache = new.cache().ok_or(Errno::EINVAL)?.clone();
        if !new.flags.contains(VmFlags::SHARED | VmFlags::MAYWRITE) {
            return Err(Errno::EINVAL);
        }
        let mut pos = regions.map.lower(start);
        while let Some(this) = regions.map.at(pos)
            && this.end < end
        {
            let behind = this.end;
            pos = regions.map.next(pos);
            let next = regions.map.at(pos).filter(|next| next.start == behind);
            let next = &next.ok_or(Errno::EINVAL)?.value;
            if next.flags != new.flags || !next.cache().is_some_and(|other| Arc::ptr_eq(other, &cache)) {
                return Err(Errno::EINVAL);
            }
        }
        if !is_in_file(index, ((end - start) >> PAGE_SHIFT) as u64) {
            return Err(Errno::EOVERFLOW);
        }
        new.index = index;
        let _will_write = cache.will_write()?;
        regions.unmap(self, start, end, gather)?;
        regions.add(self, start, end, new);
        Ok(())
    }
}
