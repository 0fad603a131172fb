//! Making and removing mappings: `mmap`, `munmap`, `brk`, and what exec needs.

use super::gather::{Dead, Gather};
use super::space::{AddressSpace, MMAP_MIN_ADDR, Regions, STACK_GAP, USER_BEGIN};
use super::vma::{Backing, FileMap, PrivatePages, SpecialPages, VmFlags, Vma};
use super::{PAGE_SHIFT, PAGE_SIZE, PageCache, Prot, commit, limits, table};
use crate::arch::mmu::USER_END;
use crate::syscall::SysResult;
use alloc::sync::Arc;
use bitflags::bitflags;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use limen_linux_abi::Errno;
use limen_linux_abi::native::{self, mman};
use limen_region_map::Pos;

/// `vm.max_map_count`.
pub static MAX_MAP_COUNT: AtomicUsize = AtomicUsize::new(65530);

bitflags! {
    /// `mmap`'s flags.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[allow(missing_docs, reason = "the names are Linux's")]
    pub struct MapFlags: u32 {
        const SHARED = 1;
        const PRIVATE = 2;
        const FIXED = 0x10;
        const ANONYMOUS = 0x20;
        /// Below 2 GiB (no bit at all where there is no such flag).
        const LOW_2G = native::MAP_32BIT;
        const GROWSDOWN = mman::MAP_GROWSDOWN;
        const LOCKED = mman::MAP_LOCKED;
        const NORESERVE = mman::MAP_NORESERVE;
        const POPULATE = mman::MAP_POPULATE;
        const NONBLOCK = mman::MAP_NONBLOCK;
        const STACK = mman::MAP_STACK;
        const FIXED_NOREPLACE = 0x10_0000;
    }
}

/// Rounds up to whole pages; `None` if that overflows.
pub(super) fn page_up(n: usize) -> Option<usize> {
    Some(n.checked_add(PAGE_SIZE - 1)? & !(PAGE_SIZE - 1))
}

/// How much is kept free below a mapping.
pub(super) fn room_below(vma: &Vma) -> usize {
    if vma.flags.contains(VmFlags::GROWSDOWN) {
        STACK_GAP
    } else {
        0
    }
}

/// `EINVAL` for addresses that nobody may map, `EPERM` for the lowest of the others, without the privilege to map them.
pub(super) fn check_low(addr: usize) -> Result<(), Errno> {
    /// `CAP_SYS_RAWIO`.
    const RAWIO: u32 = 17;
    #[allow(
        clippy::absurd_extreme_comparisons,
        reason = "it is 0 where words have 64 bits"
    )]
    if addr < USER_BEGIN {
        return Err(Errno::EINVAL);
    }
    if addr < MMAP_MIN_ADDR && !crate::sched::current().creds().capable(RAWIO) {
        return Err(Errno::EPERM);
    }
    Ok(())
}

/// Whether the running task may lock as much as it likes: `CAP_IPC_LOCK`.
fn may_lock_all() -> bool {
    crate::sched::current().creds().capable(14)
}

/// `EPERM` for who may not lock memory at all.
pub(super) fn may_lock() -> Result<(), Errno> {
    if limits::memlock() == 0 && !may_lock_all() {
        return Err(Errno::EPERM);
    }
    Ok(())
}

impl Regions {
    /// Whether `pages` more, with `flags`, are within the limits.
    pub(super) fn may_grow(&self, flags: VmFlags, pages: usize) -> bool {
        let bytes = |n: usize| (n as u64) << PAGE_SHIFT;
        if bytes(self.total.saturating_add(pages)) > limits::address_space() {
            return false;
        }
        let is_data =
            flags.contains(VmFlags::WRITE) && !flags.intersects(VmFlags::SHARED | VmFlags::GROWSDOWN);
        !is_data || bytes(self.data.saturating_add(pages)) <= limits::data()
    }

    /// A place for `len` bytes: `hint` if it is free, else the highest gap below the base.
    pub(super) fn find_place(&mut self, hint: usize, len: usize, limit: usize) -> Result<usize, Errno> {
        if len > limit {
            return Err(Errno::ENOMEM);
        }
        let hint = page_up(hint).unwrap_or(0);
        if hint >= MMAP_MIN_ADDR && hint <= limit - len && self.is_free(hint, hint + len) {
            return Ok(hint);
        }
        let base = self.mmap_base.min(limit);
        self.map
            .gap_down(MMAP_MIN_ADDR, base, len, PAGE_SIZE, room_below)
            .or_else(|| self.map.gap_up(base, limit, len, PAGE_SIZE, room_below))
            .ok_or(Errno::ENOMEM)
    }

