//! An ordered map of disjoint address ranges, in which an address space keeps its mappings. Ranges are in
//! sorted runs of at most [`RUN`], so that a lookup is two short binary searches in contiguous memory, and
//! inserting moves at most one run. Each run knows the largest gap inside it, so a search for room skips runs
//! without room. The map also notes from which address up there was no room, so that consecutive searches do
//! not repeat the same work. The kernel uses it in `mm::space`.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// How many ranges a run may have.
pub const RUN: usize = 64;

/// A range and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region<V> {
    /// First address.
    pub start: usize,
    /// One past the last address.
    pub end: usize,
    /// Its value.
    pub value: V,
}

#[derive(Clone, Debug)]
struct Run<V> {
    items: Vec<Region<V>>,
    /// An upper bound of the gaps between neighbours inside the run.
    max_gap: usize,
}

impl<V> Run<V> {
    /// Updates `max_gap` for the gaps on both sides of `item`, which is new or has new bounds.
    fn note_gaps(&mut self, item: usize) {
        let mut gap = 0;
        if item > 0 {
            gap = self.items[item].start - self.items[item - 1].end;
        }
        if let Some(next) = self.items.get(item + 1) {
            gap = gap.max(next.start - self.items[item].end);
        }
        self.max_gap = self.max_gap.max(gap);
    }
}

/// Where the last search ended, since the next one often looks for the same place. It is only a hint, which
/// is checked.
#[derive(Debug, Default)]
struct Hint(AtomicUsize);

impl Hint {
    /// The bits for the item: enough for the largest number of items of a run.
    const ITEM_BITS: u32 = 8;
    const _FITS: () = assert!(RUN < 1 << Self::ITEM_BITS);

    #[inline(always)]
    fn get(&self) -> Pos {
        let raw = self.0.load(Relaxed);
        Pos {
            run: raw >> Self::ITEM_BITS,
            item: raw & ((1 << Self::ITEM_BITS) - 1),
        }
    }
    #[inline(always)]
    fn set(&self, pos: Pos) {
        self.0.store(pos.run << Self::ITEM_BITS | pos.item, Relaxed);
    }
}

impl Clone for Hint {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// A place in the map. It is valid until another call changes the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pos {
    run: usize,
    item: usize,
}

/// The result of the last search from the top: there was no room for `len` bytes, aligned to `align`, in
/// `[above, high)`.
#[derive(Clone, Copy, Debug)]
struct Full {
    above: usize,
    high: usize,
    len: usize,
    align: usize,
}

impl Full {
    const NOTHING: Full = Full {
        above: usize::MAX,
        high: usize::MAX,
        len: usize::MAX,
        align: usize::MAX,
    };
}

/// The map.
#[derive(Clone, Debug)]
pub struct RegionMap<V> {
    runs: Vec<Run<V>>,
    len: usize,
    full: Full,
    hint: Hint,
}

impl<V> Default for RegionMap<V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<V> RegionMap<V> {
    /// Empty.
    pub const fn new() -> Self {
        Self {
            runs: Vec::new(),
            len: 0,
            full: Full::NOTHING,
            hint: Hint(AtomicUsize::new(0)),
        }
    }

    /// How many regions.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The place of the first region that ends behind `addr` (it contains `addr` or lies above it), or the
    /// end.
    #[inline]
    pub fn lower(&self, addr: usize) -> Pos {
        if let Some(pos) = self.near(self.hint.get(), addr) {
            return pos;
        }
        let pos = self.search(addr);
        self.hint.set(pos);
        pos
    }

    /// [`RegionMap::lower`] if that is at the hint or next to it: whatever changes a region looks at its
    /// neighbours.
    #[inline]
    fn near(&self, hint: Pos, addr: usize) -> Option<Pos> {
        let items = &self.runs.get(hint.run)?.items;
        let fits = |item: usize| {
            addr < items[item].end && (items[item].start <= addr || item > 0 && items[item - 1].end <= addr)
        };
        let mut item = hint.item;
        let end = items.get(item)?.end;
        if !fits(item) {
            item = if addr >= end {
                item + 1
            } else {
                item.checked_sub(1)?
            };
            if item >= items.len() || !fits(item) {
                return None;
            }
            self.hint.set(Pos { item, ..hint });
        }
        Some(Pos { item, ..hint })
    }

