//! The last exception of the running thread that became a signal, as signal frames show it. What is kept of
//! one ([`Fault`]), and which are worth it, differs.

use super::switch::Fault;
use crate::task::current;

impl Fault {
    /// The running thread's.
    pub fn of_current() -> Self {
        // SAFETY: only the running thread itself reads or writes this field of its context.
        unsafe { (*current().context.get()).fault }
    }

    /// Changes what is kept of the running thread's.
    pub(super) fn change(how: impl FnOnce(&mut Self)) {
        // SAFETY: only the running thread itself reads or writes this field of its context.
        how(unsafe { &mut (*current().context.get()).fault });
    }
}
