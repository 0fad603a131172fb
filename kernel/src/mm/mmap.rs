//! Making and removing mappings: `mmap`, `munmap`, `brk`, and what exec needs.

use super::gather::{Dead, Gather};
use super::space::{AddressSpace, Regions, STACK_GAP, USER_BEGIN};
use super::vma::{Backing, FileMap, PrivatePages, SpecialPages, VmFlags, Vma};
use super::{PAGE_SHIFT, PAGE_SIZE, PageCache, Prot, commit, limits};
use crate::arch::mmu::USER_END;
use crate::sync::lockdep::fallible;
use alloc::sync::Arc;
use bitflags::bitflags;
use core::sync::atomic::Ordering::Relaxed;
use limen_linux_abi::Errno;
use limen_linux_abi::SysResult;
use limen_linux_abi::native::{self, mman};
use limen_region_map::Pos;

bitflags! {
    /// `mmap`'s flags.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[allow(missing_docs, reason = "the names are Linux's")]
    pub struct MapFlags: u32 {
        const SHARED = 1;
        const PRIVATE = 2;
        const FIXED = 0x10;
        const ANONYMOUS = 0x20;
        /// Below 2 GiB. Architectures without this flag have no bit for it.
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

/// How many bytes have to stay unmapped below a mapping (the stack's gap).
pub(super) fn room_below(vma: &Vma) -> usize {
    if vma.flags.contains(VmFlags::GROWSDOWN) {
        STACK_GAP
    } else {
        0
    }
}

/// `EINVAL`: an address that no process may map. `EPERM`: one below `vm.mmap_min_addr`, without
/// `CAP_SYS_RAWIO`.
pub fn check_low(addr: usize) -> Result<(), Errno> {
    /// `CAP_SYS_RAWIO`.
    const RAWIO: u32 = 17;
    #[allow(
        clippy::absurd_extreme_comparisons,
        reason = "it is 0 where words have 64 bits"
    )]
    if addr < USER_BEGIN {
        return Err(Errno::EINVAL);
    }
    if addr < limits::mmap_min_addr() && !crate::sched::current().creds().capable(RAWIO) {
        return Err(Errno::EPERM);
    }
    Ok(())
}

/// Whether the running task may lock any amount of memory: `CAP_IPC_LOCK`.
fn may_lock_all() -> bool {
    crate::sched::current().creds().capable(14)
}

/// `EPERM` if the running task may lock no memory at all.
pub(super) fn may_lock() -> Result<(), Errno> {
    if limits::memlock() == 0 && !may_lock_all() {
        return Err(Errno::EPERM);
    }
    Ok(())
}

impl Regions {
    /// Whether the limits allow `pages` more with `flags`.
    pub(super) fn may_grow(&self, flags: VmFlags, pages: usize) -> bool {
        let bytes = |n: usize| (n as u64) << PAGE_SHIFT;
        if bytes(self.total.saturating_add(pages)) > limits::address_space() {
            return false;
        }
        let is_data =
            flags.contains(VmFlags::WRITE) && !flags.intersects(VmFlags::SHARED | VmFlags::GROWSDOWN);
        !is_data || bytes(self.data.saturating_add(pages)) <= limits::data()
    }

    /// Finds an address for `len` bytes: `hint` if that is free, else the highest gap below `mmap_base`.
    pub(super) fn find_place(&mut self, hint: usize, len: usize, limit: usize) -> Result<usize, Errno> {
        if len > limit {
            return Err(Errno::ENOMEM);
        }
        // No mapping is put at address 0 unless the program asks for that address.
        let lowest = limits::mmap_min_addr().max(PAGE_SIZE);
        let hint = if hint == 0 {
            0
        } else {
            page_up(hint.max(lowest)).unwrap_or(0)
        };
        if hint >= lowest && hint <= limit - len && self.is_free(hint, hint + len) {
            return Ok(hint);
        }
        let base = self.mmap_base.min(limit);
        self.map
            .gap_down(lowest, base, len, PAGE_SIZE, room_below)
            .or_else(|| self.map.gap_up(base, limit, len, PAGE_SIZE, room_below))
            .ok_or(Errno::ENOMEM)
    }

    /// Whether nothing is mapped in `[start, end)`. The gap below a stack counts as mapped.
    pub(super) fn is_free(&self, start: usize, end: usize) -> bool {
        match self.map.at(self.map.lower(start)) {
            Some(next) => next.start.saturating_sub(room_below(&next.value)) >= end,
            None => true,
        }
    }

    /// Adds a mapping in a free range. It is joined with neighbours that it continues.
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

