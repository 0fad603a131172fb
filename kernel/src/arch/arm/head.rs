//! The first instructions: the `zImage` header, the way down from HYP mode, the first page tables, the memory management unit; and the same
//! for secondary CPUs. What they establish is the least Rust code needs; all else is `boot`.
//!
//! Until the memory management unit is on this runs at its load address, Rust functions included: link addresses get the difference, `offset`, added. They
//! have a stack of their own, which nobody uses with caches on, and data at their natural alignment only; they call nothing that is not inlined.

use super::sysreg::{self, read, write, write64};
use super::{copy, kmap, mmu};
use core::arch::global_asm;

/// An early 2 MiB block: valid, normal memory, inner shareable, accessed.
const EARLY_BLOCK: u32 = 1 | 1 << 2 | 3 << 8 | 1 << 10;
/// The identity map's gigabyte: read-only, not global (its addresses are later those of programs).
const IDMAP_BLOCK: u32 = EARLY_BLOCK | 1 << 7 | 1 << 11;

/// An early section of 1 MiB with short descriptors: normal write-back memory, shared, accessed.
const EARLY_SECTION: u32 = 2 | 3 << 2 | 1 << 10 | 1 << 12 | 1 << 16;
/// How walks of short descriptors go through the caches.
const WALKS: u32 = 0x6a;

global_asm!(
    r#"
    .arch_extension virt
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

    .type   primary_entry, %function
primary_entry:
    mov     r10, r2                 // devicetree
    bl      supervisor
    bl      {primary_tables}
    ldr     r4, =primary_switched
    b       1f
    .size   primary_entry, . - primary_entry

    .globl  secondary_entry
    .type   secondary_entry, %function
secondary_entry:
    bl      supervisor
    bl      {secondary_tables}
    ldr     r4, =secondary_switched
1:  mcr     p15, 0, r0, c1, c0, 0   // SCTLR
    isb
    bx      r4
    .size   secondary_entry, . - secondary_entry

    // Returns in supervisor mode, everything masked, on the early stack. r0, r9: what to add to a link address.
    .type   supervisor, %function
supervisor:
    mov     r7, lr
    adr     r0, supervisor
    ldr     r9, =supervisor
    sub     r9, r0, r9
    ldr     r8, =__early_stack_top
    add     r8, r8, r9
    mrs     r0, cpsr
    and     r0, r0, #0x1f
    cmp     r0, #0x1a
    bne     2f
    mov     sp, r8
    bl      {leave_hyp}
    adr     r0, 2f
    msr     ELR_hyp, r0
    mov     r0, #0x1d3
    msr     spsr_cxsf, r0
    eret
2:  cpsid   aif, #19
    mov     sp, r8
    mov     r0, r9
    bx      r7
    .size   supervisor, . - supervisor

    // r0: the new kernel table (physical). Called at its physical address, through the identity map: no two translations of one address
    // may meet in the TLB, so the old ones go first.
    .globl  replace_kernel_table
    .type   replace_kernel_table, %function
replace_kernel_table:
    mov     r3, #0
    .if     {short}
    mcr     p15, 0, r0, c2, c0, 0
    .else
    mrc     p15, 0, r2, c2, c0, 2
    orr     r1, r2, #1 << 23        // no walks through TTBR1
    mcr     p15, 0, r1, c2, c0, 2
    .endif
    isb
    mcr     p15, 0, r3, c8, c7, 0
    mcr     p15, 0, r3, c7, c5, 6
    dsb     nsh
    isb
    .if     !{short}
    mcrr    p15, 1, r0, r3, c2
    isb
    mcr     p15, 0, r2, c2, c0, 2
    isb
    .endif
    bx      lr
    .size   replace_kernel_table, . - replace_kernel_table
    .ltorg

    .text
    .type   primary_switched, %function
primary_switched:
    ldr     sp, =__boot_stack_top
    mov     r0, r9
    mov     r1, r10
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
    short = const mmu::SHORT as u32,
    leave_hyp = sym leave_hyp,
    primary_tables = sym primary_tables,
    secondary_tables = sym secondary_tables,
    start = sym super::smp::START,
    primary = sym primary,
    secondary = sym super::smp::secondary,
);

unsafe extern "C" {
    static __image_start: u8;
    static __image_end: u8;
    static __idmap_tables: u8;
    static __table_pool_start: u8;
    static __bss_start: u8;
    static __bss_end: u8;
}

/// In HYP mode: nothing that supervisor mode does is trapped.
unsafe extern "C" fn leave_hyp() {
    let (processor, affinity) = (read!("p15, 0, {}, c0, c0, 0"), read!("p15, 0, {}, c0, c0, 5"));
    let debug = read!("p15, 4, {}, c1, c1, 1");
    // SAFETY: nothing else uses the mode's registers, which are named beside each.
    unsafe {
        write!("p15, 4, {}, c1, c1, 0", 0u32); // HCR
        write!("p15, 4, {}, c1, c1, 3", 0u32); // HSTR
        write64!("p15, 6, {}, {}, c2", 0); // VTTBR
        write64!("p15, 4, {}, {}, c14", 0); // CNTVOFF
        write!("p15, 4, {}, c1, c1, 2", 0x33ffu32); // HCPTR: floating point is not trapped
        write!("p15, 4, {}, c14, c1, 0", 3u32); // CNTHCTL: counter and timer are the kernel's, too
        write!("p15, 4, {}, c1, c1, 1", debug & 0x1f); // HDCR: no debug or counter traps
        write!("p15, 4, {}, c0, c0, 0", processor); // VPIDR
        write!("p15, 4, {}, c0, c0, 5", affinity); // VMPIDR
    }
    // An interrupt controller with system registers: the kernel may use them.
    if read!("p15, 0, {}, c0, c1, 1") >> 28 != 0 {
        let enable = read!("p15, 4, {}, c12, c9, 5");
        // SAFETY: as above.
        unsafe { write!("p15, 4, {}, c12, c9, 5", enable | 9) } // ICC_HSRE
        sysreg::isb();
        // SAFETY: as above.
        unsafe { write!("p15, 4, {}, c12, c11, 0", 0u32) } // ICH_HCR
    }
}

