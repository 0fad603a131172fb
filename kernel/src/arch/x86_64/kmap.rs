//! The kernel's own map, built once on the boot CPU: the image with exact permissions, and all RAM linearly
//! with the largest pages. The image's text and constants are read-only in the linear map, too; nothing is
//! writable and executable.

use super::cpu::{self, Features};
use super::cpus;
use super::mmu::{
    ACCESSED, BLOCK, DIRTY, GLOBAL, KERNEL_BASE, KERNEL_ROOT, LINEAR_BASE, NO_EXECUTE, PHYS_MASK, PRESENT,
    WRITE,
};
use super::pvh::Info;
use core::sync::atomic::{AtomicU64, Ordering};

const PAGE: u64 = 4096;

unsafe extern "C" {
    static _text: u8;
    static _etext: u8;
    static _erodata: u8;
    static _end: u8;
}

/// The image's bounds: text, constants, data (each to the next), end.
pub fn image() -> [usize; 4] {
    [
        &raw const _text as usize,
        &raw const _etext as usize,
        &raw const _erodata as usize,
        &raw const _end as usize,
    ]
}

/// The physical address of something in the image.
pub fn image_phys(virt: usize) -> u64 {
    (virt - KERNEL_BASE) as u64
}

static LOW_END: AtomicU64 = AtomicU64::new(0);
static HIGH_END: AtomicU64 = AtomicU64::new(0);

/// Where RAM ends: below 4 GiB, and altogether.
pub fn ram_ends() -> (u64, u64) {
    (LOW_END.load(Ordering::Relaxed), HIGH_END.load(Ordering::Relaxed))
}

/// Makes tables, from a range of RAM below 4 GiB that the first tables map at 0.
struct Builder {
    next: u64,
    end: u64,
    root: u64,
    pages_1g: bool,
    global: u64,
}

impl Builder {
    fn new_table(&mut self) -> u64 {
        let table = self.next;
        assert!(table < self.end, "early page tables ran out");
        self.next += PAGE;
        // SAFETY: free RAM, mapped at its physical address, nobody else's.
        unsafe { (table as *mut u8).write_bytes(0, PAGE as usize) };
        table
    }

    fn slot(table: u64, virt: usize, level: usize) -> *mut u64 {
        ((table as usize) + (virt >> (12 + 9 * level) & 511) * 8) as *mut u64
    }

    /// The table below the entry for `virt` in `table`, made if need be.
    fn below(&mut self, table: u64, virt: usize, level: usize) -> u64 {
        let slot = Self::slot(table, virt, level);
        // SAFETY: the slot lies in a table made by `new_table`.
        let entry = unsafe { slot.read() };
        if entry & PRESENT != 0 {
            assert!(entry & BLOCK == 0, "kernel map: a block is in the way");
            return entry & PHYS_MASK;
        }
        let new = self.new_table();
        // SAFETY: the slot lies in a table made by `new_table`, which nothing else writes yet.
        unsafe { slot.write(new | PRESENT | WRITE | ACCESSED) };
        new
    }

    /// Maps `size` bytes with the largest pages that fit.
    fn map(&mut self, mut virt: usize, mut phys: u64, mut size: u64, flags: u64) {
        while size > 0 {
            let fits = |level: usize| {
                let block = PAGE << (9 * level);
                (virt as u64 | phys) & (block - 1) == 0 && size >= block
            };
            let level = if self.pages_1g && fits(2) {
                2
            } else if fits(1) {
                1
            } else {
                0
            };
            let mut table = self.root;
            for above in (level + 1..4).rev() {
                table = self.below(table, virt, above);
            }
            let entry =
                phys | flags | PRESENT | ACCESSED | DIRTY | self.global | if level > 0 { BLOCK } else { 0 };
            // SAFETY: the slot lies in a table made by `new_table`.
            unsafe { Self::slot(table, virt, level).write(entry) };
            let block = PAGE << (9 * level);
            virt = virt.wrapping_add(block as usize);
            phys += block;
            size -= block;
        }
    }
}

/// A free range of `size` bytes of RAM between the image's end and 4 GiB.
fn find_room(info: &Info, image_end: u64, size: u64) -> u64 {
    for range in info.memory() {
        let range_end = (range.start.as_u64() + range.size).min(1 << 32);
        let mut at = range.start.as_u64().max(image_end);
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
pub unsafe fn build(info: &mut Info) {
    assert!(cpu::has(Features::NX), "the processor has no no-execute pages");
    let [text, rodata, data, end] = image();
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
    let room = find_room(info, image_phys(end), tables * PAGE);
    let mut b = Builder {
        next: room,
        end: room + tables * PAGE,
        root: 0,
        pages_1g: cpu::has(Features::PAGES_1G),
        global: if cpu::has(Features::PGE) { GLOBAL } else { 0 },
    };
    b.root = b.new_table();
    let guard = cpus::boot_stack_guard();
    b.map(text, image_phys(text), (rodata - text) as u64, 0);
    b.map(rodata, image_phys(rodata), (data - rodata) as u64, NO_EXECUTE);
    b.map(data, image_phys(data), (guard - data) as u64, WRITE | NO_EXECUTE);
    b.map(
        guard + PAGE as usize,
        image_phys(guard) + PAGE,
        (end - guard) as u64 - PAGE,
        WRITE | NO_EXECUTE,
    );
    let (fixed_start, fixed_end) = (image_phys(text), image_phys(data));
    for range in info.memory() {
        let (start, end) = (range.start.as_u64(), range.start.as_u64() + range.size);
        for (from, to, flags) in [
            (start, end.min(fixed_start), WRITE | NO_EXECUTE),
            (start.max(fixed_start), end.min(fixed_end), NO_EXECUTE),
            (start.max(fixed_end), end, WRITE | NO_EXECUTE),
        ] {
            if from < to {
                b.map(LINEAR_BASE + from as usize, from, to - from, flags);
            }
        }
    }
    KERNEL_ROOT.store(b.root, Ordering::Relaxed);
    info.reserve(room, b.next - room);
    // SAFETY: the new tables map the image, this stack included, where it is; nothing needs address 0 any
    // more.
    unsafe { cpu::write_cr3(b.root) };
}
