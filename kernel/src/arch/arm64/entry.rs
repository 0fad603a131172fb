//! The entry stubs: save every general register into one [`Frame`], call one Rust function, restore, return.
//! No policy.
//!
//! In the kernel `TPIDR_EL1` points to the CPU's local block and `SP_EL0` to the running thread's info. A
//! thread in user mode has an empty kernel stack, so `SP_EL1` is where its frame goes. Each stub fits its
//! slot of the vector table.
//!
//! An FIQ is an NMI. Every exception masks it until interrupts go on, so it comes in no stub's way in, but it
//! may come in the way out, where `ELR_EL1`, `SPSR_EL1` and `SP_EL0` already are those of where that leads.
//! Then it only has the way out begin again, with FIQs masked, and comes with its end. The frame of that way
//! lies below the stack pointer before the last instruction, so an FIQ leaves its room alone.

use super::frame::{FRAME_SIZE, Frame, PSTATE_F};
use super::{exception, interrupt, sve, sysreg};
use crate::arch::stub_calls::{crossing, hardened};
use crate::mm::STACK_SHIFT;
use crate::sched::cpu::CpuLocal;
use crate::threshold;
use core::arch::global_asm;
use core::mem::offset_of;

/// Bytes of the stack that reports a kernel stack overflow.
const OVERFLOW_STACK: usize = 16384;

/// Instruction `$op` (`stp` or `ldp`) for x0 to x29 and the frame at the stack pointer, which begins with
/// them.
macro_rules! registers {
    ($op:literal) => {
        registers!($op, 0 1, 2 3, 4 5, 6 7, 8 9, 10 11, 12 13, 14 15, 16 17, 18 19, 20 21, 22 23, 24 25,
            26 27, 28 29)
    };
    ($op:literal, $($first:literal $second:literal),+) => {
        concat!($($op, " x", $first, ", x", $second, ", [sp, #8 * ", $first, "]\n"),+)
    };
}

