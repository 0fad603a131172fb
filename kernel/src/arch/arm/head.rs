//! The first instructions: the `zImage` header, the way down from HYP mode, the first page tables, the memory management unit; and the same
//! for secondary CPUs. What they establish is the least Rust code needs; all else is `boot`.
//!
//! Runs at its load address until the memory management unit is on: link addresses get the difference (r9) added.

use super::{kmap, mmu, sysreg};
use core::arch::global_asm;

/// An early 2 MiB block: valid, normal memory, inner shareable, accessed.
const EARLY_BLOCK: u32 = 1 | 1 << 2 | 3 << 8 | 1 << 10;
/// The identity map's gigabyte: read-only, not global (its addresses are later those of programs).
const IDMAP_BLOCK: u32 = EARLY_BLOCK | 1 << 7 | 1 << 11;

/// An early section of 1 MiB with short descriptors: normal write-back memory, shared, accessed.
const EARLY_SECTION: u32 = 2 | 3 << 2 | 1 << 10 | 1 << 12 | 1 << 16;

global_asm!(
    r#"
    .arch_extension virt
    .arch_extension sec
    .section .head.text, "ax", %progbits
    .globl _start
    .type _start, %function
_start:
    .rept   8
    nop
    .endr
    b       primary_entry
    .long   0x016f2818              // zImage
    .long   0                       // anywhere
    .long   __image_file_size
    .size   _start, . - _start

    // r9: what to add to a link address; from there to \next in supervisor mode, everything masked.
    .macro  leave_hyp next
    adr     r9, 1f
    ldr     r0, 1f
    sub     r9, r9, r0
    mrs     r0, cpsr
    and     r0, r0, #0x1f
    cmp     r0, #0x1a
    beq     2f
    cpsid   aif, #19
    b       \next
    .balign 4
1:  .long   1b
2:  mov     r0, #0
    mcr     p15, 4, r0, c1, c1, 0   // HCR
    mcr     p15, 4, r0, c1, c1, 3   // HSTR
    mcrr    p15, 6, r0, r0, c2      // VTTBR
    mcrr    p15, 4, r0, r0, c14     // CNTVOFF
    movw    r0, #0x33ff             // HCPTR: floating point is not trapped
    mcr     p15, 4, r0, c1, c1, 2
    mov     r0, #3                  // CNTHCTL: counter and timer are the kernel's, too
    mcr     p15, 4, r0, c14, c1, 0
    mrc     p15, 4, r0, c1, c1, 1   // HDCR: no debug or counter traps
    and     r0, r0, #0x1f
    mcr     p15, 4, r0, c1, c1, 1
    mrc     p15, 0, r0, c0, c0, 0
    mcr     p15, 4, r0, c0, c0, 0   // VPIDR
    mrc     p15, 0, r0, c0, c0, 5
    mcr     p15, 4, r0, c0, c0, 5   // VMPIDR
    mrc     p15, 0, r0, c0, c1, 1
    lsrs    r0, r0, #28             // interrupt controller with system registers: the kernel may use them
    beq     3f
    mrc     p15, 4, r0, c12, c9, 5  // ICC_HSRE
    orr     r0, r0, #9
    mcr     p15, 4, r0, c12, c9, 5
    isb
    mov     r0, #0
    mcr     p15, 4, r0, c12, c11, 0 // ICH_HCR
3:  adr     r0, \next
    msr     ELR_hyp, r0
    mov     r0, #0x1d3
    msr     spsr_cxsf, r0
    eret
    .endm

    .type   primary_entry, %function
primary_entry:
    mov     r10, r2                 // devicetree
    leave_hyp 5f
5:  ldr     r11, =__image_start
    add     r11, r11, r9
    ldr     r4, =__idmap_tables
    add     r4, r4, r9
    ldr     r5, =__table_pool_start
    add     r5, r5, r9
    mov     r0, #0
    mov     r1, #0
    .if     {short}
    mov     r2, #4096
2:  subs    r2, r2, #1
    str     r0, [r4, r2, lsl #2]
    bne     2b
    // The image in sections, where it is and where the kernel has it.
    sub     r2, r11, #0x10000
    ldr     r0, ={early_section}
    orr     r0, r0, r2
    add     r3, r4, r2, lsr #18
    add     r5, r4, #0x3000
    ldr     r2, =__image_size + 0x10000
4:  str     r0, [r3], #4
    str     r0, [r5], #4
    add     r0, r0, #0x100000
    subs    r2, r2, #0x100000
    bhi     4b
    orr     r0, r4, #{walks}
    .else
    mov     r2, #512
2:  subs    r2, r2, #1
    add     r3, r5, r2, lsl #3
    strd    r0, r1, [r3]
    bne     2b
    mov     r2, #4
3:  subs    r2, r2, #1
    add     r3, r4, r2, lsl #3
    strd    r0, r1, [r3]
    bne     3b
    // Identity: the gigabyte with this code.
    lsr     r2, r11, #30
    ldr     r0, ={idmap_block}
    orr     r0, r0, r2, lsl #30
    add     r3, r4, r2, lsl #3
    strd    r0, r1, [r3]
    // Kernel: the whole image in blocks, replaced by the final map before anything else happens.
    ldr     r0, ={early_block}
    sub     r2, r11, #0x10000
    orr     r0, r0, r2
    ldr     r2, =__image_size + 0x10000
    mov     r3, r5
4:  strd    r0, r1, [r3], #8
    add     r0, r0, #0x200000
    subs    r2, r2, #0x200000
    bhi     4b
    mov     r0, r4
    mov     r1, r5
    .endif
    ldr     lr, =primary_switched
    b       enable_mmu
    .size   primary_entry, . - primary_entry

    .globl  secondary_entry
    .type   secondary_entry, %function
secondary_entry:
    leave_hyp 5f
5:  ldr     r1, ={kernel_table}
    ldr     r1, [r1, r9]
    .if     {short}
    mov     r0, r1
    .else
    ldr     r0, =__idmap_tables
    add     r0, r0, r9
    .endif
    ldr     lr, =secondary_switched
    .size   secondary_entry, . - secondary_entry
    // falls through

    // r0, r1: physical addresses of the user part's and the kernel part's table; lr: where to go on, a kernel address.
    .type   enable_mmu, %function
enable_mmu:
    mov     r3, #0
    .if     {short}
    mcr     p15, 0, r3, c2, c0, 2
    mcr     p15, 0, r0, c2, c0, 0
    mov     r2, #{open}
    mcr     p15, 0, r2, c3, c0, 0
    .else
    ldr     r2, ={mair}
    mcr     p15, 0, r2, c10, c2, 0
    mcr     p15, 0, r3, c10, c2, 1
    ldr     r2, ={ttbcr}
    mcr     p15, 0, r2, c2, c0, 2
    mcrr    p15, 0, r0, r3, c2
    mcrr    p15, 1, r1, r3, c2
    .endif
    dsb     sy
    mcr     p15, 0, r3, c8, c7, 0   // TLBIALL
    mcr     p15, 0, r3, c7, c5, 0   // ICIALLU
    mcr     p15, 0, r3, c7, c5, 6   // BPIALL
    dsb     nsh
    isb
    ldr     r2, ={sctlr}
    mcr     p15, 0, r2, c1, c0, 0
    isb
    bx      lr
    .size   enable_mmu, . - enable_mmu

    // r0: the new kernel table (physical). Called at its physical address, through the identity map: no two translations of one address
    // may meet in the TLB, so the old ones go first.
    .globl  replace_kernel_table
    .type   replace_kernel_table, %function
replace_kernel_table:
    mov     r3, #0
    .if     {short}
    mcr     p15, 0, r0, c2, c0, 0
    isb
    mcr     p15, 0, r3, c8, c7, 0
    mcr     p15, 0, r3, c7, c5, 6
    dsb     nsh
    isb
    bx      lr
    .endif
    mrc     p15, 0, r2, c2, c0, 2
    orr     r1, r2, #1 << 23        // no walks through TTBR1
    mcr     p15, 0, r1, c2, c0, 2
    isb
    mcr     p15, 0, r3, c8, c7, 0
    dsb     nsh
    isb
    mcrr    p15, 1, r0, r3, c2
    isb
    mcr     p15, 0, r2, c2, c0, 2
    isb
    bx      lr
    .size   replace_kernel_table, . - replace_kernel_table
    .ltorg

    .text
    .type   primary_switched, %function
primary_switched:
    ldr     r0, =__bss_start
    ldr     r1, =__bss_end
    mov     r2, #0
    mov     r3, #0
1:  cmp     r0, r1
    strdlo  r2, r3, [r0], #8
    blo     1b
    ldr     sp, =__boot_stack_top
    mov     r0, r10                 // two 64-bit arguments
    mov     r2, r11
    mov     r1, #0
    mov     r11, #0
    b       {primary}
    .size   primary_switched, . - primary_switched

    .type   secondary_switched, %function
secondary_switched:
    ldr     r1, ={start}
    ldr     r0, [r1]
    ldr     sp, [r1, #4]
    mov     r11, #0
    b       {secondary}
    .size   secondary_switched, . - secondary_switched
    .ltorg
    "#,
    idmap_block = const IDMAP_BLOCK,
    early_block = const EARLY_BLOCK,
    early_section = const EARLY_SECTION,
    short = const mmu::SHORT as u32,
    walks = const 0x6au32,
    open = const mmu::OPEN & 0xff,
    mair = const sysreg::MAIR0,
    ttbcr = const sysreg::TTBCR,
    sctlr = const sysreg::SCTLR,
    kernel_table = sym kmap::KERNEL_TABLE,
    start = sym super::smp::START,
    primary = sym super::boot::primary,
    secondary = sym super::smp::secondary,
);
