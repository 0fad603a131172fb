//! The live tables in memory: how they are read and written, and the tables that are kept in reserve.

use crate::arch::kernel_map;
use crate::arch::mmu::{self, Entry, MemoryKind};
use crate::mm::frame::{self, For, FrameList};
use crate::mm::kernel_map::numbers;
use crate::mm::{PAGE_SIZE, PhysAddr, Prot, table, vmap};
use crate::sync::IrqSpinLock;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use limen_linear_map::{self as linear_map, Leaf, Map, Mapped, Reserve, Step, Table, Tables};
use limen_linux_abi::Errno;

/// The live tables.
pub(in crate::mm) struct Live;

/// An entry in memory.
fn slot(table: Table, index: usize) -> *const mmu::Slot {
    mmu::phys_to_virt(PhysAddr::new(table.0))
        .cast::<mmu::Slot>()
        .wrapping_add(index)
}

impl Tables for Live {
    #[inline]
    fn read(&self, table: Table, level: usize, index: usize) -> linear_map::Entry {
        // SAFETY: the caller found the table in the kernel's map, and has its lock or only looks at it;
        // entries are accessed only by atomics.
        let slot = unsafe { &*slot(table, index) };
        table::load(slot).kernel(level)
    }

    fn alike(
        &self,
        table: Table,
        level: usize,
        index: usize,
        count: usize,
        leaf: Leaf,
        size: u64,
    ) -> Option<usize> {
        let kinds = [false, true].map(|grouped| {
            let (first, more) = numbers(linear_map::Entry::Leaf(Leaf { grouped, ..leaf }), level);
            (first, more, usize::from(grouped))
        });
        let (mut n, mut grouped) = (0, 0);
        while n < count {
            let from = n;
            for (first, more, is_grouped) in kinds {
                let next = first.wrapping_add(more.wrapping_mul(n as u64));
                let same = same(table, index + n, count - n, next, more);
                n += same;
                grouped += same * is_grouped;
            }
            if n == from {
                // It may still be the same but for what the processor writes itself.
                let found = self.read(table, level, index + n);
                grouped += usize::from(found.is_like(leaf, n as u64 * size)?);
                n += 1;
            }
        }
        Some(grouped)
    }
}

/// So many entries are compared, or written, in one turn of a loop.
const TURN: usize = 8;

/// How many of the `count` entries from `index` on are `number`, `number + more`, and so on. The caller found
/// the table in the kernel's map, which has so many entries.
fn same(table: Table, index: usize, count: usize, mut number: u64, more: u64) -> usize {
    let first = slot(table, index);
    let load = |n: usize| {
        // SAFETY: as in `Live::read`; the entry is one of the table's.
        table::load(unsafe { &*first.wrapping_add(n) }).number()
    };
    let mut n = 0;
    while count - n >= TURN {
        let (mut differs, mut next) = (0, number);
        for k in 0..TURN {
            differs |= load(n + k) ^ next;
            next = next.wrapping_add(more);
        }
        if differs != 0 {
            break;
        }
        (n, number) = (n + TURN, next);
    }
    while n < count && load(n) == number {
        (n, number) = (n + 1, number.wrapping_add(more));
    }
    n
}

/// Leaves of one table that follow each other, in addresses and in memory, and are alike otherwise.
#[derive(Clone, Copy, Debug)]
pub(in crate::mm) struct Stretch {
    /// The first of them.
    pub first: Mapped,
    /// How many.
    pub count: usize,
}

/// Finds the next leaves at `at` or behind, before `end`. The caller has the lock. `Err`: there are none up
/// to that address.
fn stretch(map: &Map, at: u64, end: u64) -> Result<Stretch, u64> {
    let mut table = map.root;
    let mut level = map.geometry.top();
    loop {
        let form = map.geometry.level(level);
        let index = form.index(at);
        let addr = at & !(form.size() - 1);
        let number = |n: usize| {
            // SAFETY: as in `Live::read`; the index is one of the table's.
            table::load(unsafe { &*slot(table, index + n) }).number()
        };
        let room = (form.entries() - index).min(((end - addr).div_ceil(form.size())) as usize);
        match Live.read(table, level, index) {
            linear_map::Entry::Table(below) => {
                table = below;
                level -= 1;
            }
            linear_map::Entry::Empty => {
                let empty = (1..room).find(|&n| number(n) != 0).unwrap_or(room);
                return Err(addr.saturating_add(empty as u64 * form.size()));
            }
            linear_map::Entry::Leaf(leaf) => {
                let (first, more) = numbers(linear_map::Entry::Leaf(leaf), level);
                let mapped = Mapped {
                    addr,
                    size: form.size(),
                    level,
                    leaf,
                };
                return Ok(Stretch {
                    first: mapped,
                    count: 1 + same(table, index + 1, room - 1, first.wrapping_add(more), more),
                });
            }
        }
    }
}