global_asm!(
    crossing!(),
    r#"
    .macro begin name, align
    .balign \align
    .type   \name, %function
\name:
    .endm

    // What is interrupted goes on at x22, with state x23.
    .macro save_registers"#,
    registers!("stp"),
    r#"
    mrs     x22, elr_el1
    mrs     x23, spsr_el1
    stp     x22, x23, [sp, #{pc}]
    .endm

    // `SP_EL0`, the user's stack pointer till now, is the running thread's info in the kernel.
    .macro from_user name, handler, tracked, hardened
    begin   \name, 128
    sub     sp, sp, #{size}
    save_registers
    mrs     x21, sp_el0
    mrs     x24, tpidr_el1
    stp     x30, x21, [sp, #{lr}]
    stp     x0, x8, [sp, #{call}]
    ldr     x24, [x24, #{current}]
    msr     sp_el0, x24
    mov     x29, xzr
    mov     x0, sp
    crossing bl, \handler, \tracked, \hardened
    b       return_to_user
    .size   \name, . - \name
    .endm

    // Room for a frame, or \room bytes, is on the stack. The frame record makes backtraces go on through it.
    .macro save_kernel handler, tracked, room={size}
    save_registers
    add     x21, sp, #\room
    stp     x30, x21, [sp, #{lr}]
    stp     x29, x22, [sp, #{record}]
    add     x29, sp, #{record}
    mov     x0, sp
    .ifb    \tracked
    bl      \handler
    .else
    crossing bl, \handler, \tracked
    .endif
    .endm

    // The stack pointer is tested without a register to spare: x0 and sp take turns.
    .macro from_kernel name, handler, tracked
    begin   \name, 128
    sub     sp, sp, #{size}
    add     sp, sp, x0
    sub     x0, sp, x0
    tbz     x0, #{shift}, 1f
    sub     x0, sp, x0
    sub     sp, sp, x0
    save_kernel \handler, \tracked
    b       return_to_kernel
1:  b       stack_overflow
    .size   \name, . - \name
    .endm

    // The same with room for two frames.
    .macro from_kernel_fiq name, handler, tracked
    begin   \name, 128
    sub     sp, sp, #{size2}
    add     sp, sp, x0
    sub     x0, sp, x0
    tbz     x0, #{shift}, 1f
    sub     x0, sp, x0
    sub     sp, sp, x0
    save_kernel \handler, \tracked, {size2}
    b       return_from_fiq
1:  b       stack_overflow
    .size   \name, . - \name
    .endm

    .macro unexpected name
    begin   \name, 128
    sub     sp, sp, #{size}
    save_kernel {bad}
    .size   \name, . - \name
    .endm

    // Gives back everything but the program counter.
    .macro restore_registers room
    ldp     x22, x23, [sp, #{pc}]
    msr     elr_el1, x22
    msr     spsr_el1, x23"#,
    registers!("ldp"),
    r#"
    ldr     x30, [sp, #{lr}]
    add     sp, sp, #\room
    .endm

    .section .noinstr.text.vectors, "ax", %progbits
    .balign 2048
    .globl  exception_vectors
exception_vectors:
    .irp    kind, sync, irq, fiq, error
    unexpected el1t_\kind
    .endr
    from_kernel el1_sync, {el1_sync}, {tracked_el1_sync}
    from_kernel el1_irq, {el1_irq}, {tracked_el1_irq}
    from_kernel_fiq el1_fiq, {el1_fiq}, {tracked_el1_fiq}
    from_kernel el1_error, {error}
    from_user el0_sync, {el0_sync}, {tracked_el0_sync}, {hardened_el0_sync}
    from_user el0_irq, {el0_irq}, {tracked_el0_irq}, {hardened_el0_irq}
    from_user el0_fiq, {el0_fiq}, {tracked_el0_fiq}
    from_user el0_error, {error}, {error}
    .irp    kind, sync, irq, fiq, error
    unexpected el0_32_\kind
    .endr

    // A new thread's first switch ends here, its frame at the stack pointer.
    .globl  ret_from_fork
    begin   ret_from_fork, 64
    mov     x0, sp
    add     x29, sp, #{record}
    crossing bl, {fork}, {tracked_fork}, {hardened_fork}
    // FIQs may come up to the very last instruction.
    .globl  return_to_user, return_to_kernel, return_ends
return_to_user:
    ldr     x21, [sp, #{sp}]
    msr     sp_el0, x21
    // falls through
return_to_kernel:
    restore_registers {size}
return_ends:
    eret
    .size   ret_from_fork, . - ret_from_fork

    // x0: null, or the frame with which the interrupted way out begins again; all registers come from there.
    begin   return_from_fiq, 64
    cbnz    x0, 1f
    restore_registers {size2}
    eret
1:  ldp     x22, x23, [sp, #{pc}]
    msr     elr_el1, x22
    msr     spsr_el1, x23
    mov     sp, x0
    eret
    .size   return_from_fiq, . - return_from_fiq

    // x0 and sp as `from_kernel` left them. The bad stack pointer is told by `TPIDR_EL0`; the report runs on
    // a stack of its own.
    begin   stack_overflow, 64
    sub     x0, sp, x0
    msr     tpidrro_el0, x0
    sub     x0, sp, x0
    msr     tpidr_el0, x0
    adrp    x0, {overflow_stack} + {overflow}
    add     x0, x0, :lo12:{overflow_stack} + {overflow}
    sub     sp, x0, #{size}
    mrs     x0, tpidrro_el0
    save_kernel {overflowed}
    .size   stack_overflow, . - stack_overflow
    "#,
    size = const FRAME_SIZE,
    size2 = const 2 * FRAME_SIZE,
    lr = const offset_of!(Frame, regs) + 30 * 8,
    sp = const offset_of!(Frame, sp),
    pc = const offset_of!(Frame, pc),
    call = const offset_of!(Frame, orig_x0),
    record = const offset_of!(Frame, record),
    current = const offset_of!(CpuLocal, current),
    shift = const STACK_SHIFT,
    overflow = const OVERFLOW_STACK,
    overflow_stack = sym OVERFLOW_STACK_MEMORY,
    el0_sync = sym el0_sync::<false>,
    el0_irq = sym el0_irq::<false>,
    el1_sync = sym el1_sync::<false>,
    el1_irq = sym el1_irq::<false>,
    el0_fiq = sym el0_fiq::<false>,
    tracked_el0_fiq = sym el0_fiq::<true>,
    el1_fiq = sym el1_fiq::<false>,
    tracked_el1_fiq = sym el1_fiq::<true>,
    tracked_el0_sync = sym el0_sync::<true>,
    tracked_el0_irq = sym el0_irq::<true>,
    tracked_el1_sync = sym el1_sync::<true>,
    tracked_el1_irq = sym el1_irq::<true>,
    error = sym error,
    bad = sym bad,
    fork = sym fork::<false>,
    tracked_fork = sym fork::<true>,
    hardened_el0_sync = sym hardened_el0_sync,
    hardened_el0_irq = sym hardened_el0_irq,
    hardened_fork = sym hardened_fork,
    overflowed = sym overflowed,
);

const _: () = assert!(offset_of!(Frame, syscallno) == offset_of!(Frame, orig_x0) + 8);
const _: () = assert!(offset_of!(Frame, regs) == 0 && offset_of!(Frame, sp) == 8 * 31);
const _: () = assert!(offset_of!(Frame, pstate) == offset_of!(Frame, pc) + 8);

#[repr(C, align(16))]
struct Stack([u8; OVERFLOW_STACK]);

static mut OVERFLOW_STACK_MEMORY: Stack = Stack([0; OVERFLOW_STACK]);

/// From here on this CPU's exceptions come to the stubs. Interrupts are off.
pub(super) fn init_cpu() {
    unsafe extern "C" {
        fn exception_vectors();
    }
    // SAFETY: the vector table lies there, aligned as the register wants it.
    unsafe { sysreg::write!("vbar_el1", exception_vectors as *const () as u64) }
    sysreg::isb();
}

#[unsafe(link_section = ".noinstr.text")]
extern "C" fn el0_sync<const TRACKED: bool>(frame: &mut Frame) {
    if exception::is_system_call() {
        frame.begin_syscall();
        if sve::is_on() {
            // What a program has of it does not outlive the call.
            sve::deny();
        }
        threshold::syscall::<TRACKED>(frame);
    } else {
        frame.forget_syscall();
        exception::from_user::<TRACKED>(frame, exception::Syndrome::read());
    }
}

#[unsafe(link_section = ".noinstr.text")]
extern "C" fn el0_irq<const TRACKED: bool>(frame: &mut Frame) {
    frame.forget_syscall();
    threshold::interrupt::<TRACKED>(frame, |_| interrupt::handle());
}

#[unsafe(link_section = ".noinstr.text")]
extern "C" fn el1_sync<const TRACKED: bool>(frame: &mut Frame) {
    frame.forget_syscall();
    exception::from_kernel::<TRACKED>(frame, exception::Syndrome::read());
}

#[unsafe(link_section = ".noinstr.text")]
extern "C" fn el1_irq<const TRACKED: bool>(frame: &mut Frame) {
    frame.forget_syscall();
    threshold::interrupt::<TRACKED>(frame, |_| interrupt::handle());
}

/// It has no work at its end: there is always an interrupt that has.
#[unsafe(link_section = ".noinstr.text")]
extern "C" fn el0_fiq<const TRACKED: bool>(frame: &mut Frame) {
    frame.forget_syscall();
    threshold::nmi::<TRACKED>(frame, |_| interrupt::handle_fiq(true));
}

/// Null, or the frame with which an interrupted way out begins again.
#[unsafe(link_section = ".noinstr.text")]
extern "C" fn el1_fiq<const TRACKED: bool>(frame: &mut Frame) -> *const Frame {
    let leaving = way_out(frame);
    if leaving.is_null() {
        frame.forget_syscall();
        threshold::nmi::<TRACKED>(frame, |_| interrupt::handle_fiq(false));
    }
    leaving
}

/// If the FIQ came in a way out of the kernel, its frame: it begins again, and FIQs are masked until it ends.
/// The running thread is not known there, so nothing else may be done.
#[inline(always)]
fn way_out(frame: &mut Frame) -> *const Frame {
    unsafe extern "C" {
        fn return_to_user();
        fn return_to_kernel();
        fn return_ends();
    }
    let [to_user, to_kernel, ends] =
        [return_to_user, return_to_kernel, return_ends].map(|at: unsafe extern "C" fn()| at as usize);
    if frame.pc < to_user || frame.pc > ends {
        return core::ptr::null();
    }
    let below = if frame.pc == ends { FRAME_SIZE } else { 0 };
    let leaving = (frame.sp - below) as *const Frame;
    // SAFETY: until it has ended a way out has its frame there, and this FIQ has left it alone.
    let from_user = limen_entry::Frame::from_user(unsafe { &*leaving });
    frame.pc = if from_user { to_user } else { to_kernel };
    frame.pstate |= PSTATE_F;
    leaving
}

#[unsafe(link_section = ".noinstr.text")]
extern "C" fn error(frame: &mut Frame) {
    let syndrome = exception::Syndrome::read();
    threshold::nmi::<false>(frame, |frame| {
        exception::die(frame, &syndrome, "SError interrupt")
    });
}

#[unsafe(link_section = ".noinstr.text")]
extern "C" fn bad(frame: &mut Frame) {
    let syndrome = exception::Syndrome::read();
    threshold::nmi::<false>(frame, |frame| {
        exception::die(frame, &syndrome, "unexpected exception")
    });
}

#[unsafe(link_section = ".noinstr.text")]
extern "C" fn overflowed(frame: &mut Frame) {
    frame.sp = (sysreg::read!("tpidr_el0") as usize).wrapping_add(FRAME_SIZE);
    let syndrome = exception::Syndrome::read();
    threshold::nmi::<false>(frame, |frame| {
        exception::die(frame, &syndrome, "kernel stack overflow")
    });
}

#[unsafe(link_section = ".noinstr.text")]
extern "C" fn fork<const TRACKED: bool>(frame: &mut Frame) {
    threshold::return_from_fork::<TRACKED>(frame);
}

hardened! {
    hardened_el0_sync: el0_sync,
    hardened_el0_irq: el0_irq,
    hardened_fork: fork,
}
