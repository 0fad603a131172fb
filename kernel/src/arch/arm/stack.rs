//! The kernel stack as a backtrace sees it.

pub use super::super::stack_calls::{from, here};

/// Where the return address lies, from the frame pointer on.
pub(in crate::arch) const RETURN_ADDRESS: usize = size_of::<usize>();

/// How far a function's stack pointer, when it began, lies at least above its frame pointer.
pub(in crate::arch) const AT_ENTRY: usize = 2 * RETURN_ADDRESS;

/// The frame pointer of the caller: there lie its caller's frame pointer and its return address.
#[inline(always)]
pub(in crate::arch) fn frame_pointer() -> usize {
    let fp: usize;
    // SAFETY: only reads a register.
    unsafe { core::arch::asm!("mov {}, r11", out(reg) fp, options(nomem, nostack, preserves_flags)) };
    fp
}
