//! `AddressSpace`: the memory of a process. Mappings (`Regions`) under one sleeping reader-writer lock, page tables, counters.
//!
//! Who may do what: with the lock held for *reading*, entries may only be filled in or upgraded, each with a compare-and-exchange (faults).
//! Taking entries away, protecting them or moving them needs the lock for *writing*. So a table seen under the read lock stays. Pages that
//! are taken away are gathered, the TLBs of all CPUs flushed once, and only then the frames and the counts of shared ones go back ([`Gather`]).
//! User memory must not be touched (copied to or from) while the lock is held: the fault would take it again.

use super::frame::{self, For, Pfn};
use super::gather::Gather;
use super::vma::{Backing, MappedFile, VmFlags, Vma};
use super::{PAGE_SHIFT, PageCache, PhysAddr, page, table};
use crate::arch::mmu::{self, Entry, MmContext, USER_END};
use crate::sched::membarrier::Registrations;
use crate::sync::RwLock;
use crate::sync::SpinLock;
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed,
};
use limen_linux_abi::Errno;
use limen_page_alloc::NONE;
use limen_region_map::RegionMap;

/// The lowest address user space may map without privilege (`vm.mmap_min_addr`). Programs of 32 bits may begin at 0x8000.
pub const MMAP_MIN_ADDR: usize = if usize::BITS == 32 { 4096 } else { 65536 };
/// Below it nobody maps anything at a fixed place: in 32-bit programs' first two pages the exception vectors may be.
pub const USER_BEGIN: usize = if usize::BITS == 32 { 2 << PAGE_SHIFT } else { 0 };
/// Bytes kept free below a stack (`stack_guard_gap`, 256 pages).
pub const STACK_GAP: usize = 256 << PAGE_SHIFT;

/// In a table's `Frame::info`: it was taken out of the tree.
const TABLE_DEAD: u32 = 1;

/// Where the parts of the program lie, for `/proc` and `prctl`. Addresses.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs, reason = "the fields are their names")]
pub struct Layout {
    pub start_code: usize,
    pub end_code: usize,
    pub start_data: usize,
    pub end_data: usize,
    pub start_stack: usize,
    pub arg_start: usize,
    pub arg_end: usize,
    pub env_start: usize,
    pub env_end: usize,
    /// Where the vDSO is mapped, 0 if it is not.
    pub vdso: usize,
}

/// The mappings and what is counted of them (pages).
pub struct Regions {
    pub(super) map: RegionMap<Vma>,
    /// All mapped pages.
    pub(super) total: usize,
    /// `mlock`ed pages.
    pub(super) locked: usize,
    /// Private writable pages that are not stack.
    pub(super) data: usize,
    /// Stack pages.
    pub(super) stack: usize,
    /// Executable, not writable pages.
    pub(super) exec: usize,
    pub(super) brk_start: usize,
    pub(super) brk: usize,
    /// Mappings without a place go below this.
    pub(super) mmap_base: usize,
    /// What new mappings get (`mlockall(MCL_FUTURE)`).
    pub(super) default_flags: VmFlags,
}

impl Regions {
    /// No mapping yet, no heap.
    pub(super) fn new(mmap_base: usize) -> Self {
        Self {
            map: RegionMap::new(),
            total: 0,
            locked: 0,
            data: 0,
            stack: 0,
            exec: 0,
            brk_start: 0,
            brk: 0,
            mmap_base,
            default_flags: VmFlags::empty(),
        }
    }

    pub(super) fn count(&mut self, flags: VmFlags, pages: usize, add: bool) {
        let apply = |n: &mut usize| *n = if add { *n + pages } else { n.saturating_sub(pages) };
        apply(&mut self.total);
        if flags.contains(VmFlags::LOCKED) {
            apply(&mut self.locked);
        }
        if flags.intersects(VmFlags::GROWSDOWN) {
            apply(&mut self.stack);
        } else if flags.contains(VmFlags::WRITE) && !flags.contains(VmFlags::SHARED) {
            apply(&mut self.data);
        } else if flags.contains(VmFlags::EXEC) && !flags.contains(VmFlags::WRITE) {
            apply(&mut self.exec);
        }
        if flags.contains(VmFlags::ACCOUNT) {
            super::commit::adjust(pages, add);
        }
    }
}

