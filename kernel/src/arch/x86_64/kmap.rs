//! The kernel's own map, built once on the boot CPU: the image with exact permissions, and all RAM linearly
//! with the largest pages. The image's text and constants are read-only in the linear map, too; nothing is
//! writable and executable.

use super::cpu::{self, Features};
use super::cpus;
use super::kernel_map::{self, image_parts, image_phys};
use super::kernel_tables::Tables;
use super::mmu::{KERNEL_ROOT, MemoryKind};
use super::pvh::Info;
use crate::mm::Prot;
use core::sync::atomic::{AtomicU64, Ordering};
use limen_linear_map::{Map, Table};

const PAGE: u64 = 4096;

static LOW_END: AtomicU64 = AtomicU64::new(0);
static HIGH_END: AtomicU64 = AtomicU64::new(0);

/// Where RAM ends: below 4 GiB, and altogether.
pub fn ram_ends() -> (u64, u64) {
    (LOW_END.load(Ordering::Relaxed), HIGH_END.load(Ordering::Relaxed))
}

/// A free range of `size` bytes of RAM between 1 MiB, below which the firmware has its own, and 4 GiB. Below
/// the image is room too, and a small machine has it nowhere else.
#[unsafe(link_section = ".init.text")]
fn find_room(info: &Info, size: u64) -> u64 {
    for range in info.memory() {
        let range_end = (range.start.as_u64() + range.size).min(1 << 32);
        let mut at = range.start.as_u64().max(1 << 20);
        while at + size <= range_end {
            let clash = info
                .reserved()
                .iter()
                .find(|r| r.start.as_u64() < at + size && at < r.start.as_u64() + r.size);
            match clash {
                None => return at,
                Some(r) => at = (r.start.as_u64() + r.size).next_multiple_of(PAGE),
            }
        }
    }
    panic!("no room for the kernel's page tables");
}

/// Builds the final map and makes it live; reserves the image and the tables in `info`.
///
/// # Safety
/// Boot CPU, once, on the first tables.
#[unsafe(link_section = ".init.text")]
pub unsafe fn build(info: &mut Info) {
    assert!(cpu::has(Features::NX), "the processor has no no-execute pages");
    let [text, rodata, init, init_data, data, end] = image_parts();
    info.reserve(image_phys(text), (end - text) as u64);
    let top = info.memory().last().map_or(0, |r| r.start.as_u64() + r.size);
    for range in info.memory() {
        let end = range.start.as_u64() + range.size;
        HIGH_END.store(end, Ordering::Relaxed);
        if end <= 1 << 32 {
            LOW_END.store(end, Ordering::Relaxed);
        }
    }
    // Per GiB of address space one table of 2 MiB pages; at each range's borders and around the image a few
    // of 4 KiB pages.
    let tables = (top >> 30) + 24 + 2 * info.memory().len() as u64 + ((end - text) >> 21) as u64 * 2;
    let room = find_room(info, tables * PAGE);
    // The first tables map RAM below 4 GiB at 0.
    let mut b = Tables::new(room as usize, (room + tables * PAGE) as usize, 0);
    let root = b.pages(1);
    let root = b.phys(root);
    let map = Map {
        root: Table(root),
        ..kernel_map::map()
    };
    let guard = cpus::boot_stack_guard();
    let (read, write) = (Prot::READ, Prot::READ | Prot::WRITE);
    for (from, to, prot) in [
        (text, rodata, read | Prot::EXEC),
        (rodata, init, read),
        (init, init_data, read | Prot::EXEC),
        (init_data, data, write),
        (data, guard, write),
        (guard + PAGE as usize, end, write),
    ] {
        let size = (to - from) as u64;
        b.map(&map, from, image_phys(from), size, prot, MemoryKind::Normal);
    }
    for &range in info.memory() {
        b.map_ram(&map, range, &kernel_map::image(), false);
    }
    KERNEL_ROOT.store(map.root.0, Ordering::Relaxed);
    info.reserve(room, b.next as u64 - room);
    // SAFETY: the new tables map the image, this stack included, where it is; nothing needs address 0 any
    // more.
    unsafe { cpu::write_cr3(map.root.0) };
}
