//! Where traced functions return to, so that their returns are traced: [`return_address`] is in place of
//! their own return address.

use crate::sched::cpu::CpuLocal;
use crate::task::ThreadInfo;
use core::arch::global_asm;
use core::mem::offset_of;
use limen_entry::{ThreadFlags, WorkWords};

/// What a function returned, on the stack while its tracers run. The order is that of the pushes.
#[derive(Debug)]
#[repr(C)]
pub struct Exit {
    /// For the stack's alignment.
    rsi: usize,
    rcx: usize,
    rdx: usize,
    rax: usize,
    rbp: usize,
    /// Where it returns to.
    parent: usize,
}

impl Exit {
    /// What it returned, if that is a number.
    #[inline(always)]
    pub fn value(&self) -> usize {
        self.rax
    }

    /// The function's stack pointer when it began: where its return address lay.
    #[inline(always)]
    pub fn sp(&self) -> usize {
        &raw const self.parent as usize
    }
}

/// Where functions return to whose returns are traced.
#[inline(always)]
pub fn return_address() -> usize {
    unsafe extern "C" {
        fn return_trampoline();
    }
    return_trampoline as *const () as usize
}

// A function has returned here. Preemption is off until where it really returns to is known and its return
// was traced. Until then this frame's return address is this address, which a backtrace understands.
global_asm!(
    r#"
.pushsection .text, "ax"
.balign 64
.globl return_trampoline
.type return_trampoline, @function
return_trampoline:
    push offset return_trampoline
    push rbp
    mov rbp, rsp
    push rax
    push rdx
    push rcx
    push rsi
    mov rax, gs:[{current}]
    inc dword ptr [rax + {preempt_count}]
    mov rdi, rsp
    call {returned}
    mov [rbp + 8], rax
    mov rax, gs:[{current}]
    dec dword ptr [rax + {preempt_count}]
    test byte ptr [rax + {work}], {need_resched}
    jnz 2f
1:  pop rsi
    pop rcx
    pop rdx
    pop rax
    pop rbp
    ret
// Somebody more deserving became runnable meanwhile.
2:  call {resched}
    jmp 1b
.size return_trampoline, . - return_trampoline
.popsection
"#,
    current = const offset_of!(CpuLocal, current),
    preempt_count = const offset_of!(ThreadInfo, preempt_count),
    work = const offset_of!(ThreadInfo, work) + WorkWords::FLAGS,
    need_resched = const ThreadFlags::NEED_RESCHED.bits(),
    returned = sym crate::arch::site_table::returned,
    resched = sym crate::arch::site_table::resched,
);
