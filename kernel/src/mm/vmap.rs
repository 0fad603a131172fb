//! Kernel mappings outside the linear map: device registers, large blocks of the heap whose frames are not
//! contiguous, kernel stacks (Linux: `vmalloc`).
//!
//! The architecture's [`VMAP`] range has two halves: kernel stacks (`mm::stack`) are in the lower one,
//! everything else, which is handled here, in the upper one. All top-level entries of the range are filled in
//! at boot, so that address spaces that copy or share the kernel's top level see later mappings. Freed areas
//! stay mapped until many of them can be flushed from the TLBs together, in a context that may wait for other
//! CPUs.
//!
//! Modules have a range of their own where the processor wants their code near the kernel's ([`MODULES`]), at
//! the end of [`VMAP`] or outside it. Only who has an area may change what its pages allow ([`protect`]).
//!
//! The heap gets its large blocks here, so nothing may use the heap while the lock is held: the node of an
//! area is made before it is inserted and freed after it was removed, and the list of freed areas goes
//! through their nodes. Code that frees an area and may not wait leaves the flush to others: to the next
//! allocation here, to its thread on the way to user mode, and to whatever finds memory short.

use super::frame::{self, For, FrameList};
use super::linear::{self, Reason};
use super::{PAGE_SHIFT, PAGE_SIZE, PhysAddr, Prot, table};
use crate::arch::irq;
use crate::arch::mmu::{self, Entry, LEVELS, MODULES, MemoryKind, VMAP};
use crate::sched::preempt;
use crate::sync::{IrqSpinLock, Mutex};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use limen_entry::ThreadFlags;
use limen_linux_abi::Errno;
use limen_range_tree::{Node, NodeBox, Range, RangeTree};

/// An area: a range of mapped addresses and an unmapped page behind it. The tree has the addresses, this is
/// the rest.
#[derive(Clone, Copy)]
struct Area {
    /// Whether the frames are freed together with the area.
    owns: bool,
    /// Whether its pages have, or had, other permissions than to be read and written.
    protected: bool,
    /// In a freed area: the address of the one freed before it, 0 for none. `ALIVE` in an area that is in
    /// use.
    dead: usize,
}

/// The mark of an area in use. No area begins at this address.
const ALIVE: usize = 1;

/// Which addresses an area gets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Zone {
    /// Any.
    General,
    /// Where code of modules may be, the lowest that are free: so that its branches reach the kernel.
    Modules,
}

impl Zone {
    /// The first address, and one past the last.
    fn range(self) -> (usize, usize) {
        let (start, end) = (middle(), range().1);
        let own = MODULES.0 < MODULES.1;
        match self {
            Self::Modules if own => MODULES,
            _ if own && (start..end).contains(&MODULES.0) => (start, MODULES.0),
            _ => (start, end),
        }
    }
}

/// An area that is not in the tree: before it is inserted or after it was removed.
type AreaNode = NodeBox<(), Area>;

struct Areas {
    map: RangeTree<(), Area>,
    /// The area that was freed last and is still mapped, 0 for none.
    dead: usize,
}

static AREAS: IrqSpinLock<Areas> = IrqSpinLock::new_allocator(Areas {
    map: RangeTree::new(),
    dead: 0,
});
/// How many pages are in freed areas.
static DEAD: AtomicUsize = AtomicUsize::new(0);
/// How many pages are mapped here, for `/proc/meminfo` (`VmallocUsed`).
static USED: AtomicUsize = AtomicUsize::new(0);

/// Freed areas are unmapped when they have more pages than this.
const PURGE: usize = (1 << 20) / PAGE_SIZE;

/// How many bytes of addresses the range should have, if the architecture's range is that large.
const ENOUGH: usize = 256 << 20;

/// The part of the architecture's range that is used: as much as the top level can be filled for at boot
/// without much memory. Two top-level entries, or more where these are small.
pub(super) fn range() -> (usize, usize) {
    const SPAN: usize = 1 << table::level_shift(LEVELS - 1);
    const FILLED: usize = if 2 * SPAN < ENOUGH { ENOUGH } else { 2 * SPAN };
    (VMAP.0, VMAP.1.min((VMAP.0 & !(SPAN - 1)).saturating_add(FILLED)))
}

/// Pages in use.
pub fn used_pages() -> usize {
    USED.load(Relaxed)
}

