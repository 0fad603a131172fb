//! Counting how often the window to user memory is opened.

use crate::sched::crossings;
use limen_entry::Crossing;

/// The caller is about to open the window for an access or a copy. Nothing may be called while it is open, so
/// this comes first.
#[inline(always)]
pub(super) fn opens() {
    crossings::count::<{ Crossing::Window as usize }>();
}