    /// Whether nothing is mapped in `[start, end)`, gaps below stacks included.
    pub(super) fn is_free(&self, start: usize, end: usize) -> bool {
        match self.map.at(self.map.lower(start)) {
            Some(next) => next.start.saturating_sub(room_below(&next.value)) >= end,
            None => true,
        }
    }

    /// Adds a mapping, joined with its neighbours if they continue each other. The range is free.
    pub(super) fn add(&mut self, space: &AddressSpace, start: usize, end: usize, vma: Vma) {
        self.count(vma.flags, (end - start) >> PAGE_SHIFT, true);
        let pos = self.map.lower(start);
        if let Some(prev_pos) = self.map.prev(pos)
            && let Some(prev) = self.map.at(prev_pos)
            && prev.end == start
            && prev.value.continues(start - prev.start, &vma)
        {
            let first = prev.start;
            prev.value.private.join(&vma.private);
            self.map.set_bounds(prev_pos, first, end);
            self.join_next(space, first);
            return;
        }
        if let Some(cache) = vma.cache() {
            cache.map_added(space, vma.flags);
        }
        let joins = self
            .map
            .at(pos)
            .is_some_and(|next| next.start == end && vma.continues(end - start, &next.value));
        self.map.insert_at(pos, start, end, vma);
        if joins {
            self.join_next(space, start);
        }
    }

    /// Joins the region that contains `addr` with the one behind it if that continues it; whether it did.
    pub(super) fn join_next(&mut self, space: &AddressSpace, addr: usize) -> bool {
        self.join_behind(space, self.map.lower(addr))
    }

    fn join_behind(&mut self, space: &AddressSpace, pos: Pos) -> bool {
        let Some(this) = self.map.at(pos) else {
            return false;
        };
        let (start, end) = (this.start, this.end);
        let next_pos = self.map.next(pos);
        let Some(next) = self.map.at(next_pos) else {
            return false;
        };
        if next.start != end || !this.value.continues(end - start, &next.value) {
            return false;
        }
        this.value.private.join(&next.value.private);
        let gone = self.map.remove(next_pos);
        if let Some(cache) = gone.value.cache() {
            cache.map_removed(space, gone.value.flags);
        }
        let pos = self.map.lower(start);
        self.map.set_bounds(pos, start, gone.end);
        true
    }

    /// Joins whatever can be joined around `[start, end]`; `pos` is the place of `start`.
    pub(super) fn join_range(&mut self, space: &AddressSpace, mut pos: Pos, start: usize, end: usize) {
        if let Some(before) = self.map.prev(pos)
            && self.map.at(before).is_some_and(|r| r.end == start)
        {
            pos = before;
        }
        while let Some(region) = self.map.at(pos)
            && region.start < end
        {
            let (from, to) = (region.start, region.end);
            if self.join_behind(space, pos) {
                pos = self.map.lower(from);
            } else if to < end {
                pos = self.map.next(pos);
            } else {
                return;
            }
        }
    }

    /// Makes `addr` a boundary between mappings.
    pub(super) fn split_at(&mut self, space: &AddressSpace, addr: usize) {
        self.map.split(addr, |vma, offset| {
            if let Some(cache) = vma.cache() {
                cache.map_added(space, vma.flags);
            }
            vma.tail(offset)
        });
    }

    /// Takes `[start, end)` away. `ENOMEM` if splitting would make too many mappings.
    pub(super) fn unmap(
        &mut self,
        space: &AddressSpace,
        start: usize,
        end: usize,
        gather: &mut Gather,
    ) -> Result<(), Errno> {
        let mut pos = self.map.lower(start);
        let (r_start, r_end) = match self.map.at(pos) {
            Some(r) if r.start < end => (r.start, r.end),
            _ => return Ok(()),
        };
        if r_start < start && r_end > end && self.map.len() >= MAX_MAP_COUNT.load(Relaxed) {
            return Err(Errno::ENOMEM);
        }
        space.note_peak(self);
        if r_start < start || r_end != end {
            self.split_at(space, start);
            self.split_at(space, end);
            pos = self.map.lower(start);
        }
        while let Some(r) = self.map.at(pos)
            && r.start < end
        {
            let (region, next) = self.map.take(pos);
            pos = next;
            space.zap(region.start, region.end, gather);
            self.count(
                region.value.flags,
                (region.end - region.start) >> PAGE_SHIFT,
                false,
            );
            if !matches!(region.value.backing, Backing::Anonymous) {
                gather.keep(region.value);
            }
        }
        if !space.many_tables() {
            return Ok(());
        }
        let floor = self.map.before(pos).map_or(0, |r| r.end);
        let ceiling = self.map.at(pos).map_or(USER_END, |r| r.start);
        let span = 1usize << table::level_shift(1);
        // Only the spans the range itself lies in can have become empty.
        let floor = floor.max(start & !(span - 1));
        let ceiling = ceiling
            .min(end.checked_next_multiple_of(span).unwrap_or(USER_END))
            .min(USER_END);
        space.trim_tables(floor, ceiling, gather);
        Ok(())
    }
}