/// Whether `addr` is in a mapping made here.
pub fn contains(addr: usize) -> bool {
    (VMAP.0..VMAP.1).contains(&addr) || (MODULES.0..MODULES.1).contains(&addr)
}

/// Fills in the top level for the range. Boot CPU, once.
#[unsafe(link_section = ".init.text")]
pub fn init() {
    let (start, end) = range();
    if start == end {
        return;
    }
    let root = table::table(mmu::kernel_root());
    let level = LEVELS - 1;
    for entry in &root[table::index(start, level)..=table::index(end - 1, level)] {
        if table::load(entry).is_empty() {
            let new = table::new_table(For::Kernel).expect("no memory for the kernel's page tables");
            table::store(entry, Entry::table(frame::phys(new), level - 1));
        }
    }
}

fn middle() -> usize {
    let (start, end) = range();
    (start + (end - start) / 2) & !(PAGE_SIZE - 1)
}

/// The entry for a kernel page. Tables on the way are made and never freed.
pub(super) fn slot(addr: usize) -> Option<&'static mmu::Slot> {
    table::find_or_make(mmu::kernel_root(), addr, For::Kernel, |_| ())
}

/// Whether this code may wait for other CPUs.
fn may_wait() -> bool {
    preempt::count() == 0 && irq::enabled()
}

impl Areas {
    /// Finds addresses for `size` bytes, the lowest that there are, and inserts the node: what is small and
    /// stays does not divide the room for what is large, and tables are used again. `Err`: there are none;
    /// the node is given back.
    fn put(&mut self, mut node: AreaNode, size: usize, zone: Zone) -> Result<usize, AreaNode> {
        let (first, end) = zone.range();
        let size = size as u64;
        let Some(at) = self.map.room(size, first as u64, end as u64 - 1) else {
            return Err(node);
        };
        (node.range_mut().first, node.range_mut().last) = (at, at + size - 1);
        self.map.insert(node);
        Ok(at as usize)
    }
}

/// How many pages an area has, without the unmapped one.
fn pages_of(range: &Range<(), Area>) -> usize {
    ((range.last + 1 - range.first) as usize >> PAGE_SHIFT) - 1
}

/// Reserves addresses for `pages` pages and an unmapped one behind them.
fn reserve(pages: usize, owns: bool, zone: Zone) -> Option<usize> {
    if DEAD.load(Relaxed) > PURGE {
        purge();
    }
    let size = pages.checked_add(1)?.checked_mul(PAGE_SIZE)?;
    let value = Area {
        owns,
        protected: false,
        dead: ALIVE,
    };
    let mut node = Node::new(Range {
        first: 0,
        last: 0,
        key: (),
        value,
    })?;
    loop {
        let put = AREAS.lock().put(node, size, zone);
        match put {
            Ok(at) => return Some(at),
            // Freed areas may be in the way.
            Err(back) if purge() => node = back,
            Err(_) => return None,
        }
    }
}

/// An address for a page of the kernel's, which nothing is mapped at, and its tables. Never given back.
/// `None`: no memory.
pub(super) fn reserve_page() -> Option<usize> {
    let at = reserve(1, false, Zone::General)?;
    slot(at).map(|_| at)
}

/// Maps `size` bytes of device registers at physical address `phys`, which need not be aligned to pages. The
/// mapping is never removed. Null: there is no room.
pub fn map_device(phys: u64, size: usize) -> *mut u8 {
    let offset = phys as usize & (PAGE_SIZE - 1);
    let pages = (offset + size).div_ceil(PAGE_SIZE);
    let Some(at) = reserve(pages, false, Zone::General) else {
        return null_mut();
    };
    for i in 0..pages {
        let frame = PhysAddr::new((phys - offset as u64) + ((i as u64) << PAGE_SHIFT));
        let Some(slot) = slot(at + (i << PAGE_SHIFT)) else {
            return null_mut();
        };
        table::store(
            slot,
            Entry::kernel_leaf(frame, Prot::READ | Prot::WRITE, MemoryKind::Device, 0),
        );
    }
    mmu::update_kernel(at, at + (pages << PAGE_SHIFT));
    (at + offset) as *mut u8
}

