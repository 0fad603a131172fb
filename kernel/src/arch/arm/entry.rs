//! The entry stubs: save every general register into one [`Frame`], call one Rust function, restore, return.
//! No policy.
//!
//! Whatever mode the processor enters, the kernel runs in supervisor mode, on the thread's stack; the other
//! modes have a few words of scratch each, at their stack pointer, for the first instructions. A thread in
//! user mode has an empty kernel stack, so the supervisor's stack pointer is where its frame goes. All
//! exceptions come with interrupts masked.
//!
//! An FIQ is an NMI: it may come anywhere in the kernel, in these stubs, too. In the first instructions of
//! another exception, which use that exception's own mode, it only masks itself, and comes again when
//! interrupts go on, or with the return. Everywhere else supervisor mode has a stack, on which the stubs use
//! what lies below the stack pointer for a moment: the FIQ leaves a frame's room there, and returns from its
//! own mode, which nobody else uses.

use super::frame::{FRAME_SIZE, Frame, PSR_F, PSR_MODE_MASK};
use super::{cpus, exception, interrupt, mmu, sysreg};
use crate::arch::stub_calls::{crossing, hardened};
use crate::mm::STACK_SHIFT;
use crate::sync::MAX_CPUS;
use crate::threshold;
use core::arch::{asm, global_asm};
use core::mem::offset_of;

/// The processor's modes, as `CPSR.M`.
const MODE_FIQ: u32 = 17;
const MODE_IRQ: u32 = 18;
const MODE_SUPERVISOR: u32 = 19;
const MODE_ABORT: u32 = 23;
const MODE_UNDEFINED: u32 = 27;

/// Bytes of the stack that reports a kernel stack overflow.
const OVERFLOW_STACK: usize = 16384;

