//! The interrupt vectors and entry stubs: save every general register into one [`Frame`], call one Rust
//! function, restore, return. No policy.
//!
//! In the kernel r13 points to the CPU's local block (`SPRG0` keeps it) and r2 to the table of contents. A
//! thread in user mode has an empty kernel stack, so its frame goes to the top. Below each frame lies the
//! least stack frame of the ABI, for the function called; that of a thread's frame at the top has ended the
//! chain since the thread was made.
//!
//! The vectors are linked at address 0 of the linear map and copied there (`kmap`): up to 0x3000 those of
//! interrupts that arrive with translation off, which are the kernel's end, from 0x4000 on those of
//! interrupts that arrive with translation on (`AIL` 3); `scv` has a page of its own, 0x3000. `SPRG1` and
//! `SPRG2` and two words of the local block hold registers while there is no room for them; nothing that
//! saves there can be interrupted by something that does.
//!
//! `scv` is the one interrupt that leaves interrupts on. Until its second instruction has masked them the
//! stack pointer and r13 are the user's, so an interrupt taken in that page is put off: it goes back with
//! interrupts masked and comes again when they go on.

use super::cpus::{self, SCRATCH_CR, SCRATCH_R12, SCRATCH_TOC};
use super::frame::{FRAME_SIZE, Frame, TRAP_SC, TRAP_SCV};
use super::stack::LEAST;
use super::switch::RED_ZONE;
use super::{exception, spr};
use crate::arch::stub_calls::{crossing, hardened};
use crate::sched::cpu::CpuLocal;
use crate::threshold;
use core::arch::global_asm;
use core::mem::offset_of;

/// Bytes of the stack that reports a kernel stack overflow, a machine check or a system reset.
const EMERGENCY_STACK: usize = 16384;

global_asm!(
    crossing!(),
    r#"
    // General registers at their places in the frame at \base.
    .macro general op, base, list:vararg
    .irp    n, \list
    \op     \n, {gpr} + 8 * \n(\base)
    .endr
    .endm

    // Any interrupt but a system call, for \bytes / 32 vectors: r12 becomes the vector. That register itself
    // and CR are in the local block, r11 in SPRG2, the interrupted r13 in SPRG1. Eight instructions: there is
    // no room for more.
    .macro vectors bytes, to
    .balign 32
    .rept   (\bytes) / 32
    mtspr   {sprg1}, 13
    mfspr   13, {sprg0}
    std     12, {s12}(13)
    li      12, (. - interrupt_vectors) & 0x1fe0
    mtspr   {sprg2}, 11
    mfcr    11
    std     11, {scr}(13)
    b       \to
    .endr
    .endm

    // A system call that leaves its return address and machine state in special registers \nip and \msr. They
    // go on in r11 and r12, \trap in r9, the top of the kernel stack in r10.
    .macro system_call trap, nip, msr
    mfspr   9, {sprg0}
    ld      10, {stack}(9)
    li      9, \trap
    mfspr   11, \nip
    mfspr   12, \msr
    b       system_call_entry
    .endm

    // Calls Rust with the frame above \base, the new stack pointer. r0 is saved already.
    .macro call base, function, tracked, hardened
    mflr    0
    std     0, {link}(\base)
    mr      1, \base
    ld      2, {toc}(13)
    addi    3, 1, {least}
    crossing bl, \function, \tracked, \hardened
    .endm

    .section .vectors, "ax", @progbits
interrupt_vectors:
    vectors 0x3000, emergency_entry
    // `scv 0`, then all others: those become interrupts from vector 0, where there is none.
    li      9, 2
    mtmsrd  9, 1
    system_call {scv}, {link_register}, {count_register}
    .rept   127
    li      9, 2
    mtmsrd  9, 1
    mflr    11
    mtspr   {srr0}, 11
    mfctr   12
    mtspr   {srr1}, 12
    b       interrupt_vectors + 0x4000
    .balign 32
    .endr
    vectors 0xc00, exception_entry
    system_call {sc}, {srr0}, {srr1}
    vectors 0xbe0, exception_entry
    "#,
    function!("system_call_entry", ".noinstr.text"),
    r#"
    addi    10, 10, -{size}
    general std, 10, 0, 1, 2, 3, 4, 5, 6, 7, 8, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27
    general std, 10, 28, 29, 30, 31
    mfcr    0
    rlwinm  0, 0, 0, 4, 2           // without CR0.SO: no error yet
    std     0, {ccr}(10)
    std     9, {trap}(10)
    std     11, {nip}(10)
    std     12, {msr}(10)
    mfspr   13, {sprg0}
    call    10, {system_call}, {tracked_system_call}, {hardened_system_call}
    ld      9, {changed}(1)
    cmpdi   9, 0
    bne     exception_return
    mtctr   9
    mtxer   9
    li      10, 0
    li      11, 0
    li      12, 0
    // What both kinds of entry restore.
1:  ld      0, {nip}(1)
    mtspr   {srr0}, 0
    ld      0, {msr}(1)
    mtspr   {srr1}, 0
    ld      0, {link}(1)
    mtlr    0
    ld      0, {ccr}(1)
    mtcr    0
    general ld, 1, 0, 2, 3, 4, 5, 6, 7, 8, 13, 1
    rfid
    "#,
    function!("exception_entry", ".noinstr.text"),
    r#"
    mfspr   11, {srr1}
    andi.   11, 11, {pr}
    bne     3f
    // From the kernel. In the first steps of `scv`, the only code so low that can be interrupted, its stack
    // is empty as well.
    mfspr   11, {srr0}
    rldicl. 11, 11, 50, 16          // its bits from 14 on, without the upper 16
    beq     3f
    addi    11, 1, -{size} - {red}
    mtocrf  1 << ({shift} / 4), 11
    bt      31 - {shift}, 2f
    // The kernel stack is full, or translation is off. r12: the vector.
emergency_entry:
    ori     12, 12, 1
    ld      11, {toc}(13)
    addis   11, 11, EMERGENCY_STACK_MEMORY + {emergency} - {size}@toc@ha
    addi    11, 11, EMERGENCY_STACK_MEMORY + {emergency} - {size}@toc@l
2:  std     1, 0(11)
    b       4f
3:  ld      11, {stack}(13)
    addi    11, 11, -{size}
4:  general std, 11, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27
    general std, 11, 28, 29, 30, 31
    std     12, {trap}(11)
    mfctr   0
    std     0, {ctr}(11)
    mfxer   0
    std     0, {xer}(11)
    call    11, {exception}, {tracked_exception}, {hardened_exception}
exception_return:
    // A reservation made since belongs to other code: a store gives it up, whether it is done or not.
    stdcx.  0, 0, 1
    ld      0, {ctr}(1)
    mtctr   0
    ld      0, {xer}(1)
    mtxer   0
    general ld, 1, 9, 10, 11, 12, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
    b       1b
    "#,
    // A new thread's first switch ends here, its frame above the stack pointer.
    function!("ret_from_fork", ".noinstr.text"),
    r#"
    addi    3, 1, {least}
    crossing bl, {fork}, {tracked_fork}, {hardened_fork}
    b       exception_return
    "#,
    srr0 = const spr::SRR0,
    srr1 = const spr::SRR1,
    sprg0 = const spr::SPRG0,
    sprg1 = const spr::SPRG1,
    sprg2 = const spr::SPRG2,
    link_register = const spr::LR,
    count_register = const spr::CTR,
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
    ctr = const LEAST + offset_of!(Frame, ctr),
    link = const LEAST + offset_of!(Frame, link),
    xer = const LEAST + offset_of!(Frame, xer),
    ccr = const LEAST + offset_of!(Frame, ccr),
    trap = const LEAST + offset_of!(Frame, trap),
    changed = const LEAST + offset_of!(Frame, changed),
    sc = const TRAP_SC,
    scv = const TRAP_SCV,
    pr = const spr::MSR_PR,
    shift = const crate::mm::STACK_SHIFT,
    emergency = const EMERGENCY_STACK,
    system_call = sym system_call::<false>,
    exception = sym exception_from_stub::<false>,
    fork = sym fork::<false>,
    tracked_system_call = sym system_call::<true>,
    tracked_exception = sym exception_from_stub::<true>,
    tracked_fork = sym fork::<true>,
    hardened_system_call = sym hardened_system_call,
    hardened_exception = sym hardened_exception,
    hardened_fork = sym hardened_fork,
);

