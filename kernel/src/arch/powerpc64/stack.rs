//! The kernel stack as a backtrace sees it: each stack frame begins with the address of its caller's, in
//! which, two words up, the callee has put its return address.

use crate::trace::backtrace::Start;

/// Bytes of the least stack frame of the ABI.
pub const LEAST: usize = 32;
/// Where the return address lies from a frame pointer.
const RETURN_ADDRESS: usize = 16;

/// The frame of the caller: there lie its caller's frame's address and the caller's return address.
#[inline(always)]
fn frame_pointer() -> usize {
    let fp: usize;
    // SAFETY: the back chain of the current stack frame.
    unsafe { core::arch::asm!("ld {}, 0(1)", out(reg) fp, options(nostack, readonly, preserves_flags)) };
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
