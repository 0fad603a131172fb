//! `debug_pagealloc=on`: frames that are free are not in the linear map, so that the kernel faults when it
//! uses one (Linux: `CONFIG_DEBUG_PAGEALLOC`).
//!
//! The CPUs' lists of free frames are always empty then, so every frame comes and goes through the slow paths
//! of [`super`], which are those of this file. Nothing of a free frame is in its memory: lists and orders are
//! in the records. A change of the map may need tables. It takes them from the map's reserve only, which gets
//! frames from here: from the buddy allocator, or those that are given back, while they are still mapped. So
//! the map never asks the allocator for frames while it is asked by it. The map's lock is taken with none of
//! the allocator's held, interrupts off or on.
//!
//! Where the reserve is empty after all, a frame that is given back stays mapped, and one that is not mapped
//! is not handed out.

use super::{BASE, FrameList, LEN, LOW, PCP_HIGH, Pfn, Zone, drain_local, pfn, phys, records};
use super::{For, Records};
use crate::arch::{kernel_map, mmu};
use crate::cmdline;
use crate::mm::PAGE_SIZE;
use crate::mm::linear::{self, Need};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use limen_page_alloc::{Frames, ORDERS};

static ON: AtomicBool = AtomicBool::new(false);

/// Whether free frames leave the linear map.
#[inline(always)]
pub fn is_on() -> bool {
    ON.load(Relaxed)
}

/// Whether the command line asks for it, in any of Linux's spellings of a truth.
pub fn is_wanted() -> bool {
    let value = cmdline::value("debug_pagealloc").unwrap_or("");
    matches!(
        value.as_bytes(),
        [b'y' | b'Y' | b't' | b'T' | b'1', ..] | [b'o' | b'O', b'n' | b'N', ..]
    )
}

/// The frames that are free leave the linear map, and all that will be. Boot, before there are other CPUs;
/// interrupts off.
pub fn start() {
    drain_local();
    PCP_HIGH.store(0, Relaxed);
    ON.store(true, Relaxed);
    let records = records();
    let (mut at, mut hidden, mut kept) = (0, 0, 0);
    let mut tables = FrameList::new();
    while at < LEN.load(Relaxed) {
        fill_reserve();
        match free_block_of(&records, at) {
            Some((first, order)) => {
                let frames = 1 << order;
                at = first + frames;
                if mmu::HIGH_MEMORY && phys(records.base + first).as_u64() >= mmu::linear_end() {
                    continue;
                }
                match hide(records.base + first, frames, &mut tables) {
                    true => hidden += frames as usize,
                    false => kept += frames as usize,
                }
            }
            None => at += 1,
        }
    }
    put_tables(tables);
    let kib = PAGE_SIZE / 1024;
    info!(
        "debug_pagealloc: {} KiB of free memory left the kernel's map, {} KiB could not, {} KiB are tables; \
         the map changes with each page that is allocated or freed",
        hidden * kib,
        kept * kib,
        (linear::tables() + linear::in_reserve()) * kib
    );
}

/// The free block with the frame of that index in it: its first, and its order.
fn free_block_of(records: &Records, at: u32) -> Option<(u32, usize)> {
    (0..ORDERS).find_map(|least| {
        let first = at & !((1 << least) - 1);
        let order = usize::from(records.free_order(first)?);
        (order >= least).then_some((first, order))
    })
}

/// Whether that is an address of the linear map whose frame is free and not mapped. For the report of a
/// fault: takes no lock.
pub fn is_free(addr: usize) -> bool {
    let area = &kernel_map::areas()[0];
    if !is_on() || !(area.start..area.end).contains(&kernel_map::address(addr)) {
        return false;
    }
    let records = records();
    let index = pfn(mmu::virt_to_phys(addr as *const u8)).wrapping_sub(BASE.load(Relaxed));
    index < LEN.load(Relaxed) && free_block_of(&records, index).is_some()
}

/// Frames are no longer, or again, in the linear map; `tables` gets what tables that is good for. `false`:
/// there were too few tables.
fn hide(first: Pfn, frames: u32, tables: &mut FrameList) -> bool {
    linear::set_free(phys(first), frames as usize, true, tables).is_ok()
}

/// A block that the buddy allocator has handed out comes back. `false`: it could not, and is free again.
fn show(zone: &Zone, first: Pfn, order: usize) -> bool {
    let mut tables = FrameList::new();
    let done = linear::set_free(phys(first), 1 << order, false, &mut tables).is_ok();
    if !done {
        add(zone, first, 1 << order);
    }
    put_tables(tables);
    done
}

/// Frames are free for the buddy allocator.
fn add(zone: &Zone, first: Pfn, frames: u32) {
    let records = records();
    let index = first - records.base;
    zone.buddy.lock().add_range(&records, index, index + frames);
}

/// Frames leave the linear map and are free.
pub(super) fn put(zone: &Zone, first: Pfn, frames: u32) {
    let mut tables = FrameList::new();
    hide(first, frames, &mut tables);
    add(zone, first, frames);
    put_tables(tables);
}

/// Tables that the map does not need any more leave it, too. That may make more of them.
fn put_tables(mut tables: FrameList) {
    while let Some(table) = tables.pop() {
        hide(table, 1, &mut tables);
        add(&LOW, table, 1);
    }
}

/// A block of the buddy allocator's that is in the linear map.
fn take(zone: &Zone, order: usize, whom: For) -> Option<Pfn> {
    let records = records();
    let block = {
        let mut buddy = zone.buddy.lock();
        if whom.must_stop(&buddy) {
            return None;
        }
        buddy.alloc(&records, order)?
    };
    let first = records.base + block;
    show(zone, first, order).then_some(first)
}

/// The map gets tables while it has few in reserve.
fn fill_reserve() {
    while linear::wants(Need::Some)
        && let Some(table) = take(&LOW, 0, For::Kernel)
    {
        if !linear::keep(table) {
            return put(&LOW, table, 1);
        }
    }
}

/// [`super::refill`]: the list has one frame then, if there is one.
pub(super) fn refill(zone: &Zone, list: &mut FrameList, whom: For) {
    fill_reserve();
    if let Some(frame) = take(zone, 0, whom) {
        list.push(frame);
    }
}

/// [`super::alloc_block`].
pub(super) fn alloc_block(order: usize, whom: For) -> Option<Pfn> {
    fill_reserve();
    take(&LOW, order, whom)
}

/// [`super::drain`].
pub(super) fn drain(zone: &Zone, list: &mut FrameList, down_to: u32) {
    while list.count > down_to
        && let Some(frame) = list.pop()
    {
        if core::ptr::eq(zone, &LOW) && linear::wants(Need::Bad) && linear::keep(frame) {
            continue;
        }
        let (first, last) = list.neighbours(frame, down_to);
        put(zone, first, last + 1 - first);
    }
}
