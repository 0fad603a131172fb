//! The entry stubs: save every general register into one [`Frame`], call one Rust function, restore, return. No policy.
//!
//! In the kernel `TPIDR_EL1` points to the CPU's local block and `SP_EL0` to the running thread's info. A thread in user mode has an empty kernel
//! stack, so `SP_EL1` is where its frame goes. Each stub fits its slot of the vector table.

use super::exception;
use super::frame::{FRAME_SIZE, Frame};
use crate::mm::STACK_SHIFT;
use crate::sched::cpu::CpuLocal;
use crate::threshold;
use core::arch::global_asm;
use core::mem::offset_of;

/// Bytes of the stack that reports a kernel stack overflow.
const OVERFLOW_STACK: usize = 16384;

global_asm!(
    r#"
    .macro save_registers
    stp     x0, x1, [sp, #0]
    stp     x2, x3, [sp, #16]
    stp     x4, x5, [sp, #32]
    stp     x6, x7, [sp, #48]
    stp     x8, x9, [sp, #64]
    stp     x10, x11, [sp, #80]
    stp     x12, x13, [sp, #96]
    stp     x14, x15, [sp, #112]
    stp     x16, x17, [sp, #128]
    stp     x18, x19, [sp, #144]
    stp     x20, x21, [sp, #160]
    stp     x22, x23, [sp, #176]
    stp     x24, x25, [sp, #192]
    stp     x26, x27, [sp, #208]
    stp     x28, x29, [sp, #224]
    mrs     x22, elr_el1
    mrs     x23, spsr_el1
    .endm

    .macro from_user name, handler
    .balign 128
    .type   \name, %function
\name:
    sub     sp, sp, #{size}
    save_registers
    mrs     x21, sp_el0
    mrs     x24, tpidr_el1
    stp     x30, x21, [sp, #240]
    stp     x22, x23, [sp, #{pc}]
    stp     x0, x8, [sp, #{call}]
    ldr     x24, [x24, #{current}]
    msr     sp_el0, x24
    mov     x29, xzr
    mov     x0, sp
    bl      \handler
    b       return_to_user
    .size   \name, . - \name
    .endm

    // The stack pointer is tested without a register to spare: x0 and sp take turns.
    .macro from_kernel name, handler
    .balign 128
    .type   \name, %function
\name:
    sub     sp, sp, #{size}
    add     sp, sp, x0
    sub     x0, sp, x0
    tbz     x0, #{shift}, 1f
    sub     x0, sp, x0
    sub     sp, sp, x0
    save_registers
    add     x21, sp, #{size}
    stp     x30, x21, [sp, #240]
    stp     x22, x23, [sp, #{pc}]
    stp     x29, x22, [sp, #{record}]
    add     x29, sp, #{record}
    mov     x0, sp
    bl      \handler
    b       return_to_kernel
1:  b       stack_overflow
    .size   \name, . - \name
    .endm

    .macro unexpected name
    .balign 128
    .type   \name, %function
\name:
    sub     sp, sp, #{size}
    save_registers
    add     x21, sp, #{size}
    stp     x30, x21, [sp, #240]
    stp     x22, x23, [sp, #{pc}]
    stp     x29, x22, [sp, #{record}]
    add     x29, sp, #{record}
    mov     x0, sp
    bl      {bad}
    .size   \name, . - \name
    .endm

    .macro restore_registers
    ldp     x22, x23, [sp, #{pc}]
    msr     elr_el1, x22
    msr     spsr_el1, x23
    ldp     x0, x1, [sp, #0]
    ldp     x2, x3, [sp, #16]
    ldp     x4, x5, [sp, #32]
    ldp     x6, x7, [sp, #48]
    ldp     x8, x9, [sp, #64]
    ldp     x10, x11, [sp, #80]
    ldp     x12, x13, [sp, #96]
    ldp     x14, x15, [sp, #112]
    ldp     x16, x17, [sp, #128]
    ldp     x18, x19, [sp, #144]
    ldp     x20, x21, [sp, #160]
    ldp     x22, x23, [sp, #176]
    ldp     x24, x25, [sp, #192]
    ldp     x26, x27, [sp, #208]
    ldp     x28, x29, [sp, #224]
    ldr     x30, [sp, #240]
    add     sp, sp, #{size}
    eret
    .endm

    .section .noinstr.text.vectors, "ax", %progbits
    .balign 2048
    .globl  exception_vectors
exception_vectors:
    unexpected el1t_sync
    unexpected el1t_irq
    unexpected el1t_fiq
    unexpected el1t_error
    from_kernel el1_sync, {el1_sync}
    from_kernel el1_irq, {el1_irq}
    unexpected el1_fiq
    from_kernel el1_error, {error}
    from_user el0_sync, {el0_sync}
    from_user el0_irq, {el0_irq}
    unexpected el0_fiq
    from_user el0_error, {error}
    unexpected el0_32_sync
    unexpected el0_32_irq
    unexpected el0_32_fiq
    unexpected el0_32_error

    .balign 64
    .type   return_to_user, %function
return_to_user:
    ldr     x21, [sp, #248]
    msr     sp_el0, x21
    restore_registers
    .size   return_to_user, . - return_to_user

    .balign 64
    .type   return_to_kernel, %function
return_to_kernel:
    restore_registers
    .size   return_to_kernel, . - return_to_kernel

    // A new thread's first switch ends here, its frame at the stack pointer.
    .globl  ret_from_fork
    .type   ret_from_fork, %function
ret_from_fork:
    mov     x0, sp
    add     x29, sp, #{record}
    bl      {fork}
    b       return_to_user
    .size   ret_from_fork, . - ret_from_fork

    // x0 and sp as `from_kernel` left them. The bad stack pointer goes to the frame; the report runs on a stack of its own.
    .type   stack_overflow, %function
stack_overflow:
    sub     x0, sp, x0
    msr     tpidrro_el0, x0
    sub     x0, sp, x0
    msr     tpidr_el0, x0
    adrp    x0, OVERFLOW_STACK_MEMORY
    add     x0, x0, :lo12:OVERFLOW_STACK_MEMORY
    add     sp, x0, #{overflow}
    mrs     x0, tpidrro_el0
    sub     sp, sp, #{size}
    save_registers
    mrs     x21, tpidr_el0
    add     x21, x21, #{size}
    stp     x30, x21, [sp, #240]
    stp     x22, x23, [sp, #{pc}]
    stp     x29, x22, [sp, #{record}]
    add     x29, sp, #{record}
    mov     x0, sp
    bl      {overflowed}
    .size   stack_overflow, . - stack_overflow
    "#,
    size = const FRAME_SIZE,
    pc = const offset_of!(Frame, pc),
    call = const offset_of!(Frame, orig_x0),
    record = const offset_of!(Frame, record),
    current = const offset_of!(CpuLocal, current),
    shift = const STACK_SHIFT,
    overflow = const OVERFLOW_STACK,
    el0_sync = sym el0_sync,
    el0_irq = sym el0_irq,
    el1_sync = sym el1_sync,
    el1_irq = sym el1_irq,
    error = sym error,
    bad = sym bad,
    fork = sym fork,
    overflowed = sym overflowed,
);

const _: () = assert!(offset_of!(Frame, syscallno) == offset_of!(Frame, orig_x0) + 8);
const _: () = assert!(offset_of!(Frame, sp) == 248 && offset_of!(Frame, pstate) == offset_of!(Frame, pc) + 8);

#[repr(C, align(16))]
struct Stack([u8; OVERFLOW_STACK]);

#[unsafe(no_mangle)]
static mut OVERFLOW_STACK_MEMORY: Stack = Stack([0; OVERFLOW_STACK]);

/// The vector table.
pub fn vectors() -> usize {
    unsafe extern "C" {
        fn exception_vectors();
    }
    exception_vectors as *const () as usize
}

#[unsafe(link_section = ".noinstr.text")]
extern "C" fn el0_sync(frame: &mut Frame) {
    if exception::is_system_call() {
        frame.begin_syscall();
        threshold::syscall(frame);
    } else {
        frame.forget_syscall();
        exception::from_user(frame, exception::Syndrome::read());
    }
}

#[unsafe(link_section = ".noinstr.text")]
extern "C" fn el0_irq(frame: &mut Frame) {
    frame.forget_syscall();
    threshold::interrupt(frame, |_| super::interrupt::handle());
}

#[unsafe(link_section = ".noinstr.text")]
extern "C" fn el1_sync(frame: &mut Frame) {
    frame.forget_syscall();
    exception::from_kernel(frame, exception::Syndrome::read());
}

#[unsafe(link_section = ".noinstr.text")]
extern "C" fn el1_irq(frame: &mut Frame) {
    frame.forget_syscall();
    threshold::interrupt(frame, |_| super::interrupt::handle());
}

#[unsafe(link_section = ".noinstr.text")]
extern "C" fn error(frame: &mut Frame) {
    let syndrome = exception::Syndrome::read();
    threshold::nmi(frame, |frame| {
        exception::die(frame, &syndrome, "SError interrupt")
    });
}

#[unsafe(link_section = ".noinstr.text")]
extern "C" fn bad(frame: &mut Frame) {
    let syndrome = exception::Syndrome::read();
    threshold::nmi(frame, |frame| {
        exception::die(frame, &syndrome, "unexpected exception")
    });
}

#[unsafe(link_section = ".noinstr.text")]
extern "C" fn overflowed(frame: &mut Frame) {
    let syndrome = exception::Syndrome::read();
    threshold::nmi(frame, |frame| {
        exception::die(frame, &syndrome, "kernel stack overflow")
    });
}

#[unsafe(link_section = ".noinstr.text")]
extern "C" fn fork(frame: &mut Frame) {
    threshold::return_from_fork(frame);
}
