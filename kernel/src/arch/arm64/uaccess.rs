//! Copies to and from user memory that may fault. The window (PAN) is open only inside these. Ranges were checked against
//! `USER_END` by the caller (`mm::user`). A page that is not there is faulted in; an unresolvable fault ends the copy.
//!
//! Where PAN exists its two instructions replace the placeholders at boot (`cpu::init_boot`). A faulting instruction is listed with the
//! place to go on at in the section `__ex_table`.

use core::arch::global_asm;

global_asm!(
    r#"
    .macro user_open
9998: yield
    .pushsection __pan_sites, "a"
    .long   9998b - .
    .popsection
    .endm
    .macro user_close
9997: nop
    .pushsection __pan_sites, "a"
    .long   9997b - .
    .popsection
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

    // x0: to, x1: from, x2: length; returns what is left. \l and \s say which side may fault.
    .macro copy name, load, store
    .text
    .balign 16
    .globl  \name
    .type   \name, %function
\name:
    add     x3, x0, x2
    user_open
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
44: user_close
    mov     x0, #0
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

    copy    copy_from_user_asm, user, kernel
    copy    copy_to_user_asm, kernel, user

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

    // x0: address, w1: value; returns 0, or -1.
    .globl  store_u32_asm
    .type   store_u32_asm, %function
store_u32_asm:
    user_open
    may_fault 1f
    stlr    w1, [x0]
    user_close
    mov     x0, #0
    ret
1:  user_close
    mov     x0, #-1
    ret
    .size   store_u32_asm, . - store_u32_asm

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
    "#
);

unsafe extern "C" {
    fn copy_from_user_asm(to: *mut u8, from: usize, len: usize) -> usize;
    fn copy_to_user_asm(to: usize, from: *const u8, len: usize) -> usize;
    fn clear_user_asm(to: usize, len: usize) -> usize;
    fn copy_string_asm(to: *mut u8, from: usize, max: usize) -> isize;
    fn load_u32_asm(addr: usize) -> i64;
    fn store_u32_asm(addr: usize, value: u32) -> i64;
    fn cmpxchg_u32_asm(addr: usize, expected: u32, new: u32) -> i64;
    static __ex_table_start: [i32; 0];
    static __ex_table_end: [i32; 0];
}

/// Where to go on if the instruction at `ip` faults and the fault cannot be resolved. `None`: it may not fault.
pub fn fixup(ip: usize) -> Option<usize> {
    let mut entry = (&raw const __ex_table_start).cast::<i32>();
    let end = (&raw const __ex_table_end).cast::<i32>();
    while entry < end {
        // SAFETY: the section is an array of pairs of offsets, each relative to itself.
        let (at, to) = unsafe {
            let second = entry.add(1);
            (
                (entry as usize).wrapping_add_signed(entry.read() as isize),
                (second as usize).wrapping_add_signed(second.read() as isize),
            )
        };
        if at == ip {
            return Some(to);
        }
        // SAFETY: still within the section or one past.
        entry = unsafe { entry.add(2) };
    }
    None
}

/// Copies `len` bytes from user `from` to kernel `to`; returns how many were *not* copied.
///
/// # Safety
/// `to` is valid for `len` bytes; `from..from+len` lies below `USER_END`.
#[inline(always)]
pub unsafe fn copy_from_user(to: *mut u8, from: usize, len: usize) -> usize {
    // SAFETY: as the caller promises; faults on the user side are in the exception table.
    unsafe { copy_from_user_asm(to, from, len) }
}

/// Copies `len` bytes from kernel `from` to user `to`; returns how many were *not* copied.
///
/// # Safety
/// `from` is valid for `len` bytes; `to..to+len` lies below `USER_END`.
#[inline(always)]
pub unsafe fn copy_to_user(to: usize, from: *const u8, len: usize) -> usize {
    // SAFETY: as above.
    unsafe { copy_to_user_asm(to, from, len) }
}

/// Zeroes user memory; returns how many bytes were *not* cleared.
///
/// # Safety
/// `to..to+len` lies below `USER_END`.
pub unsafe fn clear_user(to: usize, len: usize) -> usize {
    // SAFETY: as above.
    unsafe { clear_user_asm(to, len) }
}

/// Reads a naturally aligned user word atomically; `None` on a fault.
///
/// # Safety
/// `addr..addr+4` lies below `USER_END`.
pub unsafe fn load_u32(addr: usize) -> Option<u32> {
    // SAFETY: as above.
    let value = unsafe { load_u32_asm(addr) };
    (value >= 0).then_some(value as u32)
}

/// Writes a naturally aligned user word atomically; `false` on a fault.
///
/// # Safety
/// `addr..addr+4` lies below `USER_END`.
pub unsafe fn store_u32(addr: usize, value: u32) -> bool {
    // SAFETY: as above.
    unsafe { store_u32_asm(addr, value) == 0 }
}

/// Compare-and-exchange of a naturally aligned user word: the value found, `None` on a fault.
///
/// # Safety
/// `addr..addr+4` lies below `USER_END`.
pub unsafe fn cmpxchg_u32(addr: usize, expected: u32, new: u32) -> Option<u32> {
    // SAFETY: as above.
    let value = unsafe { cmpxchg_u32_asm(addr, expected, new) };
    (value >= 0).then_some(value as u32)
}

/// Copies a string up to and including its NUL, at most `max` bytes: the length without the NUL (`max` if there was none), `None` on a fault.
///
/// # Safety
/// `to` is valid for `max` bytes; `from..from+max` lies below `USER_END`.
pub unsafe fn copy_string_from_user(to: *mut u8, from: usize, max: usize) -> Option<usize> {
    // SAFETY: as above.
    let n = unsafe { copy_string_asm(to, from, max) };
    usize::try_from(n).ok()
}
