//! The window to user memory: privileged access never (PAN) is off only inside copies. Where the processor
//! has PAN its two instructions replace the placeholders at boot (`cpu::init_boot`); where it has not, the
//! window is always open.

use crate::arch::windows;
use core::arch::asm;

/// A placeholder: `yield` where the window to user memory opens, `nop` where it shuts.
macro_rules! window {
    ($placeholder:literal) => {
        concat!(
            "9998: ",
            $placeholder,
            "\n.pushsection __pan_sites, \"a\"\n.long 9998b - .\n.popsection"
        )
    };
}
pub(super) use window;

/// Does `work` with the window open. It is inlined: loops over accesses that may fault, and what they keep in
/// registers and on the kernel's stack.
#[inline(always)]
pub(super) fn while_open<T>(work: impl FnOnce() -> T) -> T {
    windows::opens();
    // SAFETY: what is accessed meanwhile is the caller's promise.
    unsafe { asm!(window!("yield"), options(nostack, preserves_flags)) };
    let result = work();
    // SAFETY: shuts it.
    unsafe { asm!(window!("nop"), options(nostack, preserves_flags)) };
    result
}
