//! Where functions call tracers. A site is a five-byte `nop` at a function's first address, which is aligned
//! to eight bytes; the slot is the eight bytes before it. A traced function's site calls [`trace_entry`]
//! instead.
//!
//! Text is changed while other CPUs execute it. A store to part of an aligned quadword is seen as a whole
//! (AMD64 Architecture Programmer's Manual, volume 2, 7.6.1), but Intel's manual (volume 3, 9.1.3) promises
//! nothing for CPUs that have not been made to forget what they fetched ahead. So a breakpoint comes first,
//! one byte; then the four bytes behind it; then the first of them, and all CPUs serialise after each. A CPU
//! that meets the breakpoint goes on behind the site, as if there were no tracer.

use super::frame::Frame;
use super::jump_label;
use crate::arch::jump_table;
use crate::arch::site_table::{self, TABLE};
use crate::sched::cpu::CpuLocal;
use crate::task::ThreadInfo;
use core::arch::global_asm;
use core::cell::Cell;
use core::mem::{offset_of, size_of};
use core::sync::atomic::Ordering;
use limen_entry::{ThreadFlags, WorkWords};

/// What a function was called with, on the stack while its tracers run. The order is that of the pushes.
#[derive(Debug)]
#[repr(C)]
pub struct Entry {
    rax: usize,
    /// Arguments, from the sixth to the first.
    args: [usize; 6],
    rbp: usize,
    /// Where the function goes on.
    pub(in crate::arch) next: Cell<usize>,
    /// Where it returns to.
    pub(in crate::arch) parent: Cell<usize>,
}

impl Entry {
    /// Argument `n` in a register, from 0; `None` if it is not in one.
    pub fn arg(&self, n: usize) -> Option<usize> {
        self.args.iter().rev().nth(n).copied()
    }

    /// The register that DWARF gives number `n`, if it is here.
    pub fn register(&self, n: usize) -> Option<usize> {
        Some(match n {
            0 => self.rax,
            1 => self.args[3],
            2 => self.args[2],
            4 => self.args[4],
            5 => self.args[5],
            6 => self.rbp,
            7 => self.sp(),
            8 => self.args[1],
            9 => self.args[0],
            16 => self.next.get(),
            _ => return None,
        })
    }

    /// The function's stack pointer: where its return address lies.
    pub fn sp(&self) -> usize {
        &raw const self.parent as usize
    }
}

/// [`Entry`], and what else was in the function's registers: for tracers that asked for all of them. It lies
/// below the entry on the stack; what the code in between may change are registers that say nothing at a
/// function's beginning.
#[derive(Debug)]
#[repr(C)]
pub struct Saved {
    _pad: usize,
    rflags: usize,
    /// R15 to R12, RBX, R11, R10.
    rest: [usize; 7],
    _back: usize,
    pub(in crate::arch) entry: Entry,
}

impl Saved {
    /// The register that DWARF gives number `n` (System V ABI, AMD64 supplement, 3.36).
    pub fn register(&self, n: usize) -> Option<usize> {
        Some(match n {
            3 => self.rest[4],
            10 => self.rest[6],
            11 => self.rest[5],
            12..=15 => self.rest[15 - n],
            49 => self.rflags,
            _ => return self.entry.register(n),
        })
    }
}

/// Bytes of a site.
const SIZE: usize = 5;
/// A site's quadword without a tracer, and which of its bytes are the site's.
const NOP: u64 = 0x08_0044_1f0f;
const MASK: u64 = (1 << (8 * SIZE)) - 1;
/// `call` and `int3`.
const CALL: u64 = 0xe8;
const INT3: u64 = 0xcc;

/// What holds the instructions of a site that are changed, and is written at once.
pub type Word = core::sync::atomic::AtomicU64;
/// Its value.
pub type Value = u64;

/// How often all CPUs serialise while a site is changed.
pub const PHASES: usize = 3;

/// The address of a site's first instruction, by which tracers know it.
pub fn ip(site: usize) -> usize {
    site
}

/// The address of a site's slot.
pub fn slot(site: usize) -> usize {
    site - size_of::<usize>()
}

/// Where a site's word is.
pub fn place(site: usize) -> usize {
    site
}

/// The word of a site, which was `now`, after phase `phase` of its change to one that calls `to`, or
/// does not.
pub fn word(site: usize, to: usize, now: Value, call: bool, phase: usize) -> Value {
    let distance = to.wrapping_sub(site + SIZE) as u32;
    let site = if call {
        CALL | u64::from(distance) << 8
    } else {
        NOP
    };
    let byte = if phase + 1 < PHASES { INT3 } else { site & 0xff };
    let rest = if phase == 0 { now } else { now & !MASK | site };
    rest & !0xff | byte
}

/// What a site of the image calls.
pub fn trampoline(_site: usize) -> usize {
    trace_entry as *const () as usize
}

/// What those of modules call.
pub fn for_modules() -> [usize; 2] {
    [trace_entry as *const () as usize; 2]
}

/// Whether a word is one of a site without a tracer.
pub fn is_off(word: Value) -> bool {
    word & MASK == NOP
}

