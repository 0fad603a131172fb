//! `mremap` and `remap_file_pages`.

use super::cache::may_write;
use super::gather::Gather;
use super::mmap::{MAX_MAP_COUNT, check_low, page_up, room_below};
use super::space::{AddressSpace, Regions};
use super::vma::{Backing, VmFlags, Vma};
use super::{PAGE_SHIFT, PAGE_SIZE, commit, table};
use crate::arch::mmu::{Entry, USER_END};
use crate::syscall::SysResult;
use alloc::sync::Arc;
use core::sync::atomic::Ordering::Relaxed;
use limen_linux_abi::Errno;

/// The mapping may move.
pub const MAYMOVE: u32 = 1;
/// It moves to the address given.
pub const FIXED: u32 = 2;
/// The old mapping stays, empty.
pub const DONTUNMAP: u32 = 4;

/// What is asked for, rounded to pages.
struct Request {
    addr: usize,
    old_len: usize,
    new_len: usize,
    flags: u32,
    new_addr: usize,
}

impl Request {
    /// `EINVAL` for a new place that is no page's, not in user space, or not beside the old one.
    fn check_target(&self) -> Result<(), Errno> {
        let (new_addr, new_len) = (self.new_addr, self.new_len);
        let overlaps =
            self.addr < new_addr.saturating_add(new_len) && new_addr < self.addr.saturating_add(self.old_len);
        if new_addr & (PAGE_SIZE - 1) != 0 || new_len > USER_END || new_addr > USER_END - new_len || overlaps
        {
            return Err(Errno::EINVAL);
        }
        Ok(())
    }
}

impl AddressSpace {
    /// `mremap`: returns where the mapping is then.
    pub fn mremap(
        &self,
        addr: usize,
        old_len: usize,
        new_len: usize,
        flags: u32,
        new_addr: usize,
    ) -> SysResult {
        if flags & !(MAYMOVE | FIXED | DONTUNMAP) != 0
            || flags & (FIXED | DONTUNMAP) != 0 && flags & MAYMOVE == 0
        {
            return Err(Errno::EINVAL);
        }
        if addr & (PAGE_SIZE - 1) != 0 {
            return Err(Errno::EINVAL);
        }
        // A length that is nearly all there is wraps to none, as on Linux.
        let old_len = page_up(old_len).unwrap_or(0);
        let new_len = page_up(new_len).filter(|&l| l != 0).ok_or(Errno::EINVAL)?;
        if flags & DONTUNMAP != 0 && old_len != new_len {
            return Err(Errno::EINVAL);
        }
        let request = Request {
            addr,
            old_len,
            new_len,
            flags,
            new_addr,
        };
        let mut gather = Gather::new();
        let mut regions = self.regions.write();
        let result = self.remap_locked(&mut regions, &request, &mut gather);
        let locked = matches!(&result, Ok((_, flags)) if flags.contains(VmFlags::LOCKED) && !flags.contains(VmFlags::LOCKONFAULT));
        let dead = gather.finish(self);
        drop(regions);
        drop(dead);
        let (at, _) = result?;
        if locked && new_len > old_len {
            let _ = self.populate(at + old_len, at + new_len, None);
        }
        Ok(at)
    }