/// Calls `f` with all leaves of `[start, end)`, a stretch at a time. The lock is held while one is looked
/// for, not while `f` runs: what changes meanwhile is seen before or after the change.
pub(in crate::mm) fn each_stretch(start: u64, end: u64, mut f: impl FnMut(&Stretch)) {
    let map = kernel_map::map();
    let mut at = start;
    while at < end {
        let found = {
            let _lock = MAP.lock();
            stretch(&map, at, end)
        };
        at = match found {
            Ok(found) => {
                f(&found);
                let size = found.first.size * found.count as u64;
                found.first.addr.saturating_add(size)
            }
            Err(next) => next,
        };
    }
}

/// How many tables the map has, the root included. The lock is held for one of them at a time.
pub fn count() -> usize {
    let map = kernel_map::map();
    let top = map.geometry.level(map.geometry.top());
    1 + count_in(&map, 0, top.size() * top.entries() as u64)
}

/// How many tables below the root the linear map has. They come and go with its blocks; others stay for good.
pub fn count_linear() -> usize {
    let area = &kernel_map::areas()[0];
    count_in(&kernel_map::map(), area.start, area.end)
}

/// The tables below the root that begin in `[start, end)`.
fn count_in(map: &Map, start: u64, end: u64) -> usize {
    let (mut at, mut count) = (start, 0);
    while at < end {
        let _lock = MAP.lock();
        let (mut table, mut level) = (map.root, map.geometry.top());
        at = loop {
            let size = map.geometry.level(level).size();
            let next = (at | (size - 1)) + 1;
            let linear_map::Entry::Table(below) =
                Live.read(table, level, map.geometry.level(level).index(at))
            else {
                break next;
            };
            // Each is come to from its first entry on.
            count += usize::from(at.is_multiple_of(size));
            if level == 1 {
                break next;
            }
            (table, level) = (below, level - 1);
        };
    }
    count
}

/// Tables that are kept in reserve, at most.
const POOL: usize = 64;

/// The tables in reserve.
pub(super) struct Pool {
    tables: [Table; POOL],
    pub(super) count: usize,
}

impl Pool {
    pub(super) fn put(&mut self, table: Table, surplus: &mut FrameList) {
        if self.count < POOL {
            self.tables[self.count] = table;
            self.count += 1;
        } else {
            surplus.push(frame::pfn(PhysAddr::new(table.0)));
        }
    }

    pub(super) fn take(&mut self, reserve: &mut Reserve, wanted: usize) {
        while reserve.count() < wanted && self.count > 0 {
            self.count -= 1;
            reserve.put(self.tables[self.count]);
        }
    }
}

/// The lock of the map, and the reserve.
pub(super) static MAP: IrqSpinLock<Pool> = IrqSpinLock::new_allocator(Pool {
    tables: [Table(0); POOL],
    count: 0,
});

/// Makes room for `wanted` tables.
pub(super) fn refill(wanted: usize) -> Result<(), Errno> {
    while MAP.lock().count < wanted {
        let pfn = frame::alloc(For::Kernel).ok_or(Errno::ENOMEM)?;
        let mut surplus = FrameList::new();
        MAP.lock().put(Table(frame::phys(pfn).as_u64()), &mut surplus);
        frame::free_list(surplus);
    }
    Ok(())
}

/// How badly the reserve needs tables. Only `debug_pagealloc` asks: what it frees needs tables that come back
/// when all of a block is free, and do not if one of its pages is kept as a table.
#[derive(Clone, Copy, Debug)]
pub(in crate::mm) enum Need {
    /// It has few.
    Some = POOL as isize / 2,
    /// It has so few that a change may find none.
    Bad = POOL as isize / 8,
}

/// Whether the reserve needs tables, so badly.
pub(in crate::mm) fn wants(need: Need) -> bool {
    super::map().rule.table != linear_map::Resize::Never && in_reserve() < need as usize
}