global_asm!(
    crossing!(),
    r#"
    .macro begin name
    .balign 32
    .type   \name, %function
\name:
    .endm

    // Called in the mode that the exception came in: its link register and SPSR say where the user goes on
    // and how; r0 to r12 are the user's. Builds the frame and calls \handler.
    .macro save_user handler, tracked, hardened
    srsdb   sp!, #{supervisor}
    cps     #{supervisor}
    stmdb   sp, {{r0-r12, sp, lr}}^
    sub     sp, sp, #{pc}
    mov     r11, #0
    mov     r0, sp
    crossing bl, \handler, \tracked, \hardened
    .endm

    // r0: the scratch words with r0, r1, pc, cpsr; r1: the interrupted stack pointer. Supervisor mode, a
    // frame's room at the stack pointer.
    .macro save_kernel handler, tracked
    str     r1, [sp, #{sp}]
    str     lr, [sp, #{lr}]
    add     r1, sp, #{regs} + 8
    stmia   r1, {{r2-r12}}
    ldmia   r0, {{r0-r3}}
    strd    r0, r1, [sp, #{regs}]
    strd    r2, r3, [sp, #{pc}]
    str     r11, [sp]
    str     r2, [sp, #4]
    mov     r11, sp
    mov     r0, sp
    crossing bl, \handler, \tracked
    .endm

    // An exception that may come from user or kernel, taken in a mode of its own with its return address
    // \adjust bytes ahead.
    .macro exception name, adjust, from_user, tracked_user, hardened_user, from_kernel, tracked_kernel
    begin   \name
    .if     \adjust
    sub     lr, lr, #\adjust
    .endif
    stmia   sp, {{r0, r1, lr}}
    mrs     r0, spsr
    tst     r0, #0xf
    bne     1f
    ldr     r0, [sp]
    save_user \from_user, \tracked_user, \hardened_user
    b       return_to_user
1:  str     r0, [sp, #12]
    mov     r0, sp
    cps     #{supervisor}
    mov     r1, sp
    sub     sp, sp, #{size}
    tst     sp, #{stack_bit}
    beq     stack_overflow
    bic     sp, sp, #4              // a function's prologue may have been interrupted
    save_kernel \from_kernel, \tracked_kernel
    b       return_to_kernel
    .size   \name, . - \name
    .endm

    .section .noinstr.text.vectors, "ax", %progbits
    .balign 32
    .globl  exception_vectors
exception_vectors:
vector_bad:
    .irp    name, bad, undefined, svc, prefetch, data, bad, irq, fiq
    b       vector_\name
    .endr

    begin   vector_svc
    save_user {svc}, {tracked_svc}, {hardened_svc}
return_to_user:
    add     sp, sp, #{pc}
    ldmdb   sp, {{r0-r12, sp, lr}}^
    rfeia   sp!
    .size   vector_svc, . - vector_svc

    exception vector_irq, 4, {irq}, {tracked_irq}, {hardened_irq}, {irq_kernel}, {tracked_irq_kernel}
    exception vector_data, 8, {data}, {tracked_data}, {hardened_data}, {data_kernel}, {tracked_data_kernel}
    exception vector_prefetch, 4, {fetch}, {tracked_fetch}, {hardened_fetch}, {fetch_k}, {tracked_fetch_k}
    exception vector_undefined, 0, {undef}, {tracked_undef}, {hardened_undef}, {undef_k}, {undef_k}

    begin   vector_fiq
    sub     lr, lr, #4
    stmia   sp, {{r0, r1, lr}}
    mrs     r0, spsr
    tst     r0, #0xf
    bne     1f
    ldr     r0, [sp]
    save_user {fiq}, {tracked_fiq}
    b       return_to_user
1:  and     r1, r0, #{mode_mask}
    cmp     r1, #{supervisor}
    bne     2f
    str     r0, [sp, #12]
    mov     r0, sp
    cps     #{supervisor}
    mov     r1, sp
    sub     sp, sp, #{size} + {size}
    tst     sp, #{stack_bit}
    beq     stack_overflow
    bic     sp, sp, #4
    save_kernel {fiq_kernel}, {tracked_fiq_kernel}
    ldrd    r2, r3, [sp, #{pc}]
    ldr     lr, [sp, #{lr}]
    cps     #{fiq_mode}
    msr     spsr_cxsf, r3
    mov     lr, r2
    cps     #{supervisor}
    clrex                           // a reservation of the handler's must not serve what it interrupted
    add     r0, sp, #{regs}
    ldmia   r0, {{r0-r12}}
    ldr     sp, [sp, #{sp}]
    cps     #{fiq_mode}
    movs    pc, lr
2:  orr     r0, r0, #{psr_f}
    msr     spsr_c, r0
    ldmia   sp, {{r0, r1}}
    movs    pc, lr
    .size   vector_fiq, . - vector_fiq

    // The last two words, where the return instruction takes them from, go below the interrupted stack
    // pointer.
    begin   return_to_kernel
    ldr     r0, [sp, #{sp}]
    ldrd    r2, r3, [sp, #{pc}]
    stmdb   r0!, {{r2, r3}}
    str     r0, [sp, #{sp}]
    ldr     lr, [sp, #{lr}]
    add     r0, sp, #{regs}
    ldmia   r0, {{r0-r12}}
    ldr     sp, [sp, #{sp}]
    rfeia   sp!
    .size   return_to_kernel, . - return_to_kernel

    // A new thread's first switch ends here, its frame at the stack pointer.
    .globl  ret_from_fork
    begin   ret_from_fork
    mov     r11, #0
    mov     r0, sp
    crossing bl, {fork}, {tracked_fork}, {hardened_fork}
    b       return_to_user
    .size   ret_from_fork, . - ret_from_fork

    // The stack is at its end. The report runs on a stack of its own.
    begin   stack_overflow
    ldr     sp, ={overflow_stack} + {overflow} - {size}
    save_kernel {overflowed}, {overflowed}
    .ltorg
    .size   stack_overflow, . - stack_overflow
    "#,
    supervisor = const MODE_SUPERVISOR,
    fiq_mode = const MODE_FIQ,
    mode_mask = const PSR_MODE_MASK,
    psr_f = const PSR_F,
    size = const FRAME_SIZE,
    regs = const offset_of!(Frame, regs),
    sp = const offset_of!(Frame, sp),
    lr = const offset_of!(Frame, lr),
    pc = const offset_of!(Frame, pc),
    stack_bit = const 1 << STACK_SHIFT,
    overflow = const OVERFLOW_STACK,
    overflow_stack = sym OVERFLOW_STACK_MEMORY,
    svc = sym svc::<false>,
    tracked_svc = sym svc::<true>,
    irq = sym irq::<false>,
    tracked_irq = sym irq::<true>,
    irq_kernel = sym irq_kernel::<false>,
    tracked_irq_kernel = sym irq_kernel::<true>,
    fiq = sym fiq::<false>,
    tracked_fiq = sym fiq::<true>,
    fiq_kernel = sym fiq_kernel::<false>,
    tracked_fiq_kernel = sym fiq_kernel::<true>,
    data = sym data::<false>,
    tracked_data = sym data::<true>,
    data_kernel = sym data_kernel::<false>,
    tracked_data_kernel = sym data_kernel::<true>,
    fetch = sym prefetch::<false>,
    tracked_fetch = sym prefetch::<true>,
    fetch_k = sym prefetch_kernel::<false>,
    tracked_fetch_k = sym prefetch_kernel::<true>,
    undef = sym undefined::<false>,
    tracked_undef = sym undefined::<true>,
    undef_k = sym undefined_kernel,
    fork = sym fork::<false>,
    tracked_fork = sym fork::<true>,
    hardened_svc = sym hardened_svc,
    hardened_irq = sym hardened_irq,
    hardened_data = sym hardened_data,
    hardened_fetch = sym hardened_prefetch,
    hardened_undef = sym hardened_undefined,
    hardened_fork = sym hardened_fork,
    overflowed = sym overflowed,
);

const _: () = assert!(
    offset_of!(Frame, pc) == offset_of!(Frame, regs) + 60 && offset_of!(Frame, cpsr) == FRAME_SIZE - 4
);

#[repr(C, align(16))]
struct Stack([u8; OVERFLOW_STACK]);

static mut OVERFLOW_STACK_MEMORY: Stack = Stack([0; OVERFLOW_STACK]);

/// Each CPU's scratch words of the four exception modes, in the order of `init_cpu`.
static mut SCRATCH: [[[u32; 8]; 4]; MAX_CPUS] = [[[0; 8]; 4]; MAX_CPUS];

/// Sets the stack pointer of mode `$mode`. r0 is the same in all modes.
macro_rules! set_mode_stack {
    ($mode:expr, $to:expr) => {
        asm!(
            "cps #{mode}", "mov sp, r0", "cps #{supervisor}", mode = const $mode,
            supervisor = const MODE_SUPERVISOR, in("r0") $to,
            options(nostack, preserves_flags),
        )
    };
}

/// From here on this CPU's exceptions come to the stubs: the exception modes get their scratch words, and the
/// processor the vector table's address. Interrupts are off.
pub(super) fn init_cpu() {
    unsafe extern "C" {
        fn exception_vectors();
    }
    // SAFETY: the words are this CPU's own; the vector table is aligned as VBAR wants it.
    unsafe {
        let scratch = (&raw mut SCRATCH[cpus::cpu_id()]).cast::<[u32; 8]>();
        set_mode_stack!(MODE_IRQ, scratch);
        set_mode_stack!(MODE_ABORT, scratch.add(1));
        set_mode_stack!(MODE_UNDEFINED, scratch.add(2));
        set_mode_stack!(MODE_FIQ, scratch.add(3));
        sysreg::write!(VBAR, exception_vectors as *const () as u32);
    }
    sysreg::isb();
}

/// Entered from kernel mode: if that came inside a copy loop, user space is closed until [`leave_kernel`].
#[inline(always)]
fn enter_kernel(frame: &mut Frame) -> bool {
    let open = mmu::user_is_open();
    if open {
        mmu::close_user();
    }
    frame.forget_syscall();
    open
}

/// Back to where [`enter_kernel`] came from.
#[inline(always)]
fn leave_kernel(open: bool) {
    if open {
        mmu::open_user();
    }
}

/// Entered from user mode, not by a system call: user space is closed until `mmu::open_user`.
#[inline(always)]
fn enter_user(frame: &mut Frame) {
    mmu::close_user();
    frame.forget_syscall();
}

#[unsafe(link_section = ".noinstr.text")]
extern "C" fn svc<const TRACKED: bool>(frame: &mut Frame) {
    mmu::close_user();
    frame.begin_syscall();
    threshold::syscall::<TRACKED>(frame);
    mmu::open_user();
}

#[unsafe(link_section = ".noinstr.text")]
extern "C" fn irq<const TRACKED: bool>(frame: &mut Frame) {
    enter_user(frame);
    threshold::interrupt::<TRACKED>(frame, |_| interrupt::handle());
    mmu::open_user();
}

#[unsafe(link_section = ".noinstr.text")]
extern "C" fn irq_kernel<const TRACKED: bool>(frame: &mut Frame) {
    let open = enter_kernel(frame);
    threshold::interrupt::<TRACKED>(frame, |_| interrupt::handle());
    leave_kernel(open);
}

/// It has no work at its end: there is always an interrupt that has.
#[unsafe(link_section = ".noinstr.text")]
extern "C" fn fiq<const TRACKED: bool>(frame: &mut Frame) {
    enter_user(frame);
    threshold::nmi::<TRACKED>(frame, |_| interrupt::handle_fiq(true));
    mmu::open_user();
}

#[unsafe(link_section = ".noinstr.text")]
extern "C" fn fiq_kernel<const TRACKED: bool>(frame: &mut Frame) {
    let open = enter_kernel(frame);
    threshold::nmi::<TRACKED>(frame, |_| interrupt::handle_fiq(false));
    leave_kernel(open);
}

/// What handles aborts of a kind, from user and from kernel mode.
macro_rules! abort {
    ($kind:ident, $user:ident, $kernel:ident) => {
        #[unsafe(link_section = ".noinstr.text")]
        extern "C" fn $user<const TRACKED: bool>(frame: &mut Frame) {
            let syndrome = exception::Syndrome::$kind();
            enter_user(frame);
            threshold::fault::<TRACKED>(frame, |frame| exception::user_abort(frame, &syndrome));
            mmu::open_user();
        }

        #[unsafe(link_section = ".noinstr.text")]
        extern "C" fn $kernel<const TRACKED: bool>(frame: &mut Frame) {
            let syndrome = exception::Syndrome::$kind();
            let open = enter_kernel(frame);
            threshold::fault::<TRACKED>(frame, |frame| exception::kernel_abort(frame, &syndrome));
            leave_kernel(open);
        }
    };
}
abort!(data, data, data_kernel);
abort!(prefetch, prefetch, prefetch_kernel);

#[unsafe(link_section = ".noinstr.text")]
extern "C" fn undefined<const TRACKED: bool>(frame: &mut Frame) {
    enter_user(frame);
    threshold::fault::<TRACKED>(frame, exception::user_undefined);
    mmu::open_user();
}

/// What the kernel cannot survive, wherever it came from.
macro_rules! fatal {
    ($name:ident, $what:literal) => {
        #[unsafe(link_section = ".noinstr.text")]
        extern "C" fn $name(frame: &mut Frame) {
            mmu::close_user();
            threshold::nmi::<false>(frame, |frame| {
                exception::die(frame, &exception::Syndrome::NONE, $what)
            });
        }
    };
}
fatal!(undefined_kernel, "undefined instruction");
fatal!(overflowed, "kernel stack overflow");

#[unsafe(link_section = ".noinstr.text")]
extern "C" fn fork<const TRACKED: bool>(frame: &mut Frame) {
    threshold::return_from_fork::<TRACKED>(frame);
    mmu::open_user();
}

hardened! {
    hardened_svc: svc,
    hardened_irq: irq,
    hardened_data: data,
    hardened_prefetch: prefetch,
    hardened_undefined: undefined,
    hardened_fork: fork,
}