    fn remap_locked(
        &self,
        regions: &mut Regions,
        r: &Request,
        gather: &mut Gather,
    ) -> Result<(usize, VmFlags), Errno> {
        let fixed = r.flags & FIXED != 0;
        if r.addr.checked_add(r.old_len).is_none_or(|end| end > USER_END) {
            return Err(Errno::EFAULT);
        }
        let region = regions.map.containing(r.addr).ok_or(Errno::EFAULT)?;
        let (start, end) = (region.start, region.end);
        let vma = region.value.clone();
        if r.flags & (FIXED | DONTUNMAP) != 0 {
            r.check_target()?;
        }
        // A smaller mapping in place: the tail goes.
        if !fixed && r.flags & DONTUNMAP == 0 && r.old_len >= r.new_len {
            if r.old_len > r.new_len {
                regions.unmap(self, r.addr + r.new_len, r.addr + r.old_len, gather)?;
            }
            return Ok((r.addr, vma.flags));
        }
        if r.old_len == 0 && !vma.flags.contains(VmFlags::SHARED) {
            return Err(Errno::EINVAL);
        }
        // Of what gets smaller only what stays must be one mapping.
        if r.old_len.min(r.new_len) > end - r.addr {
            return Err(Errno::EFAULT);
        }
        if vma.flags.contains(VmFlags::SPECIAL) && r.new_len > r.old_len {
            return Err(Errno::EFAULT);
        }
        if let Some(_cache) = vma.cache() {
            let index = vma.index_at(r.addr - start);
            index
                .checked_add((r.new_len >> PAGE_SHIFT) as u64)
                .ok_or(Errno::EINVAL)?;
        }
        let grow = r.new_len.saturating_sub(r.old_len) >> PAGE_SHIFT;
        if vma.flags.contains(VmFlags::LOCKED) {
            self.check_locked(regions, grow)?;
        }
        if !regions.may_grow(vma.flags, grow) {
            return Err(Errno::ENOMEM);
        }
        if vma.flags.contains(VmFlags::ACCOUNT) {
            commit::check(grow)?;
        }
        // Room behind: the mapping grows where it is.
        if !fixed && r.flags & DONTUNMAP == 0 && r.old_len != 0 && r.addr + r.old_len == end {
            let new_end = r.addr + r.new_len;
            let pos = regions.map.lower(r.addr);
            let ceiling = match regions.map.at(regions.map.next(pos)) {
                Some(next) => next.start.saturating_sub(room_below(&next.value)),
                None => USER_END,
            };
            if new_end <= ceiling && new_end > r.addr {
                regions.count(vma.flags, grow, true);
                regions.map.set_bounds(pos, start, new_end);
                regions.join_next(self, start);
                return Ok((r.addr, vma.flags));
            }
        }
        if r.flags & MAYMOVE == 0 {
            return Err(Errno::ENOMEM);
        }
        if regions.map.len() + 3 >= MAX_MAP_COUNT.load(Relaxed) {
            return Err(Errno::ENOMEM);
        }
        let target = if fixed {
            check_low(r.new_addr)?;
            regions.unmap(self, r.new_addr, r.new_addr + r.new_len, gather)?;
            r.new_addr
        } else {
            let hint = if r.flags & DONTUNMAP != 0 { r.new_addr } else { 0 };
            regions.find_place(hint, r.new_len, USER_END)?
        };
        self.move_mapping(regions, r, &vma, start, target, gather)?;
        Ok((target, vma.flags))
    }

    fn move_mapping(
        &self,
        regions: &mut Regions,
        r: &Request,
        vma: &Vma,
        start: usize,
        target: usize,
        gather: &mut Gather,
    ) -> Result<(), Errno> {
        let _will_write = match vma.cache() {
            Some(cache) if may_write(vma.flags) => Some(cache.will_write()?),
            _ => None,
        };
        let move_len = r.old_len.min(r.new_len);
        self.move_pages(r.addr, target, move_len, gather)?;
        let mut new = vma.tail(r.addr - start);
        if matches!(new.backing, Backing::Anonymous) && !vma.flags.contains(VmFlags::SHARED) {
            new.index = (target >> PAGE_SHIFT) as u64;
        }
        if r.flags & DONTUNMAP == 0 && r.old_len != 0 {
            // First the new one: with the old one go the tables where nothing is mapped, and its pages have moved already. Both at once are no peak.
            let peak = self.peak_total.load(Relaxed);
            regions.add(self, target, target + r.new_len, new);
            regions.unmap(self, r.addr, r.addr + r.old_len, gather)?;
            self.peak_total.store(peak, Relaxed);
            return Ok(());
        }
        if r.flags & DONTUNMAP != 0 {
            // The old mapping stays, but nothing of it is locked any more.
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

    /// Moves what is mapped in `[from, from + len)` to `to`.
    fn move_pages(&self, from: usize, to: usize, len: usize, gather: &mut Gather) -> Result<(), Errno> {
        // All tables first, so that nothing can fail halfway.
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

    /// `remap_file_pages`: the pages of a shared mapping's file from page `index` on take the place of what it shows in `[addr, addr + size)`, and
    /// with `load` are loaded. `EINVAL` where there is not one such mapping, or several of the same file behind each other.
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
        new.index = index;
        let _will_write = cache.will_write()?;
        regions.unmap(self, start, end, gather)?;
        regions.add(self, start, end, new);
        Ok(())
    }
}
