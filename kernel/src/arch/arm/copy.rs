//! Loops over memory: the kernel's `memcpy`, `memmove` and `memset` (the compiler calls them, by their names in the Arm run-time ABI, too), and the
//! copies to and from user memory, which may fault (`uaccess`).
//!
//! User space is opened and closed by `TTBCR` or `DACR` (see `mmu`). An instruction that may fault is listed with the place to go on at in the section `__ex_table`.

use super::{mmu, mmu::window_register, switch};
use core::arch::global_asm;

/// Bytes from which on a copy is worth saving registers for, and how many each round moves.
const BIG: usize = 512;
const BIG_STEP: usize = 256;

global_asm!(
    ".macro user_window reg",
    concat!("mcr p15, 0, \\reg, ", window_register!()),
    ".endm",
    r#"
    .fpu    neon
    // The instruction that follows can be left out (`cpu::options`).
    .macro pan_site
    .pushsection __pan_sites, "a"
    .balign 4
    .long   9998f - .
    .popsection
9998:
    .endm
    .macro user_open
    ldr     r12, ={open}
    pan_site
    user_window r12
    isb
    .endm
    .macro user_close
    ldr     r12, ={closed}
    pan_site
    user_window r12
    isb
    .endm
    // The next instruction may fault and then continues at \to.
    .macro user_fault to
    .pushsection __ex_table, "a"
    .balign 4
    .long   9996f - .
    .long   \to - .
    .popsection
9996:
    .endm
    .macro kernel_fault to
    .endm
    .macro nothing
    .endm
    // Goes on at \no unless the running thread's floating-point registers may be borrowed (`switch`).
    .macro borrow_fp scratch, no
    mrc     p15, 0, \scratch, c13, c0, 4
    ldrb    \scratch, [\scratch, #{user}]
    cmp     \scratch, #0
    beq     \no
    vpush   {{d0-d15}}
    .endm

    // r0: to, r1: from, r2: length; returns what is left. \load and \store say which side may fault. Words need not be aligned, only
    // pairs and more; a multiple store that fails is repeated byte by byte up to the very byte. {big} bytes and more go through borrowed
    // floating-point registers; wherever that ends, they are given back.
    .macro copy name, load, store, before, after
    .text
    .balign 16
    .globl  \name
    .type   \name, %function
\name:
    push    {{r4-r10, lr}}
    add     r3, r0, r2
    \before
    subs    r2, r2, #32
    blo     2f
    orr     r4, r0, r1
    tst     r4, #3
    bne     2f
    cmp     r2, #{big} - 32
    bhs     10f
1:  \load\()_fault 8f
    ldmia   r1, {{r4-r10, lr}}
    \store\()_fault 8f
    stmia   r0, {{r4-r10, lr}}
    add     r1, r1, #32
    add     r0, r0, #32
    subs    r2, r2, #32
    bhs     1b
2:  adds    r2, r2, #28
    bmi     4f
3:  \load\()_fault 8f
    ldr     r4, [r1], #4
    \store\()_fault 7f
    str     r4, [r0], #4
    subs    r2, r2, #4
    bhs     3b
4:  adds    r2, r2, #4
    beq     6f
5:  \load\()_fault 9f
    ldrb    r4, [r1], #1
    \store\()_fault 9f
    strb    r4, [r0], #1
    subs    r2, r2, #1
    bne     5b
6:  \after
    mov     r0, #0
    pop     {{r4-r10, pc}}
7:  sub     r1, r1, #4
8:  \load\()_fault 9f
    ldrb    r4, [r1], #1
    \store\()_fault 9f
    strb    r4, [r0], #1
    cmp     r0, r3
    blo     8b
9:  \after
    sub     r0, r3, r0
    pop     {{r4-r10, pc}}
10: borrow_fp r4, 1b
    sub     r2, r2, #{big_step} - 32
11: .rept   {big_step} / 128
    \load\()_fault 13f
    vldmia  r1!, {{d0-d15}}
    \store\()_fault 12f
    vstmia  r0!, {{d0-d15}}
    .endr
    subs    r2, r2, #{big_step}
    bhs     11b
    vpop    {{d0-d15}}
    adds    r2, r2, #{big_step} - 32
    bhs     1b
    b       2b
12: sub     r1, r1, #128
13: vpop    {{d0-d15}}
    b       8b
    .ltorg
    .size   \name, . - \name
    .endm

    copy    copy_from_user_asm, user, kernel, user_open, user_close
    copy    copy_to_user_asm, kernel, user, user_open, user_close
    copy    copy_kernel, kernel, kernel, nothing, nothing

    .globl  memcpy, memmove, memset, __aeabi_memcpy, __aeabi_memcpy4, __aeabi_memcpy8
    .globl  __aeabi_memmove, __aeabi_memmove4, __aeabi_memmove8, __aeabi_memset, __aeabi_memset4, __aeabi_memset8
    .globl  __aeabi_memclr, __aeabi_memclr4, __aeabi_memclr8
    // Only if the target begins inside the source must the copy go backwards.
    .type   memmove, %function
memmove:
__aeabi_memmove:
__aeabi_memmove4:
__aeabi_memmove8:
    sub     r3, r0, r1
    cmp     r3, r2
    blo     1f
    .type   memcpy, %function
memcpy:
__aeabi_memcpy:
__aeabi_memcpy4:
__aeabi_memcpy8:
    push    {{r0, lr}}
    bl      copy_kernel
    pop     {{r0, pc}}
    .size   memcpy, . - memcpy
1:  orr     r3, r0, r1
    orr     r3, r3, r2
    tst     r3, #3
    bne     3f
2:  subs    r2, r2, #4
    ldrhs   r3, [r1, r2]
    strhs   r3, [r0, r2]
    bhi     2b
    bx      lr
3:  subs    r2, r2, #1
    ldrbhs  r3, [r1, r2]
    strbhs  r3, [r0, r2]
    bhi     3b
    bx      lr
    .size   memmove, . - memmove

    // r0: to, r1: byte, r2: length; the run-time ABI has the last two the other way around.
    .type   memset, %function
__aeabi_memclr:
__aeabi_memclr4:
__aeabi_memclr8:
    mov     r2, #0
__aeabi_memset:
__aeabi_memset4:
__aeabi_memset8:
    mov     r3, r1
    mov     r1, r2
    mov     r2, r3
memset:
    and     r1, r1, #0xff
    orr     r1, r1, r1, lsl #8
    orr     r1, r1, r1, lsl #16
    mov     r12, r0
    subs    r2, r2, #32
    blo     2f
    tst     r0, #3
    bne     2f
    cmp     r2, #{big} - 32
    bhs     6f
7:  push    {{r4-r6, lr}}
    mov     r3, r1
    mov     r4, r1
    mov     lr, r1
1:  stmia   r12!, {{r1, r3, r4, lr}}
    stmia   r12!, {{r1, r3, r4, lr}}
    subs    r2, r2, #32
    bhs     1b
    pop     {{r4-r6, lr}}
2:  adds    r2, r2, #28
    bmi     4f
3:  str     r1, [r12], #4
    subs    r2, r2, #4
    bhs     3b
4:  adds    r2, r2, #4
5:  strbne  r1, [r12], #1
    subsne  r2, r2, #1
    bne     5b
    bx      lr
6:  borrow_fp r3, 7b
    vdup.32 q0, r1
    .irp    n, 1, 2, 3, 4, 5, 6, 7
    vmov    q\n, q0
    .endr
    sub     r2, r2, #{big_step} - 32
8:  .rept   {big_step} / 128
    vstmia  r12!, {{d0-d15}}
    .endr
    subs    r2, r2, #{big_step}
    bhs     8b
    vpop    {{d0-d15}}
    adds    r2, r2, #{big_step} - 32
    bhs     7b
    b       2b
    .size   memset, . - memset

    // r0: to, r1: length; returns what is left.
    .globl  clear_user_asm
    .type   clear_user_asm, %function
clear_user_asm:
    push    {{r4, lr}}
    add     r3, r0, r1
    mov     r2, #0
    mov     r4, #0
    mov     lr, #0
    user_open
    mov     r12, #0
    subs    r1, r1, #16
    blo     2f
    tst     r0, #3
    bne     2f
1:  user_fault 4f
    stmia   r0!, {{r2, r4, r12, lr}}
    subs    r1, r1, #16
    bhs     1b
2:  adds    r1, r1, #12
    bmi     4f
3:  user_fault 4f
    str     r2, [r0], #4
    subs    r1, r1, #4
    bhs     3b
4:  cmp     r0, r3
    bhs     5f
    user_fault 5f
    strb    r2, [r0], #1
    b       4b
5:  user_close
    sub     r0, r3, r0
    pop     {{r4, pc}}
    .size   clear_user_asm, . - clear_user_asm

    // r0: to, r1: from, r2: most bytes; returns the length, most if no NUL, or -1.
    .globl  copy_string_asm
    .type   copy_string_asm, %function
copy_string_asm:
    push    {{r4, lr}}
    mov     r3, #0
    user_open
1:  cmp     r3, r2
    bhs     2f
    user_fault 3f
    ldrb    r4, [r1, r3]
    strb    r4, [r0, r3]
    cmp     r4, #0
    addne   r3, r3, #1
    bne     1b
2:  user_close
    mov     r0, r3
    pop     {{r4, pc}}
3:  user_close
    mvn     r0, #0
    pop     {{r4, pc}}
    .size   copy_string_asm, . - copy_string_asm

    // r0: start, r1: end, r2: line size; returns zero, or not if something is not there.
    .globl  clean_user_asm
    .type   clean_user_asm, %function
clean_user_asm:
    user_open
1:  user_fault 2f
    mcr     p15, 0, r0, c7, c11, 1  // DCCMVAU
    add     r0, r0, r2
    cmp     r0, r1
    blo     1b
    mov     r0, #0
2:  user_close
    bx      lr
    .size   clean_user_asm, . - clean_user_asm

    // r0: address; returns the word, or -1, in 64 bits.
    .globl  load_u32_asm
    .type   load_u32_asm, %function
load_u32_asm:
    mov     r1, #0
    user_open
    user_fault 1f
    ldr     r0, [r0]
    dmb     ish
    user_close
    bx      lr
1:  mvn     r0, #0
    mvn     r1, #0
    user_close
    bx      lr
    .size   load_u32_asm, . - load_u32_asm

    // r0: address, r1: expected, r2: new; returns the word found, or -1, in 64 bits.
    .globl  cmpxchg_u32_asm
    .type   cmpxchg_u32_asm, %function
cmpxchg_u32_asm:
    push    {{r4, lr}}
    user_open
    dmb     ish
1:  user_fault 3f
    ldrex   r3, [r0]
    cmp     r3, r1
    bne     2f
    user_fault 3f
    strex   r4, r2, [r0]
    cmp     r4, #0
    bne     1b
2:  dmb     ish
    user_close
    mov     r0, r3
    mov     r1, #0
    pop     {{r4, pc}}
3:  user_close
    mvn     r0, #0
    mvn     r1, #0
    pop     {{r4, pc}}
    .ltorg
    .size   cmpxchg_u32_asm, . - cmpxchg_u32_asm

    // r0: to; writes what signal frames have behind the mark of their floating-point record, and the end mark. Returns 0, or not after a fault.
    .globl  save_fp_user_asm
    .type   save_fp_user_asm, %function
save_fp_user_asm:
    vmrs    r1, fpscr
    mov     r2, #0
    mov     r3, #1 << 30            // FPEXC.EN
    user_open
    user_fault 1f
    vstmia  r0!, {{d0-d15}}
    user_fault 1f
    vstmia  r0!, {{d16-d31}}
    user_fault 1f
    stmia   r0!, {{r1-r3}}
    mov     r1, #0
    mov     r3, #0
    user_fault 1f
    stmia   r0!, {{r1-r3}}
    user_fault 1f
    str     r1, [r0]
    mov     r0, #0
1:  user_close
    bx      lr
    .size   save_fp_user_asm, . - save_fp_user_asm

    // r0: from; takes the registers back. Returns 0, or not after a fault.
    .globl  load_fp_user_asm
    .type   load_fp_user_asm, %function
load_fp_user_asm:
    user_open
    user_fault 1f
    vldmia  r0!, {{d0-d15}}
    user_fault 1f
    vldmia  r0!, {{d16-d31}}
    user_fault 1f
    ldr     r1, [r0]
    vmsr    fpscr, r1
    mov     r0, #0
1:  user_close
    bx      lr
    .size   load_fp_user_asm, . - load_fp_user_asm

    // r0: struct rseq, r1: identifiers as they shall be, r2: room for identifiers and rseq_cs found; returns 0, or 1 after a fault.
    .globl  exchange_rseq_asm
    .type   exchange_rseq_asm, %function
exchange_rseq_asm:
    push    {{r4-r11, lr}}
    ldm     r1, {{r4-r7}}
    user_open
    user_fault 2f
    ldr     r8, [r0]
    user_fault 2f
    ldr     r9, [r0, #4]
    user_fault 2f
    ldr     r10, [r0, #20]
    user_fault 2f
    ldr     r11, [r0, #24]
    user_fault 2f
    ldr     r3, [r0, #8]
    user_fault 2f
    ldr     lr, [r0, #12]
    cmp     r8, r4
    cmpeq   r9, r5
    cmpeq   r10, r6
    cmpeq   r11, r7
    beq     1f
    user_fault 2f
    str     r4, [r0]
    user_fault 2f
    str     r5, [r0, #4]
    user_fault 2f
    str     r6, [r0, #20]
    user_fault 2f
    str     r7, [r0, #24]
1:  user_close
    stm     r2!, {{r8-r11}}
    str     r3, [r2]
    str     lr, [r2, #4]
    mov     r0, #0
    pop     {{r4-r11, pc}}
2:  user_close
    mov     r0, #1
    pop     {{r4-r11, pc}}
    .ltorg
    .size   exchange_rseq_asm, . - exchange_rseq_asm
    "#,
    user = const switch::USER_THREAD,
    big = const BIG,
    big_step = const BIG_STEP,
    open = const mmu::OPEN,
    closed = const mmu::CLOSED,
);
