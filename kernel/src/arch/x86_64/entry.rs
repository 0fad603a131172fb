//! The entry stubs: save every register into a [`Frame`], call one Rust function, restore, return. No policy
//! here.
//!
//! * `syscall`: the frame goes to the top of the thread's kernel stack. Back by `sysret` unless the frame is
//!   marked as changed: then the registers that Rust functions keep are as they were, and the others come
//!   from the frame.
//! * 256 vectors: exceptions and interrupts. GS is exchanged if they came from user mode.
//! * `iretq` faults in the kernel if there is no way back to what the frame says: an address that is not
//!   canonical, segments that are none. By then the user's registers are loaded, and the frame's last five
//!   words lie where they were: `trap_segment` makes it the fault in user mode that it would have been a
//!   moment later.
//! * NMI, double fault and machine check may arrive anywhere, also between an entry and its `swapgs`, and
//!   user space can load any GS base. Their stacks are this CPU's own, and just above the frame lies the
//!   address of the CPU's block: GS is set from there and put back as it was.
//!
//! One unused word below the frame keeps the stack aligned for the call.

use super::descriptor::{USER_CS, USER_DS};
use super::frame::Frame;
use crate::sched::cpu::CpuLocal;
use crate::threshold;
use core::arch::global_asm;
use core::mem::offset_of;

/// Exceptions that come with an error code: a bit for each vector.
const WITH_ERROR: u32 = 1 << 8 | 0x1f << 10 | 1 << 17 | 1 << 21 | 1 << 29 | 1 << 30;
/// Those that may arrive anywhere, on stacks of their own: NMI, double fault, machine check.
const PARANOID: u32 = 1 << 2 | 1 << 8 | 1 << 18;
/// Those that `iretq` may raise.
const OF_IRETQ: u32 = 0xf << 10;

/// Stores registers to the frame, or loads them.
macro_rules! registers {
    (store: $($register:literal)+) => {
        concat!($("mov [rsp + {", $register, "}], ", $register, "\n"),+)
    };
    (load: $($register:literal)+) => {
        concat!($("mov ", $register, ", [rsp + {", $register, "}]\n"),+)
    };
}

global_asm!(
    r#"
.macro begin name
.type \name, @function
\name:
.endm
.macro SAVE_REST"#,
    registers!(store: "rsi" "rdx" "rcx" "rax" "r8" "r9" "r10" "r11" "rbx" "rbp" "r12" "r13" "r14" "r15"),
    r#".endm

// Vector and error code, which lie where RDI and the system call's number do in a frame, become the second
// argument and, in \error, the third; the first is the frame.
.macro SAVE_TRAP error
    cld
    sub rsp, {rest} - 8
    SAVE_REST
    mov rsi, [rsp + {rdi}]
    mov [rsp + {rdi}], rdi
    mov \error, [rsp + {orig_rax}]
    mov qword ptr [rsp + {orig_rax}], -1
    lea rdi, [rsp + 8]
.endm
.macro RESTORE_ALL"#,
    registers!(load: "r15" "r14" "r13" "r12" "rbx" "rbp" "r10" "r9" "r8" "rax" "rdx" "rsi" "rdi" "r11" "rcx"),
    r#".endm

.pushsection .noinstr.text, "ax"
.balign 64
.globl syscall_entry
begin syscall_entry
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
    jne return_from_trap"#,
    registers!(load: "rbp" "r10" "r9" "r8" "rax" "rdx" "rsi" "rdi"),
    r#"
    mov r11, [rsp + {eflags}]
    mov rcx, [rsp + {rip}]
    mov rsp, [rsp + {rsp}]
    swapgs
    sysretq
.size syscall_entry, . - syscall_entry

begin trap_common
    SAVE_TRAP rdx
    test byte ptr [rsp + {cs}], 3
    jz 7f
    swapgs
7:  call {trap}
return_from_trap:
    RESTORE_ALL
    test byte ptr [rsp + {cs}], 3
    jz 7f
    swapgs
7:  add rsp, {rest} + 8
return_iretq:
    iretq
.size trap_common, . - trap_common

// The stack is as the processor left it: vector, error code, five words. If they are of `return_iretq` they
// go, and the fault is that of the words which that would have taken.
begin trap_segment
    push rax
    test byte ptr [rsp + 32], 3
    jnz 7f
    lea rax, [rip + return_iretq]
    cmp rax, [rsp + 24]
    je 8f
7:  pop rax
    jmp trap_common
8:  push rcx
    push rdx
    mov rax, [rsp + 24]
    mov rcx, [rsp + 32]
    mov rdx, [rsp + 64]
    mov [rdx - 8], rcx
    mov [rdx - 16], rax
    sub rdx, 16
    mov [rsp + 24], rdx
    pop rdx
    pop rcx
    pop rax
    pop rsp
    jmp trap_common
.size trap_segment, . - trap_segment

// RBX, R12 and R13 outlive the call.
begin paranoid_common
    SAVE_TRAP r13
    mov ecx, {gs_base}
    rdmsr
    mov ebx, eax
    mov r12d, edx
    mov eax, [rsp + {above}]
    mov edx, [rsp + {above} + 4]
    wrmsr
    mov rdx, r13
    call {paranoid}
    mov ecx, {gs_base}
    mov eax, ebx
    mov edx, r12d
    wrmsr
    RESTORE_ALL
    add rsp, {rest} + 8
    iretq
.size paranoid_common, . - paranoid_common

.globl x86_ret_from_fork
begin x86_ret_from_fork
    xor ebp, ebp
    lea rdi, [rsp + 8]
    call {fork}
    jmp return_from_trap
.size x86_ret_from_fork, . - x86_ret_from_fork

// One stub for each vector, 16 bytes apart. (What is true is -1.)
.balign 16
.globl trap_stubs
begin trap_stubs
.set vector, 0
.rept 256
    .balign 16
    .set exception, (vector < 32) & (1 << (vector & 31))
    .if (exception & {with_error}) == 0
    push 0
    .endif
    push vector
    .if exception & {paranoid_vectors}
    jmp paranoid_common
    .elseif exception & {of_iretq}
    jmp trap_segment
    .else
    jmp trap_common
    .endif
    .set vector, vector + 1
.endr
.size trap_stubs, . - trap_stubs
.popsection
"#,
    with_error = const WITH_ERROR,
    paranoid_vectors = const PARANOID,
    of_iretq = const OF_IRETQ,
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

/// An exception or interrupt with its vector and error code.
#[unsafe(link_section = ".noinstr.text")]
extern "C" fn x86_trap(frame: &mut Frame, vector: usize, error: usize) {
    super::uaccess::close_window();
    super::exception::trap(frame, vector as u8, error);
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
}