/// What is mapped where, for `/proc/pid/maps`.
pub struct VmaInfo {
    /// First address.
    pub start: usize,
    /// One past the last.
    pub end: usize,
    /// Properties.
    pub flags: VmFlags,
    /// Byte offset in the file.
    pub offset: u64,
    /// What is mapped.
    pub what: Mapped,
}

/// What a mapping shows.
pub enum Mapped {
    /// A file.
    File(Arc<dyn MappedFile>),
    /// Something else: `[heap]` and the like, or nothing to be named.
    Named(&'static str),
}

/// Sizes in pages, as `/proc/pid/statm` has them.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs, reason = "the fields are their names")]
pub struct MemUsage {
    pub total: usize,
    pub peak: usize,
    pub anon: usize,
    pub file: usize,
    pub peak_rss: usize,
    pub exec: usize,
    pub data: usize,
    pub stack: usize,
    pub locked: usize,
    pub tables: usize,
}

impl MemUsage {
    /// Resident pages.
    pub fn rss(&self) -> usize {
        self.anon + self.file
    }
}

/// `fetch_max`, for marks that are rarely passed.
#[inline(always)]
fn raise(mark: &AtomicUsize, value: usize) {
    if value > mark.load(Relaxed) {
        mark.fetch_max(value, Relaxed);
    }
}

/// The number of the next address space.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// The memory of a process.
pub struct AddressSpace {
    /// Its own number: a child's is greater than its parent's.
    pub(super) number: u64,
    pub(super) regions: RwLock<Regions>,
    pub(super) root: PhysAddr,
    pub(super) context: MmContext,
    pub(super) anon: AtomicUsize,
    pub(super) file: AtomicUsize,
    peak_rss: AtomicUsize,
    pub(super) peak_total: AtomicUsize,
    /// All table pages but the root, linked through their records.
    tables: AtomicU32,
    table_count: AtomicUsize,
    layout: SpinLock<Layout>,
    /// Concurrency ids of its threads.
    pub cids: crate::rseq::Space,
    /// Tasks that have it.
    pub(super) users: AtomicUsize,
    /// Whether the program's own user may look into it (`PR_SET_DUMPABLE`).
    dumpable: AtomicBool,
    /// The auxiliary vector its program got, for `/proc/pid/auxv`.
    pub auxv: SpinLock<Option<Arc<[usize]>>>,
    /// What it is registered for with `membarrier`.
    pub membarrier: Registrations,
    pub(super) this: Weak<Self>,
}

impl AddressSpace {
    /// An empty address space. `ENOMEM`.
    pub fn new() -> Result<Arc<Self>, Errno> {
        super::oom::ensure()?;
        let root = table::new_table(For::Kernel).ok_or(Errno::ENOMEM)?;
        mmu::init_user_root(frame::phys(root));
        let regions = Regions::new(super::layout::default_mmap_base());
        Ok(Self::build(
            root,
            regions,
            Layout::default(),
            Registrations::new(),
        ))
    }

