//! The first instructions: the `zImage` header, an early stack; then Rust: the way down from HYP mode, the
//! first page tables, the memory management unit; and the same for secondary CPUs, which begin at the same
//! place. What this establishes is the least the kernel needs; all else is `boot`.
//!
//! Until the memory management unit is on this runs at its load address: link addresses get the difference,
//! `offset`, added. It has a stack of its own, which nobody uses with caches on, and data at their natural
//! alignment only; it calls nothing that is not inlined.

use super::cpus::{self, START};
use super::image::{
    __boot_stack_top, __bss_end, __bss_start, __idmap_tables, __image_end, __image_start, __table_pool_start,
};
use super::smp;
use super::sysreg::{self, read, write, write64};
use super::{copy, irq, mmu};
use core::arch::{asm, global_asm};
use core::sync::atomic::Ordering;

/// An early 2 MiB block: valid, normal memory, inner shareable, accessed.
const EARLY_BLOCK: u32 = 1 | 1 << 2 | 3 << 8 | 1 << 10;
/// The identity map's gigabyte: read-only, not global (its addresses are later those of programs).
const IDMAP_BLOCK: u32 = EARLY_BLOCK | 1 << 7 | 1 << 11;

/// An early section of 1 MiB with short descriptors: normal write-back memory, shared, accessed.
const EARLY_SECTION: u32 = 2 | 3 << 2 | 1 << 10 | 1 << 12 | 1 << 16;

// The devicetree is in r2. What is behind the branch lies where boot loaders look for it.
global_asm!(
    r#"
    .section .head.text, "ax", %progbits
    .globl  _start
    .type   _start, %function
_start:
    cpsid   aif
    adr     r0, _start
    ldr     r1, =_start
    sub     r0, r0, r1
    ldr     sp, =__early_stack_top
    add     sp, sp, r0
    mov     r1, r2
    b       {start}
    .org    0x24
    .long   0x016f2818              // what a zImage is known by
    .long   0                       // where it begins: wherever it is loaded
    .long   __image_file_size       // where it ends
    .ltorg
    .size   _start, . - _start
    "#,
    start = sym start,
);

/// Every CPU's first function, in supervisor or HYP mode, everything masked, on the early stack. `offset`:
/// what to add to a link address. If the kernel has its table already, this is a secondary CPU.
#[unsafe(link_section = ".head.text.start")]
unsafe extern "C" fn start(offset: usize, devicetree: usize) -> ! {
    if irq::mode() == HYP {
        leave_hyp();
    }
    let at = |address: usize| address.wrapping_add(offset);
    // SAFETY: it is there, and the boot CPU wrote it to memory.
    let shared = unsafe { &*(at(&raw const START as usize) as *const cpus::Start) };
    let table = shared.table.load(Ordering::Relaxed) as u32;
    // SAFETY: the tables have this code, and the kernel; stacks and functions are the CPU's to go on with.
    unsafe {
        if table == 0 {
            early_tables(offset);
            let stack = &raw const __boot_stack_top as usize;
            enter(stack, primary as *const () as usize, offset, devicetree)
        }
        let identity = at(&raw const __idmap_tables as usize) as u32;
        prepare(if mmu::SHORT { table } else { identity }, table);
        let local = shared.local.load(Ordering::Relaxed) as usize;
        let stack = shared.stack_top.load(Ordering::Relaxed);
        enter(stack, smp::secondary as *const () as usize, local, 0)
    }
}

/// Turns the memory management unit on and calls the function at `to`, where the image is linked, on `stack`.
///
/// # Safety
/// All else is prepared; the function takes these arguments and does not return.
#[inline(always)]
unsafe fn enter(stack: usize, to: usize, a: usize, b: usize) -> ! {
    // SAFETY: as the caller promises. The frame pointer ends backtraces.
    unsafe {
        asm!(
            "mcr p15, 0, {sctlr}, c1, c0, 0", // SCTLR
            "isb",
            "mov sp, {stack}",
            "mov r11, #0",
            "bx {to}",
            sctlr = in(reg) sysreg::SCTLR, stack = in(reg) stack, to = in(reg) to, in("r0") a, in("r1") b,
            options(noreturn)
        )
    }
}

/// `CPSR.M` of HYP mode.
const HYP: usize = 0x1a;
/// `CPSR`: supervisor mode, everything masked.
const SUPERVISOR: u32 = 0x1d3;
/// `ICC_HSRE`: system registers instead of memory-mapped ones (SRE), also for supervisor mode (Enable).
const ICC_HSRE_ENABLE: u32 = 1 | 1 << 3;