/// Maps `pages` pages of ordinary memory, to be read and written, for a while: until they are freed, which
/// leaves their frames alone. `each` calls its argument with each of them in turn, as long as that says
/// `true`. `None`: there is no room, or it did not call for all.
pub(super) fn map(
    pages: usize,
    each: impl FnOnce(&mut dyn FnMut(PhysAddr) -> bool) -> bool,
) -> Option<usize> {
    let at = reserve(pages, false, Zone::General)?;
    let mut next = at;
    let done = each(&mut |frame| {
        let Some(slot) = slot(next) else { return false };
        table::store(
            slot,
            Entry::kernel_leaf(frame, Prot::READ | Prot::WRITE, MemoryKind::Normal, 0),
        );
        next += PAGE_SIZE;
        next <= at + (pages << PAGE_SHIFT)
    });
    mmu::update_kernel(at, next);
    if !done {
        unmap(at);
        return None;
    }
    Some(at)
}

/// Frees what [`map`] gave. When it returns nobody can write there any more; the addresses come back later.
/// In any context.
pub(super) fn unmap(at: usize) {
    let pages = AREAS.lock().map.get((at as u64, ())).map_or(0, pages_of);
    let end = at + (pages << PAGE_SHIFT);
    table::for_each(mmu::kernel_root(), at, end, |_, slot, _| {
        table::store(slot, Entry::EMPTY);
    });
    mmu::flush_kernel(at, end);
    free(at as *mut u8);
}

/// Whether there are frames for a large block. Half of the reserve is kept for small ones, which must not
/// fail.
fn is_enough(pages: usize) -> bool {
    frame::free_in_buddy() >= pages.saturating_add(frame::reserve() / 2)
}

/// Allocates `pages` pages with consecutive addresses in the kernel. Null: there is no memory.
pub fn alloc_pages(pages: usize) -> *mut u8 {
    alloc(pages, Zone::General)
}

/// [`alloc_pages`], with addresses of `zone`. The content of the pages is not known.
pub fn alloc(pages: usize, zone: Zone) -> *mut u8 {
    if !(is_enough(pages) || purge() && is_enough(pages)) {
        return null_mut();
    }
    let Some(at) = reserve(pages, true, zone) else {
        return null_mut();
    };
    USED.fetch_add(pages, Relaxed);
    for i in 0..pages {
        let addr = at + (i << PAGE_SHIFT);
        let mapped = slot(addr).and_then(|slot| Some((slot, frame::alloc(For::Dying)?)));
        let Some((slot, pfn)) = mapped else {
            free(at as *mut u8);
            return null_mut();
        };
        table::store(
            slot,
            Entry::kernel_leaf(frame::phys(pfn), Prot::READ | Prot::WRITE, MemoryKind::Normal, 0),
        );
    }
    mmu::update_kernel(at, at + (pages << PAGE_SHIFT));
    at as *mut u8
}

/// Changes what `pages` pages from `addr` on allow; they are in one area with frames of its own, and the
/// caller's; `why` is counted. Code in pages that can be executed from now on is what memory holds. When it
/// returns no CPU uses the former permissions. May wait for other CPUs: interrupts on, no spinlock held.
/// `EINVAL`: there is no such area, or they would be written and executed; `ENOMEM`: a part may have been
/// changed.
pub fn protect(addr: usize, pages: usize, prot: Prot, why: Reason) -> Result<(), Errno> {
    let size = pages.checked_mul(PAGE_SIZE).ok_or(Errno::EINVAL)?;
    let end = addr.checked_add(size).ok_or(Errno::EINVAL)?;
    let (write, execute) = (prot.contains(Prot::WRITE), prot.contains(Prot::EXEC));
    if !addr.is_multiple_of(PAGE_SIZE) || write && execute {
        return Err(Errno::EINVAL);
    }
    if pages == 0 {
        return Ok(());
    }
    {
        let mut areas = AREAS.lock();
        let found = areas
            .map
            .find((addr as u64, addr as u64), None, |_| true)
            .map(|range| {
                let inside = end - range.first as usize <= pages_of(range) << PAGE_SHIFT;
                (
                    range.first,
                    inside && range.value.owns && range.value.dead == ALIVE,
                )
            });
        let Some((first, true)) = found else {
            return Err(Errno::EINVAL);
        };
        if let Some(area) = areas.map.value_mut((first, ())) {
            area.protected = true;
        }
    }
    // First what is taken, then what is given: never both written and executed.
    if !execute {
        linear::set_no_exec(addr, pages, why)?;
    }
    if write {
        return linear::set_writable(addr, pages, why);
    }
    linear::set_read_only(addr, pages, why)?;
    if execute {
        table::for_each(mmu::kernel_root(), addr, end, |_, _, entry| {
            mmu::sync_instructions(entry.phys());
        });
        linear::set_executable(addr, pages, why)?;
    }
    Ok(())
}

