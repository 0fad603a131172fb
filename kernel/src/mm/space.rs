//! `AddressSpace`: the memory of a process. It has mappings (`Regions`) under a sleeping reader-writer lock,
//! page tables, and counters.
//!
//! With the regions locked for *reading*, a thread may only fill in an entry or add permissions to it, each
//! with a compare-and-exchange (faults). Removing, protecting or moving entries needs the lock for *writing*.
//! So a table that is found under the read lock stays. Removed pages are collected, the TLBs of all CPUs
//! flushed once, and only then frames and references are given back ([`Gather`]). User memory must not be
//! copied while the regions are locked: a fault would lock them again.

use super::frame::{self, For, Pfn};
use super::gather::Gather;
use super::vma::{Backing, MappedFile, VmFlags, Vma};
use super::{PAGE_SHIFT, PAGE_SIZE, PageCache, PhysAddr, page, table};
use crate::arch::mmu::{self, MmContext, USER_END};
use crate::sched::membarrier::Registrations;
use crate::sync::Once;
use crate::sync::RwLock;
use crate::sync::SpinLock;
use alloc::sync::{Arc, Weak};
use core::any::Any;
use core::sync::atomic::{
    AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed,
};
use limen_linux_abi::Errno;
use limen_page_alloc::NONE;
use limen_region_map::RegionMap;

/// No mapping at a fixed address may begin below this: the first two pages of a 32-bit program may hold the
/// exception vectors.
pub const USER_BEGIN: usize = if usize::BITS == 32 { 2 << PAGE_SHIFT } else { 0 };
/// Pages of a range that are in memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Resident {
    /// All of them.
    pub pages: usize,
    /// Those that are mapped elsewhere, too.
    pub shared: usize,
    /// The range's share of the pages, each divided by the number of its mappings, in bytes <<
    /// [`SHARE_SHIFT`].
    pub share: u64,
}

/// A page that is in memory.
pub struct PageInfo {
    /// The number of its frame.
    pub frame: u64,
    /// It is a file's, and not a copy of that.
    pub file: bool,
    /// How often it is mapped; 0: it is the page of zeros.
    pub mappings: u32,
}

/// See [`Resident::share`].
pub const SHARE_SHIFT: u32 = 12;

/// How many bytes stay unmapped below a stack (`stack_guard_gap`, 256 pages).
pub const STACK_GAP: usize = 256 << PAGE_SHIFT;

/// The addresses of the program's parts, for `/proc` and `prctl`.
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
    /// Where exec mapped the vDSO, or `mremap` has moved it; 0: the program got none.
    pub vdso: usize,
    /// The vDSO has been unmapped.
    pub vdso_unmapped: bool,
}

/// The mappings, and counts of their pages.
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
    /// Mappings without a fixed address go below this.
    pub(super) mmap_base: usize,
    /// Flags that each new mapping gets (`mlockall(MCL_FUTURE)`).
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
    /// Something else: `[heap]` and the like, or an empty name.
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

/// `fetch_max`, quick if the value is not higher, as nearly always.
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
    /// Its number. A child's is greater than its parent's.
    pub(super) number: u64,
    pub(super) regions: RwLock<Regions>,
    pub(super) root: PhysAddr,
    pub(super) context: MmContext,
    pub(super) anon: AtomicUsize,
    pub(super) file: AtomicUsize,
    peak_rss: AtomicUsize,
    pub(super) peak_total: AtomicUsize,
    /// All page tables but the root, linked through their frame records.
    pub(super) tables: AtomicU32,
    pub(super) table_count: AtomicUsize,
    layout: SpinLock<Layout>,
    /// Concurrency ids of its threads.
    pub cids: super::cids::Cids,
    /// How many tasks have it.
    pub(super) users: AtomicUsize,
    /// Whether processes of the same user may read it (`PR_SET_DUMPABLE`).
    dumpable: AtomicU8,
    /// See [`Self::owner`].
    owner: Once<Arc<dyn Any + Send + Sync>>,
    /// [`super::dump::DumpFilter`].
    pub(super) dump_filter: AtomicU32,
    /// The auxiliary vector that its program was given, for `/proc/pid/auxv`.
    pub auxv: SpinLock<Option<Arc<[usize]>>>,
    /// What its process has registered for with `membarrier`.
    pub membarrier: Registrations,
    pub(super) this: Weak<Self>,
}