    pub(super) fn build(root: Pfn, regions: Regions, layout: Layout, membarrier: Registrations) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            number: NEXT.fetch_add(1, Relaxed),
            regions: RwLock::new(regions),
            root: frame::phys(root),
            context: MmContext::new(),
            anon: AtomicUsize::new(0),
            file: AtomicUsize::new(0),
            peak_rss: AtomicUsize::new(0),
            peak_total: AtomicUsize::new(0),
            tables: AtomicU32::new(NONE),
            table_count: AtomicUsize::new(1),
            layout: SpinLock::new(layout),
            cids: crate::rseq::Space::new(),
            users: AtomicUsize::new(0),
            dumpable: AtomicBool::new(true),
            auxv: SpinLock::new(None),
            membarrier,
            this: this.clone(),
        })
    }

    /// Makes it the current user address space of this CPU. Interrupts are off; the caller keeps it alive until another one is active.
    #[inline]
    pub fn activate(&self) {
        mmu::switch_to(self.root, &self.context);
    }

    /// Whether some task still has it: nothing is mapped any more otherwise, and nothing will be.
    pub fn is_used(&self) -> bool {
        self.users.load(Relaxed) != 0
    }

    /// Whether who has the ids of its program may look into it (`PR_GET_DUMPABLE`).
    pub fn dumpable(&self) -> bool {
        self.dumpable.load(Relaxed)
    }

    /// Sets [`Self::dumpable`].
    pub fn set_dumpable(&self, dumpable: bool) {
        self.dumpable.store(dumpable, Relaxed);
    }

    /// Where the program's parts lie.
    pub fn layout(&self) -> Layout {
        *self.layout.lock()
    }

    /// Changes where the program's parts lie.
    pub fn update_layout(&self, f: impl FnOnce(&mut Layout)) {
        f(&mut self.layout.lock());
    }

    /// The heap as `brk` left it: start and end.
    pub fn brk_range(&self) -> (usize, usize) {
        let regions = self.regions.read();
        (regions.brk_start, regions.brk)
    }

    /// Sets start and end of the (empty) heap; exec.
    pub fn set_brk(&self, start: usize) {
        let mut regions = self.regions.write();
        regions.brk_start = start;
        regions.brk = start;
    }

    /// Sets where mappings without a place go below; exec.
    pub fn set_mmap_base(&self, base: usize) {
        self.regions.write().mmap_base = base;
    }

    /// What is counted of it.
    pub fn usage(&self) -> MemUsage {
        let regions = self.regions.read();
        let mut usage = MemUsage {
            total: regions.total,
            peak: 0,
            anon: self.anon.load(Relaxed),
            file: self.file.load(Relaxed),
            peak_rss: 0,
            exec: regions.exec,
            data: regions.data,
            stack: regions.stack,
            locked: regions.locked,
            tables: self.table_count.load(Relaxed),
        };
        usage.peak_rss = self.peak_rss.fetch_max(usage.rss(), Relaxed).max(usage.rss());
        usage.peak = self.peak_total.fetch_max(usage.total, Relaxed).max(usage.total);
        usage
    }

    /// Mapped pages, if nobody changes the mappings just now.
    pub fn try_total(&self) -> Option<usize> {
        Some(self.regions.try_read()?.total)
    }

    /// Resident pages: anonymous and file; and tables.
    pub fn rss(&self) -> (usize, usize, usize) {
        (
            self.anon.load(Relaxed),
            self.file.load(Relaxed),
            self.table_count.load(Relaxed),
        )
    }

    /// Resident pages and page tables: how much its end would free.
    pub fn badness(&self) -> usize {
        self.anon.load(Relaxed) + self.file.load(Relaxed) + self.table_count.load(Relaxed)
    }

    pub(super) fn note_peak(&self, regions: &Regions) {
        raise(&self.peak_total, regions.total);
        raise(&self.peak_rss, self.anon.load(Relaxed) + self.file.load(Relaxed));
    }

    /// The first mapping that ends above `from`.
    pub fn next_vma(&self, from: usize) -> Option<VmaInfo> {
        let stack = self.layout().start_stack;
        let regions = self.regions.read();
        let r = regions.map.at(regions.map.lower(from))?;
        let vma = &r.value;
        let mut offset = 0;
        let what = match &vma.backing {
            Backing::File { file, .. } => {
                offset = vma.index << PAGE_SHIFT;
                match file {
                    Some(file) => Mapped::File(file.clone()),
                    None => Mapped::Named("/dev/zero (deleted)"),
                }
            }
            Backing::Special(special) => Mapped::Named(special.name),
            Backing::Anonymous if r.start < regions.brk && r.end > regions.brk_start => {
                Mapped::Named("[heap]")
            }
            Backing::Anonymous if (r.start..r.end).contains(&stack) => Mapped::Named("[stack]"),
            Backing::Anonymous => Mapped::Named(""),
        };
        Some(VmaInfo {
            start: r.start,
            end: r.end,
            flags: vma.flags,
            offset,
            what,
        })
    }

    /// Resident pages of `[start, end)`: anonymous, file; for `/proc/pid/smaps`.
    pub fn resident(&self, start: usize, end: usize) -> (usize, usize) {
        let (mut anon, mut file) = (0, 0);
        let zero = super::zero_page().pfn();
        let _regions = self.regions.read();
        table::for_each(self.root, start, end, |_, _, entry| {
            let pfn = frame::pfn(entry.phys());
            if pfn != zero {
                *(if page::is_cache(pfn) { &mut file } else { &mut anon }) += 1;
            }
        });
        (anon, file)
    }

    /// The slot of `addr`, tables made on the way. The lock is held for reading or writing.
    #[inline(always)]
    pub(super) fn slot(&self, addr: usize) -> Option<&'static mmu::Slot> {
        match table::find_or_make(self.root, addr, For::Addressed, |pfn| self.table_made(pfn)) {
            None => self.slot_from_reserve(addr),
            slot => slot,
        }
    }

    /// [`AddressSpace::slot`] when memory is short: the victim of the OOM killer may use part of the reserve.
    #[cold]
    #[inline(never)]
    fn slot_from_reserve(&self, addr: usize) -> Option<&'static mmu::Slot> {
        if !super::is_dying() {
            return None;
        }
        table::find_or_make(self.root, addr, For::Dying, |pfn| self.table_made(pfn))
    }

    fn table_made(&self, pfn: Pfn) {
        let link = &frame::record(pfn).a;
        let mut head = self.tables.load(Relaxed);
        loop {
            link.store(head, Relaxed);
            match self.tables.compare_exchange_weak(head, pfn, AcqRel, Acquire) {
                Ok(_) => break,
                Err(now) => head = now,
            }
        }
        self.table_count.fetch_add(1, Relaxed);
    }

    /// Takes all pages of `[start, end)` away. The lock is held for writing.
    pub(super) fn zap(&self, start: usize, end: usize, gather: &mut Gather) {
        table::for_each_part(self.root, start, end, |addr, slots| match slots {
            // One page that was never touched, as often.
            [slot] if table::load(slot).is_empty() => {}
            _ => gather.take::<true>(self, addr, slots, |_| true),
        });
    }

    /// Whether there are so many tables that empty ones are worth looking for: a few are kept for the next mapping.
    pub(super) fn many_tables(&self) -> bool {
        let resident = self.anon.load(Relaxed) + self.file.load(Relaxed);
        self.table_count.load(Relaxed) >= 48 + resident / 128
    }

    /// Frees leaf tables whose whole span lies in `[floor, ceiling)`, where nothing is mapped any more.
    pub(super) fn trim_tables(&self, floor: usize, ceiling: usize, gather: &mut Gather) {
        let span = 1usize << table::level_shift(1);
        let mut at = floor.next_multiple_of(span);
        let mut freed = 0;
        while at < ceiling && ceiling - at >= span {
            let (mut node, mut level) = (self.root, mmu::LEVELS - 1);
            let mut skip = 0;
            while level > 0 {
                let slot = &table::table(node)[table::index(at, level)];
                let entry = table::load(slot);
                if !entry.is_table() {
                    skip = level;
                    break;
                }
                node = entry.phys();
                if level == 1 {
                    debug_assert!(
                        !table::any_there(table::table(node)),
                        "a page where nothing is mapped"
                    );
                    table::store(slot, Entry::EMPTY);
                    frame::record(frame::pfn(node))
                        .info
                        .store(frame::INFO_OWNED | TABLE_DEAD, Relaxed);
                    freed += 1;
                }
                level -= 1;
            }
            let step = if skip == 0 {
                span
            } else {
                1 << table::level_shift(skip)
            };
            let Some(next) = (at & !(step - 1)).checked_add(step) else {
                break;
            };
            at = next;
        }
        if freed == 0 {
            return;
        }
        self.table_count.fetch_sub(freed, Relaxed);
        // The dead ones leave the list of tables for the gathered frames. Nobody adds to it: the lock is held for writing.
        let mut at = self.tables.swap(NONE, Relaxed);
        let mut kept = NONE;
        while at != NONE {
            let record = frame::record(at);
            let next = record.a.load(Relaxed);
            if record.info.load(Relaxed) & TABLE_DEAD != 0 {
                gather.keep_table(at);
            } else {
                record.a.store(kept, Relaxed);
                kept = at;
            }
            at = next;
        }
        self.tables.store(kept, Relaxed);
        gather.note_tables(floor, ceiling);
    }
}

