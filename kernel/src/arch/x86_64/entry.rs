//! The entry stubs: save every register into a [`Frame`], call one Rust function, restore, return. No policy
//! here.
//!
//! * `syscall`: the frame goes to the top of the thread's kernel stack. Back by `sysret` unless the frame is
//!   marked as changed: then the registers that Rust functions keep are as they were, and the others come
//!   from the frame.
//! * `int 0x80`: the same for calls of the i386 ABI. The processor has pushed the end of the frame, which is
//!   marked as such a call's and as changed.
//! * 256 vectors: exceptions and interrupts. GS is exchanged if they came from user mode.
//! * `iretq` faults in the kernel if there is no way back to what the frame says: an address that is not
//!   canonical, segments that are none. By then the user's registers are loaded: `x86_segment` makes it the
//!   fault in user mode that it would have been a moment later.
//! * A debug exception may arrive anywhere, too: one from user mode goes on from its stack to the thread's,
//!   as if it had been taken there, one in the kernel is of the next kind.
//! * NMI, double fault and machine check may arrive anywhere, also between an entry and its `swapgs`, and
//!   user space can load any GS base. Their stacks are this CPU's own, and just above the frame lies the
//!   address of the CPU's block: `x86_paranoid` sets GS from there and puts it back as it was. Those from
//!   user mode go on to the thread's stack: the `iretq` back may fault, and that fault is the thread's.
//! * `iretq` lets NMIs come again. A trap in an NMI's handler, such as a breakpoint of a site that is being
//!   changed, returns without it, or the next NMI would begin where the frame of the first lies. So do all
//!   traps of the kernel with interrupts off. With interrupts on, the return must be one instruction, or a
//!   storm of interrupts would climb down the stack.
//! * The last `iretq` to a stack segment of the local table is made on a stack of its own (`espfix`), where
//!   its faults are double faults.
//! * `syscall` in 32-bit code, where the processor knows it there, says that there is no such call.
//!
//! One unused word below the frame keeps the stack aligned for the call.

use super::frame::{CHANGED, COMPAT, EFLAGS_IF, ELSEWHERE, Frame, USER_CS, USER_DS};
use super::{cpu, exception, uaccess};
use crate::arch::stack_calls::OnStack;
use crate::arch::stub_calls::{self, crossing, hardened};
use crate::sched::cpu::CpuLocal;
use crate::threshold::{self, hardened};
use core::arch::{asm, global_asm};
use core::mem::offset_of;
use limen_linux_abi::Errno;

/// Exceptions that come with an error code: a bit for each vector.
const WITH_ERROR: u32 = 1 << 8 | 0x1f << 10 | 1 << 17 | 1 << 21 | 1 << 29 | 1 << 30;
/// Those that may arrive anywhere, on stacks of their own: NMI, machine check.
const PARANOID: u32 = 1 << 2 | 1 << 18;
/// One more, unless it is a fault of the `iretq` in `espfix_return`: double fault.
const DOUBLE: u32 = 1 << 8;
/// The one that is so only in the kernel.
const DEBUG: u32 = 1 << 1;
/// A general protection fault.
const PROTECTION: u32 = 13;
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
// and third argument; the first is the frame.
.macro SAVE_TRAP
    cld
    sub rsp, {rest} - 8
    SAVE_REST
    mov rsi, [rsp + {rdi}]
    mov [rsp + {rdi}], rdi
    mov rdx, [rsp + {orig_rax}]
    mov qword ptr [rsp + {orig_rax}], -1
    lea rdi, [rsp + 8]
.endm
.macro RESTORE_ALL"#,
    registers!(load: "r15" "r14" "r13" "r12" "rbx" "rbp" "r10" "r9" "r8" "rax" "rdx" "rsi" "rdi" "r11" "rcx"),
    r#".endm
