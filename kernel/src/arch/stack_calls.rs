//! Where backtraces begin: each architecture's `stack`, which knows how frames are chained, with what is made
//! of it alike on all.

use super::imp::sites;
use super::imp::stack::{RETURN_ADDRESS, frame_pointer};
use crate::trace::backtrace::Start;

/// A backtrace from the frame at `fp` on.
pub fn from(fp: usize) -> Start {
    Start {
        fp,
        return_address: RETURN_ADDRESS,
        is_tracer: sites::is_trampoline,
        second: sites::PARENT * size_of::<usize>() as isize,
    }
}

/// A backtrace of how the caller was called.
#[inline(always)]
pub fn here() -> Start {
    from(frame_pointer())
}
