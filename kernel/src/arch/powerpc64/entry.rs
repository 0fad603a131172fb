//! The interrupt vectors and entry stubs: save every general register into one [`Frame`], call one Rust function, restore, return. No policy.
//!
//! In the kernel r13 points to the CPU's local block (`SPRG0` keeps it) and r2 to the table of contents. A thread in user mode has an empty
//! kernel stack, so its frame goes to the top. Below each frame lies the least stack frame of the ABI, for the function called; that of a thread's
//! frame at the top has ended the chain since the thread was made.
//!
//! The vectors are linked at address 0 of the linear map and copied there (`kmap`): once for interrupts that arrive with translation off, once at
//! 0x4000 for those that arrive with translation on (`AIL` 3); `scv` has a page of its own, 0x3000. `SPRG1` and `SPRG2` and two words of the local
//! block hold registers while there is no room for them; nothing that saves there can be interrupted by something that does.
//!
//! `scv` is the one interrupt that leaves interrupts on. Until its second instruction has masked them the stack pointer and r13 are the
//! user's, so an interrupt taken in that page is put off: it goes back with interrupts masked and comes again when they go on.

use super::exception;
use super::frame::{FRAME_SIZE, Frame, TRAP_SC, TRAP_SCV};
use super::smp::{SCRATCH_CR, SCRATCH_R12, SCRATCH_TOC};
use crate::sched::cpu::CpuLocal;
use crate::threshold;
use core::arch::global_asm;
use core::mem::offset_of;

/// Bytes of the stack that reports a kernel stack overflow, a machine check or a system reset.
const EMERGENCY_STACK: usize = 16384;
/// The least stack frame of the ABI.
pub const LEAST: usize = 32;
/// What a function may use below its stack pointer.
const RED_ZONE: usize = 288;