    /// Joins the region that contains `addr` with the next one if that continues it. Returns whether it did.
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

    /// Joins all regions around `[start, end]` that can be joined. `pos` is the place of `start`.
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
    /// Reserves room for a few more mappings, so that adding and splitting them cannot fail. `ENOMEM`.
    #[inline(always)]
    pub(super) fn room_for_few(&mut self) -> Result<(), Errno> {
        match fallible(|| self.map.reserve(4)) {
            true => Ok(()),
            false => Err(Errno::ENOMEM),
        }
    }

    /// Makes `addr` a boundary between two mappings.
    pub(super) fn split_at(&mut self, space: &AddressSpace, addr: usize) {
        self.map.split(addr, |vma, offset| {
            if let Some(cache) = vma.cache() {
                cache.map_added(space, vma.flags);
            }
            vma.tail(offset)
        });
    }

    /// Whether `addr` is in the middle of a mapping of the kernel's pages: such are never split.
    fn has_special_around(&self, addr: usize) -> bool {
        self.map
            .containing(addr)
            .is_some_and(|r| r.start < addr && r.value.flags.contains(VmFlags::SPECIAL))
    }

    /// Removes what is mapped in `[start, end)`. `ENOMEM`: splitting would make too many mappings; `EINVAL`:
    /// it would split one that stays whole.
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
        self.room_for_few()?;
        if r_start < start && r_end > end && self.map.len() >= limits::max_map_count() {
            return Err(Errno::ENOMEM);
        }
        space.note_peak(self);
        if r_start < start || r_end != end {
            if self.has_special_around(start) || self.has_special_around(end) {
                return Err(Errno::EINVAL);
            }
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
                if region.value.flags.contains(VmFlags::SPECIAL) {
                    space.update_layout(|layout| {
                        layout.vdso_unmapped |= (region.start..region.end).contains(&layout.vdso);
                    });
                }
                gather.keep(region.value);
            }
        }
        if !space.many_tables() {
            return Ok(());
        }
        let below = self.map.before(pos).map_or(0, |r| r.end);
        let above = self.map.at(pos).map_or(USER_END, |r| r.start);
        space.trim_tables((start, end), (below, above), gather);
        Ok(())
    }
}

/// What `prot` implies where it is allowed: old programs expect that they can execute whatever they can read
/// (`READ_IMPLIES_EXEC`).
pub fn implied(prot: Prot) -> Prot {
    const READ_IMPLIES_EXEC: u32 = 0x40_0000;
    let personality = &crate::sched::current().personality;
    if prot.contains(Prot::READ) && personality.load(Relaxed) & READ_IMPLIES_EXEC != 0 {
        Prot::EXEC
    } else {
        Prot::empty()
    }
}

/// Whether `pages` pages from page `index` of a file on are below the end that files can have.
pub(super) fn is_in_file(index: u64, pages: u64) -> bool {
    const END: u64 = i64::MAX as u64 >> PAGE_SHIFT;
    index.checked_add(pages).is_some_and(|end| end <= END)
}