impl AddressSpace {
    /// `mmap`: `len` and `addr` as passed. `file` is `None` for anonymous memory.
    #[inline(always)]
    pub fn mmap(
        &self,
        addr: usize,
        len: usize,
        prot: Prot,
        flags: MapFlags,
        file: Option<FileMap>,
    ) -> SysResult {
        match file {
            Some(file) if flags.contains(MapFlags::SHARED) && file.may.contains(Prot::WRITE) => {
                self.map_writing(addr, len, prot, flags, file)
            }
            _ => self.map(addr, len, prot, flags, file),
        }
    }

    /// [`AddressSpace::mmap`] of what a seal may forbid.
    #[inline(never)]
    fn map_writing(&self, addr: usize, len: usize, prot: Prot, flags: MapFlags, file: FileMap) -> SysResult {
        let _will_write = file.cache.will_write()?;
        self.map(addr, len, prot, flags, Some(file))
    }

    /// Whether there can be a mapping there at all, whatever of: that is asked before what the file allows. `ENOMEM` if it is too long or ends
    /// behind user space, `EINVAL` for a fixed place that is no page's, `EPERM` for one that is not for everybody.
    pub fn check_place(&self, addr: usize, len: usize, flags: MapFlags) -> Result<(), Errno> {
        let len = page_up(len).filter(|&l| l <= USER_END).ok_or(Errno::ENOMEM)?;
        if !flags.intersects(MapFlags::FIXED | MapFlags::FIXED_NOREPLACE) {
            return Ok(());
        }
        if addr > USER_END - len {
            return Err(Errno::ENOMEM);
        }
        if addr & (PAGE_SIZE - 1) != 0 {
            return Err(Errno::EINVAL);
        }
        check_low(addr)
    }

    #[inline(never)]
    fn map(&self, addr: usize, len: usize, prot: Prot, flags: MapFlags, file: Option<FileMap>) -> SysResult {
        if len == 0 {
            return Err(Errno::EINVAL);
        }
        let len = page_up(len).filter(|&l| l <= USER_END).ok_or(Errno::ENOMEM)?;
        let fixed = flags.intersects(MapFlags::FIXED | MapFlags::FIXED_NOREPLACE);
        let limit = if flags.intersects(MapFlags::LOW_2G) && !fixed {
            1usize << 31
        } else {
            USER_END
        };
        let mut vma = Self::new_vma(prot, flags, file, len)?;
        let pages = len >> PAGE_SHIFT;

        let mut regions = self.regions.write();
        if regions.map.len() > MAX_MAP_COUNT.load(Relaxed) {
            return Err(Errno::ENOMEM);
        }
        vma.flags |= regions.default_flags;
        if flags.contains(MapFlags::LOCKED) {
            may_lock()?;
        }
        if vma.flags.contains(VmFlags::LOCKED) {
            self.check_locked(&regions, pages)?;
        }
        let start = if fixed {
            if addr > USER_END - len {
                return Err(Errno::ENOMEM);
            }
            if addr & (PAGE_SIZE - 1) != 0 {
                return Err(Errno::EINVAL);
            }
            check_low(addr)?;
            addr
        } else {
            regions.find_place(addr, len, limit)?
        };
        let end = start + len;
        let overlap = fixed && regions.map.range(start, end).next().is_some();
        if overlap && flags.contains(MapFlags::FIXED_NOREPLACE) {
            return Err(Errno::EEXIST);
        }
        // What is replaced does not count.
        let replaced: usize = if overlap {
            let pages =
                |r: &limen_region_map::Region<Vma>| (r.end.min(end) - r.start.max(start)) >> PAGE_SHIFT;
            regions.map.range(start, end).map(pages).sum()
        } else {
            0
        };
        if !regions.may_grow(vma.flags, pages - replaced) {
            return Err(Errno::ENOMEM);
        }
        if vma.flags.contains(VmFlags::ACCOUNT) {
            commit::check(pages)?;
        }
        if let Backing::Anonymous = vma.backing {
            vma.index = (start >> PAGE_SHIFT) as u64;
        }
        let dead = if overlap {
            let mut gather = Gather::new();
            regions.unmap(self, start, end, &mut gather)?;
            gather.finish(self)
        } else {
            Dead::default()
        };
        let populate = flags.contains(MapFlags::POPULATE) && !flags.contains(MapFlags::NONBLOCK)
            || vma.flags.contains(VmFlags::LOCKED) && !vma.flags.contains(VmFlags::LOCKONFAULT);
        regions.add(self, start, end, vma);
        drop(regions);
        drop(dead);
        if populate {
            // As far as it goes: the mapping is there either way.
            let _ = self.populate(start, end, None);
        }
        Ok(start)
    }