/// Makes the early tables: the image where it is and where the kernel has it. The kernel's own map replaces them before anything else happens. Returns
/// what [`prepare`] does.
unsafe extern "C" fn primary_tables(offset: usize) -> u32 {
    let at = |symbol: *const u8| (symbol as usize).wrapping_add(offset);
    let (identity, kernel) = (at(&raw const __idmap_tables), at(&raw const __table_pool_start));
    // What is at `LINEAR_BASE`.
    let below = mmu::IMAGE_BASE - mmu::LINEAR_BASE;
    let base = at(&raw const __image_start) - below;
    let size = &raw const __image_end as usize - &raw const __image_start as usize + below;
    // SAFETY: the linker script has room for the tables, and nobody else runs. Volatile: loops stay loops.
    unsafe {
        if mmu::SHORT {
            let table = identity as *mut u32;
            for n in 0..4096 {
                table.add(n).write_volatile(0);
            }
            for n in 0..size.div_ceil(1 << 20) {
                let entry = (base + (n << 20)) as u32 | EARLY_SECTION;
                table.add((base >> 20) + n).write_volatile(entry);
                table.add((mmu::LINEAR_BASE >> 20) + n).write_volatile(entry);
            }
            return prepare(identity as u32 | WALKS, 0);
        }
        for n in 0..512 {
            (kernel as *mut u64).add(n).write_volatile(0);
        }
        for n in 0..4 {
            (identity as *mut u64).add(n).write_volatile(0);
        }
        let gigabyte = base >> 30;
        let entry = (gigabyte << 30) as u32 | IDMAP_BLOCK;
        (identity as *mut u64).add(gigabyte).write_volatile(entry.into());
        for n in 0..size.div_ceil(2 << 20) {
            let entry = (base + (n << 21)) as u32 | EARLY_BLOCK;
            (kernel as *mut u64).add(n).write_volatile(entry.into());
        }
        prepare(identity as u32, kernel as u32)
    }
}

/// The tables of a secondary CPU are there.
unsafe extern "C" fn secondary_tables(offset: usize) -> u32 {
    let at = |address: usize| address.wrapping_add(offset);
    // SAFETY: the boot CPU wrote it to memory.
    let table = unsafe { (at(&raw const kmap::KERNEL_TABLE as usize) as *const u32).read_volatile() };
    let identity = at(&raw const __idmap_tables as usize) as u32;
    // SAFETY: they have this code, and the kernel.
    unsafe {
        if mmu::SHORT {
            prepare(table, 0)
        } else {
            prepare(identity, table)
        }
    }
}

/// Sets all for the memory management unit but `SCTLR`, whose value is the result.
///
/// # Safety
/// `user` and `kernel` are what the table registers are to hold.
#[inline(always)]
unsafe fn prepare(user: u32, kernel: u32) -> u32 {
    // SAFETY: as the caller promises.
    unsafe {
        if mmu::SHORT {
            write!("p15, 0, {}, c2, c0, 2", 0u32); // TTBCR
            write!("p15, 0, {}, c2, c0, 0", user); // TTBR0
            write!("p15, 0, {}, c3, c0, 0", mmu::OPEN); // DACR
        } else {
            write!("p15, 0, {}, c10, c2, 0", sysreg::MAIR0);
            write!("p15, 0, {}, c10, c2, 1", 0u32); // MAIR1
            write!("p15, 0, {}, c2, c0, 2", sysreg::TTBCR);
            write64!("p15, 0, {}, {}, c2", user.into()); // TTBR0
            write64!("p15, 1, {}, {}, c2", kernel.into()); // TTBR1
        }
        sysreg::barrier();
        write!("p15, 0, {}, c8, c7, 0", 0u32); // TLBIALL
        write!("p15, 0, {}, c7, c5, 0", 0u32); // ICIALLU
        write!("p15, 0, {}, c7, c5, 6", 0u32); // BPIALL
        sysreg::barrier();
        sysreg::isb();
    }
    sysreg::SCTLR
}

/// The boot CPU on the early tables and its stack: zeroes what is to be, and goes on in `boot`.
unsafe extern "C" fn primary(offset: usize, devicetree: u32) -> ! {
    let start = &raw const __bss_start as usize;
    // SAFETY: nobody has used it yet; this stack is not in it.
    unsafe { copy::clear_early(start, &raw const __bss_end as usize - start) };
    let image = (&raw const __image_start as usize).wrapping_add(offset);
    super::boot::primary(devicetree.into(), image as u64)
}
