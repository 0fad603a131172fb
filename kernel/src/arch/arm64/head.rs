//! The first instructions: the `Image` header, the way down from EL2, the first page tables, the memory management unit; and the same
//! for secondary CPUs. What they establish is the least Rust code needs; all else is `boot`.
//!
//! Runs at its load address until the memory management unit is on, so everything is PC-relative.

use super::sysreg;
use core::arch::global_asm;

/// `HCR_EL2`: EL1 is AArch64; pointer authentication is not trapped.
const HCR_EL2: u64 = 1 << 31 | 1 << 41 | 1 << 40;
/// An early block: valid, normal memory, inner shareable, accessed.
const EARLY_BLOCK: u64 = 1 | 1 << 2 | 3 << 8 | 1 << 10;
/// The identity map's block: read-only, executable at EL1 only, not global (its addresses are later those of programs).
const IDMAP_BLOCK: u64 = EARLY_BLOCK | 1 << 7 | 1 << 11 | 1 << 54;

global_asm!(
    r#"
    .section .head.text, "ax", %progbits
    .globl _start
    .type _start, %function
_start:
    b       primary_entry
    .long   0
    .quad   0                       // load offset from a 2 MiB boundary
    .quad   __image_size
    .quad   0xa                     // little-endian, 4K pages, anywhere in RAM
    .quad   0, 0, 0
    .ascii  "ARM\x64"
    .long   0
    .size   _start, . - _start

    // Puts table \table's entry for address \addr (bits \shift up) at the next table, \next.
    .macro link_table table, next, addr, shift
    ubfx    x9, \addr, #\shift, #9
    orr     x10, \next, #3
    str     x10, [\table, x9, lsl #3]
    .endm

    .section .idmap.text, "ax", %progbits
    .type primary_entry, %function
primary_entry:
    mov     x20, x0                 // devicetree
    bl      drop_to_el1
    adrp    x21, __image_start
    adrp    x0, __idmap_tables      // three tables each: identity map, early kernel map
    adrp    x1, __table_pool_start
    mov     x2, #0
1:  str     xzr, [x0, x2]
    str     xzr, [x1, x2]
    add     x2, x2, #8
    cmp     x2, #12288
    b.ne    1b
    // Identity: the 2 MiB with this code.
    add     x2, x0, #4096
    add     x3, x0, #8192
    link_table x0, x2, x21, 39
    link_table x2, x3, x21, 30
    ubfx    x9, x21, #21, #9
    ldr     x10, ={idmap_block}
    orr     x10, x10, x21
    str     x10, [x3, x9, lsl #3]
    // Kernel: the whole image, replaced by the final map before anything else happens.
    ldr     x4, =__image_start
    add     x2, x1, #4096
    add     x3, x1, #8192
    link_table x1, x2, x4, 39
    link_table x2, x3, x4, 30
    ldr     x5, =__image_size
    ldr     x10, ={early_block}
    orr     x10, x10, x21
2:  str     x10, [x3], #8
    add     x10, x10, #0x200000
    subs    x5, x5, #0x200000
    b.gt    2b
    ldr     x30, =primary_switched
    b       enable_mmu
    .size   primary_entry, . - primary_entry

    .globl  secondary_entry
    .type   secondary_entry, %function
secondary_entry:
    mov     x20, x0                 // its `smp::Start`, a kernel address
    bl      drop_to_el1
    adrp    x0, __idmap_tables
    adrp    x1, KERNEL_ROOT
    ldr     x1, [x1, :lo12:KERNEL_ROOT]
    ldr     x30, =secondary_switched
    // falls through
    .size   secondary_entry, . - secondary_entry

    // x0, x1: physical addresses of the user half's and the kernel half's root; x30: where to go on, a kernel address.
    .globl  enable_mmu
    .type   enable_mmu, %function
enable_mmu:
    ldr     x9, ={mair}
    msr     mair_el1, x9
    ldr     x9, ={tcr}
    mrs     x10, id_aa64mmfr0_el1
    and     x11, x10, #7            // physical address size, 48 bits at most
    cmp     x11, #5
    mov     x12, #5
    csel    x11, x11, x12, lo
    bfi     x9, x11, #32, #3
    ubfx    x11, x10, #5, #1        // 16-bit identifiers
    bfi     x9, x11, #36, #1
    msr     tcr_el1, x9
    msr     ttbr0_el1, x0
    msr     ttbr1_el1, x1
    dsb     sy
    tlbi    vmalle1
    ic      iallu
    dsb     nsh
    isb
    ldr     x9, ={sctlr}
    msr     sctlr_el1, x9
    isb
    ret
    .size   enable_mmu, . - enable_mmu

    // Leaves EL2 for EL1, if there; everything masked.
    .type   drop_to_el1, %function
drop_to_el1:
    ldr     x10, ={sctlr_off}
    mrs     x9, CurrentEL
    cmp     x9, #8
    b.eq    1f
    msr     sctlr_el1, x10
    isb
    ret
1:  ldr     x9, ={hcr}
    msr     hcr_el2, x9
    isb
    msr     sctlr_el1, x10
    mov     x9, #3                  // EL1 may use counter and timer
    msr     cnthctl_el2, x9
    msr     cntvoff_el2, xzr
    mov     x9, #0x33ff             // floating point is not trapped; SVE is
    msr     cptr_el2, x9
    msr     hstr_el2, xzr
    msr     vttbr_el2, xzr
    mrs     x9, mdcr_el2
    and     x9, x9, #0x1f           // no debug or counter traps
    msr     mdcr_el2, x9
    mrs     x9, midr_el1
    msr     vpidr_el2, x9
    mrs     x9, mpidr_el1
    msr     vmpidr_el2, x9
    mrs     x9, id_aa64pfr0_el1
    ubfx    x9, x9, #24, #4         // interrupt controller with system registers: EL1 may use them
    cbz     x9, 2f
    mrs     x9, S3_4_C12_C9_5       // ICC_SRE_EL2
    mov     x10, #9
    orr     x9, x9, x10
    msr     S3_4_C12_C9_5, x9
    isb
    mrs     x9, S3_4_C12_C9_5
    tbz     x9, #0, 2f
    msr     S3_4_C12_C11_0, xzr     // ICH_HCR_EL2
2:  mov     x9, #{spsr}
    msr     spsr_el2, x9
    msr     elr_el2, x30
    eret
    .size   drop_to_el1, . - drop_to_el1

    // x0: the new kernel root, x1: an empty table (both physical). Called at its physical address, through the identity map: no
    // two translations of one address may meet in the TLB, so the old ones go first.
    .globl  replace_kernel_root
    .type   replace_kernel_root, %function
replace_kernel_root:
    msr     ttbr1_el1, x1
    isb
    tlbi    vmalle1
    dsb     nsh
    isb
    msr     ttbr1_el1, x0
    isb
    ret
    .size   replace_kernel_root, . - replace_kernel_root

    .text
    .globl  primary_switched
    .type   primary_switched, %function
primary_switched:
    adrp    x0, __bss_start
    add     x0, x0, :lo12:__bss_start
    adrp    x1, __bss_end
    add     x1, x1, :lo12:__bss_end
1:  cmp     x0, x1
    b.hs    2f
    stp     xzr, xzr, [x0], #16
    b       1b
2:  adrp    x0, __boot_stack_top
    mov     sp, x0
    mov     x29, #0
    mov     x30, #0
    mov     x0, x20
    mov     x1, x21
    b       {primary}
    .size   primary_switched, . - primary_switched

    .globl  secondary_switched
    .type   secondary_switched, %function
secondary_switched:
    ldr     x0, [x20]
    mov     sp, x0
    mov     x29, #0
    mov     x30, #0
    ldr     x0, [x20, #8]
    b       {secondary}
    .size   secondary_switched, . - secondary_switched
    "#,
    idmap_block = const IDMAP_BLOCK,
    early_block = const EARLY_BLOCK,
    mair = const sysreg::MAIR_EL1,
    tcr = const sysreg::TCR_EL1,
    sctlr = const sysreg::SCTLR_EL1,
    sctlr_off = const sysreg::SCTLR_EL1_OFF,
    hcr = const HCR_EL2,
    spsr = const sysreg::SPSR_EL1H_MASKED,
    primary = sym super::boot::primary,
    secondary = sym super::smp::secondary,
);