    /// The mapping `mmap`'s arguments describe.
    fn new_vma(prot: Prot, flags: MapFlags, file: Option<FileMap>, len: usize) -> Result<Vma, Errno> {
        let mut vm = VmFlags::from_prot(prot) | VmFlags::MAYACCESS;
        let shared = flags.contains(MapFlags::SHARED);
        vm.set(VmFlags::LOCKED, flags.contains(MapFlags::LOCKED));
        vm.set(VmFlags::NORESERVE, flags.contains(MapFlags::NORESERVE));
        let backing = match file {
            Some(file) => {
                if file.offset & (PAGE_SIZE as u64 - 1) != 0 {
                    return Err(Errno::EINVAL);
                }
                file.offset
                    .checked_add(len as u64)
                    .filter(|&e| e <= i64::MAX as u64)
                    .ok_or(Errno::EOVERFLOW)?;
                if shared {
                    vm |= VmFlags::SHARED;
                    if !file.may.contains(Prot::WRITE) {
                        if prot.contains(Prot::WRITE) {
                            return Err(Errno::EACCES);
                        }
                        vm.remove(VmFlags::MAYWRITE);
                    }
                }
                if !file.may.contains(Prot::EXEC) {
                    if prot.contains(Prot::EXEC) {
                        return Err(Errno::EPERM);
                    }
                    vm.remove(VmFlags::MAYEXEC);
                }
                if flags.contains(MapFlags::GROWSDOWN) {
                    return Err(Errno::EINVAL);
                }
                let index = file.offset >> PAGE_SHIFT;
                return Ok(Vma {
                    flags: account(vm),
                    backing: Backing::File {
                        cache: file.cache,
                        file: file.file,
                    },
                    index,
                    private: PrivatePages::default(),
                });
            }
            None if shared => {
                if flags.contains(MapFlags::GROWSDOWN) {
                    return Err(Errno::EINVAL);
                }
                vm |= VmFlags::SHARED;
                let cache = PageCache::new();
                cache.set_size(len as u64);
                Backing::File { cache, file: None }
            }
            None => {
                vm.set(VmFlags::GROWSDOWN, flags.contains(MapFlags::GROWSDOWN));
                Backing::Anonymous
            }
        };
        Ok(Vma {
            flags: account(vm),
            backing,
            index: 0,
            private: PrivatePages::default(),
        })
    }

    /// `EAGAIN` if `pages` more may not be locked.
    pub(super) fn check_locked(&self, regions: &Regions, pages: usize) -> Result<(), Errno> {
        let wanted = ((regions.locked + pages) as u64) << PAGE_SHIFT;
        if wanted > limits::memlock() && !may_lock_all() {
            return Err(Errno::EAGAIN);
        }
        Ok(())
    }

    /// `munmap`.
    #[inline]
    pub fn munmap(&self, addr: usize, len: usize) -> SysResult {
        if addr & (PAGE_SIZE - 1) != 0 || len == 0 || addr > USER_END || len > USER_END - addr {
            return Err(Errno::EINVAL);
        }
        let end = addr + page_up(len).ok_or(Errno::EINVAL)?;
        let mut gather = Gather::new();
        let mut regions = self.regions.write();
        let result = regions.unmap(self, addr, end, &mut gather);
        let dead = gather.finish(self);
        drop(regions);
        drop(dead);
        result.map(|()| 0)
    }