impl AddressSpace {
    /// Takes `[first, end)` (page indices) of `cache` out of every mapping. `private_too`: also pages that were copied on write.
    pub(super) fn unmap_cache(&self, cache: &PageCache, first: u64, end: u64, private_too: bool) {
        let regions = self.regions.write();
        let mut gather = Gather::new();
        for r in regions.map.iter() {
            let vma = &r.value;
            if !vma.cache().is_some_and(|c| core::ptr::eq(Arc::as_ptr(c), cache)) {
                continue;
            }
            let pages = ((r.end - r.start) >> PAGE_SHIFT) as u64;
            let from = first.max(vma.index);
            let to = end.min(vma.index.saturating_add(pages));
            if from >= to {
                continue;
            }
            let start = r.start + (((from - vma.index) as usize) << PAGE_SHIFT);
            let stop = r.start + (((to - vma.index) as usize) << PAGE_SHIFT);
            if private_too || vma.flags.contains(VmFlags::SHARED) {
                self.zap(start, stop, &mut gather);
            } else {
                table::for_each_part(self.root, start, stop, |addr, slots| {
                    gather.take::<true>(self, addr, slots, page::is_cache);
                });
            }
        }
        let dead = gather.finish(self);
        drop(regions);
        drop(dead);
    }
}

