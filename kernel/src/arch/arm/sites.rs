//! Where functions call tracers. A site is the seven words that the compiler puts at a function's first
//! address: `b` behind them, or `nop`; then what never changes: `mov ip, lr`, which keeps the return address;
//! `bl` to [`trace_entry`]; `b` behind the words; the slot; and two that are not used. `b` and `nop` may be
//! exchanged while other CPUs execute them (Arm Architecture Reference Manual ARMv7-A and ARMv7-R, A3.5.4,
//! concurrent modification and execution of instructions).

use crate::task::ThreadInfo;
use core::arch::global_asm;
use core::cell::Cell;
use core::mem::{offset_of, size_of};
use limen_entry::{ThreadFlags, WorkWords};

/// What a function was called with, on the stack while its tracers run.
#[derive(Debug)]
#[repr(C)]
pub struct Entry {
    args: [usize; 4],
    r4: usize,
    /// Where it returns to.
    pub(in crate::arch) parent: Cell<usize>,
    fp: usize,
    /// Where the function goes on.
    pub(in crate::arch) next: Cell<usize>,
}

impl Entry {
    /// Argument `n` in a register, from 0; `None` if it is not in one.
    pub fn arg(&self, n: usize) -> Option<usize> {
        self.args.get(n).copied()
    }

    /// The register that DWARF gives number `n`, if it is here.
    pub fn register(&self, n: usize) -> Option<usize> {
        Some(match n {
            0..=3 => self.args[n],
            4 => self.r4,
            11 => self.fp,
            13 => self.sp(),
            14 => self.parent.get(),
            15 => self.next.get(),
            _ => return None,
        })
    }

    /// The function's stack pointer.
    pub fn sp(&self) -> usize {
        &raw const *self as usize + size_of::<Self>()
    }
}

/// [`Entry`], and what else was in the function's registers: for tracers that asked for all of them. It lies
/// below the entry on the stack; what the code in between may change are registers that say nothing at a
/// function's beginning.
#[derive(Debug)]
#[repr(C)]
pub struct Saved {
    /// R4 to R10.
    rest: [usize; 7],
    _back: usize,
    pub(in crate::arch) entry: Entry,
}

impl Saved {
    /// The register that DWARF gives number `n` (DWARF for the Arm Architecture, 4.1).
    pub fn register(&self, n: usize) -> Option<usize> {
        match n {
            5..=10 => Some(self.rest[n - 4]),
            _ => self.entry.register(n),
        }
    }
}

/// What holds the instruction of a site that is changed, and is written at once.
pub type Word = core::sync::atomic::AtomicU32;
/// Its value.
pub type Value = u32;

/// `b .+28`, and `nop`.
const OFF: u32 = 0xea00_0005;
const NOP: u32 = 0xe320_f000;

/// How often all CPUs synchronise while a site is changed.
pub const PHASES: usize = 1;

/// The address of a site's first instruction, by which tracers know it.
pub fn ip(site: usize) -> usize {
    site
}

/// The address of a site's slot.
pub fn slot(site: usize) -> usize {
    site + 16
}

/// Where a site's word is.
pub fn place(site: usize) -> usize {
    site
}

/// The word of a site, which lets its call happen, or does not.
pub fn word(_site: usize, _to: usize, _now: Value, call: bool, _phase: usize) -> Value {
    if call { NOP } else { OFF }
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
    word == OFF
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
pub const PARENT: isize = -1;

// `trace_entry` is called by a site: LR is where the function goes on, IP where it returns to. Preemption is
// off from before the slot is read until the tracer has returned, so that the tracers' owner can wait for all
// of them (`ftrace/site.rs`). The tracer is called with the site, the function's return address, itself and
// the `Entry`. R4 is saved for the stack's alignment.
//
// `trace_each` is called as a tracer, and calls all of a list. `trace_saved` does so, too, with all registers
// of the function on the stack (`Saved`). Neither makes a frame, so a backtrace finds that of `trace_entry`.
global_asm!(
    r#"
.pushsection .text, "ax"
.balign 64
.globl trace_entry, trace_entry_end, trace_each, trace_saved
.type trace_entry, %function
trace_entry:
    push    {{r11, lr}}
    mov     r11, sp
    push    {{r0-r4, ip}}
    mrc     p15, 0, r3, c13, c0, 4
    ldr     r2, [r3, #{preempt_count}]
    add     r2, r2, #1
    str     r2, [r3, #{preempt_count}]
    ldr     r2, [lr, #4]
    sub     r0, lr, #12
    mov     r1, ip
    mov     r3, sp
    ldr     ip, [r2]
    blx     ip
    mrc     p15, 0, r3, c13, c0, 4
    ldr     r2, [r3, #{preempt_count}]
    sub     r2, r2, #1
    str     r2, [r3, #{preempt_count}]
    ldr     r2, [r3, #{work}]
    tst     r2, #{need_resched}
    bne     2f
1:  pop     {{r0-r4, lr}}
    pop     {{r11, pc}}
// Somebody more deserving became runnable meanwhile.
2:  bl      {resched}
    b       1b
.size trace_entry, . - trace_entry
.balign 64
.type trace_each, %function
trace_each:
    push    {{r0, r1, r4, lr}}
    ldr     r4, [r2, #4]
    ldr     r2, [r4], #4
    ldr     ip, [r2]
    blx     ip
1:  ldr     r2, [r4], #4
    ldm     sp, {{r0, r1}}
    add     r3, sp, #16
    ldr     ip, [r2]
    blx     ip
    ldr     ip, [r4]
    cmp     ip, #0
    bne     1b
    pop     {{r0, r1, r4, pc}}
.size trace_each, . - trace_each
.balign 64
.type trace_saved, %function
trace_saved:
    push    {{r4-r10, lr}}
    ldr     r4, [r2, #4]
    mov     r5, r0
    mov     r6, r1
    mov     r7, r3
1:  ldr     r2, [r4], #4
    mov     r0, r5
    mov     r1, r6
    mov     r3, r7
    ldr     ip, [r2]
    blx     ip
    ldr     ip, [r4]
    cmp     ip, #0
    bne     1b
    pop     {{r4-r10, pc}}
.size trace_saved, . - trace_saved
trace_entry_end:
.popsection
"#,
    preempt_count = const offset_of!(ThreadInfo, preempt_count),
    work = const offset_of!(ThreadInfo, work) + WorkWords::FLAGS,
    need_resched = const ThreadFlags::NEED_RESCHED.bits(),
    resched = sym crate::arch::site_table::resched,
);