// From user mode: what the processor and the stub of the vector have pushed moves from the CPU's stack to
// where user mode's frame has to be.
.macro TO_THREADS_STACK
    swapgs
    mov gs:[{scratch}], rax
    mov rax, rsp
    mov rsp, gs:[{kernel_stack}]
    push [rax + 6 * 8]
    push [rax + 5 * 8]
    push [rax + 4 * 8]
    push [rax + 3 * 8]
    push [rax + 2 * 8]
    push [rax + 8]
    push [rax]
    mov rax, gs:[{scratch}]
    swapgs
.endm"#,
    crossing!(),
    r#"
.pushsection .noinstr.text, "ax"
.balign 64
.globl syscall_entry, compat_entry, no_call_entry, return_iretq, espfix_return, x86_ret_from_fork, trap_stubs

// RCX has the user's RIP and R11 its RFLAGS; the stack is the user's. What `iretq` needs is pushed, as an
// exception would have done, then the other registers. RBP 0 ends backtraces.
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
    crossing call, {syscall}, {tracked_syscall}, {hardened_syscall}
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

// A call of the i386 ABI, by `int 0x80`, from code of any kind: on the thread's stack, and what `iretq` needs
// is there. The number has 32 bits.
begin compat_entry
    cld
    push rax
    mov dword ptr [rsp + 4], 0
    swapgs
    sub rsp, {rest}
    mov [rsp + {rdi}], rdi
    SAVE_REST
    mov dword ptr [rsp + {cs} + 4], {compat}
    xor ebp, ebp
    lea rdi, [rsp + 8]
    crossing call, {compat_call}, {tracked_compat}, {hardened_compat}
    jmp return_from_trap
.size compat_entry, . - compat_entry

// 32-bit code made a call. RCX and R11 are as above, the stack and GS are the user's and stay.
begin no_call_entry
    mov eax, {enosys}
    sysret
.size no_call_entry, . - no_call_entry

// The processor, and the stub of the vector, have pushed five words, error code and vector. From user mode
// GS is the user's until `swapgs`, and again before the return there.
begin trap_common
    SAVE_TRAP
    test byte ptr [rsp + {cs}], 3
    jz 7f
    swapgs
7:  crossing call, {trap}, {tracked_trap}, {hardened_trap}
return_from_trap:
    RESTORE_ALL
    test byte ptr [rsp + {cs}], 3
    jz 7f
    swapgs
6:  add rsp, {rest} + 8
return_iretq:
    iretq
7:  test byte ptr [rsp + {eflags} + 1], {interrupts_on} >> 8
    jnz 6b
    test byte ptr [rsp + {cs} + 4], {elsewhere}
    jnz 6b
    // The address and the flags go below what the kernel had on its stack. That may be on the frame's own
    // words, its flags' not among them: these say then where the others are.
    mov rax, [rsp + {rsp}]
    mov rcx, [rsp + {rip}]
    mov rdx, [rsp + {eflags}]
    mov [rax - 8], rcx
    mov [rax - 2 * 8], rdx
    sub rax, 2 * 8
    mov [rsp + {eflags}], rax"#,
    registers!(load: "rax" "rcx" "rdx"),
    r#"
    mov rsp, [rsp + {eflags}]
    popfq
    ret
.size trap_common, . - trap_common

// Exceptions that `return_iretq` may raise: in kernel mode, but with the user's GS. Rust exchanges it, and
// says where the frame to return by lies: if it was `return_iretq`, not where it was stored.
begin trap_segment
    SAVE_TRAP
    crossing call, {segment}, {tracked_segment}, {hardened_segment}
    lea rsp, [rax - 8]
    jmp return_from_trap
.size trap_segment, . - trap_segment

// What may arrive anywhere: in kernel mode GS may be the user's or the kernel's. Rust finds out, and leaves
// it as other traps do.
begin trap_paranoid
    test byte ptr [rsp + 3 * 8], 3
    jz 7f
    TO_THREADS_STACK
