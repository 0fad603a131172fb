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
    .macro stub name
    .balign 64
    .type   \name, %function
\name:
    .endm
    .macro end_stub name
    .size   \name, . - \name
    .endm

    // General registers at their places in the frame.
    .macro general op, list:vararg
    .irp    n, \list
    \op     \n, {gpr} + 8 * \n(1)
    .endr
    .endm
    // Special registers into the frame and back: pairs of number and place. Spoils r10.
    .macro save_special number, at, more:vararg
    mfspr   10, \number
    std     10, \at(1)
    .ifnb   \more
    save_special \more
    .endif
    .endm
    .macro load_special number, at, more:vararg
    ld      10, \at(1)
    mtspr   \number, 10
    .ifnb   \more
    load_special \more
    .endif
    .endm

    // Any interrupt but a system call: r12 becomes its vector. That register itself and CR are in the local block, r11 in SPRG2, the interrupted r13
    // in SPRG1. Eight instructions: a vector may not have room for more.
    .macro interrupt trap, to
    mtspr   273, 13
    mfspr   13, 272
    std     12, {s12}(13)
    li      12, \trap
    mtspr   274, 11
    mfcr    11
    std     11, {scr}(13)
    b       \to
    .endm
    .macro vectors base, to, list:vararg
    .irp    at, \list
    . = interrupt_vectors + \base + \at
    interrupt \at, \to
    .endr
    .endm

    // A system call that leaves its return address and machine state in special registers \nip and \msr. r1 becomes the kernel's; the user's r13 and
    // r1, address and state go on in r9 to r12.
    .macro system_call trap, nip, msr
    mr      9, 13
    mfspr   13, 272
    mr      10, 1
    ld      1, {stack}(13)
    li      12, \trap
    mfspr   11, \nip
    std     12, {trap} - {size}(1)
    mfspr   12, \msr
    b       system_call_entry
    .endm

    .macro all_vectors base
    vectors \base, fatal_entry, 0x100, 0x200
    vectors \base, exception_entry, 0x300, 0x380, 0x400, 0x480, 0x500, 0x600, 0x700, 0x800, 0x900, 0x980, 0xa00
    . = interrupt_vectors + \base + 0xc00
    system_call {sc}, 26, 27
    vectors \base, exception_entry, 0xd00, 0xe00, 0xe20, 0xe40, 0xe60, 0xe80, 0xea0, 0xf00, 0xf20, 0xf40, 0xf60, 0xf80, 0x1300, 0x1500, 0x1700
    .endm

    .section .vectors, "ax", @progbits
    .globl  interrupt_vectors
interrupt_vectors:
    all_vectors 0
    .set    at, 0x3000
    .rept   128
    . = interrupt_vectors + at
    li      9, 2
    mtmsrd  9, 1
    .ifeq   at - 0x3000
    b       scv_entry
    .endif
    b       scv_other_entry
    .set    at, at + 32
    .endr
    all_vectors 0x4000
    . = interrupt_vectors + 0x6000

    .section .noinstr.text, "ax", @progbits
    stub    scv_other_entry
    mflr    11
    mtspr   26, 11
    mfctr   12
    mtspr   27, 12
    interrupt {scv} | 0x20, exception_entry
    end_stub scv_other_entry

    stub    scv_entry
    system_call {scv}, 8, 9
    end_stub scv_entry

    stub    system_call_entry
    addi    1, 1, -{size}
    general std, 0, 2, 3, 4, 5, 6, 7, 8, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
    std     0, {syscallno}(1)
    std     3, {orig_gpr3}(1)
    std     9, {gpr} + 104(1)
    std     10, {gpr} + 8(1)
    std     11, {nip}(1)
    std     12, {msr}(1)
    save_special 8, {link}
    mfcr    12
    li      0, 0
    rlwinm  12, 12, 0, 4, 2
    std     12, {ccr}(1)
    std     0, {changed}(1)
    ld      2, {toc}(13)
    addi    3, 1, {least}
    bl      {system_call}
    ld      9, {changed}(1)
    cmpdi   9, 0
    bne     exception_return
    load_special 26, {nip}, 27, {msr}, 8, {link}
    ld      11, {ccr}(1)
    mtctr   9
    mtxer   9
    mtcr    11
    li      10, 0
    li      11, 0
    li      12, 0
    general ld, 0, 2, 3, 4, 5, 6, 7, 8, 13, 1
    rfid
    end_stub system_call_entry

    // r1: the new stack frame; r11: the interrupted r1; r12: vector. Leaves r3 = the frame.
    .macro save
    std     11, {gpr} + 8(1)
    std     12, {trap}(1)
    general std, 0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
    save_special 274, {gpr} + 88, 273, {gpr} + 104, 8, {link}, 9, {ctr}, 1, {xer}, 26, {nip}, 27, {msr}
    ld      9, {s12}(13)
    ld      10, {scr}(13)
    std     9, {gpr} + 96(1)
    std     10, {ccr}(1)
    ld      2, {toc}(13)
    addi    3, 1, {least}
    .endm

    stub    exception_entry
    mfspr   11, 27
    andi.   11, 11, {pr}
    mr      11, 1
    beq     3f
    ld      1, {stack}(13)
    addi    1, 1, -{size}
2:  save
    bl      {exception}
exception_return:
    load_special 26, {nip}, 27, {msr}, 8, {link}, 9, {ctr}, 1, {xer}
    ld      12, {ccr}(1)
    // Nothing may keep a reservation that the interrupted code did not make.
    stdcx.  0, 0, 1
    mtcr    12
    general ld, 0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 1
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
    addis   1, 2, EMERGENCY_STACK_MEMORY + {emergency} - {size}@toc@ha
    addi    1, 1, EMERGENCY_STACK_MEMORY + {emergency} - {size}@toc@l
    b       4b
    end_stub exception_entry

    // A machine check or a system reset: translation is off. Never returns.
    stub    fatal_entry
    mr      11, 1
    ld      1, {toc}(13)
    addis   1, 1, EMERGENCY_STACK_MEMORY + {emergency} - {size}@toc@ha
    addi    1, 1, EMERGENCY_STACK_MEMORY + {emergency} - {size}@toc@l
    std     11, 0(1)
    save
    bl      turn_translation_on
    bl      {fatal}
    end_stub fatal_entry

    // A new thread's first switch ends here, its frame above the stack pointer.
    .globl  ret_from_fork
    stub    ret_from_fork
    addi    3, 1, {least}
    bl      {fork}
    b       exception_return
    end_stub ret_from_fork
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
