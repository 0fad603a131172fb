//! Segments, task state and the interrupt descriptor table. Boot and `smp` load them on each CPU;
//! `smp::set_current` keeps the stack in the task state up to date.

use super::cpu::{self, Features, write_register, wrmsr};
use super::frame::{EFLAGS_IF, EFLAGS_IOPL, EFLAGS_NT, EFLAGS_USER, USER_CS, USER_DS};
pub use super::frame::{KERNEL_CS, KERNEL_DS};
use super::tables::{CPU_NUMBER_INDEX, TaskState, tables};
use super::{entry, i386};
use crate::sched::cpu::CpuLocal;
use core::arch::asm;
use core::cell::UnsafeCell;

/// 32-bit code of user mode (`__USER32_CS`), which is also where `sysret` finds its segments.
pub const USER_32_CS: usize = 0x23;
/// Two entries, as the local table's, which come next (`ldt`).
const TSS_SELECTOR: usize = 0x40;

/// A descriptor's bits for user mode (its privilege level, 3).
const FOR_USER: u64 = 3 << 45;
/// The descriptor of the kernel's 32-bit code: it starts at 0 and has no end, as those of the others.
pub const CODE_32: u64 = 0x00cf_9b00_0000_ffff;
/// That of its 64-bit code.
pub const CODE_64: u64 = 0x00af_9b00_0000_ffff;
/// That of its data.
pub const DATA: u64 = 0x00cf_9300_0000_ffff;

/// Stack index in the task state for double faults.
pub const IST_DOUBLE_FAULT: u8 = 1;
/// Stack index for NMIs.
pub const IST_NMI: u8 = 2;
/// Stack index for machine checks.
pub const IST_MACHINE_CHECK: u8 = 3;
/// Stack index for debug exceptions: one that a load of SS put off may come at the first instruction of a
/// system call, on the user's stack.
pub const IST_DEBUG: u8 = 4;

/// A CPU's stacks for what may arrive anywhere.
#[repr(C, align(16))]
pub struct EmergencyStacks([[u8; EMERGENCY_STACK]; EMERGENCY_COUNT]);

const EMERGENCY_STACK: usize = 8192;
/// One for each of the indices above.
const EMERGENCY_COUNT: usize = 4;

struct BootStacks(UnsafeCell<EmergencyStacks>);

// SAFETY: only the boot CPU's entry code uses them, one at a time each.
unsafe impl Sync for BootStacks {}

static BOOT_STACKS: BootStacks = BootStacks(UnsafeCell::new(EmergencyStacks(
    [[0; EMERGENCY_STACK]; EMERGENCY_COUNT],
)));

/// Those of the boot CPU.
pub fn boot_stacks() -> *mut EmergencyStacks {
    BOOT_STACKS.0.get()
}

#[repr(C, packed)]
struct Pointer {
    limit: u16,
    base: u64,
}

