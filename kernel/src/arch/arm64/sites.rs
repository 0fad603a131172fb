//! Where functions call tracers. A site is two instructions at a function's first address, which is aligned
//! to eight bytes; the slot is the eight bytes before it. The first keeps the return address in X9, always;
//! the second is a `nop`, or a `bl` to [`trace_entry`]: these two may be exchanged while other CPUs execute
//! them (Arm Architecture Reference Manual, B2.2.5, concurrent modification and execution of instructions).

use crate::task::ThreadInfo;
use core::arch::global_asm;
use core::cell::Cell;
use core::mem::{offset_of, size_of};
use limen_entry::{ThreadFlags, WorkWords};

/// What a function was called with, on the stack while its tracers run.
#[derive(Debug)]
#[repr(C)]
pub struct Entry {
    args: [usize; 8],
    x8: usize,
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
            0..=7 => self.args[n],
            8 => self.x8,
            29 => self.fp,
            30 => self.parent.get(),
            31 => self.sp(),
            32 => self.next.get(),
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
    /// X19 to X28.
    rest: [usize; 10],
    _back: [usize; 2],
    pub(in crate::arch) entry: Entry,
}

impl Saved {
    /// The register that DWARF gives number `n` (DWARF for the Arm 64-bit Architecture, 4.1).
    pub fn register(&self, n: usize) -> Option<usize> {
        match n {
            19..=28 => Some(self.rest[n - 19]),
            _ => self.entry.register(n),
        }
    }
}

/// What holds the instruction of a site that is changed, and is written at once.
pub type Word = core::sync::atomic::AtomicU32;
/// Its value.
pub type Value = u32;

const NOP: u32 = 0xd503_201f;
const BL: u32 = 0x9400_0000;

/// How often all CPUs synchronise while a site is changed.
pub const PHASES: usize = 1;

/// The address of a site's first instruction, by which tracers know it.
pub fn ip(site: usize) -> usize {
    site
}

/// The address of a site's slot.
pub fn slot(site: usize) -> usize {
    site - 8
}

/// Where a site's word is.
pub fn place(site: usize) -> usize {
    site + 4
}

/// The word of a site, which calls `to`, or does not.
pub fn word(site: usize, to: usize, _now: Value, call: bool, _phase: usize) -> Value {
    let distance = to.wrapping_sub(place(site));
    if call {
        BL | (distance >> 2) as u32 & 0x3ff_ffff
    } else {
        NOP
    }
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
    word == NOP
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

// `trace_entry` is called by a site: X30 is where the function goes on, X9 where it returns to. Preemption is
// off from before the slot is read until the tracer has returned, so that the tracers' owner can wait for all
// of them (`ftrace/site.rs`). The tracer is called with the site, the function's return address, itself and
// the `Entry`.
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
    sub     sp, sp, #{size}
    stp     x0, x1, [sp]
    stp     x2, x3, [sp, #16]
    stp     x4, x5, [sp, #32]
    stp     x6, x7, [sp, #48]
    stp     x8, x9, [sp, #64]
    stp     x29, x30, [sp, #80]
    add     x29, sp, #80
    mrs     x10, sp_el0
    ldr     w11, [x10, #{preempt_count}]
    add     w11, w11, #1
    str     w11, [x10, #{preempt_count}]
    ldr     x2, [x30, #-16]
    sub     x0, x30, #8
    mov     x1, x9
    mov     x3, sp
    ldr     x10, [x2]
    blr     x10
    mrs     x10, sp_el0
    ldr     w11, [x10, #{preempt_count}]
    sub     w11, w11, #1
    str     w11, [x10, #{preempt_count}]
    ldr     w11, [x10, #{work}]
    tbnz    w11, #{need_resched}, 2f
1:  ldp     x0, x1, [sp]
    ldp     x2, x3, [sp, #16]
    ldp     x4, x5, [sp, #32]
    ldp     x6, x7, [sp, #48]
    ldp     x8, x30, [sp, #64]
    ldp     x29, x10, [sp, #80]
    add     sp, sp, #{size}
    ret     x10
// Somebody more deserving became runnable meanwhile.
2:  bl      {resched}
    b       1b
.size trace_entry, . - trace_entry
.balign 64
.type trace_each, %function
trace_each:
    stp     x19, x30, [sp, #-32]!
    stp     x0, x1, [sp, #16]
    ldr     x19, [x2, #8]
    ldr     x2, [x19], #8
    ldr     x9, [x2]
    blr     x9
1:  ldr     x2, [x19], #8
    ldp     x0, x1, [sp, #16]
    add     x3, sp, #32
    ldr     x9, [x2]
    blr     x9
    ldr     x9, [x19]
    cbnz    x9, 1b
    ldp     x19, x30, [sp], #32
    ret
.size trace_each, . - trace_each
.balign 64
.type trace_saved, %function
trace_saved:
    sub     sp, sp, #{saved}
    stp     x19, x20, [sp]
    stp     x21, x22, [sp, #16]
    stp     x23, x24, [sp, #32]
    stp     x25, x26, [sp, #48]
    stp     x27, x28, [sp, #64]
    str     x30, [sp, #80]
    ldr     x19, [x2, #8]
    mov     x20, x0
    mov     x21, x1
    mov     x22, x3
1:  ldr     x2, [x19], #8
    mov     x0, x20
    mov     x1, x21
    mov     x3, x22
    ldr     x9, [x2]
    blr     x9
    ldr     x9, [x19]
    cbnz    x9, 1b
    ldp     x19, x20, [sp]
    ldp     x21, x22, [sp, #16]
    ldr     x30, [sp, #80]
    add     sp, sp, #{saved}
    ret
.size trace_saved, . - trace_saved
trace_entry_end:
.popsection
"#,
    size = const size_of::<Entry>(),
    saved = const offset_of!(Saved, entry),
    preempt_count = const offset_of!(ThreadInfo, preempt_count),
    work = const offset_of!(ThreadInfo, work) + WorkWords::FLAGS,
    need_resched = const ThreadFlags::NEED_RESCHED.bits().trailing_zeros(),
    resched = sym crate::arch::site_table::resched,
);
