//! The vDSO's code for arm64: runs in user mode, from a copy. It is position-independent, calls nothing, and finds its data page
//! two pages below itself (the header page is in between).

use crate::mm::PAGE_SIZE;
use core::arch::{asm, global_asm};
use limen_vdso::{ClockData, clock};

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
    static __vdso_text_start: u8;
    static __vdso_text_end: u8;
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

/// The code to copy.
pub fn text() -> &'static [u8] {
    let (start, end) = (&raw const __vdso_text_start, &raw const __vdso_text_end);
    // SAFETY: the linker script defines both around the section, which is mapped and never changes.
    unsafe { core::slice::from_raw_parts(start, end as usize - start as usize) }
}

/// Signal handlers return through this trampoline.
pub fn sigreturn() -> Option<usize> {
    Some(&raw const vdso_rt_sigreturn as usize)
}

#[inline(always)]
fn data() -> &'static ClockData {
    let start: usize;
    // SAFETY: only computes the address of this copy of the code.
    unsafe {
        asm!("adr {}, __vdso_text_start", out(reg) start, options(pure, nomem, nostack, preserves_flags));
    }
    // SAFETY: exec maps the data page two pages below the code; it is readable and only accessed atomically.
    unsafe { &*((start - 2 * PAGE_SIZE) as *const ClockData) }
}

#[inline(always)]
fn counter() -> u64 {
    let value;
    // SAFETY: reads the virtual counter, after all earlier instructions.
    unsafe { asm!("isb", "mrs {}, cntvct_el0", out(reg) value, options(nostack, preserves_flags)) };
    value
}

#[inline(always)]
fn syscall2(number: usize, a: usize, b: usize) -> isize {
    let result;
    // SAFETY: a system call made for the caller, with the caller's arguments.
    unsafe {
        asm!("svc #0", in("x8") number, inlateout("x0") a => result, in("x1") b, options(nostack));
    }
    result
}

#[unsafe(link_section = ".vdso.text")]
extern "C" fn vdso_clock_gettime(id: u32, ts: *mut u64) -> isize {
    match clock::gettime(data(), counter, id) {
        Some((seconds, nanoseconds)) => {
            // SAFETY: the caller's pointer; a wild one is the caller's fault, in user mode.
            unsafe {
                ts.write(seconds);
                ts.wrapping_add(1).write(nanoseconds);
            }
            0
        }
        None => syscall2(113, id as usize, ts as usize),
    }
}

#[unsafe(link_section = ".vdso.text")]
extern "C" fn vdso_clock_getres(id: u32, ts: *mut u64) -> isize {
    match clock::getres(data(), id) {
        Some(nanoseconds) => {
            if !ts.is_null() {
                // SAFETY: as above.
                unsafe {
                    ts.write(0);
                    ts.wrapping_add(1).write(nanoseconds);
                }
            }
            0
        }
        None => syscall2(114, id as usize, ts as usize),
    }
}

#[unsafe(link_section = ".vdso.text")]
extern "C" fn vdso_gettimeofday(tv: *mut u64, tz: *mut u64) -> isize {
    let Some((seconds, nanoseconds)) = clock::gettime(data(), counter, 0) else {
        return syscall2(169, tv as usize, tz as usize);
    };
    // SAFETY: as above.
    unsafe {
        if !tv.is_null() {
            tv.write(seconds);
            tv.wrapping_add(1).write(nanoseconds / 1000);
        }
        if !tz.is_null() {
            tz.write(0);
        }
    }
    0
}
