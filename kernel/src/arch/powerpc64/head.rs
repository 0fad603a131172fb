//! The first instructions, on the boot CPU and on the others: from whatever byte order and width firmware
//! left to 64-bit little-endian, with translation off; and calls to Open Firmware, which is 32-bit and
//! big-endian.
//!
//! With translation off the processor ignores the top of an address, so everything runs at the addresses it
//! is linked at from the start.

use super::boot;
use super::smp::Start;
use super::spr::{self, MSR_KERNEL, MSR_RELOCATE};
use super::stack::FIRST;
use crate::mm::{PAGE_SIZE, STACK_SHIFT};
use core::arch::global_asm;
use core::mem::offset_of;

global_asm!(
    r#"
    // Little-endian and 64-bit, whatever it was; where it is little-endian already, it must be 64-bit. Spoils
    // r10, r11, LR.
    .macro little_endian
    // To the other byte order this is a branch to what comes behind the next instruction.
    tdi     0, 0, 0x48
    b       1f
    // In big-endian bytes: mfmsr 11; ori 11, 11, 1; li 10, 1; rldimi 11, 10, 63, 0
    .long   0xa600607d, 0x01006b61, 0x01004039, 0x0ef84b79
    // bcl 20, 31, .+4; mflr 10; addi 10, 10, 20 (to behind all of this); mtsrr0 10; mtsrr1 11; rfid
    .long   0x05009f42, 0xa602487d, 0x14004a39, 0xa6035a7d, 0xa6037b7d, 0x2400004c
1:
    .endm
    "#,
    function!("_start", ".head.text"),
    r#"
    little_endian
    lis     6, 2f@high
    ori     6, 6, 2f@l
    b       3f
    // As the first CPU's `smp::Start`, without an argument.
2:  .quad   __boot_stack_top - {first}, {primary}, {boot}
    .size   _start, . - _start
    "#,
    // r3: its `smp::Start`, a physical address.
    function!("secondary_start", ".head.text"),
    r#"
    little_endian
    mr      6, 3
    ld      3, {argument}(6)
    // Stack pointer, Rust function and machine state for it. The stack may be outside the linear map.
3:  ld      1, {stack}(6)
    ld      12, {function}(6)
    ld      0, {state}(6)
    mtspr   {srr0}, 12
    mtspr   {srr1}, 0
    // The end of the call chain.
    li      0, 0
    mtlr    0
    rfid
    "#,
    // r3: physical address of the arguments, r4: the entry, r5: machine state there. Translation off, boot
    // stack. 32-bit code keeps only halves of registers, uses only halves of stack pointer and return
    // address, and its ABI has the link register in what is our back chain.
    function!("call_open_firmware", ".head.text"),
    r#"
    mflr    0
    mfcr    12
    std     1, -8(1)
    addi    1, 1, -512
    .irp n, 0, 2, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
    std     \n, 8 * \n + 24(1)
    .endr
    mtspr   {srr0}, 4
    mtspr   {srr1}, 5
    bl      2f
    little_endian
    .irp n, 0, 2, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
    ld      \n, 8 * \n + 24(1)
    .endr
    ld      1, 504(1)
    mtlr    0
    mtcr    12
    blr
2:  rfid

    // For the linker script, too.
    .globl  __page_size, __stack_size
    .set    __page_size, {page}
    .set    __stack_size, {stack_size}
    "#,
    page = const PAGE_SIZE,
    stack_size = const 1 << STACK_SHIFT,
    srr0 = const spr::SRR0,
    srr1 = const spr::SRR1,
    first = const FIRST,
    boot = const MSR_KERNEL & !MSR_RELOCATE,
    stack = const offset_of!(Start, stack),
    function = const offset_of!(Start, function),
    state = const offset_of!(Start, msr),
    argument = const offset_of!(Start, argument),
    primary = sym boot::primary,
);
