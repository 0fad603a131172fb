//! Where traced functions return to, so that their returns are traced: [`return_address`] is in place of
//! their own return address.

use crate::task::ThreadInfo;
use core::arch::global_asm;
use core::mem::{offset_of, size_of};
use limen_entry::{ThreadFlags, WorkWords};

/// What a function returned, on the stack while its tracers run.
#[derive(Debug)]
#[repr(C)]
pub struct Exit {
    values: [usize; 9],
    /// For the stack's alignment.
    _none: usize,
    fp: usize,
    /// Where it returns to.
    parent: usize,
}

impl Exit {
    /// What it returned, if that is a number.
    #[inline(always)]
    pub fn value(&self) -> usize {
        self.values[0]
    }

    /// The function's stack pointer when it began.
    #[inline(always)]
    pub fn sp(&self) -> usize {
        &raw const *self as usize + size_of::<Self>()
    }
}

/// Where functions return to whose returns are traced.
#[inline(always)]
pub fn return_address() -> usize {
    unsafe extern "C" {
        fn return_trampoline();
    }
    return_trampoline as *const () as usize
}

// A function has returned here. Preemption is off until where it really returns to is known and its return
// was traced. Until then this frame's return address is this address, which a backtrace understands.
global_asm!(
    r#"
.pushsection .text, "ax"
.balign 64
.globl return_trampoline
.type return_trampoline, %function
return_trampoline:
    sub     sp, sp, #{size}
    stp     x0, x1, [sp]
    stp     x2, x3, [sp, #16]
    stp     x4, x5, [sp, #32]
    stp     x6, x7, [sp, #48]
    str     x8, [sp, #64]
    adr     x9, return_trampoline
    stp     x29, x9, [sp, #80]
    add     x29, sp, #80
    mrs     x10, sp_el0
    ldr     w11, [x10, #{preempt_count}]
    add     w11, w11, #1
    str     w11, [x10, #{preempt_count}]
    mov     x0, sp
    bl      {returned}
    str     x0, [sp, #88]
    mrs     x10, sp_el0
    ldr     w11, [x10, #{preempt_count}]
    sub     w11, w11, #1
    str     w11, [x10, #{preempt_count}]
    ldr     w11, [x10, #{work}]
    tbnz    w11, #{need_resched}, 2f
1:  ldp     x0, x1, [sp]
    ldp     x2, x3, [sp, #16]
    ldp     x4, x5, [sp, #32]
    ldp     x6, x7, [sp, #48]
    ldr     x8, [sp, #64]
    ldp     x29, x30, [sp, #80]
    add     sp, sp, #{size}
    ret
// Somebody more deserving became runnable meanwhile.
2:  bl      {resched}
    b       1b
.size return_trampoline, . - return_trampoline
.popsection
"#,
    size = const size_of::<Exit>(),
    preempt_count = const offset_of!(ThreadInfo, preempt_count),
    work = const offset_of!(ThreadInfo, work) + WorkWords::FLAGS,
    need_resched = const ThreadFlags::NEED_RESCHED.bits().trailing_zeros(),
    returned = sym crate::arch::site_table::returned,
    resched = sym crate::arch::site_table::resched,
);
