//! The vDSO's code for 32-bit Arm: runs in user mode, from a copy. It is position-independent, calls nothing,
//! and finds its data page two pages below itself (the header page is in between).

pub use super::super::vdso_calls::text;
use super::super::vdso_calls::{
    gettime, gettime_in_namespace, is_in_namespace, vdso_clock_getres, vdso_clock_gettime, vdso_gettimeofday,
};
use super::sysreg;
use core::arch::asm;

/// `clock_gettime`.
pub const CLOCK_GETTIME: usize = 263;
/// `clock_getres`.
pub const CLOCK_GETRES: usize = 264;
/// `gettimeofday`.
pub const GETTIMEOFDAY: usize = 78;
const CLOCK_GETTIME64: usize = 403;

/// The version of every symbol.
pub const VERSION: &str = "LINUX_2.6";

/// An exported function; its name begins with two underscores more.
macro_rules! symbol {
    ($function:ident, $size:literal) => {
        (
            concat!("__", stringify!($function)),
            || $function as *const () as usize,
            $size,
        )
    };
}

/// Exported functions: name, address in the kernel image, size as told to debuggers.
pub const SYMBOLS: &[(&str, fn() -> usize, usize)] = &[
    symbol!(vdso_clock_gettime, 256),
    symbol!(vdso_clock_gettime64, 256),
    symbol!(vdso_gettimeofday, 256),
    symbol!(vdso_clock_getres, 128),
];

/// `clock_gettime64`.
#[unsafe(link_section = ".vdso.text")]
extern "C" fn vdso_clock_gettime64(id: u32, ts: *mut u64) -> isize {
    match gettime(id) {
        Some((seconds, nanoseconds)) => {
            // SAFETY: the caller's pointer; a wild one is the caller's fault, in user mode.
            unsafe {
                ts.write(seconds);
                ts.wrapping_add(1).write(nanoseconds);
            }
            0
        }
        None if is_in_namespace() => clock_gettime64_in_namespace(id, ts),
        None => syscall2(CLOCK_GETTIME64, id as usize, ts as usize),
    }
}

/// [`vdso_clock_gettime64`] in a time namespace.
#[unsafe(link_section = ".vdso.text")]
#[inline(never)]
extern "C" fn clock_gettime64_in_namespace(id: u32, ts: *mut u64) -> isize {
    match gettime_in_namespace(id) {
        Some((seconds, nanoseconds)) => {
            // SAFETY: the caller's pointer; a wild one is the caller's fault, in user mode.
            unsafe {
                ts.write(seconds);
                ts.wrapping_add(1).write(nanoseconds);
            }
            0
        }
        None => syscall2(CLOCK_GETTIME64, id as usize, ts as usize),
    }
}

/// Signal handlers return through code in the signal frame or their own restorer, not through the vDSO.
pub fn sigreturn() -> Option<usize> {
    None
}

/// The restorer is the C library's, and unwinders know the code in the frame by its instructions.
pub const SIGNAL_FRAME: Option<limen_vdso::unwind::SignalFrame> = None;

/// Where this copy of the code begins.
#[inline(always)]
pub fn own_start() -> usize {
    let start: usize;
    // SAFETY: only computes the address of this copy of the code.
    unsafe {
        asm!(
            "ldr {0}, 3f", "2: add {0}, pc, {0}", "b 4f",
            "3: .long __vdso_text_start - (2b + 8)", "4:",
            out(reg) start, options(pure, nomem, nostack, preserves_flags)
        );
    }
    start
}

/// The counter the clocks are made of.
#[inline(always)]
pub fn counter() -> u64 {
    sysreg::counter()
}

/// A system call, for what the data cannot answer.
#[inline(always)]
pub fn syscall2(number: usize, a: usize, b: usize) -> isize {
    let result;
    // SAFETY: a system call made for the caller, with the caller's arguments.
    unsafe {
        asm!("svc #0", in("r7") number, inlateout("r0") a => result, in("r1") b, options(nostack));
    }
    result
}
