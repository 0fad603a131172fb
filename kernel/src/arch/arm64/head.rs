//! The first instructions: the `Image` header, an early stack; then Rust: the way down from EL2, the first
//! page tables, the memory management unit; and the same for secondary CPUs, which begin at the same place.
//! What this establishes is the least the kernel needs; all else is `boot`.
//!
//! Until the memory management unit is on this runs at its load address: link addresses (`linked!`) get the
//! difference, `offset`, added. It has a stack of its own, which nobody uses with caches on, and data at
//! their natural alignment only; it calls nothing that is not inlined.

use super::cpus::{self, START};
use super::image::{
    __boot_stack_top, __bss_end, __bss_start, __idmap_tables, __image_end, __image_start, __table_pool_start,
};
use super::mmu::{EARLY_LEVEL, EARLY_TABLES, LEVELS};
use super::refuse::refuse;
use super::smp;
use super::sysreg::{self, read, write};
use crate::mm::table::{ENTRIES, index, level_shift};
use crate::mm::{PAGE_SHIFT, PAGE_SIZE, STACK_SHIFT};
use core::arch::{asm, global_asm};
use core::sync::atomic::Ordering;

/// `HCR_EL2`: EL1 is AArch64; pointer authentication is not trapped.
const HCR_EL2: u64 = 1 << 31 | 1 << 41 | 1 << 40;
/// `ICC_SRE_EL2`: system registers instead of memory-mapped ones (SRE), also for EL1 (Enable).
const ICC_SRE_ENABLE: u64 = 1 | 1 << 3;
/// `CPTR_EL2`: floating point is not trapped; SVE is, by one bit.
const CPTR_EL2: u64 = 0x33ff;
const CPTR_EL2_TZ: u64 = 1 << 8;
/// `CurrentEL` at EL2.
const EL2: u64 = 2 << 2;
/// A table below another.
const TABLE: u64 = 3;
/// An early block, or page: valid, normal memory, inner shareable, accessed.
const EARLY_BLOCK: u64 = if EARLY_LEVEL == 0 { 3 } else { 1 } | 1 << 2 | 3 << 8 | 1 << 10;
/// The identity map's block: read-only, executable at EL1 only, not global (its addresses are later those of
/// programs).
const IDMAP_BLOCK: u64 = EARLY_BLOCK | 1 << 7 | 1 << 11 | 1 << 54;
/// What the identity map covers from the image's start on: there is all that runs with the memory management
/// unit off or changing.
const IDENTITY: usize = 2 << 20;
/// What is said where the processor does not have the kernel's pages.
const NO_SUCH_PAGES: &[u8] = match PAGE_SHIFT {
    12 => b"limen: this processor has no pages of 4 KiB\n",
    14 => b"limen: this processor has no pages of 16 KiB\n",
    _ => b"limen: this processor has no pages of 64 KiB\n",
};
/// log2 of the bytes of an early block.
const BLOCK_SHIFT: usize = level_shift(EARLY_LEVEL);
/// The page size in the header: 1 for 4K, 2 for 16K, 3 for 64K.
const HEADER_PAGES: usize = (PAGE_SHIFT - 10) / 2;

// The devicetree is in x0. The header is what the boot protocol says.
global_asm!(
    r#"
    .section .head.text, "ax", %progbits
    .globl  _start
    .type   _start, %function
_start:
    b       1f
    .long   0
    .quad   0                       // load offset from a 2 MiB boundary
    .quad   __image_size
    .quad   {flags}                 // little-endian, page size, anywhere in RAM
    .quad   0, 0, 0
    .ascii  "ARM\x64"
    .long   0
1:  adr     x1, _start
    ldr     x2, =_start
    sub     x1, x1, x2
    adrp    x2, __early_stack_top
    mov     sp, x2
    b       {start}
    .ltorg
    .size   _start, . - _start

    // For the linker script, too.
    .globl  __page_size, __stack_size, __early_tables_size
    .set    __page_size, {page}
    .set    __stack_size, {stack}
    .set    __early_tables_size, {page} * {tables}
    "#,
    start = sym start,
    flags = const HEADER_PAGES << 1 | 8,
    page = const PAGE_SIZE,
    stack = const 1 << STACK_SHIFT,
    tables = const EARLY_TABLES,
);

