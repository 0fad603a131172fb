//! The window to user memory: the authority mask register (`AMR`) says whether the kernel may load from and
//! store to user pages. It is open only inside the copies of `uaccess`.

use super::spr;
use crate::arch::windows;

/// `AMR` with the window to user memory shut: neither loads nor stores. Key 0, which all pages have, forbids
/// the kernel user pages then.
pub const AMR_SHUT: usize = 3 << 62;

/// Opens or shuts the window to user memory.
#[inline(always)]
pub(super) fn set_window(amr: usize) {
    // SAFETY: shut, or as it was in the context that is gone back to.
    unsafe { spr::write!(spr::AMR, amr) }
    spr::isync();
}

/// Opens the window, until [`set_window`] with [`AMR_SHUT`].
#[inline(always)]
pub(super) fn open_window() {
    windows::opens();
    set_window(0);
}

/// Does `work` with the window open. It is inlined: loops over accesses that may fault, and what they keep in
/// registers and on the kernel's stack.
#[inline(always)]
pub(super) fn while_open<T>(work: impl FnOnce() -> T) -> T {
    open_window();
    let result = work();
    set_window(AMR_SHUT);
    result
}
