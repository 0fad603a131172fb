//! What the entries of functions' sites have in common: where a tracer finds what its function had in its
//! registers, and where it sends the function.

use super::imp::sites::{Entry, Saved};
use core::mem::offset_of;

impl Entry {
    /// The function at `ip` runs instead.
    pub fn set_ip(&self, ip: usize) {
        self.next.set(ip);
    }

    /// The function returns to `parent`.
    pub fn set_parent(&self, parent: usize) {
        self.parent.set(parent);
    }
}

impl Saved {
    /// Where it is.
    ///
    /// # Safety
    /// `trace_saved` calls the tracer.
    pub unsafe fn of(entry: &Entry) -> &Self {
        let at = &raw const *entry as usize - offset_of!(Self, entry);
        // SAFETY: `trace_saved` has put it there.
        unsafe { &*(at as *const Self) }
    }
}