/// Keeps an allocated frame as a table in reserve. `false`: there is no room, and it is still the caller's.
pub(in crate::mm) fn keep(pfn: frame::Pfn) -> bool {
    let mut surplus = FrameList::new();
    MAP.lock().put(Table(frame::phys(pfn).as_u64()), &mut surplus);
    surplus.is_empty()
}

/// How many tables are in reserve.
pub fn in_reserve() -> usize {
    MAP.lock().count
}

/// The way to a table that lies in the range that nobody may access now.
pub(super) struct Window {
    /// The range, of physical addresses; empty if there is none.
    closed: (u64, u64),
    /// The table that is mapped at [`WINDOW`].
    table: Option<Table>,
}

/// A page of the kernel's addresses for [`Window`]; 0 where the rule needs none.
static WINDOW: AtomicUsize = AtomicUsize::new(0);

impl Window {
    pub(super) const CLOSED: Self = Self {
        closed: (0, 0),
        table: None,
    };

    /// Nobody accesses `[start, end)` from now on, and this CPU does so only through the window.
    pub(super) fn open(start: u64, end: u64) -> Self {
        let phys = match kernel_map::map().at(&Live, start) {
            Some(Mapped { addr, leaf, .. }) => leaf.phys + (start - addr),
            None => 0,
        };
        Self {
            closed: (phys, phys + (end - start)),
            table: None,
        }
    }

    /// Everybody may access the range again: the window is not needed any more, and maps nothing.
    pub(super) fn close(&mut self) {
        if self.table.is_some() {
            let window = WINDOW.load(Relaxed);
            if let Some(slot) = table::find(mmu::kernel_root(), window) {
                table::store(slot, Entry::EMPTY);
            }
            mmu::flush_kernel(window, window + PAGE_SIZE);
        }
        *self = Self::CLOSED;
    }

    /// Where an entry is written.
    pub(super) fn slot(&mut self, table: Table, index: usize) -> *const mmu::Slot {
        if !(self.closed.0..self.closed.1).contains(&table.0) {
            return slot(table, index);
        }
        let window = WINDOW.load(Relaxed);
        if self.table != Some(table) {
            // The first write is the one that takes the block away: until then the tables of `vmap` can be
            // reached, wherever they are.
            let page = PhysAddr::new(table.0 & !(PAGE_SIZE as u64 - 1));
            let entry = Entry::kernel_leaf(page, Prot::READ | Prot::WRITE, MemoryKind::Normal, 0);
            if let Some(slot) = table::find(mmu::kernel_root(), window) {
                table::store(slot, entry);
            }
            mmu::update_kernel(window, window + PAGE_SIZE);
            self.table = Some(table);
        }
        let at = window + (table.0 as usize & (PAGE_SIZE - 1));
        (at as *const mmu::Slot).wrapping_add(index)
    }
}

/// Does `Step::Write`.
pub(super) fn write(window: &mut Window, step: &Step) {
    let &Step::Write {
        table,
        level,
        index,
        count,
        entry,
        ..
    } = step
    else {
        return;
    };
    let first = window.slot(table, index);
    let slot = |n: usize| {
        // SAFETY: the caller has the map's lock, and the engine names entries of tables of the map, or of
        // the reserve.
        unsafe { &*first.wrapping_add(n) }
    };
    if count == 1 {
        return table::store(slot(0), Entry::of_kernel(entry, level));
    }
    // A table that nobody walks yet, or a group: a barrier or an invalidation is the next step.
    let (mut number, more) = numbers(entry, level);
    let mut store = |n| {
        mmu::store_unordered(slot(n), Entry::of_number(number).0);
        number = number.wrapping_add(more);
    };
    let turns = count - count % TURN;
    for n in (0..turns).step_by(TURN) {
        for k in 0..TURN {
            store(n + k);
        }
    }
    (turns..count).for_each(store);
}

/// Boot: what the map's rule needs.
pub(super) fn init() {
    let rule = kernel_map::map().rule;
    if rule.parks(rule.table) {
        reserve_window().expect("no address for a page");
    }
}

/// [`Window`] can be used. Boot. `ENOMEM`.
pub(super) fn reserve_window() -> Result<(), Errno> {
    if WINDOW.load(Relaxed) == 0 {
        WINDOW.store(vmap::reserve_page().ok_or(Errno::ENOMEM)?, Relaxed);
    }
    Ok(())
}
