//! Loops over memory: the kernel's `memcpy`, `memmove` and `memset` (the compiler calls them), and the copies to and from user memory,
//! which may fault (`uaccess`).
//!
//! The window to user memory is the authority mask (`AMR`): key 0, which all pages have, forbids the kernel user pages but inside these. An
//! instruction that may fault is listed with the place to go on at in the section `__ex_table`.

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
    // The next instruction may fault and then continues at \to.
    .macro may_fault to
    .pushsection __ex_table, "a"
    .balign 4
    .long   9996f - .
    .long   \to - .
    .popsection
9996:
    .endm
    .macro user_fault to
    may_fault \to
    .endm
    .macro kernel_fault to
    .endm
    .macro nothing
    .endm
    .macro remember_start
    mr      12, 3
    .endm
    .macro return_left
    li      3, 0
    .endm
    .macro return_start
    mr      3, 12
    .endm

    // r3: to, r4: from, r5: length; returns what is left, or for memcpy r3. \load and \store say which side may fault.
    .macro copy name, load, store, before, after, result
    .text
    .balign 16
    .globl  \name
    .type   \name, %function
\name:
    add     11, 3, 5
    \before
    srdi.   0, 5, 5
    beq     2f
    mtctr   0
1:  \load\()_fault 8f
    ld      6, 0(4)
    \load\()_fault 8f
    ld      7, 8(4)
    \load\()_fault 8f
    ld      8, 16(4)
    \load\()_fault 8f
    ld      9, 24(4)
    addi    4, 4, 32
    \store\()_fault 7f
    std     6, 0(3)
    \store\()_fault 7f
    std     7, 8(3)
    \store\()_fault 7f
    std     8, 16(3)
    \store\()_fault 7f
    std     9, 24(3)
    addi    3, 3, 32
    bdnz    1b
2:  andi.   0, 5, 24
    beq     4f
    srdi    0, 0, 3
    mtctr   0
3:  \load\()_fault 8f
    ld      6, 0(4)
    \store\()_fault 8f
    std     6, 0(3)
    addi    4, 4, 8
    addi    3, 3, 8
    bdnz    3b
4:  andi.   0, 5, 4
    beq     5f
    \load\()_fault 8f
    lwz     6, 0(4)
    \store\()_fault 8f
    stw     6, 0(3)
    addi    4, 4, 4
    addi    3, 3, 4
5:  andi.   0, 5, 3
    beq     6f
    mtctr   0
51: \load\()_fault 9f
    lbz     6, 0(4)
    \store\()_fault 9f
    stb     6, 0(3)
    addi    4, 4, 1
    addi    3, 3, 1
    bdnz    51b
6:  \after
    \result
    blr
    // A wide access failed: go on byte by byte up to the very byte.
7:  addi    4, 4, -32
8:  cmpld   3, 11
    bge     6b
    \load\()_fault 9f
    lbz     6, 0(4)
    \store\()_fault 9f
    stb     6, 0(3)
    addi    4, 4, 1
    addi    3, 3, 1
    b       8b
9:  user_close
    subf    3, 3, 11
    blr
    .size   \name, . - \name
    .endm

    copy    copy_from_user_asm, user, kernel, user_open, user_close, return_left
    copy    copy_to_user_asm, kernel, user, user_open, user_close, return_left
    copy    memcpy, kernel, kernel, remember_start, nothing, return_start

    // Only if the target begins inside the source must the copy go backwards.
    .globl  memmove
    .type   memmove, %function
memmove:
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
    .globl  memset
    .type   memset, %function
memset:
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
    .globl  clear_user_asm
    .type   clear_user_asm, %function
clear_user_asm:
    add     11, 3, 4
    li      6, 0
    user_open
    srdi.   0, 4, 3
    beq     2f
    mtctr   0
1:  may_fault 2f
    std     6, 0(3)
    addi    3, 3, 8
    bdnz    1b
2:  cmpld   3, 11
    bge     3f
    may_fault 3f
    stb     6, 0(3)
    addi    3, 3, 1
    b       2b
3:  user_close
    subf    3, 3, 11
    blr
    .size   clear_user_asm, . - clear_user_asm

    // r3: to, r4: from, r5: most bytes; returns the length, most if no NUL, or -1.
    .globl  copy_string_asm
    .type   copy_string_asm, %function
copy_string_asm:
    li      7, 0
    user_open
1:  cmpld   7, 5
    bge     2f
    may_fault 3f
    lbzx    6, 4, 7
    stbx    6, 3, 7
    cmpwi   6, 0
    beq     2f
    addi    7, 7, 1
    b       1b
2:  user_close
    mr      3, 7
    blr
3:  user_close
    li      3, -1
    blr
    .size   copy_string_asm, . - copy_string_asm

    // r3: address; returns the word, or -1.
    .globl  load_u32_asm
    .type   load_u32_asm, %function
load_u32_asm:
    user_open
    may_fault 1f
    lwz     3, 0(3)
    lwsync
    user_close
    blr
1:  user_close
    li      3, -1
    blr
    .size   load_u32_asm, . - load_u32_asm

    // r3: address, r4: expected, r5: new; returns the word found, or -1.
    .globl  cmpxchg_u32_asm
    .type   cmpxchg_u32_asm, %function
cmpxchg_u32_asm:
    sync
    user_open
1:  may_fault 3f
    lwarx   6, 0, 3
    cmplw   6, 4
    bne     2f
    may_fault 3f
    stwcx.  5, 0, 3
    bne     1b
2:  sync
    user_close
    mr      3, 6
    blr
3:  user_close
    li      3, -1
    blr
    .size   cmpxchg_u32_asm, . - cmpxchg_u32_asm

    // r3: struct rseq, r4, r5: identifiers as they shall be, r6: three words for identifiers and rseq_cs found; returns 0, or 1 after a fault.
    .globl  exchange_rseq_asm
    .type   exchange_rseq_asm, %function
exchange_rseq_asm:
    user_open
    may_fault 3f
    ld      7, 0(3)
    may_fault 3f
    ld      8, 8(3)
    may_fault 3f
    ld      9, 20(3)
    cmpld   7, 4
    bne     1f
    cmpld   9, 5
    beq     2f
1:  may_fault 3f
    std     4, 0(3)
    may_fault 3f
    std     5, 20(3)
2:  user_close
    std     7, 0(6)
    std     9, 8(6)
    std     8, 16(6)
    li      3, 0
    blr
3:  user_close
    li      3, 1
    blr
    .size   exchange_rseq_asm, . - exchange_rseq_asm
    "#
);
