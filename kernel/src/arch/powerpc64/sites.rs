//! Where functions call tracers. A site is two instructions at a function's local entry, where calls by name
//! and through pointers meet; the slot is the eight bytes before its global entry, which is aligned to eight
//! bytes: two instructions farther away if the function makes the address of its table of contents in
//! between. The first instruction keeps the return address in r0, always; the second is a `nop`, or a `bl`:
//! these two may be exchanged while other CPUs execute them (Power ISA 3.1, Book II, 1.7.2: patch class
//! instructions).

use super::cpus::SCRATCH_TOC;
use super::stack::{FIRST, LEAST};
use crate::sched::cpu::CpuLocal;
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
    /// Where it returns to.
    pub(in crate::arch) parent: Cell<usize>,
    /// Where the function goes on.
    pub(in crate::arch) next: Cell<usize>,
}

/// Bytes of the stack frame.
const FRAME: usize = (LEAST + size_of::<Entry>()).next_multiple_of(16);

impl Entry {
    /// Argument `n` in a register, from 0; `None` if it is not in one.
    pub fn arg(&self, n: usize) -> Option<usize> {
        self.args.get(n).copied()
    }

    /// The register that DWARF gives number `n`, if it is here.
    pub fn register(&self, n: usize) -> Option<usize> {
        Some(match n {
            1 => self.sp(),
            3..=10 => self.args[n - 3],
            65 => self.parent.get(),
            _ => return None,
        })
    }

    /// The function's stack pointer.
    pub fn sp(&self) -> usize {
        &raw const *self as usize - LEAST + FRAME
    }
}

/// [`Entry`], and what else was in the function's registers: for tracers that asked for all of them. It lies
/// below the entry on the stack; what the code in between may change are registers that say nothing at a
/// function's beginning.
#[derive(Debug)]
#[repr(C)]
pub struct Saved {
    /// r14 to r31.
    rest: [usize; 18],
    toc: usize,
    cr: usize,
    /// The header of the frame in which the entry lies.
    _header: [usize; LEAST / 8],
    pub(in crate::arch) entry: Entry,
}

/// Bytes of the stack frame in which the rest is.
const SAVED_FRAME: usize = LEAST + offset_of!(Saved, _header);
const _: () = assert!(SAVED_FRAME.is_multiple_of(16));

impl Saved {
    /// The register that DWARF gives number `n` (OpenPOWER ELF V2 ABI, 2.4).
    pub fn register(&self, n: usize) -> Option<usize> {
        Some(match n {
            2 => self.toc,
            14..=31 => self.rest[n - 14],
            64 => self.cr,
            _ => return self.entry.register(n),
        })
    }
}

/// What holds the instruction of a site that is changed, and is written at once.
pub type Word = core::sync::atomic::AtomicU32;
/// Its value.
pub type Value = u32;

const NOP: u32 = 0x6000_0000;
const BL: u32 = 0x4800_0001;
/// Set in a site: the function makes the address of its table of contents.
const TOC: usize = 1;

/// How often all CPUs synchronise while a site is changed.
pub const PHASES: usize = 1;

/// The address of a site's first instruction, by which tracers know it.
pub fn ip(site: usize) -> usize {
    site & !TOC
}

/// The address of a site's slot.
pub fn slot(site: usize) -> usize {
    ip(site) - if site & TOC != 0 { 16 } else { 8 }
}

/// Where a site's word is.
pub fn place(site: usize) -> usize {
    ip(site) + 4
}

/// What a site of the image calls.
pub fn trampoline(site: usize) -> usize {
    unsafe extern "C" {
        static trace_entry: u8;
        static trace_entry_toc: u8;
    }
    if site & TOC != 0 {
        &raw const trace_entry_toc as usize
    } else {
        &raw const trace_entry as usize
    }
}

/// What those of modules call: they have another table of contents.
pub fn for_modules() -> [usize; 2] {
    unsafe extern "C" {
        static trace_module: u8;
        static trace_module_toc: u8;
    }
    [&raw const trace_module, &raw const trace_module_toc].map(|to| to as usize)
}

