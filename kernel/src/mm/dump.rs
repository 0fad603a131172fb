//! What of an address space a core file has (`/proc/PID/coredump_filter`, core(5)).

use super::space::AddressSpace;
use super::vma::{Backing, MappedFile, VmFlags, Vma};
use super::{PAGE_SHIFT, PAGE_SIZE, frame, table};
use alloc::sync::Arc;
use bitflags::bitflags;
use core::sync::atomic::Ordering::Relaxed;
use limen_region_map::Region;

bitflags! {
    /// Which mappings are kept.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct DumpFilter: u32 {
        /// Private memory, and private mappings of files with pages of their own.
        const ANON_PRIVATE = 1;
        /// Shared memory without a file, or whose file has no name any more.
        const ANON_SHARED = 2;
        /// Private mappings of files.
        const MAPPED_PRIVATE = 4;
        /// Shared mappings of files.
        const MAPPED_SHARED = 8;
        /// The first page of a mapped ELF file.
        const ELF_HEADERS = 0x10;
        /// Private huge pages. There are none; the bit is kept.
        const HUGETLB_PRIVATE = 0x20;
        /// Shared huge pages, as well.
        const HUGETLB_SHARED = 0x40;
        /// Private memory of devices, as well.
        const DAX_PRIVATE = 0x80;
        /// Shared memory of devices, as well.
        const DAX_SHARED = 0x100;
    }
}

impl DumpFilter {
    /// What the first process has.
    pub const DEFAULT: Self = Self::ANON_PRIVATE
        .union(Self::ANON_SHARED)
        .union(Self::ELF_HEADERS)
        .union(Self::HUGETLB_PRIVATE);
}

/// A mapping, for a core file.
pub struct Dumped {
    /// Its first address.
    pub start: usize,
    /// One past the last.
    pub end: usize,
    /// Its properties.
    pub flags: VmFlags,
    /// How many bytes are kept: whole pages, at most all.
    pub kept: usize,
    /// Pages that were never touched are not made for the file: they are zeros.
    pub sparse: bool,
    /// The mapped file, and the first page of it.
    pub file: Option<(Arc<dyn MappedFile>, u64)>,
}

/// How many pages are looked up at a time.
const BATCH: usize = 512;

impl AddressSpace {
    /// What a core file has of it.
    pub fn dump_filter(&self) -> DumpFilter {
        DumpFilter::from_bits_truncate(self.dump_filter.load(Relaxed))
    }
    /// Sets that.
    pub fn set_dump_filter(&self, filter: DumpFilter) {
        self.dump_filter.store(filter.bits(), Relaxed);
    }

    /// The first mapping that ends above `from`. Sleeps.
    pub fn next_dumped(&self, from: usize) -> Option<Dumped> {
        let filter = self.dump_filter();
        let mut found = {
            let regions = self.regions.read();
            let region = regions.map.at(regions.map.lower(from))?;
            let file = match &region.value.backing {
                Backing::File { file: Some(file), .. } => Some((file.clone(), region.value.index)),
                _ => None,
            };
            Dumped {
                start: region.start,
                end: region.end,
                flags: region.value.flags,
                kept: self.kept(region, filter),
                sparse: matches!(region.value.backing, Backing::Anonymous),
                file,
            }
        };
        let begins = found.file.as_ref().is_some_and(|(_, page)| *page == 0);
        let readable = found.flags.contains(VmFlags::READ)
            && !found.flags.intersects(VmFlags::DONTDUMP.union(VmFlags::SHARED));
        if found.kept == 0 && begins && readable && filter.contains(DumpFilter::ELF_HEADERS) {
            let mut magic = [0; 4];
            let there = self.access_remote(found.start, &mut magic, false, true) == 4;
            if there && magic == *b"\x7fELF" {
                found.kept = PAGE_SIZE;
            }
        }
        Some(found)
    }

    /// How many bytes of a mapping are kept because of what it is. The mappings are locked.
    fn kept(&self, region: &Region<Vma>, filter: DumpFilter) -> usize {
        let vma = &region.value;
        let size = region.end - region.start;
        if vma.flags.contains(VmFlags::KERNEL_DATA) {
            return 0;
        }
        let wanted = match &vma.backing {
            Backing::Special(_) => return size,
            _ if vma.flags.contains(VmFlags::DONTDUMP) => return 0,
            Backing::Anonymous => DumpFilter::ANON_PRIVATE,
            Backing::File { file, .. } if vma.flags.contains(VmFlags::SHARED) => match file {
                Some(file) if !file.is_unlinked() => DumpFilter::MAPPED_SHARED,
                _ => DumpFilter::ANON_SHARED,
            },
            Backing::File { .. } if vma.private.any() => {
                DumpFilter::ANON_PRIVATE.union(DumpFilter::MAPPED_PRIVATE)
            }
            Backing::File { .. } => DumpFilter::MAPPED_PRIVATE,
        };
        if !filter.intersects(wanted) {
            return 0;
        }
        // What was reserved and never used is not worth a hole.
        if matches!(vma.backing, Backing::Anonymous) && !self.has_pages(region.start, region.end) {
            return 0;
        }
        size
    }

    /// Whether a page of `[start, end)` was ever touched. The mappings are locked.
    fn has_pages(&self, start: usize, end: usize) -> bool {
        let mut any = false;
        table::for_each(self.root, start, end, |_, _, _| any = true);
        any
    }

    /// Calls `f(address, page)` with the pages of what is kept of `mapping`, in the order of their addresses,
    /// until it returns `false`, which is the result then; also if the running thread is killed. Pages that
    /// are not there, and would be zeros, are left out. Sleeps.
    pub fn each_dumped_page(
        &self,
        mapping: &Dumped,
        page: &mut [u8; PAGE_SIZE],
        mut f: impl FnMut(usize, &[u8; PAGE_SIZE]) -> bool,
    ) -> bool {
        let end = mapping.start + mapping.kept;
        let mut from = mapping.start;
        while from < end {
            if crate::sched::current().fatal_signal_pending() {
                return false;
            }
            let to = end.min(from.saturating_add(BATCH << PAGE_SHIFT));
            let mut there = [!mapping.sparse; BATCH];
            if mapping.sparse {
                self.find_pages(from, to, &mut there);
            }
            for (n, _) in there.iter().enumerate().filter(|(_, there)| **there) {
                let at = from + (n << PAGE_SHIFT);
                if at >= to {
                    break;
                }
                if self.access_remote(at, page, false, true) == PAGE_SIZE && !f(at, page) {
                    return false;
                }
            }
            from = to;
        }
        true
    }

    /// Marks those pages of `[from, to)` that are in memory and not the page of zeros.
    fn find_pages(&self, from: usize, to: usize, there: &mut [bool; BATCH]) {
        let zero = super::zero_page().pfn();
        let _regions = self.regions.read();
        table::for_each(self.root, from, to, |addr, _, entry| {
            there[(addr - from) >> PAGE_SHIFT] = frame::pfn(entry.phys()) != zero;
        });
    }
}
