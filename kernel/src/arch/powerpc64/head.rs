//! The first instructions, on the boot CPU and on the others: from whatever byte order and width firmware left to 64-bit little-endian, with
//! translation off; calls to Open Firmware, which is 32-bit and big-endian; and the way to translation.
//!
//! With translation off the processor ignores the top of an address, so everything runs at the addresses it is linked at from the start.

use super::spr::{MSR_LE, MSR_RELOCATE};
use core::arch::global_asm;

/// Where this CPU goes on when `rfid` has made it little-endian: behind the big-endian words.
const AFTER: u32 = 20;

/// An instruction as a big-endian processor must find it.
const fn big(instruction: u32) -> u32 {
    instruction.swap_bytes()
}

global_asm!(
    r#"
    // For a big-endian processor: r11 = MSR with LE, SRR0 = the next instruction behind this, and there. Spoils r10, r11, LR.
    .macro become_little
    .long   {mfmsr_11}, {ori_11_le}
    .long   {bcl_next}, {mflr_10}, {addi_10_after}, {mtsrr0_10}, {mtsrr1_11}, {rfid}
    .endm

    // 64-bit mode, wherever it came from. Spoils r10, r11.
    .macro become_64
    mfmsr   11
    li      10, 1
    rldimi  11, 10, 63, 0
    mtmsrd  11
    isync
    .endm

    .macro either_endian
    // To the other byte order this is a branch to what comes behind the next instruction.
    tdi     0, 0, 0x48
    b       1f
    become_little
1:  become_64
    .endm

    .section .head.text, "ax", @progbits
    .globl  _start
    .type   _start, %function
_start:
    either_endian
    bl      load_toc
    addis   6, 2, __bss_start@toc@ha
    addi    6, 6, __bss_start@toc@l
    addis   7, 2, __bss_end@toc@ha
    addi    7, 7, __bss_end@toc@l
    li      0, 0
2:  cmpld   6, 7
    bge     3f
    std     0, 0(6)
    addi    6, 6, 8
    b       2b
3:  addis   1, 2, __boot_stack_top@toc@ha
    addi    1, 1, __boot_stack_top@toc@l - 32
    std     0, 0(1)
    // From here on at the addresses of the link.
    addis   12, 2, {primary}@toc@ha
    addi    12, 12, {primary}@toc@l
    mtctr   12
    bctrl
    .size   _start, . - _start

    // r3: its `smp::Start`, a physical address.
    .globl  secondary_start
    .type   secondary_start, %function
secondary_start:
    either_endian
    bl      load_toc
    ld      1, 0(3)
    addi    1, 1, -32
    ld      3, 8(3)
    li      0, 0
    addis   12, 2, {secondary}@toc@ha
    addi    12, 12, {secondary}@toc@l
    mtctr   12
    // The stack may be outside the linear map: translation first.
    mfmsr   11
    ori     11, 11, {relocate}
    mtspr   27, 11
    addis   10, 2, secondary_translated@toc@ha
    addi    10, 10, secondary_translated@toc@l
    mtspr   26, 10
    rfid
secondary_translated:
    std     0, 0(1)
    bctrl
    .size   secondary_start, . - secondary_start

    .type   load_toc, %function
load_toc:
    lis     2, .TOC.@highest
    ori     2, 2, .TOC.@higher
    rldicr  2, 2, 32, 31
    oris    2, 2, .TOC.@high
    ori     2, 2, .TOC.@l
    blr
    .size   load_toc, . - load_toc

    // r3: physical address of the arguments, r4: the entry. Translation off, boot stack. 32-bit code keeps only halves of registers.
    .globl  call_open_firmware
    .type   call_open_firmware, %function
call_open_firmware:
    mflr    0
    mfcr    5
    std     0, 16(1)
    std     5, 8(1)
    mr      9, 1
    addi    1, 1, -256
    // The ABI of 32 bits keeps its link register in what is our back chain.
    std     9, 208(1)
    std     2, 40(1)
    .irp n, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
    std     \n, 8 * \n - 56(1)
    .endr
    mfmsr   6
    // Physical stack and return address.
    rldicl  1, 1, 0, 32
    addis   7, 2, firmware_returned@toc@ha
    addi    7, 7, firmware_returned@toc@l
    rldicl  7, 7, 0, 32
    mtlr    7
    mtspr   26, 4
    rldicl  6, 6, 0, 1
    li      8, {le}
    andc    6, 6, 8
    mtspr   27, 6
    rfid
firmware_returned:
    become_little
    become_64
    // The stack is physical; the registers hold where it was.
    rldicl  1, 1, 0, 32
    ld      2, 40(1)
    .irp n, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
    ld      \n, 8 * \n - 56(1)
    .endr
    ld      1, 208(1)
    ld      0, 16(1)
    ld      5, 8(1)
    mtlr    0
    mtcr    5
    blr
    .size   call_open_firmware, . - call_open_firmware

    // Turns translation on and returns.
    .globl  turn_translation_on
    .type   turn_translation_on, %function
turn_translation_on:
    mfmsr   11
    mflr    10
    ori     11, 11, {relocate}
    mtspr   26, 10
    mtspr   27, 11
    rfid
    .size   turn_translation_on, . - turn_translation_on
    "#,
    le = const MSR_LE,
    relocate = const MSR_RELOCATE,
    mfmsr_11 = const big(0x7d60_00a6),
    ori_11_le = const big(0x616b_0001),
    bcl_next = const big(0x429f_0005),
    mflr_10 = const big(0x7d48_02a6),
    addi_10_after = const big(0x394a_0000 | AFTER),
    mtsrr0_10 = const big(0x7d5a_03a6),
    mtsrr1_11 = const big(0x7d7b_03a6),
    rfid = const big(0x4c00_0024),
    primary = sym super::boot::primary,
    secondary = sym super::smp::secondary,
);
