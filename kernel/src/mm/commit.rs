//! How much memory was promised (`Committed_AS`), and whether more may be: `vm.overcommit_memory`.

use super::frame;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use limen_linux_abi::Errno;

static COMMITTED: AtomicUsize = AtomicUsize::new(0);
/// `vm.overcommit_memory`: 0 refuses only what could never work, 1 nothing, 2 what exceeds the limit.
pub static OVERCOMMIT: AtomicU32 = AtomicU32::new(0);
/// `vm.overcommit_ratio`, percent of memory, for mode 2.
pub static OVERCOMMIT_RATIO: AtomicU32 = AtomicU32::new(50);

/// Pages promised.
pub fn committed() -> usize {
    COMMITTED.load(Relaxed)
}

/// The most that mode 2 promises, pages.
pub fn limit() -> usize {
    frame::total() / 100 * OVERCOMMIT_RATIO.load(Relaxed) as usize
}

/// Counts pages in or out.
pub(super) fn adjust(pages: usize, add: bool) {
    if add {
        COMMITTED.fetch_add(pages, Relaxed);
    } else {
        COMMITTED.fetch_sub(pages, Relaxed);
    }
}

/// Whether `pages` more may be promised: `ENOMEM` if not.
pub(super) fn check(pages: usize) -> Result<(), Errno> {
    let fine = match OVERCOMMIT.load(Relaxed) {
        1 => true,
        2 => committed().saturating_add(pages) <= limit(),
        _ => pages <= frame::total(),
    };
    if fine { Ok(()) } else { Err(Errno::ENOMEM) }
}
