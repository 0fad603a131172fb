//! Room for the tables of the kernel's own map (`kmap`): a pool in the image, since nothing can be allocated
//! yet. Which tables there are and what is in them is the format's (`kmap_long`, `kmap_short`).

use super::format::Raw;
use crate::mm::PAGE_SIZE;

unsafe extern "C" {
    pub(super) static __table_pool_start: u8;
    static __table_pool_end: u8;
}

/// Where a symbol of the linker script is.
pub(super) fn address(symbol: &'static u8) -> usize {
    core::ptr::from_ref(symbol) as usize
}

/// The tables.
pub(super) struct Tables {
    /// The room's root.
    pub(super) root: *mut Raw,
    /// Where the next table of the pool goes.
    pub(super) next: usize,
}

impl Tables {
    /// An empty root. It lies behind the pool's first page, which is the early table and live.
    pub(super) fn new() -> Self {
        // SAFETY: the linker script places the pool.
        let pool = unsafe { address(&__table_pool_start) };
        let mut tables = Self {
            root: core::ptr::null_mut(),
            next: pool + PAGE_SIZE,
        };
        tables.root = tables.table();
        tables
    }

    /// An empty table.
    pub(super) fn table(&mut self) -> *mut Raw {
        let table = self.next;
        self.next += PAGE_SIZE;
        // SAFETY: the linker script places the pool.
        let end = unsafe { address(&__table_pool_end) };
        assert!(
            self.next <= end,
            "memory is in too many pieces for the boot page tables"
        );
        // SAFETY: a page of the pool that nobody has yet.
        unsafe { core::ptr::write_bytes(table as *mut u8, 0, PAGE_SIZE) };
        table as *mut Raw
    }
}