7:  SAVE_TRAP
    crossing call, {paranoid}, {tracked_paranoid}
    test byte ptr [rsp + {cs}], 3
    jnz return_from_trap
    RESTORE_ALL
    add rsp, {rest} + 8
    iretq
.size trap_paranoid, . - trap_paranoid

// From user mode a trap like others.
begin trap_debug
    test byte ptr [rsp + 3 * 8], 3
    jz trap_paranoid
    TO_THREADS_STACK
    jmp trap_common
.size trap_debug, . - trap_debug

// The frame of a return named this place instead of user mode's. All registers are the user's but for the
// stack pointer, which points to this CPU's stack for this, where nothing can be written.
begin espfix_return
    swapgs
espfix_iretq:
    iretq
.size espfix_return, . - espfix_return

// A double fault. If that `iretq` faulted, registers and GS are the user's, and the words that it was to take
// lie where the stack pointer was: they move to where user mode's frame has to be, as from a general
// protection fault there.
begin trap_double
    test byte ptr [rsp + 3 * 8], 3
    jnz trap_paranoid
    cmp qword ptr [rsp + 2 * 8], offset espfix_iretq
    jne trap_paranoid
    swapgs
    mov gs:[{scratch}], rax
    mov rax, [rsp + 5 * 8]
    mov rsp, gs:[{kernel_stack}]
    push [rax + 4 * 8]
    push [rax + 3 * 8]
    push [rax + 2 * 8]
    push [rax + 8]
    push [rax]
    push 0
    push {protection}
    mov rax, gs:[{scratch}]
    swapgs
    jmp trap_common
.size trap_double, . - trap_double

// A new thread begins here, by its first switch, with its frame above the unused word.
begin x86_ret_from_fork
    xor ebp, ebp
    lea rdi, [rsp + 8]
    crossing call, {fork}, {tracked_fork}, {hardened_fork}
    jmp return_from_trap
.size x86_ret_from_fork, . - x86_ret_from_fork

// One stub for each vector, 16 bytes apart. (What is true is -1.)
.balign 16
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
    jmp trap_paranoid
    .elseif exception & {double}
    jmp trap_double
    .elseif exception & {debug}
    jmp trap_debug
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
    debug = const DEBUG,
    double = const DOUBLE,
    protection = const PROTECTION,
    enosys = const Errno::ENOSYS.to_return_value() as i32,
    of_iretq = const OF_IRETQ,
    scratch = const offset_of!(CpuLocal, scratch),
    kernel_stack = const offset_of!(CpuLocal, kernel_stack_top),
    user_ds = const USER_DS,
    user_cs = const USER_CS,
    // What lies below `orig_rax`: the other registers and the unused word.
    rest = const offset_of!(Frame, orig_rax) + 8,
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
    interrupts_on = const EFLAGS_IF,
    elsewhere = const ELSEWHERE >> 32,
    rsp = const offset_of!(Frame, rsp) + 8,
    compat = const (CHANGED | COMPAT) >> 32,
    syscall = sym x86_syscall::<false>,
    compat_call = sym x86_compat::<false>,
    trap = sym x86_trap::<false>,
    segment = sym x86_segment::<false>,
    paranoid = sym x86_paranoid::<false>,
    fork = sym x86_return_from_fork::<false>,
    tracked_syscall = sym x86_syscall::<true>,
    tracked_compat = sym x86_compat::<true>,
    tracked_trap = sym x86_trap::<true>,
    tracked_segment = sym x86_segment::<true>,
    tracked_paranoid = sym x86_paranoid::<true>,
    tracked_fork = sym x86_return_from_fork::<true>,
    hardened_syscall = sym hardened_syscall,
    hardened_compat = sym hardened_compat,
    hardened_trap = sym hardened_trap,
    hardened_segment = sym hardened_segment,
    hardened_fork = sym hardened_fork,
);

