//! Loops over memory: the kernel's `memcpy`, `memmove` and `memset` (the compiler calls them), and the copies to and from user memory,
//! which may fault (`uaccess`).
//!
//! Where PAN exists its two instructions replace the placeholders at boot (`cpu::init_boot`). An instruction that may fault is listed with the
//! place to go on at in the section `__ex_table`.

use super::extable::may_fault;
use super::irq;
use core::arch::{asm, global_asm};
use core::mem::MaybeUninit;

/// A placeholder: `yield` where the window to user memory opens, `nop` where it shuts.
macro_rules! window {
    ($placeholder:literal) => {
        concat!(
            "9998: ",
            $placeholder,
            "\n.pushsection __pan_sites, \"a\"\n.long 9998b - .\n.popsection"
        )
    };
}

global_asm!(
    ".macro user_open",
    window!("yield"),
    ".endm",
    ".macro user_close",
    window!("nop"),
    ".endm",
    r#"
    // The next instruction may fault and then continues at \to.
    .macro may_fault to
    .pushsection __ex_table, "a"
    .balign 4
    .long   9996f - ., 9996f + 4 - ., \to - .
    .popsection
9996:
    .endm

    // x0: to, x1: from, x2: length; returns what is left, or for memcpy x0. \load and \store say which side may fault.
    .macro copy name, load, store, before, after, result
    .text
    .balign 16
    .globl  \name
    .type   \name, %function
\name:
    add     x3, x0, x2
    \before
    subs    x2, x2, #64
    b.lo    2f
1:  \load\()_fault 8f
    ldp     x4, x5, [x1]
    \load\()_fault 8f
    ldp     x6, x7, [x1, #16]
    \load\()_fault 8f
    ldp     x8, x9, [x1, #32]
    \load\()_fault 8f
    ldp     x10, x11, [x1, #48]
    \store\()_fault 8f
    stp     x4, x5, [x0]
    \store\()_fault 7f
    stp     x6, x7, [x0, #16]
    \store\()_fault 6f
    stp     x8, x9, [x0, #32]
    \store\()_fault 5f
    stp     x10, x11, [x0, #48]
    add     x1, x1, #64
    add     x0, x0, #64
    subs    x2, x2, #64
    b.hs    1b
2:  adds    x2, x2, #48
    b.mi    4f
3:  \load\()_fault 8f
    ldp     x4, x5, [x1]
    \store\()_fault 8f
    stp     x4, x5, [x0]
    add     x1, x1, #16
    add     x0, x0, #16
    subs    x2, x2, #16
    b.hs    3b
4:  tbz     x2, #3, 41f
    \load\()_fault 8f
    ldr     x4, [x1]
    \store\()_fault 8f
    str     x4, [x0]
    add     x1, x1, #8
    add     x0, x0, #8
41: tbz     x2, #2, 42f
    \load\()_fault 8f
    ldr     w4, [x1]
    \store\()_fault 8f
    str     w4, [x0]
    add     x1, x1, #4
    add     x0, x0, #4
42: ands    x2, x2, #3
    b.eq    44f
43: \load\()_fault 9f
    ldrb    w4, [x1], #1
    \store\()_fault 9f
    strb    w4, [x0], #1
    cmp     x0, x3
    b.lo    43b
44: \after
    mov     x0, \result
    ret
    // A wide access failed: go on byte by byte up to the very byte.
5:  add     x0, x0, #16
    add     x1, x1, #16
6:  add     x0, x0, #16
    add     x1, x1, #16
7:  add     x0, x0, #16
    add     x1, x1, #16
8:  \load\()_fault 9f
    ldrb    w4, [x1], #1
    \store\()_fault 91f
    strb    w4, [x0], #1
    cmp     x0, x3
    b.lo    8b
    b       44b
9:
91: user_close
    sub     x0, x3, x0
    ret
    .size   \name, . - \name
    .endm

    .macro user_fault to
    may_fault \to
    .endm
    .macro kernel_fault to
    .endm

    .macro remember_start
    mov     x12, x0
    .endm
    .macro nothing
    .endm

    copy    copy_from_user_asm, user, kernel, user_open, user_close, xzr
    copy    copy_to_user_asm, kernel, user, user_open, user_close, xzr
    copy    memcpy, kernel, kernel, remember_start, nothing, x12

    // Only if the target begins inside the source must the copy go backwards.
    .globl  memmove
    .type   memmove, %function
memmove:
    sub     x3, x0, x1
    cmp     x3, x2
    b.hs    memcpy
1:  subs    x2, x2, #16
    b.lo    2f
    add     x3, x1, x2
    ldp     x4, x5, [x3]
    add     x3, x0, x2
    stp     x4, x5, [x3]
    b       1b
2:  adds    x2, x2, #16
    b.eq    4f
3:  sub     x2, x2, #1
    ldrb    w4, [x1, x2]
    strb    w4, [x0, x2]
    cbnz    x2, 3b
4:  ret
    .size   memmove, . - memmove

    // x0: to, w1: byte, x2: length.
    .globl  memset
    .type   memset, %function
memset:
    mov     x3, x0
    and     x1, x1, #0xff
    mov     x4, #0x0101010101010101
    mul     x1, x1, x4
    subs    x2, x2, #64
    b.lo    2f
1:  stp     x1, x1, [x3]
    stp     x1, x1, [x3, #16]
    stp     x1, x1, [x3, #32]
    stp     x1, x1, [x3, #48]
    add     x3, x3, #64
    subs    x2, x2, #64
    b.hs    1b
2:  adds    x2, x2, #48
    b.mi    4f
3:  stp     x1, x1, [x3], #16
    subs    x2, x2, #16
    b.hs    3b
4:  tbz     x2, #3, 5f
    str     x1, [x3], #8
5:  tbz     x2, #2, 6f
    str     w1, [x3], #4
6:  tbz     x2, #1, 7f
    strh    w1, [x3], #2
7:  tbz     x2, #0, 8f
    strb    w1, [x3]
8:  ret
    .size   memset, . - memset

    // x0: to, x1: length; returns what is left.
    .globl  clear_user_asm
    .type   clear_user_asm, %function
clear_user_asm:
    add     x3, x0, x1
    user_open
    subs    x1, x1, #16
    b.lo    2f
1:  may_fault 3f
    stp     xzr, xzr, [x0]
    add     x0, x0, #16
    subs    x1, x1, #16
    b.hs    1b
2:  cmp     x0, x3
    b.hs    4f
3:  may_fault 4f
    strb    wzr, [x0], #1
    cmp     x0, x3
    b.lo    3b
4:  user_close
    sub     x0, x3, x0
    ret
    .size   clear_user_asm, . - clear_user_asm

    // x0: to, x1: from, x2: most bytes; returns the length, most if no NUL, or -1.
    .globl  copy_string_asm
    .type   copy_string_asm, %function
copy_string_asm:
    mov     x3, #0
    user_open
1:  cmp     x3, x2
    b.hs    2f
    may_fault 3f
    ldrb    w4, [x1, x3]
    strb    w4, [x0, x3]
    cbz     w4, 2f
    add     x3, x3, #1
    b       1b
2:  user_close
    mov     x0, x3
    ret
3:  user_close
    mov     x0, #-1
    ret
    .size   copy_string_asm, . - copy_string_asm

    // x0: 512 bytes of user memory, for q0 to q31; returns 0, or 1 after a fault.
    .arch_extension fp
    .arch_extension simd
    .macro  fp_pair op, a, b
    may_fault 1f
    \op     q\a, q\b, [x0, #16 * \a]
    .endm
    .macro  fp_user name, op
    .globl  \name
    .type   \name, %function
\name:
    user_open
    fp_pair \op, 0, 1
    fp_pair \op, 2, 3
    fp_pair \op, 4, 5
    fp_pair \op, 6, 7
    fp_pair \op, 8, 9
    fp_pair \op, 10, 11
    fp_pair \op, 12, 13
    fp_pair \op, 14, 15
    fp_pair \op, 16, 17
    fp_pair \op, 18, 19
    fp_pair \op, 20, 21
    fp_pair \op, 22, 23
    fp_pair \op, 24, 25
    fp_pair \op, 26, 27
    fp_pair \op, 28, 29
    fp_pair \op, 30, 31
    user_close
    mov     x0, #0
    ret
1:  user_close
    mov     x0, #1
    ret
    .size   \name, . - \name
    .endm
    fp_user save_fp_user_asm, stp
    fp_user load_fp_user_asm, ldp

    // x0: address; returns the word, or -1.
    .globl  load_u32_asm
    .type   load_u32_asm, %function
load_u32_asm:
    user_open
    may_fault 1f
    ldar    w0, [x0]
    user_close
    ret
1:  user_close
    mov     x0, #-1
    ret
    .size   load_u32_asm, . - load_u32_asm

    // x0: address, w1: expected, w2: new; returns the word found, or -1.
    .globl  cmpxchg_u32_asm
    .type   cmpxchg_u32_asm, %function
cmpxchg_u32_asm:
    user_open
1:  may_fault 3f
    ldaxr   w3, [x0]
    cmp     w3, w1
    b.ne    2f
    may_fault 3f
    stlxr   w4, w2, [x0]
    cbnz    w4, 1b
2:  dmb     ish
    user_close
    mov     w0, w3
    ret
3:  user_close
    mov     x0, #-1
    ret
    .size   cmpxchg_u32_asm, . - cmpxchg_u32_asm

    // x0: struct rseq, x1, x2: identifiers as they shall be, x3: three words for identifiers and rseq_cs found; returns 0, or 1 after a fault.
    .globl  exchange_rseq_asm
    .type   exchange_rseq_asm, %function
exchange_rseq_asm:
    user_open
    may_fault 2f
    ldr     x4, [x0]
    may_fault 2f
    ldr     x5, [x0, #8]
    may_fault 2f
    ldur    x6, [x0, #20]
    cmp     x4, x1
    ccmp    x6, x2, #0, eq
    b.eq    1f
    may_fault 2f
    str     x1, [x0]
    may_fault 2f
    stur    x2, [x0, #20]
1:  user_close
    stp     x4, x6, [x3]
    str     x5, [x3, #16]
    mov     x0, #0
    ret
2:  user_close
    mov     x0, #1
    ret
    .size   exchange_rseq_asm, . - exchange_rseq_asm
    "#
);

/// Bytes that [`copy_vectors`] copies at a time.
pub(super) const PIECE: usize = 512;

/// Copies `pieces` times [`PIECE`] bytes, at least once, with vector registers, interrupts off, and gives back where the rest goes, where it comes from and
/// how many pieces that are: a fault ends it. The window to user memory is open meanwhile if `USER` is 1. Whoever the registers belong to finds them as they
/// were: nothing else runs here before they are given back, for a fault with interrupts off goes straight to its place in the table.
///
/// # Safety
/// Both sides are valid, or with the window open one lies below `USER_END`.
#[inline(always)]
pub(super) unsafe fn copy_vectors<const USER: usize>(
    mut to: usize,
    mut from: usize,
    mut pieces: usize,
) -> (usize, usize, usize) {
    let mut kept = MaybeUninit::<[u128; 4]>::uninit();
    let flags = irq::raw_save();
    // SAFETY: as the caller promises; the registers are given back.
    unsafe {
        asm!(
            ".arch_extension fp",
            ".arch_extension simd",
            "stp q0, q1, [{kept}]",
            "stp q2, q3, [{kept}, #32]",
            ".if {user}",
            window!("yield"),
            ".endif",
            "2:",
            ".irp at, 0, 64, 128, 192, 256, 320, 384, 448",
            "ldp q0, q1, [{from}, #\\at]",
            "ldp q2, q3, [{from}, #\\at + 32]",
            "stp q0, q1, [{to}, #\\at]",
            "stp q2, q3, [{to}, #\\at + 32]",
            ".endr",
            "add {from}, {from}, #{piece}",
            "add {to}, {to}, #{piece}",
            "subs {left}, {left}, #1",
            "b.ne 2b",
            "3: .if {user}",
            window!("nop"),
            may_fault!("2b", "3b", "3b"),
            ".endif",
            "ldp q0, q1, [{kept}]",
            "ldp q2, q3, [{kept}, #32]",
            kept = in(reg) kept.as_mut_ptr(), left = inout(reg) pieces, to = inout(reg) to, from = inout(reg) from,
            piece = const PIECE, user = const USER, options(nostack)
        );
    }
    irq::raw_restore(flags);
    (to, from, pieces)
}