/// From HYP mode to supervisor mode, of which nothing is trapped.
#[inline(always)]
fn leave_hyp() {
    let (processor, affinity) = (read!(MIDR), read!(MPIDR));
    let debug = read!(HDCR);
    // SAFETY: nothing else uses the mode's registers.
    unsafe {
        write!(HCR, 0u32);
        write!(HSTR, 0u32);
        write64!(VTTBR_64, 0);
        write64!(CNTVOFF_64, 0);
        write!(HCPTR, 0x33ffu32); // floating point is not trapped
        write!(CNTHCTL, 3u32); // counter and timer are the kernel's, too
        write!(HDCR, debug & 0x1f); // no debug or counter traps
        write!(VPIDR, processor);
        write!(VMPIDR, affinity);
    }
    // An interrupt controller with system registers: the kernel may use them.
    if read!(ID_PFR1) >> 28 != 0 {
        let enable = read!(ICC_HSRE);
        // SAFETY: HYP mode's registers are this code's alone.
        unsafe { write!(ICC_HSRE, enable | ICC_HSRE_ENABLE) }
        sysreg::isb();
        // SAFETY: HYP mode's registers are this code's alone.
        unsafe { write!(ICH_HCR, 0u32) }
    }
    // SAFETY: returns to the next instruction, with the same stack and another link register.
    unsafe {
        asm!(
            ".arch_extension virt",
            "adr {to}, 2f",
            "msr elr_hyp, {to}",
            "msr spsr_cxsf, {mode}",
            "mov {to}, sp",
            "eret",
            "2: mov sp, {to}",
            to = out(reg) _, mode = in(reg) SUPERVISOR, out("lr") _
        );
    }
}

/// Makes the early tables: the image where it is and where the kernel has it. The kernel's own map replaces
/// them before anything else happens.
///
/// # Safety
/// The first CPU; nobody else runs.
#[inline(always)]
unsafe fn early_tables(offset: usize) {
    let at = |symbol: *const u8| (symbol as usize).wrapping_add(offset);
    let (identity, kernel) = (at(&raw const __idmap_tables), at(&raw const __table_pool_start));
    // What is at `LINEAR_BASE`.
    let below = mmu::IMAGE_BASE - mmu::LINEAR_BASE;
    let base = at(&raw const __image_start) - below;
    let size = &raw const __image_end as usize - &raw const __image_start as usize + below;
    // SAFETY: the linker script has room for the tables, as the caller promises. Volatile: loops stay loops.
    unsafe {
        if mmu::SHORT {
            let table = identity as *mut u32;
            copy::clear_early(identity, 4096 * 4);
            for n in 0..size.div_ceil(1 << 20) {
                let entry = (base + (n << 20)) as u32 | EARLY_SECTION;
                table.add((base >> 20) + n).write_volatile(entry);
                table.add((mmu::LINEAR_BASE >> 20) + n).write_volatile(entry);
            }
            return prepare(identity as u32 | sysreg::TTBR0_WALKS, 0);
        }
        copy::clear_early(kernel, 512 * 8);
        copy::clear_early(identity, 4 * 8);
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

/// Sets all registers of the memory management unit but `SCTLR`.
///
/// # Safety
/// `user` and `kernel` are what the table registers are to hold.
#[inline(always)]
unsafe fn prepare(user: u32, kernel: u32) {
    // SAFETY: as the caller promises.
    unsafe {
        if mmu::SHORT {
            write!(TTBCR, 0u32);
            write!(TTBR0, user);
            write!(DACR, mmu::OPEN);
        } else {
            write!(MAIR0, sysreg::MAIR0);
            write!(MAIR1, 0u32);
            write!(TTBCR, sysreg::TTBCR);
            write64!(TTBR0_64, user.into());
            write64!(TTBR1_64, kernel.into());
        }
        sysreg::full_barrier();
        write!(TLBIALL, 0u32);
        write!(ICIALLU, 0u32);
        write!(BPIALL, 0u32);
        sysreg::full_barrier();
        sysreg::isb();
    }
}

/// The boot CPU on the early tables and its stack: zeroes `.bss`, and goes on in `boot`.
unsafe extern "C" fn primary(offset: usize, devicetree: usize) -> ! {
    let start = &raw const __bss_start as usize;
    // SAFETY: nobody has used it yet; this stack is not in it.
    unsafe { copy::clear_early(start, &raw const __bss_end as usize - start) };
    let image = (&raw const __image_start as usize).wrapping_add(offset);
    super::boot::primary(devicetree as u64, image as u64)
}