/// Fills and loads this CPU's segments, task state, interrupt table and system call registers, and makes
/// `local` its block.
///
/// # Safety
/// Once per CPU, interrupts off. `local` belongs to this CPU; nobody else uses `stacks`.
pub unsafe fn load(local: *const CpuLocal, stacks: *mut EmergencyStacks) {
    // SAFETY: `local` is valid by contract.
    let cpu = unsafe { (*local).id };
    let t = tables(cpu);
    // SAFETY: the element is this CPU's alone; everything loaded points to memory that lives for ever.
    unsafe {
        let tss = &raw mut (*t).tss;
        for n in 0..EMERGENCY_COUNT {
            // The paranoid entry finds this CPU's block just above the frame, whatever GS holds (see
            // entry.rs).
            let top = (&raw mut (*stacks).0[n]).add(1).cast::<usize>().sub(2);
            top.write(local as usize);
            let ist = (&raw mut (*tss).ist).cast::<u64>();
            ist.add(n).write_unaligned(top as u64);
        }
        let tss_addr = tss as u64;
        let tss_limit = size_of::<TaskState>() as u64 - 1;
        let gdt = &mut (*t).gdt;
        gdt[KERNEL_CS / 8] = CODE_64;
        gdt[KERNEL_DS / 8] = DATA;
        gdt[USER_32_CS / 8] = CODE_32 | FOR_USER;
        gdt[USER_DS / 8] = DATA | FOR_USER;
        gdt[USER_CS / 8] = CODE_64 | FOR_USER;
        gdt[TSS_SELECTOR / 8] =
            tss_limit | (tss_addr & 0x00ff_ffff) << 16 | 0x89 << 40 | (tss_addr >> 24 & 0xff) << 56;
        gdt[TSS_SELECTOR / 8 + 1] = tss_addr >> 32;
        // Expand-up data, byte limit = CPU number, readable from user mode.
        gdt[CPU_NUMBER_INDEX] = 0x0040_f500_0000_0000 | cpu as u64;
        let gdtr = Pointer {
            limit: size_of::<[u64; 16]>() as u16 - 1,
            base: gdt.as_ptr() as u64,
        };
        // A far return loads CS.
        asm!(
            "lgdt [{gdtr}]",
            "push {cs}",
            "lea {to}, [rip + 2f]",
            "push {to}",
            "retfq",
            "2:",
            gdtr = in(reg) &raw const gdtr,
            cs = const KERNEL_CS,
            to = out(reg) _,
        );
        write_register!("ss", KERNEL_DS);
        write_register!("ds", 0);
        write_register!("es", 0);
        write_register!("fs", 0);
        write_register!("gs", 0);
        asm!("lldt {:x}", in(reg) 0, options(nostack, preserves_flags));
        asm!("ltr {:x}", in(reg) TSS_SELECTOR, options(nostack, preserves_flags));
        let idtr = Pointer {
            limit: size_of::<[Gate; 256]>() as u16 - 1,
            base: IDT.0.get() as u64,
        };
        asm!("lidt [{}]", in(reg) &raw const idtr, options(readonly, nostack, preserves_flags));
        // Loading a selector into GS cleared its base.
        wrmsr(cpu::MSR_GS_BASE, local as u64);
        wrmsr(cpu::MSR_KERNEL_GS_BASE, 0);
        wrmsr(cpu::MSR_FS_BASE, 0);
        wrmsr(
            cpu::MSR_STAR,
            (USER_32_CS as u64) << 48 | (KERNEL_CS as u64) << 32,
        );
        wrmsr(cpu::MSR_LSTAR, entry::syscall_entry_address() as u64);
        // 32-bit code has no system calls: `syscall`, where the processor knows it there, says so, and
        // `sysenter` faults without a segment to enter by.
        wrmsr(cpu::MSR_CSTAR, entry::no_call_address() as u64);
        wrmsr(cpu::MSR_SYSENTER_CS, 0);
        // Everything user space could set that would harm the kernel, and the direction and trap flags.
        wrmsr(
            cpu::MSR_FMASK,
            (EFLAGS_USER | EFLAGS_IF | EFLAGS_IOPL | EFLAGS_NT) as u64,
        );
        if cpu::has(Features::RDTSCP) {
            wrmsr(cpu::MSR_TSC_AUX, cpu as u64);
        }
    }
}

#[derive(Clone, Copy)]
#[repr(C)]
struct Gate {
    low: u64,
    high: u64,
}

#[repr(C, align(4096))]
struct Idt(UnsafeCell<[Gate; 256]>);

// SAFETY: written once, by the boot CPU before interrupts; read by processors afterwards (and mapped
// read-only).
unsafe impl Sync for Idt {}

#[unsafe(link_section = ".ro_after_init")]
static IDT: Idt = Idt(UnsafeCell::new([Gate { low: 0, high: 0 }; 256]));

/// Fills the interrupt table, shared by all CPUs. Boot CPU, before the final kernel map makes it read-only.
pub fn init_idt() {
    for vector in 0..256usize {
        let ist = match vector {
            1 => IST_DEBUG,
            2 => IST_NMI,
            8 => IST_DOUBLE_FAULT,
            18 => IST_MACHINE_CHECK,
            _ => 0,
        };
        // Only the breakpoint instructions may be used from user mode, and what `open_to_user` lets.
        let dpl = if vector == 3 || vector == 4 { 3 } else { 0 };
        let address = match vector {
            i386::VECTOR => entry::compat_entry_address(),
            _ => entry::stub_address(vector),
        } as u64;
        let attributes = 0x8e00 | (dpl << 13) | u64::from(ist);
        let gate = Gate {
            low: (address & 0xffff)
                | (KERNEL_CS as u64) << 16
                | attributes << 32
                | (address >> 16 & 0xffff) << 48,
            high: address >> 32,
        };
        // SAFETY: only this CPU runs, and the index is below 256.
        unsafe { IDT.0.get().cast::<Gate>().add(vector).write(gate) };
    }
}

/// Lets user mode use the vector by `int`. Boot CPU, before the final kernel map makes the table read-only.
pub fn open_to_user(vector: usize) {
    assert!(vector < 256);
    // SAFETY: only this CPU runs, and the index is below 256. (No interrupt comes by this vector yet.)
    unsafe { (*IDT.0.get().cast::<Gate>().add(vector)).low |= FOR_USER };
}
