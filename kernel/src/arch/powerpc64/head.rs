//! The first instructions, on the boot CPU and on the others: from whatever byte order and width firmware left to 64-bit little-endian, with
//! translation off; calls to Open Firmware, which is 32-bit and big-endian; and the way to translation.
//!
//! With translation off the processor ignores the top of an address, so everything runs at the addresses it is linked at from the start.

use super::mmu::LINEAR_BASE;
use super::spr::MSR_RELOCATE;
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

    // 64-bit little-endian, with the table of contents, r12 and CTR = \to as linked, r0 = 0.
    .macro start to
    // To the other byte order this is a branch to what comes behind the next instruction.
    tdi     0, 0, 0x48
    b       1f
    become_little
1:  become_64
    lis     2, .TOC.@highest
    ori     2, 2, .TOC.@higher
    rldicr  2, 2, 32, 31
    oris    2, 2, .TOC.@high
    ori     2, 2, .TOC.@l
    addis   12, 2, \to@toc@ha
    addi    12, 12, \to@toc@l
    mtctr   12
    li      0, 0
    .endm

    .macro boot_function name, section
    .section \section, "ax", @progbits
    .globl  \name
    .type   \name, %function
\name:
    .endm

    boot_function _start, .head.text
    start   {primary}
    addis   1, 2, __boot_stack_top@toc@ha
    addi    1, 1, __boot_stack_top@toc@l
    stdu    0, -32(1)
    // From here on at the addresses of the link.
    bctrl
    .size   _start, . - _start

    // r3: its `smp::Start`, a physical address. The stack may be outside the linear map: translation first.
    boot_function secondary_start, .head.text
    start   {secondary}
    ld      1, 0(3)
    ld      3, 8(3)
    bl      turn_translation_on
    stdu    0, -32(1)
    bctrl
    .size   secondary_start, . - secondary_start

    // r3: physical address of the arguments, r4: the entry, r5: machine state there. Translation off, boot stack. 32-bit code keeps only halves of
    // registers, and its ABI has the link register in what is our back chain.
    boot_function call_open_firmware, .head.text
    mflr    0
    mfcr    12
    std     1, -8(1)
    addi    1, 1, -512
    .irp n, 0, 2, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
    std     \n, 8 * \n + 24(1)
    .endr
    // Physical stack and return address: halves as well.
    rldicl  1, 1, 0, 32
    addis   7, 2, firmware_returned@toc@ha
    addi    7, 7, firmware_returned@toc@l
    rldicl  7, 7, 0, 32
    mtlr    7
    mtspr   26, 4
    mtspr   27, 5
    rfid
firmware_returned:
    become_little
    become_64
    rldicl  1, 1, 0, 32
    .irp n, 0, 2, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
    ld      \n, 8 * \n + 24(1)
    .endr
    ld      1, 504(1)
    mtlr    0
    mtcr    12
    blr
    .size   call_open_firmware, . - call_open_firmware

    // Turns translation on and returns to where the caller is linked. Spoils r10, r11.
    boot_function turn_translation_on, .noinstr.text
    mflr    10
    li      11, {linear}
    rldimi  10, 11, 62, 0
    mfmsr   11
    ori     11, 11, {relocate}
    mtspr   26, 10
    mtspr   27, 11
    rfid
    .size   turn_translation_on, . - turn_translation_on
    "#,
    linear = const LINEAR_BASE >> 62,
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