/// Frees an area. In any context. Its frames come back when the TLBs have been flushed: at once where the
/// pages had other permissions and this code may wait, so that nothing of them is executed any more.
pub fn free(at: *mut u8) {
    let place = (at as usize as u64, ());
    let mut areas = AREAS.lock();
    let Some(pages) = areas.map.get(place).map(pages_of) else {
        return;
    };
    let before = areas.dead;
    let mut now = false;
    if let Some(area) = areas.map.value_mut(place) {
        debug_assert!(area.dead == ALIVE, "freed twice");
        area.dead = before;
        now = area.protected;
    }
    areas.dead = at as usize;
    drop(areas);
    if DEAD.fetch_add(pages, Relaxed) + pages > PURGE || now {
        purge();
    }
}

/// The freed areas, linked, now the caller's. The linear map's part of them is as other memory's; those for
/// which there is no memory to make it so stay where they were.
fn take_dead() -> usize {
    let mut next = core::mem::take(&mut AREAS.lock().dead);
    let mut list = 0;
    while next != 0 {
        let at = next;
        let place = (at as u64, ());
        let found = {
            let areas = AREAS.lock();
            let range = areas.map.get(place);
            range.map(|r| (pages_of(r), r.value))
        };
        let Some((pages, area)) = found else { break };
        next = area.dead;
        // Nothing of it can be executed any more when it can be written in the linear map.
        let closed = || linear::set_no_exec(at, pages, Reason::Alias).is_ok();
        let ready = !area.protected || closed() && linear::reset(at, pages).is_ok();
        let mut areas = AREAS.lock();
        let behind = if ready { list } else { areas.dead };
        if let Some(area) = areas.map.value_mut(place) {
            area.dead = behind;
        }
        *(if ready { &mut list } else { &mut areas.dead }) = at;
    }
    list
}

/// Unmaps all freed areas and gives their frames back. `false`: nothing was given back. This waits for other
/// CPUs; where that is not allowed, the running thread does it on its way to user mode.
pub fn purge() -> bool {
    if !may_wait() {
        preempt::current_info().work.set(ThreadFlags::NOTIFY_RESUME);
        return false;
    }
    // What was freed before this call is unmapped when it returns, also what another thread has taken.
    static PURGING: Mutex<()> = Mutex::new(());
    let purging = PURGING.lock();
    let list = take_dead();
    if list == 0 {
        return false;
    }
    // Only this thread has the list. The addresses stay taken until the flush is done.
    let mut frames = FrameList::new();
    let (mut low, mut high) = (usize::MAX, 0);
    let mut next = list;
    while next != 0 {
        let at = next;
        let found = {
            let areas = AREAS.lock();
            let range = areas.map.get((at as u64, ()));
            range.map(|r| (pages_of(r), r.value))
        };
        let Some((pages, area)) = found else { break };
        let end = at + (pages << PAGE_SHIFT);
        (low, high) = (low.min(at), high.max(end));
        table::for_each(mmu::kernel_root(), at, end, |_, slot, entry| {
            table::store(slot, Entry::EMPTY);
            if area.owns {
                frames.push(frame::pfn(entry.phys()));
            }
        });
        if area.owns {
            USED.fetch_sub(pages, Relaxed);
        }
        DEAD.fetch_sub(pages, Relaxed);
        next = area.dead;
    }
    mmu::flush_kernel(low, high);
    next = list;
    while next != 0 {
        let node = AREAS.lock().map.remove((next as u64, ()));
        next = node.map_or(0, |node| node.range().value.dead);
    }
    frame::free_list(frames);
    drop(purging);
    true
}

/// On the way to user mode: unmaps areas that were freed by code that could not wait.
pub fn before_user() {
    if DEAD.load(Relaxed) > PURGE {
        purge();
    }
}

/// Runs `f` with the lock held, for the lock validator's own test.
#[cfg(feature = "lockdep")]
pub fn locked<R>(f: impl FnOnce() -> R) -> R {
    let _areas = AREAS.lock();
    f()
}
