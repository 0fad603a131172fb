//! The entry stubs: save every register into a [`Frame`], call one Rust function, restore, return. No policy here.
//!
//! * `syscall`: the frame goes to the top of the thread's kernel stack. Back by `sysret` unless the frame is marked as changed: then the registers
//!   that Rust functions keep are as they were, and the others come from the frame.
//! * 256 vectors: exceptions and interrupts. GS is exchanged if they came from user mode.
//! * NMI, double fault and machine check may arrive anywhere, also between an entry and its `swapgs`, and user space can load any GS base. Their stacks
//!   are this CPU's own, and just above the frame lies the address of the CPU's block: GS is set from there and put back as it was.
//!
//! One unused word below the frame keeps the stack aligned for the call.

use super::descriptor::{USER_CS, USER_DS};
use super::frame::Frame;
use crate::sched::cpu::CpuLocal;
use crate::threshold;
use core::arch::global_asm;
use core::mem::offset_of;

global_asm!(
    r#"
.macro SAVE_REST
    mov [rsp + {rsi}], rsi
    mov [rsp + {rdx}], rdx
    mov [rsp + {rcx}], rcx
    mov [rsp + {rax}], rax
    mov [rsp + {r8}], r8
    mov [rsp + {r9}], r9
    mov [rsp + {r10}], r10
    mov [rsp + {r11}], r11
    mov [rsp + {rbx}], rbx
    mov [rsp + {rbp}], rbp
    mov [rsp + {r12}], r12
    mov [rsp + {r13}], r13
    mov [rsp + {r14}], r14
    mov [rsp + {r15}], r15
.endm
.macro RESTORE_CALL
    mov rbp, [rsp + {rbp}]
    mov r10, [rsp + {r10}]
    mov r9, [rsp + {r9}]
    mov r8, [rsp + {r8}]
    mov rax, [rsp + {rax}]
    mov rdx, [rsp + {rdx}]
    mov rsi, [rsp + {rsi}]
    mov rdi, [rsp + {rdi}]
.endm
.macro RESTORE_MOST
    mov r15, [rsp + {r15}]
    mov r14, [rsp + {r14}]
    mov r13, [rsp + {r13}]
    mov r12, [rsp + {r12}]
    mov rbx, [rsp + {rbx}]
    RESTORE_CALL
.endm

.pushsection .noinstr.text, "ax"
.balign 64
.globl syscall_entry
.type syscall_entry, @function
syscall_entry:
    swapgs
    mov gs:[{scratch}], rsp
    mov rsp, gs:[{kernel_stack}]
    push {user_ds}
    push gs:[{scratch}]
    push r11
    push {user_cs}
    push rcx
    push rax
    sub rsp, {rest}
    mov [rsp + {rdi}], rdi
    SAVE_REST
    xor ebp, ebp
    lea rdi, [rsp + 8]
    call {syscall}
    cmp dword ptr [rsp + {cs} + 4], 0
    jne 8f
    RESTORE_CALL
    mov r11, [rsp + {eflags}]
    mov rcx, [rsp + {rip}]
    mov rsp, [rsp + {rsp}]
    swapgs
    sysretq
8:  lea rdi, [rsp + 8]
    call {changed}
    jmp return_from_trap
.size syscall_entry, . - syscall_entry

.type trap_common, @function
trap_common:
    cld
    test byte ptr [rsp + 24], 3
    jz 7f
    swapgs
7:  sub rsp, {rest} - 8
    SAVE_REST
    mov rsi, [rsp + {rdi}]
    mov [rsp + {rdi}], rdi
    mov rdx, [rsp + {orig_rax}]
    mov qword ptr [rsp + {orig_rax}], -1
    lea rdi, [rsp + 8]
    call {trap}
return_from_trap:
    RESTORE_MOST
    mov r11, [rsp + {r11}]
    mov rcx, [rsp + {rcx}]
    test byte ptr [rsp + {cs}], 3
    jz 7f
    swapgs
7:  add rsp, {rest} + 8
    iretq
.size trap_common, . - trap_common

.type paranoid_common, @function
paranoid_common:
    cld
    sub rsp, {rest} - 8
    SAVE_REST
    mov rsi, [rsp + {rdi}]
    mov [rsp + {rdi}], rdi
    mov ecx, {gs_base}
    rdmsr
    mov ebx, eax
    mov r12d, edx
    mov eax, [rsp + {above}]
    mov edx, [rsp + {above} + 4]
    wrmsr
    mov rdx, [rsp + {orig_rax}]
    mov qword ptr [rsp + {orig_rax}], -1
    lea rdi, [rsp + 8]
    call {paranoid}
    mov ecx, {gs_base}
    mov eax, ebx
    mov edx, r12d
    wrmsr
    RESTORE_MOST
    mov r11, [rsp + {r11}]
    mov rcx, [rsp + {rcx}]
    add rsp, {rest} + 8
    iretq
.size paranoid_common, . - paranoid_common

.type x86_ret_from_fork, @function
.globl x86_ret_from_fork
x86_ret_from_fork:
    xor ebp, ebp
    lea rdi, [rsp + 8]
    call {fork}
    jmp return_from_trap
.size x86_ret_from_fork, . - x86_ret_from_fork

.balign 16
.globl trap_stubs
.type trap_stubs, @function
trap_stubs:
.set vector, 0
.rept 256
    .balign 16
    .if (vector == 8) || (vector == 10) || (vector == 11) || (vector == 12) || (vector == 13) || (vector == 14) || (vector == 17) || (vector == 21) || (vector == 29) || (vector == 30)
    .else
    push 0
    .endif
    push vector
    .if (vector == 2) || (vector == 8) || (vector == 18)
    jmp paranoid_common
    .else
    jmp trap_common
    .endif
    .set vector, vector + 1
.endr
.size trap_stubs, . - trap_stubs
.popsection
"#,
    scratch = const offset_of!(CpuLocal, scratch),
    kernel_stack = const offset_of!(CpuLocal, kernel_stack_top),
    user_ds = const USER_DS,
    user_cs = const USER_CS,
    // What lies below `orig_rax`: the other registers and the unused word.
    rest = const offset_of!(Frame, orig_rax) + 8,
    above = const size_of::<Frame>() + 8,
    gs_base = const super::cpu::MSR_GS_BASE,
    r15 = const offset_of!(Frame, r15) + 8,
    r14 = const offset_of!(Frame, r14) + 8,
    r13 = const offset_of!(Frame, r13) + 8,
    r12 = const offset_of!(Frame, r12) + 8,
    rbp = const offset_of!(Frame, rbp) + 8,
    rbx = const offset_of!(Frame, rbx) + 8,
    r11 = const offset_of!(Frame, r11) + 8,
    r10 = const offset_of!(Frame, r10) + 8,
    r9 = const offset_of!(Frame, r9) + 8,
    r8 = const offset_of!(Frame, r8) + 8,
    rax = const offset_of!(Frame, rax) + 8,
    rcx = const offset_of!(Frame, rcx) + 8,
    rdx = const offset_of!(Frame, rdx) + 8,
    rsi = const offset_of!(Frame, rsi) + 8,
    rdi = const offset_of!(Frame, rdi) + 8,
    orig_rax = const offset_of!(Frame, orig_rax) + 8,
    rip = const offset_of!(Frame, rip) + 8,
    cs = const offset_of!(Frame, cs) + 8,
    eflags = const offset_of!(Frame, eflags) + 8,
    rsp = const offset_of!(Frame, rsp) + 8,
    syscall = sym x86_syscall,
    changed = sym x86_changed,
    trap = sym x86_trap,
    paranoid = sym x86_paranoid,
    fork = sym x86_return_from_fork,
);

