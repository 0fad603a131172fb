//! Kernel mappings outside the linear map: device registers, large allocations whose frames are not contiguous, kernel stacks.
//!
//! The architecture's [`VMAP`] range is divided: kernel stacks (`mm::stack`) in the lower half, everything else, here, in the upper.
//! All top-level entries of the range are filled in at boot, so that every address space that copies or shares the kernel's top level sees
//! later mappings. Unmapping is lazy: freed areas wait until a batch can be flushed from the TLBs in a context that may do so.

use super::frame::{self, For, FrameList};
use super::{PAGE_SHIFT, PAGE_SIZE, PhysAddr, Prot, table};
use crate::arch::irq;
use crate::arch::mmu::{self, Entry, LEVELS, MemoryKind, VMAP};
use crate::sched::preempt;
use crate::sync::IrqSpinLock;
use alloc::collections::BTreeMap;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// One mapped range.
struct Area {
    pages: usize,
    /// Whether the frames belong to the area.
    owns: bool,
    /// Freed by its owner, but still mapped.
    dead: bool,
}

struct Areas {
    map: BTreeMap<usize, Area>,
    /// Where to look for room next.
    cursor: usize,
    dead_pages: usize,
}

static AREAS: IrqSpinLock<Areas> = IrqSpinLock::new(Areas {
    map: BTreeMap::new(),
    cursor: 0,
    dead_pages: 0,
});
/// Pages mapped here, for `/proc/meminfo` (`VmallocUsed`).
static USED: AtomicUsize = AtomicUsize::new(0);

/// Freed areas wait until they hold this many pages.
const PURGE: usize = 256;

/// What the range has of addresses at least, if the architecture's has them.
const ENOUGH: usize = 256 << 20;

/// The range as this room uses it: what the top level can be filled for at boot at a modest price. Two top-level entries, more where they are small.
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
    (VMAP.0..VMAP.1).contains(&addr)
}

/// Fills the top level for the range. Boot CPU, once.
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
            table::store(entry, Entry::table(frame::phys(new)));
        }
    }
    AREAS.lock().cursor = middle();
}

fn middle() -> usize {
    let (start, end) = range();
    (start + (end - start) / 2) & !(PAGE_SIZE - 1)
}

/// The slot for a kernel page. The tables on the way are made and stay.
pub(super) fn slot(addr: usize) -> Option<&'static mmu::Slot> {
    table::find_or_make(mmu::kernel_root(), addr, For::Kernel, |_| ())
}

/// Whether this code may wait for other CPUs.
fn may_wait() -> bool {
    preempt::count() == 0 && irq::enabled()
}

/// Reserves addresses for `pages` pages plus an unmapped one behind them.
fn reserve(pages: usize, owns: bool) -> Option<usize> {
    if AREAS.lock().dead_pages > PURGE && may_wait() {
        purge();
    }
    let (first, end) = (middle(), range().1);
    let size = (pages + 1) << PAGE_SHIFT;
    let mut areas = AREAS.lock();
    let mut at = areas.cursor;
    let mut wrapped = false;
    loop {
        if at + size > end {
            if wrapped {
                return None;
            }
            wrapped = true;
            at = first;
        }
        let clash = areas
            .map
            .range(..at + size)
            .next_back()
            .map(|(&s, a)| s + ((a.pages + 1) << PAGE_SHIFT));
        match clash {
            Some(stop) if stop > at => at = stop,
            _ => break,
        }
    }
    areas.cursor = at + size;
    areas.map.insert(
        at,
        Area {
            pages,
            owns,
            dead: false,
        },
    );
    Some(at)
}

/// Maps `size` bytes of device registers at `phys`, which need not be page-aligned. The mapping lasts until the end. Null if there is no room.
pub fn map_device(phys: u64, size: usize) -> *mut u8 {
    let offset = phys as usize & (PAGE_SIZE - 1);
    let pages = (offset + size).div_ceil(PAGE_SIZE);
    let Some(at) = reserve(pages, false) else {
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

/// Memory of `pages` pages, contiguous only in the kernel's view. Null if there is none: half of the reserve stays for what is small and must not fail.
pub fn alloc_pages(pages: usize) -> *mut u8 {
    if frame::free_in_buddy() < pages.saturating_add(frame::reserve() / 2) {
        return null_mut();
    }
    let Some(at) = reserve(pages, true) else {
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

/// Frees an area. Any context: the frames come back when the TLBs have been flushed.
pub fn free(at: *mut u8) {
    let mut areas = AREAS.lock();
    let Some(area) = areas.map.get_mut(&(at as usize)) else {
        return;
    };
    area.dead = true;
    let pages = area.pages;
    areas.dead_pages += pages;
    let many = areas.dead_pages > PURGE;
    drop(areas);
    if many && may_wait() {
        purge();
    }
}

/// Unmaps what was freed and gives the frames back. Only where waiting for other CPUs is allowed.
pub fn purge() {
    let mut frames = FrameList::new();
    let (mut low, mut high) = (usize::MAX, 0);
    let mut dead = alloc::vec::Vec::new();
    {
        // Entries are cleared under the lock, but the addresses stay taken until the flush is done.
        let mut areas = AREAS.lock();
        areas.dead_pages = 0;
        for (&at, area) in areas.map.iter_mut().filter(|(_, a)| a.dead) {
            low = low.min(at);
            high = high.max(at + (area.pages << PAGE_SHIFT));
            for i in 0..area.pages {
                let Some(slot) = table::find(mmu::kernel_root(), at + (i << PAGE_SHIFT)) else {
                    continue;
                };
                let entry = table::load(slot);
                if !entry.is_empty() {
                    table::store(slot, Entry::EMPTY);
                    if area.owns {
                        frames.push(frame::pfn(entry.phys()));
                    }
                }
            }
            USED.fetch_sub(if area.owns { area.pages } else { 0 }, Relaxed);
            area.dead = false;
            dead.push(at);
        }
    }
    if dead.is_empty() {
        return;
    }
    mmu::flush_kernel(low, high);
    {
        let mut areas = AREAS.lock();
        for at in dead {
            areas.map.remove(&at);
        }
    }
    frame::free_list(frames);
}
