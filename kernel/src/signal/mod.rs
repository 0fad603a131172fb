//! Signals: generation, delivery, masks, stops, alternate stacks.

use crate::arch::frame::Frame;

/// Delivers what is pending for the running thread before it returns to user mode; see `limen_entry::Kernel::signals`.
pub fn deliver_pending(frame: &mut Frame) {
    let _ = frame;
}
