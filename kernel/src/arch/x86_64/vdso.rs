//! The vDSO's code for x86-64: runs in user mode, from a copy. It is position-independent, calls nothing, and
//! finds its data page two pages below itself (the header page is in between).

pub use super::super::vdso_calls::text;
use super::super::vdso_calls::{gettime, vdso_clock_getres, vdso_clock_gettime, vdso_gettimeofday};
use core::arch::asm;

/// `clock_gettime`.
pub const CLOCK_GETTIME: usize = 228;
/// `clock_getres`.
pub const CLOCK_GETRES: usize = 229;
/// `gettimeofday`.
pub const GETTIMEOFDAY: usize = 96;

/// The version of every symbol.
pub const VERSION: &str = "LINUX_2.6";

/// Exported functions: name, address in the kernel image, size as told to debuggers.
pub const SYMBOLS: &[(&str, fn() -> usize, usize)] = &[
    (
        "__vdso_clock_gettime",
        || vdso_clock_gettime as *const () as usize,
        128,
    ),
    ("clock_gettime", || vdso_clock_gettime as *const () as usize, 128),
    (
        "__vdso_gettimeofday",
        || vdso_gettimeofday as *const () as usize,
        128,
    ),
    ("gettimeofday", || vdso_gettimeofday as *const () as usize, 128),
    ("__vdso_time", || vdso_time as *const () as usize, 64),
    ("time", || vdso_time as *const () as usize, 64),
    (
        "__vdso_clock_getres",
        || vdso_clock_getres as *const () as usize,
        64,
    ),
    ("clock_getres", || vdso_clock_getres as *const () as usize, 64),
    ("__vdso_getcpu", || vdso_getcpu as *const () as usize, 32),
    ("getcpu", || vdso_getcpu as *const () as usize, 32),
];

/// Selector of the descriptor whose limit tells CPU (low 12 bits) and node to user mode (`__CPUNODE_SEG`).
pub const CPU_NODE_SELECTOR: u16 = 0x7b;

/// Signal handlers return through the C library's own restorer.
pub fn sigreturn() -> Option<usize> {
    None
}

/// The restorer is the C library's, which tells unwinders of it.
pub const SIGNAL_FRAME: Option<limen_vdso::unwind::SignalFrame> = None;

/// Where this copy of the code begins.
#[inline(always)]
pub fn own_start() -> usize {
    let start: usize;
    // SAFETY: only computes the address of this copy of the code.
    unsafe {
        asm!(
            "lea {}, [rip + __vdso_text_start]", out(reg) start,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    start
}

/// The counter the clocks are made of.
#[inline(always)]
pub fn counter() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: reads the time-stamp counter, after all earlier loads.
    unsafe { asm!("lfence", "rdtsc", out("eax") low, out("edx") high, options(nostack, preserves_flags)) };
    (high as u64) << 32 | low as u64
}

/// A system call, for what the data cannot answer.
#[inline(always)]
pub fn syscall2(number: usize, a: usize, b: usize) -> isize {
    let result;
    // SAFETY: a system call made for the caller, with the caller's arguments.
    unsafe {
        asm!("syscall", inlateout("rax") number => result, in("rdi") a, in("rsi") b,
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

#[unsafe(link_section = ".vdso.text")]
extern "C" fn vdso_time(t: *mut u64) -> isize {
    let Some((seconds, _)) = gettime(0) else {
        return syscall2(201, t as usize, 0);
    };
    if !t.is_null() {
        // SAFETY: the caller's pointer: a wild one is the caller's fault, in user mode.
        unsafe { t.write(seconds) };
    }
    seconds as isize
}

#[unsafe(link_section = ".vdso.text")]
extern "C" fn vdso_getcpu(cpu: *mut u32, node: *mut u32) -> isize {
    let limit: u32;
    // SAFETY: reads a descriptor's limit.
    unsafe {
        asm!("lsl {0:e}, {1:e}", out(reg) limit, in(reg) CPU_NODE_SELECTOR as u32, options(nomem, nostack));
    }
    // SAFETY: the caller's pointers: a wild one is the caller's fault, in user mode.
    unsafe {
        if !cpu.is_null() {
            cpu.write(limit & 0xfff);
        }
        if !node.is_null() {
            node.write(limit >> 12);
        }
    }
    0
}
