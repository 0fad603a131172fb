//! Room for the tables of the kernel's own map (`kmap`), which is made when nothing can be allocated yet: a
//! pool in the image.

use super::mmu::Entry;
use crate::mm::PAGE_SIZE;

unsafe extern "C" {
    static __table_pool_end: u8;
}

/// The tables of the map.
pub(super) struct Tables {
    /// The one at the root, in the format that `mm` knows.
    pub(super) root: *mut Entry,
    /// Where the next table of the pool goes.
    pub(super) next: usize,
}

impl Tables {
    /// None yet, with what is left of the pool from `next` on.
    pub(super) fn new(next: usize) -> Self {
        Self {
            root: core::ptr::null_mut(),
            next,
        }
    }

    /// An empty table.
    pub(super) fn table(&mut self) -> *mut Entry {
        let table = self.next;
        self.next += PAGE_SIZE;
        assert!(
            self.next <= &raw const __table_pool_end as usize,
            "memory is in too many pieces for the boot page tables"
        );
        // SAFETY: a page of the pool that nobody has yet.
        unsafe { core::ptr::write_bytes(table as *mut u8, 0, PAGE_SIZE) };
        table as *mut Entry
    }
}
