//! The kernel helpers: a page at a fixed address with small functions for user mode, part of the ABI (Linux:
//! `kernel_user_helpers.rst`). `/proc/PID/maps` calls it `[vectors]`.

use core::arch::global_asm;

/// Where it is in every address space.
pub const ADDRESS: usize = 0xffff_0000;

// Each function sits at its fixed offset, in a page of its own in the image; the version is the number of
// 32-byte slots.
global_asm!(
    r#"
    .section .kuser.text, "ax", %progbits
    .balign 4096
    .globl  kuser_page
    .type   kuser_page, %object
kuser_page:
    .org    0xf00                   // returns from signal handlers: see `sigreturn`; for both ABIs
    mov     r7, #119
    svc     #{old} + 119
    mov     r7, #173
    svc     #{old} + 173
    .thumb
    movs    r7, #119
    svc     #0
    movs    r7, #173
    svc     #0
    .arm
    .org    0xf60                   // cmpxchg64: r0: old value's address, r1: new value's, r2: pointer
    push    {{r4-r7}}
    ldrd    r4, r5, [r0]
    ldrd    r6, r7, [r1]
    dmb     ish
1:  ldrexd  r0, r1, [r2]
    eors    r3, r0, r4
    eorseq  r3, r1, r5
    strexdeq r3, r6, r7, [r2]
    teqeq   r3, #1
    beq     1b
    dmb     ish
    rsbs    r0, r3, #0              // carry set if equal
    pop     {{r4-r7}}
    bx      lr
    .org    0xfa0                   // memory_barrier
3:  dmb     ish
    bx      lr
    .org    0xfc0                   // cmpxchg: r0: old, r1: new, r2: pointer
    dmb     ish
2:  ldrex   r3, [r2]
    subs    r3, r3, r0
    strexeq r3, r1, [r2]
    teqeq   r3, #1
    beq     2b
    rsbs    r0, r3, #0
    b       3b
    .org    0xfe0                   // get_tls: TPIDRURO
    mrc     p15, 0, r0, c13, c0, 3
    bx      lr
    .org    0xffc
    .long   5
    .size   kuser_page, . - kuser_page
    .text
    "#,
    old = const super::frame::OLD_BASE,
);

/// The page in the image.
pub(super) fn page() -> usize {
    unsafe extern "C" {
        static kuser_page: u8;
    }
    &raw const kuser_page as usize
}

/// What is in it.
pub(super) fn bytes() -> &'static [u8; 4096] {
    // SAFETY: the whole page is in the image, and constant.
    unsafe { &*(page() as *const [u8; 4096]) }
}

/// Where handlers without a restorer return to: the frame's kind, the handler's instruction set.
pub(super) fn sigreturn(siginfo: bool, thumb: bool) -> usize {
    let number = usize::from(siginfo);
    ADDRESS + 0xf00 + if thumb { 16 + number * 4 + 1 } else { number * 8 }
}

/// Whether `ip` is behind the system call of one of them.
pub(super) fn is_sigreturn(ip: usize) -> bool {
    /// The length in bytes of all of them.
    const LENGTH: usize = 24;
    (1..=LENGTH).contains(&ip.wrapping_sub(ADDRESS + 0xf00))
}