#[repr(C, align(16))]
struct Stack([u8; EMERGENCY_STACK]);

#[unsafe(no_mangle)]
static mut EMERGENCY_STACK_MEMORY: Stack = Stack([0; EMERGENCY_STACK]);

#[unsafe(link_section = ".noinstr.text")]
extern "C" fn system_call<const TRACKED: bool>(frame: &mut Frame) {
    frame.syscallno = frame.gpr[0] as isize;
    frame.orig_gpr3 = frame.gpr[3];
    frame.changed = 0;
    threshold::syscall::<TRACKED>(frame);
}

/// Nothing has touched the registers that the vectors use since.
#[unsafe(link_section = ".noinstr.text")]
extern "C" fn exception_from_stub<const TRACKED: bool>(frame: &mut Frame) {
    // SAFETY: this CPU's own block, interrupts off.
    let scratch = unsafe { &(*cpus::cpu_local()).scratch };
    frame.gpr[11] = spr::read!(spr::SPRG2);
    frame.gpr[12] = scratch[SCRATCH_R12];
    frame.gpr[13] = spr::read!(spr::SPRG1);
    frame.ccr = scratch[SCRATCH_CR];
    frame.nip = spr::read!(spr::SRR0);
    frame.msr = spr::read!(spr::SRR1);
    frame.syscallno = -1;
    frame.changed = 1;
    exception::handle::<TRACKED>(frame);
}

#[unsafe(link_section = ".noinstr.text")]
extern "C" fn fork<const TRACKED: bool>(frame: &mut Frame) {
    threshold::return_from_fork::<TRACKED>(frame);
}

hardened! {
    hardened_system_call: system_call,
    hardened_exception: exception_from_stub if spr::read!(spr::SRR1) & spr::MSR_PR != 0,
    hardened_fork: fork,
}