unsafe extern "C" {
    fn syscall_entry();
    fn compat_entry();
    fn no_call_entry();
    fn trap_stubs();
    /// The `iretq` that returns to user mode.
    fn return_iretq();
}

/// Where `syscall` goes.
pub fn syscall_entry_address() -> usize {
    syscall_entry as *const () as usize
}

/// Where `int 0x80` goes.
pub fn compat_entry_address() -> usize {
    compat_entry as *const () as usize
}

/// Where `syscall` of 32-bit code goes.
pub fn no_call_address() -> usize {
    no_call_entry as *const () as usize
}

/// The stub of an interrupt vector.
pub fn stub_address(vector: usize) -> usize {
    trap_stubs as *const () as usize + vector * 16
}

/// A system call.
#[unsafe(link_section = ".noinstr.text")]
extern "C" fn x86_syscall<const TRACKED: bool>(frame: &mut Frame) {
    threshold::syscall::<TRACKED>(frame);
    debug_assert!(frame.is_changed() || frame.fits_sysret());
}

/// A system call of the i386 ABI.
#[unsafe(link_section = ".noinstr.text")]
extern "C" fn x86_compat<const TRACKED: bool>(frame: &mut Frame) {
    uaccess::close_window();
    threshold::compat_syscall::<TRACKED>(frame);
}

/// An exception or interrupt with its vector and error code.
#[unsafe(link_section = ".noinstr.text")]
extern "C" fn x86_trap<const TRACKED: bool>(frame: &mut Frame, vector: usize, error: usize) {
    uaccess::close_window();
    exception::trap::<TRACKED>(frame, vector as u8, error);
}

/// An exception that `iretq` may raise, before any `swapgs`. Returns the frame to go back to.
///
/// If `return_iretq` raised it, GS is the user's as well, and so are the registers; the words that it was to
/// take are the end of the frame that was going back. With the other registers this is what user mode would
/// have had a moment later, and it is where user mode's frame has to be.
///
/// # Safety
/// By the entry stub only.
#[unsafe(link_section = ".noinstr.text")]
unsafe extern "C" fn x86_segment<const TRACKED: bool>(
    frame: *mut Frame,
    vector: usize,
    error: usize,
) -> *mut Frame {
    // SAFETY: the stub's, as the caller promises.
    unsafe {
        let frame = own_frame(frame);
        segment::<TRACKED>(&mut *frame, vector, error);
        frame
    }
}

/// The frame to go back to, with the kernel's GS.
///
/// # Safety
/// As [`x86_segment`].
#[unsafe(link_section = ".noinstr.text")]
#[inline(always)]
unsafe fn own_frame(frame: *mut Frame) -> *mut Frame {
    const REGISTERS: usize = offset_of!(Frame, rip) / size_of::<usize>();
    let mut at = frame;
    // SAFETY: the frame is the stub's. The stack pointer in it is that of `return_iretq`, above which nothing
    // but the end of the other frame is in use, and that frame lies higher; the loop calls nothing.
    unsafe {
        if (*frame).cs & 3 == 0 && (*frame).rip == return_iretq as *const () as usize {
            at = (*frame).rsp.wrapping_sub(offset_of!(Frame, rip)) as *mut Frame;
            for n in (0..REGISTERS).rev() {
                let value = frame.cast::<usize>().add(n).read();
                at.cast::<usize>().add(n).write_volatile(value);
            }
            // The call is over.
            (*at).cs &= !COMPAT;
        }
        if (*at).cs & 3 != 0 {
            swapgs();
        }
    }
    at
}

/// An exception that `iretq` may raise, with the kernel's GS. (A function of its own: it may not look at the
/// CPU's block any earlier.)
#[unsafe(link_section = ".noinstr.text")]
#[inline(never)]
extern "C" fn segment<const TRACKED: bool>(frame: &mut Frame, vector: usize, error: usize) {
    uaccess::close_window();
    exception::fault::<TRACKED>(frame, vector as u8, error);
}

