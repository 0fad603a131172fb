//! The kernel's own tables of short descriptors (`kmap`): one root of 16 KiB for `TTBR0`, which has nothing
//! of user space. What `mm` changes in its upper entries of the kernel's root is copied there. Secondary
//! CPUs start with a copy that has the identity map, too.

use super::format::{Entry, KERNEL_TABLE, MM_ROOT, ROOT_ENTRIES, START_TABLE, entry_of, kernel_table};
use super::image::__idmap_tables;
use super::kernel_tables::Tables;
use super::layout::{IMAGE_BASE, PAGE_SHIFT, image_to_phys, phys_to_virt};
use super::mmu::kernel_root;
use super::sysreg;
use crate::mm::PhysAddr;
use core::sync::atomic::Ordering;
use limen_linear_map::Map;

/// Adds a section to the early map.
pub(super) fn set_early(virt: usize, entry: Entry) {
    let table = (&raw const __idmap_tables).cast_mut().cast::<u32>();
    // SAFETY: within the table; that entry was empty.
    unsafe { table.add(virt >> 20).write_volatile(entry.0) };
}

/// The map is live: the identity map goes out of it.
pub(super) fn live() {
    MM_ROOT.store(root() as usize, Ordering::Relaxed);
    entry_of(kernel_table(), identity()).store(0, Ordering::Relaxed);
    sysreg::store_barrier();
}

/// The entry of the identity map: the first MiB of the image, where what runs with it is (`head`).
fn identity() -> usize {
    image_to_phys(IMAGE_BASE) as usize >> 20
}

/// The root, as `mm` knows it.
fn root() -> *mut Entry {
    phys_to_virt(kernel_root()).cast()
}

impl Tables {
    /// What the format needs besides the root: the two roots of the processor.
    pub(super) fn begin(&mut self) {
        self.next = self.next.next_multiple_of(ROOT_ENTRIES * 4);
        for root in [&KERNEL_TABLE, &START_TABLE] {
            let table = self.pages(4);
            root.store(self.phys(table) as usize, Ordering::Relaxed);
        }
    }

    /// A page that is mapped as `entry` says.
    pub(super) fn set(&mut self, _: &Map, virt: usize, entry: Entry) {
        let section = entry_of(kernel_table(), virt >> 20);
        // SAFETY: `mm`'s root is ours.
        let slot = unsafe { root().add(virt >> 22) };
        // SAFETY: the slot lies in `mm`'s root.
        let mut table = unsafe { slot.read() };
        if table.is_empty() {
            let lower = self.pages(1);
            table = Entry::table(PhysAddr::new(image_to_phys(lower as usize)));
            // SAFETY: the slot lies in `mm`'s root, which nothing else writes yet.
            unsafe { slot.write(table) };
        }
        // Its neighbours may be sections.
        section.store(table.quarter(virt >> 20 & 3, true), Ordering::Relaxed);
        let pages = phys_to_virt(table.phys()).cast::<u32>();
        // SAFETY: a table of ours.
        unsafe { pages.add(virt >> PAGE_SHIFT & 1023).write(entry.0) };
    }

    /// Hangs a table of pages in.
    pub(super) fn set_table(&mut self, _: &Map, virt: usize, table: *mut Entry) {
        let entry = Entry::table(PhysAddr::new(image_to_phys(table as usize)));
        // SAFETY: `mm`'s root is ours.
        unsafe { root().add(virt >> 22).write(entry) };
        for n in 0..4 {
            entry_of(kernel_table(), (virt >> 20) + n).store(entry.quarter(n, true), Ordering::Relaxed);
        }
    }

    /// What `TTBR0` is to hold, on this CPU and on the others.
    pub(super) fn finish(&self) -> (u32, u32) {
        let (kernel, start) = (kernel_table(), START_TABLE.load(Ordering::Relaxed));
        let early = (&raw const __idmap_tables).cast::<u32>();
        // SAFETY: within the early root, which the early map has.
        let entry = unsafe { early.add(identity()).read() };
        entry_of(kernel, identity()).store(entry, Ordering::Relaxed);
        for index in 0..ROOT_ENTRIES {
            let entry = entry_of(kernel, index).load(Ordering::Relaxed);
            entry_of(start, index).store(entry, Ordering::Relaxed);
        }
        sysreg::store_barrier();
        (
            kernel as u32 | sysreg::TTBR0_WALKS,
            start as u32 | sysreg::TTBR0_WALKS,
        )
    }
}
