//! The vDSO's code for arm64: runs in user mode, from a copy. It is position-independent, calls nothing, and
//! finds its data page two pages below itself (the header page is in between).

pub use super::super::vdso_calls::text;
use super::super::vdso_calls::{vdso_clock_getres, vdso_clock_gettime, vdso_gettimeofday};
use core::arch::{asm, global_asm};

/// `clock_gettime`.
pub const CLOCK_GETTIME: usize = 113;
/// `clock_getres`.
pub const CLOCK_GETRES: usize = 114;
/// `gettimeofday`.
pub const GETTIMEOFDAY: usize = 169;

/// The version of every symbol.
pub const VERSION: &str = "LINUX_2.6.39";

/// Exported functions: name, address in the kernel image, size as told to debuggers.
pub const SYMBOLS: &[(&str, fn() -> usize, usize)] = &[
    (
        "__kernel_rt_sigreturn",
        || &raw const vdso_rt_sigreturn as usize,
        8,
    ),
    (
        "__kernel_clock_gettime",
        || vdso_clock_gettime as *const () as usize,
        128,
    ),
    (
        "__kernel_gettimeofday",
        || vdso_gettimeofday as *const () as usize,
        128,
    ),
    (
        "__kernel_clock_getres",
        || vdso_clock_getres as *const () as usize,
        64,
    ),
];

unsafe extern "C" {
    static vdso_rt_sigreturn: u8;
}

// The two instructions, and nothing before or after, are what unwinders look for.
global_asm!(
    ".pushsection .vdso.text,\"ax\",%progbits",
    ".balign 16",
    "nop",
    ".globl vdso_rt_sigreturn",
    ".type vdso_rt_sigreturn, %function",
    "vdso_rt_sigreturn:",
    "mov x8, #139",
    "svc #0",
    ".size vdso_rt_sigreturn, . - vdso_rt_sigreturn",
    ".popsection",
);

/// Signal handlers return through this trampoline.
pub fn sigreturn() -> Option<usize> {
    Some(&raw const vdso_rt_sigreturn as usize)
}

/// Unwinders know the trampoline by its instructions.
pub const SIGNAL_FRAME: Option<limen_vdso::unwind::SignalFrame> = None;

/// Where this copy of the code begins.
#[inline(always)]
pub fn own_start() -> usize {
    let start: usize;
    // SAFETY: only computes the address of this copy of the code.
    unsafe {
        asm!("adr {}, __vdso_text_start", out(reg) start, options(pure, nomem, nostack, preserves_flags));
    }
    start
}

/// The counter the clocks are made of.
#[inline(always)]
pub fn counter() -> u64 {
    let value;
    // SAFETY: reads the virtual counter, after all earlier instructions.
    unsafe { asm!("isb", "mrs {}, cntvct_el0", out(reg) value, options(nostack, preserves_flags)) };
    value
}

/// A system call, for what the data cannot answer.
#[inline(always)]
pub fn syscall2(number: usize, a: usize, b: usize) -> isize {
    let result;
    // SAFETY: a system call made for the caller, with the caller's arguments.
    unsafe {
        asm!("svc #0", in("x8") number, inlateout("x0") a => result, in("x1") b, options(nostack));
    }
    result
}
