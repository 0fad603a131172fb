//! The vDSO's code for powerpc64: runs in user mode, from a copy. It is position-independent, calls nothing, and finds its data page
//! two pages below itself (the header page is in between). Its functions tell errors as system calls by `sc` do: positive, with `CR0.SO`.

pub use super::super::vdso_calls::text;
use super::super::vdso_calls::{vdso_clock_getres, vdso_clock_gettime, vdso_gettimeofday};
use super::spr;
use core::arch::{asm, global_asm};

/// `clock_gettime`.
pub const CLOCK_GETTIME: usize = 246;
/// `clock_getres`.
pub const CLOCK_GETRES: usize = 247;
/// `gettimeofday`.
pub const GETTIMEOFDAY: usize = 78;

/// The version of every symbol.
pub const VERSION: &str = "LINUX_2.6.15";

macro_rules! symbols {
    ($($name:literal $label:ident $size:literal),* $(,)?) => {
        unsafe extern "C" {
            $(static $label: u8;)*
        }
        /// Exported functions: name, address in the kernel image, size as told to debuggers.
        pub const SYMBOLS: &[(&str, fn() -> usize, usize)] =
            &[$(($name, || &raw const $label as usize, $size)),*];
    };
}
symbols! {
    "__kernel_sigtramp_rt64" vdso_sigtramp 12,
    "__kernel_clock_gettime" vdso_clock_gettime_entry 64,
    "__kernel_gettimeofday" vdso_gettimeofday_entry 64,
    "__kernel_clock_getres" vdso_clock_getres_entry 64,
    "__kernel_time" vdso_time_entry 64,
    "__kernel_getcpu" vdso_getcpu_entry 64,
    "__kernel_get_tbfreq" vdso_get_tbfreq_entry 16,
    "__kernel_sync_dicache" vdso_sync_dicache_entry 64,
}

/// Bytes of the least stack frame below a signal frame: what the trampoline takes off (Linux: `__SIGNAL_FRAMESIZE`).
pub const SIGNAL_STACK: usize = 128;

global_asm!(
    r#"
    .pushsection .vdso.text, "ax", @progbits
    .balign 16
    // What unwinders look for.
    .globl  vdso_sigtramp
    .type   vdso_sigtramp, %function
vdso_sigtramp:
    addi    1, 1, {signal_stack}
    li      0, 172
    sc
    .size   vdso_sigtramp, . - vdso_sigtramp

    // C libraries call these without a stack frame of their own, with what they keep in the red zone and the return address where a callee would put
    // it: a frame that spares both.
    .macro enter
    mflr    0
    stdu    1, -352(1)
    std     0, 48(1)
    .endm
    .macro leave
    ld      0, 48(1)
    addi    1, 1, 352
    mtlr    0
    .endm

    .macro call_kept name, function
    .globl  \name
    .type   \name, %function
\name:
    enter
    bl      \function
    leave
    // Zero, or a negative error.
    crclr   3
    cmpdi   1, 3, 0
    bgelr   1
    neg     3, 3
    crset   3
    blr
    .size   \name, . - \name
    .endm
    call_kept vdso_clock_gettime_entry, {gettime}
    call_kept vdso_clock_getres_entry, {getres}
    call_kept vdso_gettimeofday_entry, {gettimeofday}

    // r3: where the seconds go as well, or null.
    .globl  vdso_time_entry
    .type   vdso_time_entry, %function
vdso_time_entry:
    enter
    std     3, 56(1)
    addi    3, 1, 32
    li      4, 0
    bl      {gettimeofday}
    ld      3, 32(1)
    ld      4, 56(1)
    leave
    crclr   3
    cmpdi   1, 4, 0
    beqlr   1
    std     3, 0(4)
    blr
    .size   vdso_time_entry, . - vdso_time_entry

    // r3: where the CPU's number goes, r4: where the node's.
    .globl  vdso_getcpu_entry
    .type   vdso_getcpu_entry, %function
vdso_getcpu_entry:
    mfspr   5, 259
    cmpdi   0, 3, 0
    beq     1f
    stw     5, 0(3)
1:  cmpdi   0, 4, 0
    beq     2f
    li      5, 0
    stw     5, 0(4)
2:  li      3, 0
    crclr   3
    blr
    .size   vdso_getcpu_entry, . - vdso_getcpu_entry

    .globl  vdso_get_tbfreq_entry
    .type   vdso_get_tbfreq_entry, %function
vdso_get_tbfreq_entry:
    lis     3, 512000000@h
    ori     3, 3, 512000000@l
    crclr   3
    blr
    .size   vdso_get_tbfreq_entry, . - vdso_get_tbfreq_entry

    // Instruction caches snoop: one line orders them.
    .globl  vdso_sync_dicache_entry
    .type   vdso_sync_dicache_entry, %function
vdso_sync_dicache_entry:
    sync
    icbi    0, 3
    isync
    li      3, 0
    crclr   3
    blr
    .size   vdso_sync_dicache_entry, . - vdso_sync_dicache_entry
    .popsection
    "#,
    signal_stack = const SIGNAL_STACK,
    gettime = sym vdso_clock_gettime,
    getres = sym vdso_clock_getres,
    gettimeofday = sym vdso_gettimeofday,
);

/// Signal handlers return through this trampoline.
pub fn sigreturn() -> Option<usize> {
    Some(&raw const vdso_sigtramp as usize)
}

/// Where this copy of the code begins.
#[inline(always)]
pub fn own_start() -> usize {
    let start: usize;
    // SAFETY: only computes the address of this copy of the code.
    unsafe {
        asm!(
            "bcl 20, 31, 2f",
            "2:",
            "mflr {0}",
            "addis {0}, {0}, (__vdso_text_start - 2b)@ha",
            "addi {0}, {0}, (__vdso_text_start - 2b)@l",
            out(reg_nonzero) start, out("lr") _, options(pure, nomem, nostack, preserves_flags)
        );
    }
    start
}

/// The counter the clocks are made of.
#[inline(always)]
pub fn counter() -> u64 {
    spr::read!(spr::TB) as u64
}

/// A system call, for what the data cannot answer.
#[inline(always)]
pub fn syscall2(number: usize, a: usize, b: usize) -> isize {
    let result;
    // SAFETY: a system call made for the caller, with the caller's arguments.
    unsafe {
        asm!("sc", "bns+ 2f", "neg 3, 3", "2:",
            inlateout("r0") number => _, inlateout("r3") a => result, inlateout("r4") b => _,
            out("r5") _, out("r6") _, out("r7") _, out("r8") _, out("r9") _, out("r10") _, out("r11") _, out("r12") _,
            out("ctr") _, out("xer") _, out("cr0") _, out("cr1") _, out("cr5") _, out("cr6") _, out("cr7") _,
            options(nostack));
    }
    result
}