unsafe extern "C" {
    fn syscall_entry();
    fn trap_stubs();
    /// Where a new thread's first switch ends: its frame lies one word above the stack pointer.
    pub(super) fn x86_ret_from_fork();
}

/// Where `syscall` goes.
pub fn syscall_entry_address() -> usize {
    syscall_entry as *const () as usize
}

/// The stub of an interrupt vector.
pub fn stub_address(vector: usize) -> usize {
    trap_stubs as *const () as usize + vector * 16
}

/// A system call.
#[unsafe(link_section = ".noinstr.text")]
extern "C" fn x86_syscall(frame: &mut Frame) {
    threshold::syscall(frame);
    debug_assert!(frame.is_changed() || frame.fits_sysret());
}

/// Before the whole of a changed frame is restored.
#[unsafe(link_section = ".noinstr.text")]
extern "C" fn x86_changed(frame: &mut Frame) {
    frame.make_canonical();
}

/// An exception or interrupt with its vector and error code.
#[unsafe(link_section = ".noinstr.text")]
extern "C" fn x86_trap(frame: &mut Frame, vector: usize, error: usize) {
    super::uaccess::close_window();
    super::exception::trap(frame, vector as u8, error);
    if frame.cs & 3 != 0 {
        frame.make_canonical();
    }
}

/// An NMI, double fault or machine check, on its own stack.
#[unsafe(link_section = ".noinstr.text")]
extern "C" fn x86_paranoid(frame: &mut Frame, vector: usize, error: usize) {
    super::uaccess::close_window();
    super::exception::paranoid(frame, vector as u8, error);
}

/// A new thread's first steps.
#[unsafe(link_section = ".noinstr.text")]
extern "C" fn x86_return_from_fork(frame: &mut Frame) {
    threshold::return_from_fork(frame);
    frame.make_canonical();
}