/// Where the symbol is linked.
macro_rules! linked {
    ($symbol:path) => {{
        let address: usize;
        // SAFETY: loads a constant.
        unsafe {
            asm!(
                "ldr {}, ={}", out(reg) address, sym $symbol, options(pure, nomem, nostack, preserves_flags)
            );
        }
        address
    }};
}

/// Every CPU's first function, at EL1 or EL2, everything masked, on the early stack. `offset`: what to add to
/// a link address. If the kernel has its table already, this is a secondary CPU.
#[unsafe(link_section = ".idmap.text")]
unsafe extern "C" fn start(devicetree: usize, offset: usize) -> ! {
    if !sysreg::has_page_size() {
        // SAFETY: everything is off; the boot protocol passes a devicetree, and to the boot CPU only.
        unsafe { refuse(devicetree, NO_SUCH_PAGES) };
    }
    if read!("CurrentEL") == EL2 {
        leave_el2();
    } else {
        // SAFETY: everything is off, and the reserved bits are as they have to be.
        unsafe { write!("sctlr_el1", sysreg::SCTLR_EL1_OFF) };
        sysreg::isb();
    }
    let at = |address: usize| address.wrapping_add(offset);
    let shared = at(linked!(START)) as *const cpus::Start;
    // SAFETY: it is there, and the boot CPU wrote it to memory.
    let shared = unsafe { &*shared };
    let table = shared.table.load(Ordering::Relaxed);
    let (identity, kernel) = (at(linked!(__idmap_tables)), at(linked!(__table_pool_start)));
    let image = at(linked!(__image_start));
    let (boot_stack, primary) = (linked!(__boot_stack_top), linked!(primary));
    let secondary = linked!(smp::secondary);
    // SAFETY: the tables have this code, and the kernel; stacks and functions are the CPU's to go on with.
    unsafe {
        if table == 0 {
            early_tables(identity as *mut u64, kernel as *mut u64, image);
            prepare(identity, kernel);
            enter(boot_stack, primary, devicetree, image)
        }
        prepare(identity, table);
        let local = shared.local.load(Ordering::Relaxed) as usize;
        enter(shared.stack_top.load(Ordering::Relaxed), secondary, local, 0)
    }
}

/// Turns the memory management unit on and calls the function at `to`, where the image is linked, on `stack`.
///
/// # Safety
/// All else is prepared; the function takes these arguments and does not return.
#[inline(always)]
unsafe fn enter(stack: usize, to: usize, a: usize, b: usize) -> ! {
    // SAFETY: as the caller promises. Frame pointer and return address end backtraces.
    unsafe {
        asm!(
            "msr sctlr_el1, {sctlr}",
            "isb",
            "mov sp, {stack}",
            "mov x29, #0",
            "br {to}",
            sctlr = in(reg) sysreg::SCTLR_EL1, stack = in(reg) stack, to = in(reg) to, in("x0") a, in("x1") b,
            in("x30") 0, options(noreturn)
        )
    }
}

/// From EL2 to EL1, of which nothing is trapped.
#[inline(always)]
fn leave_el2() {
    let (processor, affinity) = (read!("midr_el1"), read!("mpidr_el1"));
    let debug = read!("mdcr_el2");
    // SAFETY: nothing else uses the level's registers.
    unsafe {
        write!("hcr_el2", HCR_EL2);
        sysreg::isb();
        write!("cnthctl_el2", 3u64); // counter and timer are the kernel's, too
        write!("cntvoff_el2", 0u64);
        write!("cptr_el2", CPTR_EL2);
        write!("hstr_el2", 0u64);
        write!("vttbr_el2", 0u64);
        write!("mdcr_el2", debug & 0x1f); // no debug or counter traps
        write!("vpidr_el2", processor);
        write!("vmpidr_el2", affinity);
    }
    // SVE: not trapped, and all lengths of vectors are for the kernel to choose.
    if read!("id_aa64pfr0_el1") >> 32 & 0xf != 0 {
        // SAFETY: EL2's registers are this code's alone.
        unsafe {
            write!("cptr_el2", CPTR_EL2 & !CPTR_EL2_TZ);
            sysreg::isb();
            write!("S3_4_C1_C2_0", 0x1ffu64); // ZCR_EL2
        }
    }
    // An interrupt controller with system registers: the kernel may use them, if EL3 lets.
    if read!("id_aa64pfr0_el1") >> 24 & 0xf != 0 {
        let enable = read!("ICC_SRE_EL2");
        // SAFETY: EL2's registers are this code's alone.
        unsafe { write!("ICC_SRE_EL2", enable | ICC_SRE_ENABLE) };
        sysreg::isb();
        if read!("ICC_SRE_EL2") & 1 != 0 {
            // SAFETY: EL2's registers are this code's alone.
            unsafe { write!("ICH_HCR_EL2", 0u64) };
        }
    }
    // SAFETY: returns to the next instruction, with the same stack.
    unsafe {
        write!("sctlr_el1", sysreg::SCTLR_EL1_OFF);
        asm!(
            "adr {to}, 2f",
            "msr elr_el2, {to}",
            "msr spsr_el2, {state}",
            "mov {to}, sp",
            "eret",
            "2: mov sp, {to}",
            to = out(reg) _, state = in(reg) sysreg::SPSR_EL1H_MASKED
        );
    }
}

