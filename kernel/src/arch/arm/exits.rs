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
    values: [usize; 4],
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
    adr     lr, return_trampoline
    push    {{r11, lr}}
    mov     r11, sp
    push    {{r0-r3}}
    mrc     p15, 0, r3, c13, c0, 4
    ldr     r2, [r3, #{preempt_count}]
    add     r2, r2, #1
    str     r2, [r3, #{preempt_count}]
    mov     r0, sp
    bl      {returned}
    str     r0, [r11, #4]
    mrc     p15, 0, r3, c13, c0, 4
    ldr     r2, [r3, #{preempt_count}]
    sub     r2, r2, #1
    str     r2, [r3, #{preempt_count}]
    ldr     r2, [r3, #{work}]
    tst     r2, #{need_resched}
    bne     2f
1:  pop     {{r0-r3}}
    pop     {{r11, pc}}
// Somebody more deserving became runnable meanwhile.
2:  bl      {resched}
    b       1b
.size return_trampoline, . - return_trampoline
.popsection
"#,
    preempt_count = const offset_of!(ThreadInfo, preempt_count),
    work = const offset_of!(ThreadInfo, work) + WorkWords::FLAGS,
    need_resched = const ThreadFlags::NEED_RESCHED.bits(),
    returned = sym crate::arch::site_table::returned,
    resched = sym crate::arch::site_table::resched,
);