/// The word of a site, which calls `to`, or does not.
pub fn word(site: usize, to: usize, _now: Value, call: bool, _phase: usize) -> Value {
    let distance = to.wrapping_sub(place(site));
    if call {
        BL | distance as u32 & 0x3ff_fffc
    } else {
        NOP
    }
}

/// Whether a word is one of a site without a tracer.
pub fn is_off(word: Value) -> bool {
    word == NOP
}

/// Whether an address is in the code that calls tracers.
pub fn is_trampoline(ip: usize) -> bool {
    unsafe extern "C" {
        static trace_entry: u8;
        static trace_entry_end: u8;
    }
    (&raw const trace_entry as usize..&raw const trace_entry_end as usize).contains(&ip)
}

/// Where that code's frame has the return address of the function's caller, from the function's frame on, in
/// words: a backtrace finds only the one in the function.
pub const PARENT: isize = -(((FRAME - LEAST - offset_of!(Entry, parent)) / size_of::<usize>()) as isize);

// `trace_entry` is called by a site: LR is where the function goes on, r0 where it returns to. Preemption is
// off from before the slot is read until the tracer has returned, so that the tracers' owner can wait for all
// of them (`ftrace/site.rs`). The tracer is called with the site, the function's return address, itself and
// the `Entry`. LR is also where the function itself will save it: for backtraces.
//
// `trace_each` is called as a tracer, and calls all of a list. `trace_saved` does so, too, with all registers
// of the function on the stack (`Saved`).
global_asm!(
    r#"
.pushsection .text, "ax"
.macro TRACE_ENTRY name, slot, back, keep=0
.balign 64
.globl \name
.type \name, %function
\name:
    stdu    1, -{frame}(1)
    .if \keep
    std     2, 24(1)
    .endif
    .irp n, 0, 1, 2, 3, 4, 5, 6, 7
    std     3 + \n, {args} + 8 * \n(1)
    .endr
    std     0, {parent}(1)
    mflr    11
    std     11, {next}(1)
    std     11, {frame} + 16(1)
    ld      9, {current}(13)
    lwz     10, {preempt_count}(9)
    addi    10, 10, 1
    stw     10, {preempt_count}(9)
    ld      5, -\slot(11)
    addi    3, 11, -8
    mr      4, 0
    addi    6, 1, {args}
    ld      12, 0(5)
    mtctr   12
    bctrl
    b       \back
.size \name, . - \name
.endm
.macro TRACE_BACK
    ld      9, {current}(13)
    lwz     10, {preempt_count}(9)
    addi    10, 10, -1
    stw     10, {preempt_count}(9)
    lwz     10, {work}(9)
    andi.   10, 10, {need_resched}
.endm
// A function that runs instead begins at its global entry, and wants its address in r12.
.macro TRACE_GO_ON
    ld      12, {next}(1)
    ld      0, {parent}(1)
    mtctr   12
    mtlr    0
    .irp n, 0, 1, 2, 3, 4, 5, 6, 7
    ld      3 + \n, {args} + 8 * \n(1)
    .endr
    addi    1, 1, {frame}
    bctr
.endm
    TRACE_ENTRY trace_entry, 16, trace_entry_back
    TRACE_ENTRY trace_entry_toc, 24, trace_entry_back
    TRACE_ENTRY trace_module, 16, trace_module_back, 1
    TRACE_ENTRY trace_module_toc, 24, trace_module_back, 1
.balign 64
trace_entry_back:
    TRACE_BACK
    bne     2f
1:  TRACE_GO_ON
2:  bl      {resched}
    nop
    b       1b
// Tracers have the kernel's table of contents: the module's was kept where the ABI has it.
trace_module_back:
    TRACE_BACK
    bne     2f
1:  ld      2, 24(1)
    TRACE_GO_ON
2:  ld      2, {toc}(13)
    bl      {resched}
    nop
    b       1b
.globl trace_entry_end
trace_entry_end:
.balign 64
.globl trace_each
.type trace_each, %function
trace_each:
    mflr    0
    std     0, 16(1)
    stdu    1, -{each}(1)
    std     31, {each} - 8(1)
    std     3, {each} - 16(1)
    std     4, {each} - 24(1)
    ld      31, 8(5)
    ld      5, 0(31)
    ld      12, 0(5)
    mtctr   12
    bctrl
3:  ldu     5, 8(31)
    ld      3, {each} - 16(1)
    ld      4, {each} - 24(1)
    addi    6, 1, {each} + {args}
    ld      12, 0(5)
    mtctr   12
    bctrl
    ld      12, 8(31)
    cmpdi   12, 0
    bne     3b
    ld      31, {each} - 8(1)
    addi    1, 1, {each}
    ld      0, 16(1)
    mtlr    0
    blr
.size trace_each, . - trace_each
.balign 64
.globl trace_saved
.type trace_saved, %function
trace_saved:
    mflr    0
    std     0, 16(1)
    stdu    1, -{saved}(1)
    .irp n, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
    std     \n, {rest} + 8 * (\n - 14)(1)
    .endr
    std     2, {rest} + 8 * 18(1)
    mfcr    0
    std     0, {rest} + 8 * 19(1)
    ld      31, 8(5)
    mr      30, 3
    mr      29, 4
    mr      28, 6
4:  ld      5, 0(31)
    addi    31, 31, 8
    mr      3, 30
    mr      4, 29
    mr      6, 28
    ld      12, 0(5)
    mtctr   12
    bctrl
    ld      12, 0(31)
    cmpdi   12, 0
    bne     4b
    ld      12, {next} - {args}(28)
    addi    11, 30, 8
    cmpd    12, 11
    ld      2, {rest} + 8 * 18(1)
    .irp n, 28, 29, 30, 31
    ld      \n, {rest} + 8 * (\n - 14)(1)
    .endr
    addi    1, 1, {saved}
    bne     5f
    ld      0, 16(1)
    mtlr    0
    blr
// Another function runs, with a table of contents of its own perhaps; who called this one expects the old one
// in r2. So that function is called, in a frame with a copy of the arguments that are not in registers; what
// `trace_entry` would have done is done here.
5:  TRACE_BACK
    beq     6f
    std     2, 24(1)
    ld      2, {toc}(13)
    bl      {resched}
    nop
    ld      2, 24(1)
6:  ld      12, {next}(1)
    ld      0, {parent}(1)
    .irp n, 0, 1, 2, 3, 4, 5, 6, 7
    ld      3 + \n, {args} + 8 * \n(1)
    .endr
    addi    1, 1, {frame}
    std     0, 16(1)
    stdu    1, -{instead}(1)
    std     2, 24(1)
    .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    ld      0, {instead} + {least} + 8 * (8 + \n)(1)
    std     0, {least} + 8 * (8 + \n)(1)
    .endr
    mtctr   12
    bctrl
    ld      2, 24(1)
    addi    1, 1, {instead}
    ld      0, 16(1)
    mtlr    0
    blr
.size trace_saved, . - trace_saved
.popsection
"#,
    frame = const FRAME,
    each = const LEAST + 32,
    saved = const SAVED_FRAME,
    least = const LEAST,
    instead = const FIRST,
    rest = const LEAST,
    args = const LEAST + offset_of!(Entry, args),
    parent = const LEAST + offset_of!(Entry, parent),
    next = const LEAST + offset_of!(Entry, next),
    current = const offset_of!(CpuLocal, current),
    preempt_count = const offset_of!(ThreadInfo, preempt_count),
    work = const offset_of!(ThreadInfo, work) + WorkWords::FLAGS,
    toc = const offset_of!(CpuLocal, scratch) + 8 * SCRATCH_TOC,
    need_resched = const ThreadFlags::NEED_RESCHED.bits(),
    resched = sym crate::arch::site_table::resched,
);