/// `fs.suid_dumpable`: the [`AddressSpace::dump_mode`] of a program that gains privileges or changes its ids.
pub static SUID_DUMPABLE: AtomicU8 = AtomicU8::new(0);

impl AddressSpace {
    /// An empty address space. `ENOMEM`.
    pub fn new() -> Result<Arc<Self>, Errno> {
        super::oom::ensure()?;
        let root = table::new_table(For::Kernel).ok_or(Errno::ENOMEM)?;
        mmu::init_user_root(frame::phys(root));
        let regions = Regions::new(super::layout::default_mmap_base());
        Ok(Self::build(
            root,
            MmContext::new(),
            regions,
            Layout::default(),
            Registrations::new(),
        ))
    }

    pub(super) fn build(
        root: Pfn,
        context: MmContext,
        regions: Regions,
        layout: Layout,
        membarrier: Registrations,
    ) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            number: NEXT.fetch_add(1, Relaxed),
            regions: RwLock::new(regions),
            root: frame::phys(root),
            context,
            anon: AtomicUsize::new(0),
            file: AtomicUsize::new(0),
            peak_rss: AtomicUsize::new(0),
            peak_total: AtomicUsize::new(0),
            tables: AtomicU32::new(NONE),
            table_count: AtomicUsize::new(1),
            layout: SpinLock::new(layout),
            cids: super::cids::Cids::new(),
            users: AtomicUsize::new(0),
            dumpable: AtomicU8::new(1),
            owner: Once::new(),
            dump_filter: AtomicU32::new(super::dump::DumpFilter::DEFAULT.bits()),
            auxv: SpinLock::new(None),
            membarrier,
            this: this.clone(),
        })
    }

    /// Loads it on this CPU. Interrupts are off. The caller keeps it alive until another one is loaded.
    #[inline]
    pub fn activate(&self) {
        mmu::switch_to(self.root, self.processor());
    }

    /// What it has of the processor, for the architecture.
    #[inline(always)]
    pub fn processor(&self) -> &MmContext {
        &self.context
    }

    /// Whether a task still has it. If not, nothing is mapped in it, nor ever will be.
    pub fn is_used(&self) -> bool {
        self.users.load(Relaxed) != 0
    }

    /// Whether other tasks than the caller have it.
    pub fn has_others(&self) -> bool {
        self.users.load(Relaxed) > 1
    }

    /// Whether processes of the same user may read it (`PR_GET_DUMPABLE`).
    pub fn dumpable(&self) -> bool {
        self.dump_mode() == 1
    }

    /// What decides [`Self::dumpable`]. 0: nobody may read it; 1: its user may; 2: only root may
    /// (`fs.suid_dumpable`).
    pub fn dump_mode(&self) -> u8 {
        self.dumpable.load(Relaxed)
    }

    /// Sets [`Self::dump_mode`].
    pub fn set_dump_mode(&self, mode: u8) {
        self.dumpable.store(mode, Relaxed);
    }

    /// The user namespace in which its program was executed, if [`Self::set_owner`] told one.
    pub fn owner(&self) -> Option<&Arc<dyn Any + Send + Sync>> {
        self.owner.get()
    }

    /// Sets [`Self::owner`], once.
    pub fn set_owner(&self, owner: Arc<dyn Any + Send + Sync>) {
        // Nobody sets it twice.
        drop(self.owner.set(owner));
    }

    /// The addresses of the program's parts.
    pub fn layout(&self) -> Layout {
        *self.layout.lock()
    }

    /// Changes the addresses of the program's parts.
    pub fn update_layout(&self, f: impl FnOnce(&mut Layout)) {
        f(&mut self.layout.lock());
    }

    /// The heap's start and end, as `brk` set it.
    pub fn brk_range(&self) -> (usize, usize) {
        let regions = self.regions.read();
        (regions.brk_start, regions.brk)
    }

    /// Sets the heap's start; the heap is empty. For exec.
    pub fn set_brk(&self, start: usize) {
        let mut regions = self.regions.write();
        regions.brk_start = start;
        regions.brk = start;
    }

    /// Sets the address below which mappings go that have no fixed one. For exec.
    pub fn set_mmap_base(&self, base: usize) {
        self.regions.write().mmap_base = base;
    }

    /// Its counts.
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

    /// The number of mapped pages. `None`: the mappings are being changed.
    pub fn try_total(&self) -> Option<usize> {
        Some(self.regions.try_read()?.total)
    }

    /// Resident pages of private memory and of files, and the number of page tables.
    pub fn rss(&self) -> (usize, usize, usize) {
        (
            self.anon.load(Relaxed),
            self.file.load(Relaxed),
            self.table_count.load(Relaxed),
        )
    }

    /// Resident pages and page tables: how much killing its process would free.
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

    /// Calls `f(address, page)` for all pages of `[start, end)` that are in memory.
    #[inline(always)]
    pub fn for_each_page(&self, start: usize, end: usize, mut f: impl FnMut(usize, PageInfo)) {
        let zero = super::zero_page().pfn();
        let _regions = self.regions.read();
        table::for_each(self.root, start, end, |addr, _, entry| {
            let pfn = frame::pfn(entry.phys());
            let frame = u64::from(pfn);
            let page = if pfn == zero {
                PageInfo {
                    frame,
                    file: false,
                    mappings: 0,
                }
            } else {
                // Each page table entry counts as a mapping, and the page cache has one reference. A thread
                // that is just copying from the page has another, which is taken for a mapping; that is rare.
                let file = page::is_cache(pfn);
                let counts = frame::record(pfn).refs.load(Relaxed);
                PageInfo {
                    frame,
                    file,
                    mappings: counts.saturating_sub(file.into()).max(1),
                }
            };
            f(addr, page);
        });
    }

    /// The resident pages of `[start, end)`: (private, of files). For `/proc/pid/smaps`.
    pub fn resident(&self, start: usize, end: usize) -> (Resident, Resident) {
        let (mut anon, mut file) = (Resident::default(), Resident::default());
        self.for_each_page(start, end, |_, page| {
            if page.mappings == 0 {
                return;
            }
            let of = if page.file { &mut file } else { &mut anon };
            of.pages += 1;
            of.shared += usize::from(page.mappings > 1);
            of.share += ((PAGE_SIZE as u64) << SHARE_SHIFT) / u64::from(page.mappings);
        });
        (anon, file)
    }

    /// How many pages of locked mappings are resident.
    pub fn resident_locked(&self) -> usize {
        let zero = super::zero_page().pfn();
        let regions = self.regions.read();
        if regions.locked == 0 {
            return 0;
        }
        let mut count = 0;
        for r in regions
            .map
            .iter()
            .filter(|r| r.value.flags.contains(VmFlags::LOCKED))
        {
            table::for_each(self.root, r.start, r.end, |_, _, entry| {
                count += usize::from(frame::pfn(entry.phys()) != zero);
            });
        }
        count
    }

    /// The entry for `addr`. Tables on the way are made; `None`: no memory. The regions are locked.
    #[inline(always)]
    pub(super) fn slot(&self, addr: usize) -> Option<&'static mmu::Slot> {
        match table::find_or_make(self.root, addr, For::Addressed, |pfn| self.table_made(pfn)) {
            None => self.slot_from_reserve(addr),
            slot => slot,
        }
    }

    /// [`AddressSpace::slot`] when memory is short. The OOM killer's victim may use part of the reserve.
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

    /// Removes all pages of `[start, end)`. The regions are locked for writing.
    pub(super) fn zap(&self, start: usize, end: usize, gather: &mut Gather) {
        table::for_each_part(self.root, start, end, |addr, slots| match slots {
            // The range is one page that was never touched, as often.
            [slot] if table::load(slot).is_empty() => {}
            _ => gather.take::<true>(self, addr, slots, |_| true),
        });
    }
}

impl AddressSpace {
    /// Removes the pages `[first, end)` (indices) of `cache` from every mapping. `private_too`: also the
    /// copies that private mappings made on write.
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
    /// The last task that had it has let it go: everything mapped is removed. The tables stay, as a CPU may
    /// still have them loaded.
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

    /// No thread runs in it, so no CPU uses a translation that its TLB may still have.
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
    /// No task has it and no CPU has it loaded. Called where sleeping is allowed.
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
