//! Where traced functions return to, so that their returns are traced: [`return_address`] is in place of
//! their own return address.

use super::cpus::SCRATCH_TOC;
use super::stack::LEAST;
use crate::sched::cpu::CpuLocal;
use crate::task::ThreadInfo;
use core::arch::global_asm;
use core::mem::{offset_of, size_of};
use limen_entry::{ThreadFlags, WorkWords};

/// What a function returned, on the stack while its tracers run.
#[derive(Debug)]
#[repr(C)]
pub struct Exit {
    values: [usize; 8],
}

/// Bytes of the stack frame.
const FRAME: usize = (LEAST + size_of::<Exit>()).next_multiple_of(16);

impl Exit {
    /// What it returned, if that is a number.
    #[inline(always)]
    pub fn value(&self) -> usize {
        self.values[0]
    }

    /// The function's stack pointer when it began.
    #[inline(always)]
    pub fn sp(&self) -> usize {
        &raw const *self as usize - LEAST + FRAME
    }
}

/// Where functions return to whose returns are traced.
#[inline(always)]
pub fn return_address() -> usize {
    unsafe extern "C" {
        static return_trampoline: u8;
    }
    &raw const return_trampoline as usize
}

// A function has returned here. LR still is this address. Preemption is off until where it really returns to
// is known and its return was traced. Until then this address is also this frame's return address, which a
// backtrace understands. It may be a function of a module, with a table of contents of its own.
global_asm!(
    r#"
.pushsection .text, "ax"
.balign 64
.globl return_trampoline
.type return_trampoline, %function
return_trampoline:
    stdu    1, -{frame}(1)
    .irp n, 0, 1, 2, 3, 4, 5, 6, 7
    std     3 + \n, {values} + 8 * \n(1)
    .endr
    mflr    0
    std     0, {frame} + 16(1)
    std     2, 24(1)
    ld      2, {toc}(13)
    ld      9, {current}(13)
    lwz     10, {preempt_count}(9)
    addi    10, 10, 1
    stw     10, {preempt_count}(9)
    addi    3, 1, {values}
    bl      {returned}
    nop
    std     3, {frame} + 16(1)
    ld      9, {current}(13)
    lwz     10, {preempt_count}(9)
    addi    10, 10, -1
    stw     10, {preempt_count}(9)
    lwz     10, {work}(9)
    andi.   10, 10, {need_resched}
    bne     2f
1:  ld      0, {frame} + 16(1)
    ld      2, 24(1)
    mtlr    0
    .irp n, 0, 1, 2, 3, 4, 5, 6, 7
    ld      3 + \n, {values} + 8 * \n(1)
    .endr
    addi    1, 1, {frame}
    blr
// Somebody more deserving became runnable meanwhile.
2:  bl      {resched}
    nop
    b       1b
.size return_trampoline, . - return_trampoline
.popsection
"#,
    frame = const FRAME,
    values = const LEAST,
    current = const offset_of!(CpuLocal, current),
    preempt_count = const offset_of!(ThreadInfo, preempt_count),
    work = const offset_of!(ThreadInfo, work) + WorkWords::FLAGS,
    toc = const offset_of!(CpuLocal, scratch) + 8 * SCRATCH_TOC,
    need_resched = const ThreadFlags::NEED_RESCHED.bits(),
    returned = sym crate::arch::site_table::returned,
    resched = sym crate::arch::site_table::resched,
);