    /// `brk`: moves the heap's end if it can; returns where it is then.
    pub fn brk(&self, addr: usize) -> usize {
        let mut regions = self.regions.write();
        let current = regions.brk;
        if addr < regions.brk_start || addr > USER_END - PAGE_SIZE {
            return current;
        }
        let (Some(old_end), Some(new_end)) = (page_up(current), page_up(addr)) else {
            return current;
        };
        if (addr - regions.brk_start) as u64 > limits::data() {
            return current;
        }
        if new_end <= old_end {
            let mut gather = Gather::new();
            if new_end < old_end && regions.unmap(self, new_end, old_end, &mut gather).is_err() {
                return current;
            }
            regions.brk = addr;
            let dead = gather.finish(self);
            drop(regions);
            drop(dead);
            return addr;
        }
        let pages = (new_end - old_end) >> PAGE_SHIFT;
        let mut flags = VmFlags::READ | VmFlags::WRITE | VmFlags::MAYACCESS | VmFlags::ACCOUNT;
        flags |= regions.default_flags;
        // A page stays free behind the heap, as for any mapping that grows.
        let roomy = match regions.map.at(regions.map.lower(old_end)) {
            Some(next) => new_end + PAGE_SIZE <= next.start.saturating_sub(room_below(&next.value)),
            None => true,
        };
        if !roomy
            || !regions.may_grow(flags, pages)
            || commit::check(pages).is_err()
            || regions.map.len() > MAX_MAP_COUNT.load(Relaxed)
            || flags.contains(VmFlags::LOCKED) && self.check_locked(&regions, pages).is_err()
        {
            return current;
        }
        let index = (old_end >> PAGE_SHIFT) as u64;
        regions.add(
            self,
            old_end,
            new_end,
            Vma {
                flags,
                backing: Backing::Anonymous,
                index,
                private: PrivatePages::default(),
            },
        );
        regions.brk = addr;
        drop(regions);
        if flags.contains(VmFlags::LOCKED) && !flags.contains(VmFlags::LOCKONFAULT) {
            let _ = self.populate(old_end, new_end, None);
        }
        addr
    }

    /// Maps the main stack: `[top - size, top)`, growing downwards. Exec.
    pub fn map_stack(&self, top: usize, size: usize, executable: bool) -> Result<(), Errno> {
        let mut flags = VmFlags::READ
            | VmFlags::WRITE
            | VmFlags::MAYACCESS
            | VmFlags::GROWSDOWN
            | VmFlags::STACK
            | VmFlags::ACCOUNT;
        flags.set(VmFlags::EXEC, executable);
        let end = top & !(PAGE_SIZE - 1);
        let start = end
            .checked_sub(page_up(size).ok_or(Errno::ENOMEM)?)
            .ok_or(Errno::ENOMEM)?;
        let mut regions = self.regions.write();
        if start >= end || !regions.is_free(start, end) {
            return Err(Errno::ENOMEM);
        }
        let index = (start >> PAGE_SHIFT) as u64;
        regions.add(
            self,
            start,
            end,
            Vma {
                flags,
                backing: Backing::Anonymous,
                index,
                private: PrivatePages::default(),
            },
        );
        Ok(())
    }

    /// Where `len` bytes would go now. For an address space that nobody runs in yet: nothing else takes the place.
    pub fn room_for(&self, len: usize) -> SysResult {
        self.regions.write().find_place(0, len, USER_END)
    }

    /// Maps the kernel's pages (vDSO, its data) at `hint` or wherever there is room; returns where. The mapping is never writable.
    pub fn map_special(&self, hint: usize, prot: Prot, pages: Arc<SpecialPages>) -> SysResult {
        let len = pages.pages.len() << PAGE_SHIFT;
        let prot = prot.difference(Prot::WRITE);
        let mut flags = VmFlags::from_prot(prot) | VmFlags::SPECIAL | VmFlags::MAYREAD | VmFlags::DONTDUMP;
        flags.set(VmFlags::MAYEXEC, prot.contains(Prot::EXEC));
        let mut regions = self.regions.write();
        let start = regions.find_place(hint, len, USER_END)?;
        regions.add(
            self,
            start,
            start + len,
            Vma {
                flags,
                backing: Backing::Special(pages),
                index: 0,
                private: PrivatePages::default(),
            },
        );
        Ok(start)
    }
}

/// Private memory that may be written is promised memory, unless told otherwise.
pub(super) fn account(mut flags: VmFlags) -> VmFlags {
    let private_writable = flags.contains(VmFlags::WRITE) && !flags.contains(VmFlags::SHARED);
    let overcommit = commit::OVERCOMMIT.load(Relaxed);
    let reserve = !flags.contains(VmFlags::NORESERVE) || overcommit == 2;
    flags.set(VmFlags::ACCOUNT, private_writable && reserve);
    flags
}