    /// [`RegionMap::lower`] without the hint.
    fn search(&self, addr: usize) -> Pos {
        let run = if self.runs.len() <= 1 {
            0
        } else {
            self.runs
                .partition_point(|r| r.items[r.items.len() - 1].end <= addr)
        };
        let item = match self.runs.get(run) {
            Some(r) => r.items.partition_point(|i| i.end <= addr),
            None => 0,
        };
        // If there is a single run, all of it may lie below.
        if self.runs.get(run).is_some_and(|r| item == r.items.len()) {
            return Pos {
                run: run + 1,
                item: 0,
            };
        }
        Pos { run, item }
    }

    /// The region at a place; `None` at the end.
    #[inline]
    pub fn at(&self, pos: Pos) -> Option<&Region<V>> {
        self.runs.get(pos.run)?.items.get(pos.item)
    }

    /// The region that contains `addr`.
    #[inline]
    pub fn containing(&self, addr: usize) -> Option<&Region<V>> {
        self.at(self.lower(addr)).filter(|r| r.start <= addr)
    }

    /// The place of the first region.
    pub fn first(&self) -> Pos {
        Pos { run: 0, item: 0 }
    }

    /// The next place.
    #[inline]
    pub fn next(&self, pos: Pos) -> Pos {
        match self.runs.get(pos.run) {
            Some(r) if pos.item + 1 < r.items.len() => Pos {
                run: pos.run,
                item: pos.item + 1,
            },
            _ => Pos {
                run: pos.run + 1,
                item: 0,
            },
        }
    }

    /// The place before. `None`: this is the first one.
    #[inline]
    pub fn prev(&self, pos: Pos) -> Option<Pos> {
        if pos.item > 0 {
            return Some(Pos {
                run: pos.run,
                item: pos.item - 1,
            });
        }
        let run = pos.run.min(self.runs.len()).checked_sub(1)?;
        Some(Pos {
            run,
            item: self.runs[run].items.len() - 1,
        })
    }

    /// The region before a place.
    pub fn before(&self, pos: Pos) -> Option<&Region<V>> {
        self.at(self.prev(pos)?)
    }

