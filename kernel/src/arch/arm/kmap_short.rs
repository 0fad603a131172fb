//! The kernel's own tables of short descriptors (`kmap`): one root of 16 KiB for `TTBR0`, which has nothing
//! of user space. What the room changes in its upper entries of the kernel's root is copied there. Secondary
//! CPUs start with a copy that has the identity map, too.

use super::kmap::{Builder, image_to_phys};
use super::mmu::{Entry, IMAGE_BASE, PAGE_SHIFT, Slot, WALKS, phys_to_virt};
use crate::mm::{PAGE_SIZE, PhysAddr};
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

unsafe extern "C" {
    static __idmap_tables: u8;
}

/// Entries of the processor's root, and the first of the kernel's.
pub(super) const ROOT_ENTRIES: usize = 4096;
/// See [`ROOT_ENTRIES`].
pub(super) const KERNEL_PART: usize = 0xc00;

/// The processor's root for the kernel (physical), and the one secondary CPUs start with.
static KERNEL: AtomicUsize = AtomicUsize::new(0);
static START: AtomicUsize = AtomicUsize::new(0);
/// The room's.
static ROOM: AtomicUsize = AtomicUsize::new(0);

/// The processor's root with nothing of user space.
#[inline(always)]
pub(super) fn kernel_table() -> usize {
    KERNEL.load(Ordering::Relaxed)
}

/// An entry of the processor's root at `table` (physical).
pub(super) fn hardware(table: usize, index: usize) -> &'static AtomicU32 {
    let table = phys_to_virt(PhysAddr::new(table as u64)).cast::<AtomicU32>();
    // SAFETY: one of the processor's roots, which live for good and are only accessed as atomics.
    unsafe { &*table.add(index) }
}

/// An entry was written: if it is one of the kernel's root, the processor's have it, too. At boot, before
/// there are any of user space.
#[inline(always)]
pub(super) fn note_kernel_entry(slot: &Slot, entry: Entry) {
    let at = core::ptr::from_ref(slot) as usize;
    if at & !(PAGE_SIZE - 1) == ROOM.load(Ordering::Relaxed) {
        copy_kernel_entry(at % PAGE_SIZE / 4, entry);
    }
}

#[cold]
fn copy_kernel_entry(index: usize, entry: Entry) {
    for table in [&KERNEL, &START] {
        for n in 0..4 {
            hardware(table.load(Ordering::Relaxed), index * 4 + n)
                .store(entry.quarter(n, true), Ordering::Relaxed);
        }
    }
    super::sysreg::store_barrier();
}

/// Adds a section to the early map.
pub(super) fn set_early(virt: usize, entry: Entry) {
    let table = (&raw const __idmap_tables).cast_mut().cast::<u32>();
    // SAFETY: within the table; that entry was empty.
    unsafe { table.add(virt >> 20).write_volatile(entry.0) };
}

/// The map is live: the identity map goes out of it.
pub(super) fn live(map: &Builder) {
    ROOM.store(map.root as usize, Ordering::Relaxed);
    hardware(kernel_table(), identity()).store(0, Ordering::Relaxed);
    super::sysreg::store_barrier();
}

/// The entry of the identity map: the first MiB of the image, where what runs with it is (`head`).
fn identity() -> usize {
    image_to_phys(IMAGE_BASE) as usize >> 20
}

impl Builder {
    /// What the format needs besides the root: the two roots of the processor.
    pub(super) fn begin(&mut self) {
        self.next = self.next.next_multiple_of(ROOT_ENTRIES * 4);
        for root in [&KERNEL, &START] {
            for n in 0..4 {
                let table = image_to_phys(self.table() as usize) as usize;
                if n == 0 {
                    root.store(table, Ordering::Relaxed);
                }
            }
        }
    }

    /// Writes the entry of level `at` for `virt`: a page, or a section.
    pub(super) fn set(&mut self, virt: usize, at: usize, entry: Entry) {
        let hardware = hardware(kernel_table(), virt >> 20);
        if at == 1 {
            return hardware.store(entry.0, Ordering::Relaxed);
        }
        // SAFETY: the room's root is ours.
        let slot = unsafe { self.root.add(virt >> 22) };
        // SAFETY: the slot lies in the room's root.
        let mut table = Entry(unsafe { slot.read() });
        if table.is_empty() {
            let lower = self.table();
            table = Entry::table(PhysAddr::new(image_to_phys(lower as usize)));
            // SAFETY: the slot lies in the room's root, which nothing else writes yet.
            unsafe { slot.write(table.0) };
        }
        // Its neighbours may be sections.
        hardware.store(table.quarter(virt >> 20 & 3, true), Ordering::Relaxed);
        let pages = phys_to_virt(table.phys()).cast::<u32>();
        // SAFETY: a table of ours.
        unsafe { pages.add(virt >> PAGE_SHIFT & 1023).write(entry.0) };
    }

    /// Hangs a table of pages in.
    pub(super) fn set_table(&mut self, virt: usize, table: *mut u32) {
        let entry = Entry::table(PhysAddr::new(image_to_phys(table as usize)));
        // SAFETY: the room's root is ours.
        unsafe { self.root.add(virt >> 22).write(entry.0) };
        for n in 0..4 {
            hardware(kernel_table(), (virt >> 20) + n).store(entry.quarter(n, true), Ordering::Relaxed);
        }
    }

    /// What `TTBR0` is to hold, on this CPU and on the others.
    pub(super) fn finish(&self) -> (u32, u32) {
        let (kernel, start) = (kernel_table(), START.load(Ordering::Relaxed));
        let early = (&raw const __idmap_tables).cast::<u32>();
        // SAFETY: within the early root, which the early map has.
        let entry = unsafe { early.add(identity()).read() };
        hardware(kernel, identity()).store(entry, Ordering::Relaxed);
        for index in 0..ROOT_ENTRIES {
            let entry = hardware(kernel, index).load(Ordering::Relaxed);
            hardware(start, index).store(entry, Ordering::Relaxed);
        }
        super::sysreg::store_barrier();
        (kernel as u32 | WALKS, start as u32 | WALKS)
    }
}