/// Whether what memory has at `at`, where this CPU met a breakpoint, is a site again: the breakpoint has gone
/// since. (A processor cannot have met it then, as all of them serialise before their change is over; an
/// emulator can, if one of its CPUs translates what another is storing.)
#[inline(always)]
fn is_again(at: usize) -> bool {
    if !at.is_multiple_of(size_of::<Word>()) {
        return false;
    }
    // SAFETY: this CPU was executing what is there, in the kernel.
    let now = unsafe { (*(at as *const Word)).load(Ordering::Relaxed) };
    let next = at.wrapping_add(SIZE);
    let called = || next.wrapping_add_signed((now >> 8) as i32 as isize);
    is_off(now) || now & 0xff == CALL && called() == trace_entry as *const () as usize
}

/// A breakpoint in kernel mode: it is a site's that is being changed, or was, or a place's of the jump table,
/// and its CPU goes on behind it. Called before the threshold, which may have such a site itself.
#[inline(always)]
pub fn passes(frame: &mut Frame) -> bool {
    const { assert!(SIZE == jump_label::SIZE) };
    let site = frame.rip - 1;
    let is_site =
        TABLE.site(TABLE.search(site)) == Some(site) || site_table::is_changing(site) || is_again(site);
    if !is_site && !jump_table::is_site(site) {
        return false;
    }
    frame.rip += SIZE - 1;
    true
}

unsafe extern "C" {
    /// What a traced function's site calls.
    fn trace_entry();
}

/// Whether an address is in the code that calls tracers.
pub fn is_trampoline(ip: usize) -> bool {
    unsafe extern "C" {
        static trace_entry_end: u8;
    }
    (trace_entry as *const () as usize..&raw const trace_entry_end as usize).contains(&ip)
}

/// Where that code's frame has the return address of the function's caller, from the frame pointer on, in
/// words: a backtrace finds only the one in the function.
pub const PARENT: isize = 2;

// `trace_entry` is called by a site: on the stack is where the function goes on, above that where it returns
// to. Preemption is off from before the slot is read until the tracer has returned, so that the tracers'
// owner can wait for all of them (`trace/site.rs`). The tracer is called with the site, the function's return
// address, itself and the `Entry`.
//
// `trace_each` is called as a tracer, and calls all of a list. `trace_saved` does so, too, with all registers
// of the function on the stack (`Saved`). Neither makes a frame, so a backtrace finds that of `trace_entry`.
global_asm!(
    r#"
.pushsection .text, "ax"
.balign 64
.globl trace_entry, trace_entry_end, trace_each, trace_saved
.type trace_entry, @function
trace_entry:
    push rbp
    mov rbp, rsp
    push rdi
    push rsi
    push rdx
    push rcx
    push r8
    push r9
    push rax
    mov rax, gs:[{current}]
    inc dword ptr [rax + {preempt_count}]
    mov rdi, [rbp + 8]
    mov rdx, [rdi - 13]
    sub rdi, 5
    mov rsi, [rbp + 16]
    mov rcx, rsp
    call [rdx]
    mov rax, gs:[{current}]
    dec dword ptr [rax + {preempt_count}]
    test byte ptr [rax + {work}], {need_resched}
    jnz 2f
1:  pop rax
    pop r9
    pop r8
    pop rcx
    pop rdx
    pop rsi
    pop rdi
    pop rbp
    ret
// Somebody more deserving became runnable meanwhile.
2:  call {resched}
    jmp 1b
.size trace_entry, . - trace_entry
.balign 64
.type trace_each, @function
trace_each:
    push rbx
    push rdi
    push rsi
    mov rbx, [rdx + 8]
    mov rdx, [rbx]
    call [rdx]
1:  mov rdx, [rbx + 8]
    mov rdi, [rsp + 8]
    mov rsi, [rsp]
    lea rcx, [rsp + 32]
    call [rdx]
    add rbx, 8
    cmp qword ptr [rbx + 8], 0
    jne 1b
    add rsp, 16
    pop rbx
    ret
.size trace_each, . - trace_each
.balign 64
.type trace_saved, @function
trace_saved:
    push r10
    push r11
    push rbx
    push r12
    push r13
    push r14
    push r15
    pushfq
    push rax
    mov rbx, [rdx + 8]
    mov r12, rdi
    mov r13, rsi
    mov r14, rcx
1:  mov rdx, [rbx]
    add rbx, 8
    mov rdi, r12
    mov rsi, r13
    mov rcx, r14
    call [rdx]
    cmp qword ptr [rbx], 0
    jne 1b
    add rsp, 16
    pop r15
    pop r14
    pop r13
    pop r12
    pop rbx
    pop r11
    pop r10
    ret
.size trace_saved, . - trace_saved
trace_entry_end:
.popsection
"#,
    current = const offset_of!(CpuLocal, current),
    preempt_count = const offset_of!(ThreadInfo, preempt_count),
    work = const offset_of!(ThreadInfo, work) + WorkWords::FLAGS,
    need_resched = const ThreadFlags::NEED_RESCHED.bits(),
    resched = sym crate::arch::site_table::resched,
);
