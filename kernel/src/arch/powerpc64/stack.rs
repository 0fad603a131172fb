//! The kernel stack as a backtrace sees it: each stack frame begins with the address of its caller's, in
//! which, two words up, the callee has put its return address.

pub use super::super::stack_calls::{from, here};

/// Bytes of the least stack frame of the ABI.
pub const LEAST: usize = 32;
/// How many words of arguments on the stack a function that runs instead of another gets.
pub const COPIED: usize = 16;
/// Bytes of the frame of who calls a function with so many, and as many in registers. So far below the top of
/// a stack its first function begins: the copy is made whether there are arguments or not.
pub const FIRST: usize = LEAST + 8 * (8 + COPIED);
/// Where the return address lies from a frame pointer.
pub(in crate::arch) const RETURN_ADDRESS: usize = 16;

/// How far a function's stack pointer, when it began, lies at least above the frame that has its return
/// address: it is its caller's.
pub(in crate::arch) const AT_ENTRY: usize = 0;

/// The frame of the caller: there lie its caller's frame's address and the caller's return address.
#[inline(always)]
pub(in crate::arch) fn frame_pointer() -> usize {
    let fp: usize;
    // SAFETY: the back chain of the current stack frame.
    unsafe { core::arch::asm!("ld {}, 0(1)", out(reg) fp, options(nostack, readonly, preserves_flags)) };
    fp
}
