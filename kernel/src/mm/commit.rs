//! How much memory is committed (`Committed_AS`), and whether more may be: `vm.overcommit_memory`.

use super::frame;
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicUsize, Ordering::Relaxed};
use limen_linux_abi::Errno;

static COMMITTED: AtomicUsize = AtomicUsize::new(0);
/// `vm.overcommit_memory`. 0: refuses only obvious overcommits, 1: refuses nothing, 2: refuses what exceeds
/// the limit.
pub static OVERCOMMIT: AtomicU32 = AtomicU32::new(0);
/// `vm.overcommit_ratio`, percent of memory, for mode 2.
pub static OVERCOMMIT_RATIO: AtomicI32 = AtomicI32::new(50);
/// `vm.overcommit_kbytes`: if not 0, the number of KiB used instead of the ratio.
pub static OVERCOMMIT_KBYTES: AtomicUsize = AtomicUsize::new(0);

/// How many pages are committed.
pub fn committed() -> usize {
    COMMITTED.load(Relaxed)
}

/// How many pages mode 2 allows.
pub fn limit() -> usize {
    match OVERCOMMIT_KBYTES.load(Relaxed) {
        0 => {
            let percent = OVERCOMMIT_RATIO.load(Relaxed).max(0) as u64;
            usize::try_from(frame::total() as u64 * percent / 100).unwrap_or(usize::MAX)
        }
        kib => kib / (super::PAGE_SIZE / 1024),
    }
}

/// Adds pages to the committed ones, or subtracts them.
pub(super) fn adjust(pages: usize, add: bool) {
    if add {
        COMMITTED.fetch_add(pages, Relaxed);
    } else {
        COMMITTED.fetch_sub(pages, Relaxed);
    }
}

/// Commits `pages` for memory that no mapping accounts for. `ENOMEM`: so much may not be committed.
pub fn take(pages: usize) -> Result<(), Errno> {
    check(pages)?;
    adjust(pages, true);
    Ok(())
}

/// Gives back what [`take`] committed.
pub fn give_back(pages: usize) {
    adjust(pages, false);
}

/// `ENOMEM` if `pages` more may not be committed.
pub(super) fn check(pages: usize) -> Result<(), Errno> {
    let fine = match OVERCOMMIT.load(Relaxed) {
        1 => true,
        2 => committed().saturating_add(pages) <= limit(),
        _ => pages <= frame::total(),
    };
    if fine { Ok(()) } else { Err(Errno::ENOMEM) }
}