impl AddressSpace {
    /// `mmap`, with `len` and `addr` as the program passed them. `file`: `None` for anonymous memory.
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
            Some(
                file @ FileMap {
                    cache: Some(_), may, ..
                },
            ) if flags.contains(MapFlags::SHARED) && may.contains(Prot::WRITE) => {
                self.map_writing(addr, len, prot, flags, file)
            }
            _ => self.map(addr, len, prot, flags, file),
        }
    }

    /// [`AddressSpace::mmap`] of a mapping that may write, which a seal can forbid.
    #[inline(never)]
    fn map_writing(&self, addr: usize, len: usize, prot: Prot, flags: MapFlags, file: FileMap) -> SysResult {
        let _will_write = file.cache.as_ref().map(PageCache::will_write).transpose()?;
        self.map(addr, len, prot, flags, Some(file))
    }

    /// Checks the place of a mapping before what the file allows is checked. `ENOMEM`: it is too long or ends
    /// behind user space; `EINVAL`: a fixed address is not aligned to pages; `EPERM`: it is below
    /// `vm.mmap_min_addr`.
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
        if regions.map.len() > limits::max_map_count() {
            return Err(Errno::ENOMEM);
        }
        regions.room_for_few()?;
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
        // Pages that the new mapping replaces do not count.
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
            regions
                .unmap(self, start, end, &mut gather)
                .map_err(|_| Errno::ENOMEM)?;
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
            // Errors are ignored: the mapping has been made.
            let _ = self.populate(start, end, None);
        }
        Ok(start)
    }

    /// The mapping that the arguments of `mmap` describe.
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
                // A file without pages of its own (`/dev/zero`) has no end; only offsets have.
                let end = match file.cache {
                    Some(_) => i64::MAX as u64,
                    None => usize::MAX as u64,
                };
                file.offset
                    .checked_add(len as u64)
                    .filter(|&e| e <= end)
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
                match file.cache {
                    Some(cache) => {
                        if cache.is_secret() {
                            if !shared {
                                return Err(Errno::EINVAL);
                            }
                            vm |= VmFlags::LOCKED | VmFlags::DONTDUMP;
                        }
                        return Ok(Vma {
                            flags: account(vm),
                            backing: Backing::File {
                                cache,
                                file: file.file,
                            },
                            index: file.offset >> PAGE_SHIFT,
                            private: PrivatePages::default(),
                        });
                    }
                    // A shared mapping of a file that is open for reading only can never be written, so each
                    // such mapping may have zeros of its own.
                    None if vm.contains(VmFlags::SHARED | VmFlags::MAYWRITE) => zeros_to_share(len),
                    None => Backing::Anonymous,
                }
            }
            None if shared => {
                if flags.contains(MapFlags::GROWSDOWN) {
                    return Err(Errno::EINVAL);
                }
                vm |= VmFlags::SHARED;
                zeros_to_share(len)
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

    /// `EAGAIN` if no further `pages` may be locked.
    pub(super) fn check_locked(&self, regions: &Regions, pages: usize) -> Result<(), Errno> {
        let wanted = regions.locked.saturating_add(pages) as u64;
        if wanted > limits::memlock() >> PAGE_SHIFT && !may_lock_all() {
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

    /// `brk`: moves the heap's end if that is possible. Returns where the end is then.
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
        // One page is left free behind the heap, as between any growing mapping and the next.
        let roomy = match regions.map.at(regions.map.lower(old_end)) {
            Some(next) => new_end + PAGE_SIZE <= next.start.saturating_sub(room_below(&next.value)),
            None => true,
        };
        if !roomy
            || !regions.may_grow(flags, pages)
            || commit::check(pages).is_err()
            || regions.map.len() > limits::max_map_count()
            || regions.room_for_few().is_err()
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

    /// Maps the main stack at `[top - size, top)`; it grows downwards. For exec.
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

    /// The address that `len` bytes would get now. For an address space in which no thread runs yet, so that
    /// nothing else takes it.
    pub fn room_for(&self, len: usize) -> SysResult {
        self.regions.write().find_place(0, len, USER_END)
    }

    /// Maps pages of the kernel at `hint`, or elsewhere if there is no room. Returns the address. `code`: the
    /// vDSO, of which a program can have writable copies; else its data, which are never writable.
    pub fn map_special(&self, hint: usize, code: bool, pages: Arc<SpecialPages>) -> SysResult {
        let len = pages.pages.len() << PAGE_SHIFT;
        let flags = VmFlags::SPECIAL
            | match code {
                true => VmFlags::READ | VmFlags::EXEC | VmFlags::MAYACCESS,
                false => VmFlags::READ | VmFlags::MAYREAD | VmFlags::KERNEL_DATA | VmFlags::DONTDUMP,
            };
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

impl AddressSpace {
    /// Maps other pages of the kernel where those with their name are, as many of them.
    pub fn replace_special(&self, pages: &Arc<SpecialPages>) {
        let mut gather = Gather::new();
        let mut regions = self.regions.write();
        let mut pos = regions.map.first();
        while let Some((start, end)) = regions.map.at(pos).map(|r| (r.start, r.end)) {
            if let Some(vma) = regions.map.value_mut(pos)
                && let Backing::Special(old) = &mut vma.backing
                && old.name == pages.name
            {
                *old = pages.clone();
                self.zap(start, end, &mut gather);
            }
            pos = regions.map.next(pos);
        }
        let dead = gather.finish(self);
        drop(regions);
        drop(dead);
    }
}

/// Memory that is zero at first and that the processes which map it share.
fn zeros_to_share(len: usize) -> Backing {
    let cache = PageCache::new();
    cache.set_size(len as u64);
    Backing::File { cache, file: None }
}

/// Private writable memory is counted as committed, unless the program asked for `MAP_NORESERVE`.
pub(super) fn account(mut flags: VmFlags) -> VmFlags {
    let private_writable = flags.contains(VmFlags::WRITE) && !flags.contains(VmFlags::SHARED);
    let overcommit = commit::OVERCOMMIT.load(Relaxed);
    let reserve = !flags.contains(VmFlags::NORESERVE) || overcommit == 2;
    flags.set(VmFlags::ACCOUNT, private_writable && reserve);
    flags
}