/// Exchanges the bases of GS.
///
/// # Safety
/// The kernel's comes from where it waits; nothing has used it yet.
#[inline(always)]
unsafe fn swapgs() {
    // SAFETY: the caller's promise.
    unsafe { asm!("swapgs", options(nostack, preserves_flags)) }
}

/// An NMI, double fault, machine check, or a debug exception in the kernel. If it came from user mode, this
/// is the thread's stack and GS is the user's, and the way back exchanges it. In the kernel it is a stack for
/// this, with the address of the CPU's block above the frame; GS may be either, and is put back as it was.
///
/// # Safety
/// By the entry stub only.
#[unsafe(link_section = ".noinstr.text")]
unsafe extern "C" fn x86_paranoid<const TRACKED: bool>(frame: *mut Frame, vector: usize, error: usize) {
    // SAFETY: frame and what is above it are the stub's; the block is this CPU's.
    unsafe {
        if (*frame).cs & 3 != 0 {
            swapgs();
            return paranoid::<TRACKED>(&mut *frame, vector, error);
        }
        let gs = cpu::rdmsr(cpu::MSR_GS_BASE);
        cpu::wrmsr(cpu::MSR_GS_BASE, frame.add(1).cast::<u64>().read());
        paranoid::<TRACKED>(&mut *frame, vector, error);
        cpu::wrmsr(cpu::MSR_GS_BASE, gs);
    }
}

/// An NMI, double fault or machine check, with the kernel's GS. (A function of its own, as [`segment`].)
#[unsafe(link_section = ".noinstr.text")]
#[inline(never)]
fn paranoid<const TRACKED: bool>(frame: &mut Frame, vector: usize, error: usize) {
    uaccess::close_window();
    exception::paranoid::<TRACKED>(frame, vector as u8, error);
}

/// A new thread's first steps.
#[unsafe(link_section = ".noinstr.text")]
extern "C" fn x86_return_from_fork<const TRACKED: bool>(frame: &mut Frame) {
    threshold::return_from_fork::<TRACKED>(frame);
}

hardened! {
    hardened_syscall: x86_syscall,
    hardened_compat: x86_compat,
    hardened_fork: x86_return_from_fork,
}

/// A trap on its way to another place on the stack.
struct Trap<'a> {
    frame: &'a mut Frame,
    vector: usize,
    error: usize,
}

impl OnStack for Trap<'_> {
    #[unsafe(link_section = ".noinstr.text")]
    extern "C" fn run(trap: *mut u8) {
        // SAFETY: `hardened_trap` passes one that nobody else uses meanwhile.
        let Trap { frame, vector, error } = unsafe { &mut *trap.cast::<Trap<'_>>() };
        if stub_calls::is_tracking() {
            x86_trap::<true>(frame, *vector, *error);
        } else {
            x86_trap::<false>(frame, *vector, *error);
        }
    }
}

/// A trap, with a hardened stack if it is user mode's.
#[unsafe(link_section = ".noinstr.text")]
#[inline(never)]
extern "C" fn hardened_trap(frame: &mut Frame, vector: usize, error: usize) {
    let is_from_user = frame.cs & 3 != 0;
    let mut trap = Trap { frame, vector, error };
    let trap = (&raw mut trap).cast();
    if is_from_user {
        hardened::from_user::<Trap<'_>>(trap);
    } else {
        Trap::run(trap);
    }
}

/// An exception that `iretq` may raise, as [`x86_segment`] and [`hardened_trap`].
///
/// # Safety
/// By the entry stub only.
#[unsafe(link_section = ".noinstr.text")]
unsafe extern "C" fn hardened_segment(frame: *mut Frame, vector: usize, error: usize) -> *mut Frame {
    // SAFETY: the stub's, as the caller promises.
    unsafe {
        let frame = own_frame(frame);
        hardened_trap(&mut *frame, vector, error);
        frame
    }
}