/// Makes the early tables: at `identity` the blocks with this code where it is, at `kernel` the whole image
/// where it is linked. The kernel's own map replaces them before anything else happens.
///
/// # Safety
/// The first CPU; nobody else runs. The tables are there, physically, and so is the image.
#[inline(always)]
unsafe fn early_tables(identity: *mut u64, kernel: *mut u64, image: usize) {
    let linked = linked!(__image_start);
    let size = linked!(__image_end) - linked;
    // Fills all but the last of the tables for an address; where its entry is in the last.
    let way = |tables: *mut u64, address: usize| {
        for n in 0..EARLY_TABLES - 1 {
            // SAFETY: as the caller promises.
            unsafe {
                let next = tables as usize + (n + 1) * PAGE_SIZE;
                tables
                    .add(n * ENTRIES + index(address, LEVELS - 1 - n))
                    .write_volatile(next as u64 | TABLE);
            }
        }
        // SAFETY: as the caller promises.
        unsafe { tables.add((EARLY_TABLES - 1) * ENTRIES + index(address, EARLY_LEVEL)) }
    };
    // SAFETY: as the caller promises. Volatile: loops stay loops.
    unsafe {
        for n in 0..EARLY_TABLES * ENTRIES {
            identity.add(n).write_volatile(0);
            kernel.add(n).write_volatile(0);
        }
        let fill = |blocks: *mut u64, size: usize, attributes| {
            for n in 0..size.div_ceil(1 << BLOCK_SHIFT) {
                blocks
                    .add(n)
                    .write_volatile((image + (n << BLOCK_SHIFT)) as u64 | attributes);
            }
        };
        fill(way(identity, image), IDENTITY, IDMAP_BLOCK);
        fill(way(kernel, linked), size, EARLY_BLOCK);
    }
}

/// Sets all registers of the memory management unit but `SCTLR_EL1`.
///
/// # Safety
/// `user` and `kernel` are the physical addresses of both halves' roots.
#[inline(always)]
unsafe fn prepare(user: usize, kernel: usize) {
    let features = read!("id_aa64mmfr0_el1");
    // 48 bits at most.
    let physical = (features & 7).min(5);
    let wide_asids = features >> 5 & 1;
    // SAFETY: as the caller promises.
    unsafe {
        write!("mair_el1", sysreg::MAIR_EL1);
        write!("tcr_el1", sysreg::TCR_EL1 | physical << 32 | wide_asids << 36);
        write!("ttbr0_el1", user as u64);
        write!("ttbr1_el1", kernel as u64);
        asm!(
            "dsb sy",
            "tlbi vmalle1",
            "ic iallu",
            "dsb nsh",
            "isb",
            options(nostack, preserves_flags)
        );
    }
}

/// The boot CPU on the early tables and its stack: zeroes `.bss`, and goes on in `boot`.
unsafe extern "C" fn primary(devicetree: u64, image: u64) -> ! {
    let start = (&raw const __bss_start).cast_mut();
    // SAFETY: nobody has used it yet; this stack is not in it.
    unsafe { start.write_bytes(0, &raw const __bss_end as usize - start as usize) };
    super::boot::primary(devicetree, image)
}
