//! Loops over memory: the kernel's `memcpy`, `memmove` and `memset` (the compiler calls them), and the copies to and from user memory,
//! which may fault (`uaccess`).
//!
//! The window to user memory is the authority mask (`AMR`): key 0, which all pages have, forbids the kernel user pages but inside these. An
//! instruction that may fault lies in a range that is listed with the place to go on at in the section `__ex_table`.

use super::spr::{MSR_EE, MSR_MATH};
use core::arch::global_asm;

/// `AMR` with the window shut: neither loads nor stores.
pub const AMR_SHUT: usize = 3 << 62;

global_asm!(
    r#"
    .macro user_open
    li      12, 0
    mtspr   29, 12
    isync
    .endm
    .macro user_close
    li      12, -1
    rldicr  12, 12, 0, 1
    mtspr   29, 12
    isync
    .endm
    // The instructions from \from to \until may fault and then continue at \to.
    .macro may_fault from, until, to
    .pushsection __ex_table, "a"
    .balign 4
    .long   \from - ., \until - ., \to - .
    .popsection
    .endm
    .macro four op, base, at
    \op     6, \at(\base)
    \op     7, \at + 8(\base)
    \op     8, \at + 16(\base)
    \op     9, \at + 24(\base)
    .endm
    .macro function name
    .text
    .balign 16
    .globl  \name
    .type   \name, %function
\name:
    .endm

    // r3: to, r4: from, r5: length; returns what is left, or for the kernel alone r3. r10 is the way from one to the other, r11 the end.
    .macro copy name, user
    function \name
    subf    10, 3, 4
    .if \user
    add     11, 3, 5
    user_open
    .else
    mr      12, 3
    .endif
    srdi.   0, 5, 6
    mtocrf  2, 5
    mtocrf  1, 5
    beq     3f
    mtctr   0
    addi    4, 4, -8
    addi    3, 3, -8
2:  four    ld, 4, 8
    four    std, 3, 8
    ld      6, 40(4)
    ld      7, 48(4)
    ld      8, 56(4)
    ldu     9, 64(4)
    std     6, 40(3)
    std     7, 48(3)
    std     8, 56(3)
    stdu    9, 64(3)
    bdnz    2b
    addi    3, 3, 8
3:  bf      26, 4f
    add     4, 3, 10
    four    ld, 4, 0
    four    std, 3, 0
    addi    3, 3, 32
4:  bf      27, 5f
    add     4, 3, 10
    ld      6, 0(4)
    ld      7, 8(4)
    std     6, 0(3)
    std     7, 8(3)
    addi    3, 3, 16
5:  bf      28, 6f
    ldx     6, 3, 10
    std     6, 0(3)
    addi    3, 3, 8
6:  bf      29, 7f
    lwzx    6, 3, 10
    stw     6, 0(3)
    addi    3, 3, 4
7:  bf      30, 8f
    lhzx    6, 3, 10
    sth     6, 0(3)
    addi    3, 3, 2
8:  bf      31, 9f
    lbzx    6, 3, 10
    stb     6, 0(3)
9:  .if \user
    user_close
    li      3, 0
    blr
    // A wide access failed: go on byte by byte up to the very byte.
1:  addi    3, 3, 8
10: lbzx    6, 3, 10
    stb     6, 0(3)
    addi    3, 3, 1
    cmpld   3, 11
    blt     10b
    b       9b
11: user_close
    subf    3, 3, 11
    blr
    may_fault 2b, 3b, 1b
    may_fault 3b, 9b, 10b
    may_fault 10b, 11b, 11b
    .else
    mr      3, 12
    blr
    .endif
    .size   \name, . - \name
    .endm

    copy    copy_user_asm, 1
    copy    memcpy, 0

    // Vector registers 0 to 7 for the kernel, interrupts off; r10 keeps the state before. Whoever they belong to finds them as they were: nothing
    // else runs here before `give_back`, for a fault with interrupts off goes straight to its place in the table. Spoils r9.
    .macro borrow
    mfmsr   10
    oris    9, 10, {math_high}
    ori     9, 9, {math_low} | {ee}
    xori    9, 9, {ee}
    mtmsrd  9
    isync
    .irp n, 0, 1, 2, 3, 4, 5, 6, 7
    stxv    \n, 16 * \n - 128(1)
    .endr
    .endm
    .macro give_back
    .irp n, 0, 1, 2, 3, 4, 5, 6, 7
    lxv     \n, 16 * \n - 128(1)
    .endr
    mtmsrd  10
    .endm

    // r3: to, r4: from, r5: pieces of 512 bytes, at least one, r6: authority mask meanwhile; returns how many pieces are left after a fault.
    function copy_vectors
    borrow
    mtctr   5
    mtspr   29, 6
    isync
1:  .set    at, 0
    .rept 4
    .irp n, 0, 1, 2, 3, 4, 5, 6, 7
    lxv     \n, at + 16 * \n(4)
    .endr
    .irp n, 0, 1, 2, 3, 4, 5, 6, 7
    stxv    \n, at + 16 * \n(3)
    .endr
    .set    at, at + 128
    .endr
    addi    4, 4, 512
    addi    3, 3, 512
    bdnz    1b
2:  user_close
    mfctr   3
    give_back
    blr
    may_fault 1b, 2b, 2b
    .size   copy_vectors, . - copy_vectors

    // Only if the target begins inside the source must the copy go backwards.
    function memmove
    subf    6, 4, 3
    cmpld   6, 5
    bge     memcpy
    srdi.   0, 5, 3
    add     6, 4, 5
    add     7, 3, 5
    beq     2f
    mtctr   0
1:  ldu     8, -8(6)
    stdu    8, -8(7)
    bdnz    1b
2:  andi.   0, 5, 7
    beqlr
    mtctr   0
3:  lbzu    8, -1(6)
    stbu    8, -1(7)
    bdnz    3b
    blr
    .size   memmove, . - memmove

    // r3: to, r4: byte, r5: length.
    function memset
    mr      6, 3
    rlwimi  4, 4, 8, 16, 23
    rlwimi  4, 4, 16, 0, 15
    rldimi  4, 4, 32, 0
    srdi.   0, 5, 5
    beq     2f
    mtctr   0
1:  std     4, 0(6)
    std     4, 8(6)
    std     4, 16(6)
    std     4, 24(6)
    addi    6, 6, 32
    bdnz    1b
2:  andi.   0, 5, 24
    beq     4f
    srdi    0, 0, 3
    mtctr   0
3:  std     4, 0(6)
    addi    6, 6, 8
    bdnz    3b
4:  andi.   0, 5, 7
    beqlr
    mtctr   0
5:  stb     4, 0(6)
    addi    6, 6, 1
    bdnz    5b
    blr
    .size   memset, . - memset

    // r3: to, r4: length; returns what is left.
    function clear_user_asm
    add     11, 3, 4
    li      6, 0
    user_open
    srdi.   0, 4, 3
    beq     2f
    mtctr   0
1:  std     6, 0(3)
    addi    3, 3, 8
    bdnz    1b
2:  cmpld   3, 11
    bge     3f
4:  stb     6, 0(3)
    addi    3, 3, 1
    b       2b
3:  user_close
    subf    3, 3, 11
    blr
    may_fault 1b, 2b, 2b
    may_fault 4b, 3b, 3b
    .size   clear_user_asm, . - clear_user_asm

    // r3: to, r4: from, r5: most bytes; returns the length, most if no NUL, or -1. Words first; the one with the NUL, or not there, byte by byte.
    function copy_string_asm
    li      7, 0
    li      10, 0
    addi    8, 5, -8
    user_open
1:  cmpd    7, 8
    bgt     2f
    ldx     6, 4, 7
    cmpb    9, 6, 10
    cmpdi   9, 0
    bne     2f
    stdx    6, 3, 7
    addi    7, 7, 8
    b       1b
2:  cmpld   7, 5
    bge     4f
    lbzx    6, 4, 7
    stbx    6, 3, 7
    cmpwi   6, 0
    beq     4f
    addi    7, 7, 1
    b       2b
3:  li      7, -1
4:  user_close
    mr      3, 7
    blr
    may_fault 1b, 2b, 2b
    may_fault 2b, 3b, 3b
    .size   copy_string_asm, . - copy_string_asm
    "#,
    math_high = const MSR_MATH >> 16,
    math_low = const MSR_MATH & 0xffff,
    ee = const MSR_EE,
);
