//! The kernel stack as a backtrace sees it.

use crate::trace::backtrace::Start;

/// Where the return address lies from a frame pointer.
const RETURN_ADDRESS: usize = size_of::<usize>();

/// The frame pointer of the caller: there lie its caller's frame pointer and its return address.
#[inline(always)]
fn frame_pointer() -> usize {
    let fp: usize;
    // SAFETY: only reads a register.
    unsafe { core::arch::asm!("mov {}, rbp", out(reg) fp, options(nomem, nostack, preserves_flags)) };
    fp
}

/// A backtrace from the frame at `fp` on.
pub fn from(fp: usize) -> Start {
    Start {
        fp,
        return_address: RETURN_ADDRESS,
    }
}

/// A backtrace of how the caller was called.
#[inline(always)]
pub fn here() -> Start {
    from(frame_pointer())
}