global_asm!(
    r#"
    .macro vector at, to=exception_entry
    . = interrupt_vectors + \at
    mtspr   273, 13
    mfspr   13, 272
    std     12, {s12}(13)
    li      12, (\at) & 0x1fff
    b       \to
    .endm

    .macro system_call_vector at
    . = interrupt_vectors + \at
    mr      9, 13
    mfspr   13, 272
    mr      10, 1
    ld      1, {stack}(13)
    li      12, {sc}
    mfspr   11, 26
    std     12, {trap} - {size}(1)
    mfspr   12, 27
    b       system_call_entry
    .endm

    .macro vectors base
    vector \base + 0x100, fatal_entry
    vector \base + 0x200, fatal_entry
    .irp at, 0x300, 0x380, 0x400, 0x480, 0x500, 0x600, 0x700, 0x800, 0x900, 0x980, 0xa00
    vector \base + \at
    .endr
    system_call_vector \base + 0xc00
    .irp at, 0xd00, 0xe00, 0xe20, 0xe40, 0xe60, 0xe80, 0xea0, 0xf00, 0xf20, 0xf40, 0xf60, 0xf80, 0x1300, 0x1500, 0x1700
    vector \base + \at
    .endr
    .endm

    .section .vectors, "ax", @progbits
    .globl  interrupt_vectors
interrupt_vectors:
    vectors 0
    . = interrupt_vectors + 0x3000
    li      9, 2
    mtmsrd  9, 1
    mr      9, 13
    mfspr   13, 272
    mflr    11
    mfctr   12
    b       scv_entry
    .set level, 1
    .rept 127
    . = interrupt_vectors + 0x3000 + level * 32
    li      9, 2
    mtmsrd  9, 1
    mflr    11
    mtspr   26, 11
    mfctr   12
    mtspr   27, 12
    b       scv_other_entry
    .set level, level + 1
    .endr
    vectors 0x4000
    . = interrupt_vectors + 0x6000

    .macro save_kept
    .irp n, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
    std     \n, {gpr} + 8 * \n(1)
    .endr
    .endm

    // r1: the new stack frame, with r0 and the back chain in it; r11: the interrupted r1; r12: vector. Leaves r3 = the frame.
    .macro save_rest
    std     11, {gpr} + 8(1)
    .irp n, 2, 3, 4, 5, 6, 7, 8, 9, 10
    std     \n, {gpr} + 8 * \n(1)
    .endr
    mfspr   10, 274
    ld      9, {s12}(13)
    mfspr   8, 273
    ld      7, {scr}(13)
    std     12, {trap}(1)
    std     10, {gpr} + 88(1)
    std     9, {gpr} + 96(1)
    std     8, {gpr} + 104(1)
    std     7, {ccr}(1)
    mflr    12
    mfctr   11
    mfxer   10
    mfspr   9, 26
    mfspr   8, 27
    std     12, {link}(1)
    std     11, {ctr}(1)
    std     10, {xer}(1)
    std     9, {nip}(1)
    std     8, {msr}(1)
    save_kept
    ld      2, {toc}(13)
    addi    3, 1, {least}
    .endm

    .section .noinstr.text, "ax", @progbits
    .balign 64
    .type   scv_other_entry, %function
scv_other_entry:
    mtspr   273, 13
    mfspr   13, 272
    std     12, {s12}(13)
    li      12, {scv} | 0x20
    b       exception_entry
    .size   scv_other_entry, . - scv_other_entry

    .type   scv_entry, %function
scv_entry:
    mr      10, 1
    ld      1, {stack}(13)
    addi    1, 1, -{size}
    std     2, {gpr} + 16(1)
    li      2, {scv}
    std     2, {trap}(1)
    b       1f
    .size   scv_entry, . - scv_entry

    .balign 64
    .type   system_call_entry, %function
system_call_entry:
    addi    1, 1, -{size}
    std     2, {gpr} + 16(1)
1:  std     0, {gpr}(1)
    std     0, {syscallno}(1)
    std     10, {gpr} + 8(1)
    std     3, {orig_gpr3}(1)
    std     3, {gpr} + 24(1)
    std     4, {gpr} + 32(1)
    std     5, {gpr} + 40(1)
    std     6, {gpr} + 48(1)
    std     7, {gpr} + 56(1)
    std     8, {gpr} + 64(1)
    std     9, {gpr} + 104(1)
    std     11, {nip}(1)
    std     12, {msr}(1)
    mflr    11
    mfcr    12
    li      0, 0
    rlwinm  12, 12, 0, 4, 2
    std     11, {link}(1)
    std     12, {ccr}(1)
    std     0, {changed}(1)
    save_kept
    ld      2, {toc}(13)
    addi    3, 1, {least}
    bl      {system_call}
    ld      9, {changed}(1)
    cmpdi   9, 0
    bne     exception_return
    ld      11, {nip}(1)
    ld      12, {msr}(1)
    mtspr   26, 11
    ld      10, {link}(1)
    mtspr   27, 12
    ld      11, {ccr}(1)
    mtlr    10
    mtctr   9
    mtxer   9
    mtcr    11
    ld      0, {gpr}(1)
    ld      2, {gpr} + 16(1)
    ld      3, {gpr} + 24(1)
    ld      4, {gpr} + 32(1)
    ld      5, {gpr} + 40(1)
    ld      6, {gpr} + 48(1)
    ld      7, {gpr} + 56(1)
    ld      8, {gpr} + 64(1)
    li      10, 0
    li      11, 0
    li      12, 0
    ld      13, {gpr} + 104(1)
    ld      1, {gpr} + 8(1)
    rfid
    .size   system_call_entry, . - system_call_entry

    .balign 64
    .type   exception_entry, %function
exception_entry:
    mtspr   274, 11
    mfcr    11
    std     11, {scr}(13)
    mfspr   11, 27
    andi.   11, 11, {pr}
    mr      11, 1
    beq     3f
    ld      1, {stack}(13)
    addi    1, 1, -{size}
    std     0, {gpr}(1)
2:  save_rest
    bl      {exception}
exception_return:
    ld      11, {nip}(1)
    ld      12, {msr}(1)
    mtspr   26, 11
    mtspr   27, 12
    ld      9, {link}(1)
    ld      10, {ctr}(1)
    ld      11, {xer}(1)
    ld      12, {ccr}(1)
    mtlr    9
    mtctr   10
    mtxer   11
    // Nothing may keep a reservation that the interrupted code did not make.
    stdcx.  0, 0, 1
    mtcr    12
    ld      0, {gpr}(1)
    .irp n, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
    ld      \n, {gpr} + 8 * \n(1)
    .endr
    ld      1, {gpr} + 8(1)
    rfid
    // From the kernel.
3:  mfspr   11, 26
    rldicl  11, 11, 52, 36
    cmpdi   11, 3
    beq     5f
    addi    1, 1, -{size} - {red}
    andi.   11, 1, 1 << {shift}
    addi    11, 1, {size} + {red}
    beq     6f
4:  std     11, 0(1)
    std     0, {gpr}(1)
    b       2b
    // In the first steps of `scv`: later.
5:  mfspr   11, 27
    ori     11, 11, {ee}
    xori    11, 11, {ee}
    mtspr   27, 11
    ld      11, {scr}(13)
    mtcr    11
    mfspr   11, 274
    ld      12, {s12}(13)
    mfspr   13, 273
    rfid
    // The kernel stack is full.
6:  ori     12, 12, 1
    addis   1, 2, EMERGENCY_STACK_MEMORY@toc@ha
    addi    1, 1, EMERGENCY_STACK_MEMORY@toc@l
    addi    1, 1, {emergency} - {size}
    b       4b
    .size   exception_entry, . - exception_entry

    // A machine check or a system reset: translation is off. Never returns.
    .type   fatal_entry, %function
fatal_entry:
    mtspr   274, 11
    mfcr    11
    std     11, {scr}(13)
    mr      11, 1
    ld      1, {toc}(13)
    addis   1, 1, EMERGENCY_STACK_MEMORY@toc@ha
    addi    1, 1, EMERGENCY_STACK_MEMORY@toc@l
    addi    1, 1, {emergency} - {size}
    std     0, {gpr}(1)
    std     11, 0(1)
    save_rest
    mfmsr   10
    ori     10, 10, {relocate}
    mtspr   27, 10
    addis   10, 2, fatal_translated@toc@ha
    addi    10, 10, fatal_translated@toc@l
    mtspr   26, 10
    rfid
fatal_translated:
    bl      {fatal}
    .size   fatal_entry, . - fatal_entry

    // A new thread's first switch ends here, its frame above the stack pointer.
    .globl  ret_from_fork
    .type   ret_from_fork, %function
ret_from_fork:
    addi    3, 1, {least}
    bl      {fork}
    b       exception_return
    .size   ret_from_fork, . - ret_from_fork
    "#,
    s12 = const offset_of!(CpuLocal, scratch) + 8 * SCRATCH_R12,
    scr = const offset_of!(CpuLocal, scratch) + 8 * SCRATCH_CR,
    toc = const offset_of!(CpuLocal, scratch) + 8 * SCRATCH_TOC,
    stack = const offset_of!(CpuLocal, kernel_stack_top),
    size = const FRAME_SIZE + LEAST,
    least = const LEAST,
    red = const RED_ZONE,
    gpr = const LEAST + offset_of!(Frame, gpr),
    nip = const LEAST + offset_of!(Frame, nip),
    msr = const LEAST + offset_of!(Frame, msr),
    orig_gpr3 = const LEAST + offset_of!(Frame, orig_gpr3),
    ctr = const LEAST + offset_of!(Frame, ctr),
    link = const LEAST + offset_of!(Frame, link),
    xer = const LEAST + offset_of!(Frame, xer),
    ccr = const LEAST + offset_of!(Frame, ccr),
    trap = const LEAST + offset_of!(Frame, trap),
    syscallno = const LEAST + offset_of!(Frame, syscallno),
    changed = const LEAST + offset_of!(Frame, changed),
    sc = const TRAP_SC,
    scv = const TRAP_SCV,
    pr = const super::spr::MSR_PR,
    ee = const super::spr::MSR_EE,
    relocate = const super::spr::MSR_RELOCATE,
    shift = const crate::mm::STACK_SHIFT,
    emergency = const EMERGENCY_STACK,
    system_call = sym system_call,
    exception = sym exception_from_stub,
    fatal = sym fatal,
    fork = sym fork,
);

#[repr(C, align(16))]
struct Stack([u8; EMERGENCY_STACK]);

#[unsafe(no_mangle)]
static mut EMERGENCY_STACK_MEMORY: Stack = Stack([0; EMERGENCY_STACK]);

#[unsafe(link_section = ".noinstr.text")]
extern "C" fn system_call(frame: &mut Frame) {
    threshold::syscall(frame);
}

#[unsafe(link_section = ".noinstr.text")]
extern "C" fn exception_from_stub(frame: &mut Frame) {
    frame.syscallno = -1;
    exception::handle(frame);
}

#[unsafe(link_section = ".noinstr.text")]
extern "C" fn fatal(frame: &mut Frame) {
    frame.syscallno = -1;
    threshold::nmi(frame, |frame| exception::die(frame, exception::name(frame.trap)));
}

#[unsafe(link_section = ".noinstr.text")]
extern "C" fn fork(frame: &mut Frame) {
    threshold::return_from_fork(frame);
}