impl AddressSpace {
    /// The last task that had it is gone: everything mapped goes. The tables stay, as a CPU may still have them loaded.
    pub(super) fn release_pages(&self) {
        let mut regions = self.regions.write();
        self.note_peak(&regions);
        let map = core::mem::take(&mut regions.map);
        let mut gather = Gather::new();
        self.let_go(&map, &mut gather);
        let dead = gather.finish(self);
        drop(regions);
        drop((map, dead));
    }

    /// Nobody runs in it any more: no translation that a CPU may still have is used.
    fn let_go(&self, map: &RegionMap<Vma>, gather: &mut Gather) {
        for r in map.iter() {
            table::for_each_part(self.root, r.start, r.end, |addr, slots| {
                gather.take::<false>(self, addr, slots, |_| true);
            });
            if r.value.flags.contains(VmFlags::ACCOUNT) {
                super::commit::adjust((r.end - r.start) >> PAGE_SHIFT, false);
            }
            if let Some(cache) = r.value.cache() {
                cache.map_removed(self, r.value.flags);
            }
        }
    }
}

impl Drop for AddressSpace {
    /// Nobody uses it any more, on any CPU. Process context.
    fn drop(&mut self) {
        let regions = core::mem::take(&mut self.regions.get_mut().map);
        let mut gather = Gather::new();
        self.let_go(&regions, &mut gather);
        let mut table = self.tables.load(Relaxed);
        while table != NONE {
            let next = frame::record(table).a.load(Relaxed);
            gather.keep_table(table);
            table = next;
        }
        gather.keep_table(frame::pfn(self.root));
        gather.note_tables(0, USER_END);
        drop(gather.finish(self));
    }
}