    /// All regions, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = &Region<V>> {
        self.runs.iter().flat_map(|r| r.items.iter())
    }

    /// The regions that overlap `[start, end)`, in ascending order.
    pub fn range(&self, start: usize, end: usize) -> impl Iterator<Item = &Region<V>> {
        let mut pos = self.lower(start);
        core::iter::from_fn(move || {
            let region = self.at(pos)?;
            pos = self.next(pos);
            (region.start < end).then_some(region)
        })
    }

    /// The value at a place, to be changed.
    pub fn value_mut(&mut self, pos: Pos) -> Option<&mut V> {
        Some(&mut self.runs.get_mut(pos.run)?.items.get_mut(pos.item)?.value)
    }

    /// Changes the bounds of the region at `pos`. It must keep its position among the others and overlap
    /// none.
    pub fn set_bounds(&mut self, pos: Pos, start: usize, end: usize) {
        debug_assert!(start < end);
        debug_assert!(self.before(pos).is_none_or(|r| r.end <= start));
        debug_assert!(self.at(self.next(pos)).is_none_or(|r| r.start >= end));
        let run = &mut self.runs[pos.run];
        let item = &mut run.items[pos.item];
        let (old_start, old_end) = (item.start, item.end);
        item.start = start;
        item.end = end;
        run.note_gaps(pos.item);
        if start > old_start {
            self.opened(start);
        }
        if end < old_end {
            self.opened(self.at(self.next(pos)).map_or(usize::MAX, |r| r.start));
        }
    }

    /// There may be room below `top` again: the gap that ends there has become wider.
    #[inline]
    fn opened(&mut self, top: usize) {
        if top > self.full.above {
            self.full.above = top;
        }
    }

    /// Adds a region that overlaps no other. Returns its place.
    pub fn insert(&mut self, start: usize, end: usize, value: V) -> Pos {
        let pos = self.lower(start);
        self.insert_at(pos, start, end, value)
    }

    /// [`RegionMap::insert`] if the caller knows the place, which is [`RegionMap::lower`] of `start`.
    pub fn insert_at(&mut self, pos: Pos, start: usize, end: usize, value: V) -> Pos {
        let mut pos = pos;
        debug_assert!(start < end);
        debug_assert!(pos == self.lower(start));
        debug_assert!(self.at(pos).is_none_or(|r| r.start >= end));
        self.len += 1;
        if self.runs.is_empty() {
            self.runs.push(Run {
                items: Vec::with_capacity(8),
                max_gap: 0,
            });
            pos = Pos { run: 0, item: 0 };
        } else if pos.item == 0 && pos.run > 0 {
            // Between two runs, or behind the last: appended to the run before.
            pos = Pos {
                run: pos.run - 1,
                item: self.runs[pos.run - 1].items.len(),
            };
        }
        if self.runs[pos.run].items.len() >= RUN {
            let upper = self.runs[pos.run].items.split_off(RUN / 2);
            let max_gap = self.runs[pos.run].max_gap;
            self.runs.insert(
                pos.run + 1,
                Run {
                    items: upper,
                    max_gap,
                },
            );
            if pos.item > RUN / 2 {
                pos = Pos {
                    run: pos.run + 1,
                    item: pos.item - RUN / 2,
                };
            }
        }
        let run = &mut self.runs[pos.run];
        run.items.insert(pos.item, Region { start, end, value });
        // Between two neighbours the gap only becomes smaller; at an end of the run there is a new gap.
        run.note_gaps(pos.item);
        self.hint.set(pos);
        pos
    }

    /// Makes room for what at most `regions` more of them need: the part that may become large. `false`:
    /// there is no memory.
    #[inline]
    pub fn reserve(&mut self, regions: usize) -> bool {
        self.runs.try_reserve(regions).is_ok()
    }
    /// [`RegionMap::reserve`] for as many as `other` has.
    pub fn reserve_like(&mut self, other: &Self) -> bool {
        self.reserve(other.len / (RUN / 2) + 2)
    }

    /// Removes the region at `pos`. All places become invalid.
    pub fn remove(&mut self, pos: Pos) -> Region<V> {
        self.take(pos).0
    }

    /// Removes the region at `pos`. Returns it, and the place of the next one. Other places become invalid.
    pub fn take(&mut self, pos: Pos) -> (Region<V>, Pos) {
        self.len -= 1;
        let single = self.runs.len() == 1;
        let run = &mut self.runs[pos.run];
        let region = run.items.remove(pos.item);
        let next = if run.items.is_empty() {
            self.runs.remove(pos.run);
            Pos {
                run: pos.run,
                item: 0,
            }
        } else if run.items.len() < RUN / 8 && !single {
            self.join(pos.run);
            self.lower(region.start)
        } else if pos.item == run.items.len() {
            Pos {
                run: pos.run + 1,
                item: 0,
            }
        } else {
            if pos.item > 0 {
                run.note_gaps(pos.item);
            }
            pos
        };
        self.opened(self.at(next).map_or(usize::MAX, |r| r.start));
        (region, next)
    }

    fn join(&mut self, run: usize) {
        let into = if run > 0 { run - 1 } else { run };
        if let Some(next) = self.runs.get(into + 1)
            && self.runs[into].items.len() + next.items.len() <= RUN / 2
        {
            let mut upper = self.runs.remove(into + 1);
            let joined = &mut self.runs[into];
            let between = joined.items.len();
            joined.items.append(&mut upper.items);
            joined.max_gap = joined.max_gap.max(upper.max_gap);
            joined.note_gaps(between);
        }
    }

    /// Splits the region that contains `addr`, unless it starts there: `[start, addr)` keeps the value,
    /// `[addr, end)` gets `split(value, addr - start)`. Returns whether a region was split.
    pub fn split(&mut self, addr: usize, split: impl FnOnce(&V, usize) -> V) -> bool {
        let pos = self.lower(addr);
        let Some(region) = self.at(pos) else { return false };
        if region.start >= addr {
            return false;
        }
        let (start, end) = (region.start, region.end);
        let value = split(&region.value, addr - start);
        self.runs[pos.run].items[pos.item].end = addr;
        self.insert(addr, end, value);
        true
    }

    /// Removes every region inside `[start, end)` and passes each to `f`, in ascending order. The caller has
    /// split at both ends.
    pub fn remove_range(&mut self, start: usize, end: usize, mut f: impl FnMut(Region<V>)) {
        loop {
            let pos = self.lower(start);
            match self.at(pos) {
                Some(r) if r.start < end => {
                    debug_assert!(r.start >= start && r.end <= end);
                    f(self.remove(pos));
                }
                _ => return,
            }
        }
    }

    /// The highest `len` bytes in `[low, high)` that are in no region, aligned to `align` (a power of two).
    /// Below each region `room_below(value)` further bytes stay free.
    pub fn gap_down(
        &mut self,
        low: usize,
        high: usize,
        len: usize,
        align: usize,
        room_below: impl Fn(&V) -> usize,
    ) -> Option<usize> {
        // Whether `len` bytes fit between `bottom` and `top`. What is above is noted as full.
        let fits = |full: &mut Full, bottom: usize, top: usize| {
            let at = top.checked_sub(len)? & !(align - 1);
            if at < bottom.max(low) {
                return None;
            }
            if full.high != high || (len <= full.len && align <= full.align) {
                *full = Full {
                    above: top,
                    high,
                    len,
                    align,
                };
            }
            Some(at)
        };
        // Where there was no room for fewer bytes there is none for these.
        let known = self.full;
        let mut top = high;
        if known.high == high && len >= known.len && align >= known.align {
            top = top.min(known.above);
        }
        let mut pos = self.lower(top);
        // A region that lies across the top is its limit.
        if let Some(r) = self.at(pos)
            && r.start < top.saturating_add(room_below(&r.value))
        {
            top = top.min(r.start.saturating_sub(room_below(&r.value)));
        }
        while let Some(prev) = self.prev(pos) {
            let run = &self.runs[prev.run];
            let r = &run.items[prev.item];
            if top <= low || top - low < len {
                return None;
            }
            if let Some(at) = fits(&mut self.full, r.end, top) {
                return Some(at);
            }
            let entire = prev.item + 1 == run.items.len();
            if entire && run.max_gap < len {
                top = top.min(run.items[0].start.saturating_sub(room_below(&run.items[0].value)));
                pos = Pos {
                    run: prev.run,
                    item: 0,
                };
                continue;
            }
            let mut widest = 0;
            for i in (0..=prev.item).rev() {
                let r = &run.items[i];
                if let Some(at) = fits(&mut self.full, r.end, top) {
                    return Some(at);
                }
                top = top.min(r.start.saturating_sub(room_below(&r.value)));
                if i > 0 {
                    widest = widest.max(r.start - run.items[i - 1].end);
                }
            }
            if entire {
                self.runs[prev.run].max_gap = widest;
            }
            pos = Pos {
                run: prev.run,
                item: 0,
            };
        }
        fits(&mut self.full, low, top)
    }

    /// The lowest `len` bytes in `[low, high)`; as [`RegionMap::gap_down`].
    pub fn gap_up(
        &self,
        low: usize,
        high: usize,
        len: usize,
        align: usize,
        room_below: impl Fn(&V) -> usize,
    ) -> Option<usize> {
        let mut at = low.checked_next_multiple_of(align)?;
        let mut pos = self.lower(low);
        loop {
            let end = at.checked_add(len)?;
            if end > high {
                return None;
            }
            match self.at(pos) {
                Some(r) if end > r.start.saturating_sub(room_below(&r.value)) => {
                    at = at.max(r.end).checked_next_multiple_of(align)?;
                    pos = self.next(pos);
                }
                _ => return Some(at),
            }
        }
    }
}

#[cfg(test)]
mod tests;
