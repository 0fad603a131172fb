//! Early entry by the PVH protocol: from 32-bit code without paging to [`crate::arch::above::start`] on the
//! final kernel map.

use super::{acpi, apic, console, cpu, descriptor, fpu, kmap, pvh, smp, time, uaccess};
use crate::mm::BootInfo;
use core::arch::global_asm;

/// Bytes of the boot stack, which becomes the boot CPU's idle stack: as large as any other kernel stack.
const BOOT_STACK: usize = 1 << crate::mm::STACK_SHIFT;

// QEMU loads the image to its physical addresses and clears what follows the file's contents; EBX holds the
// start info. The boot tables map the first 4 GiB at 0 and the first GiB at KERNEL_BASE; nothing of them
// survives `kmap::build`, except as the trampoline's tables (`smp`).
global_asm!(
    r#"
.pushsection .note.Xen, "a", @note
    .balign 4
    .long 4, 8, 18
    .asciz "Xen"
    .quad pvh_start - {base}
.popsection

.pushsection .bss.page_aligned, "aw", @nobits
.balign 4096
.globl boot_stack_guard, x86_boot_tables
boot_stack_guard:
    .skip 4096
boot_stack:
    .skip {stack}
boot_stack_top:
x86_boot_tables:
boot_pml4:
    .skip 4096
boot_pdpt_low:
    .skip 4096
boot_pdpt_high:
    .skip 4096
boot_pd:
    .skip 4 * 4096
.popsection

.pushsection .head.text, "ax"
.balign 8
boot_gdt:
    .quad 0, 0, 0x00af9b000000ffff, 0x00cf93000000ffff
boot_gdt_pointer:
    .word 31
    .long boot_gdt - {base}

.code32
.globl pvh_start
.type pvh_start, @function
pvh_start:
    cli
    cld
    mov ebp, ebx
    mov esp, offset boot_stack_top - {base}
    mov edi, offset boot_pml4 - {base}
    mov eax, offset boot_pdpt_low - {base} + 3
    mov [edi], eax
    add eax, 4096
    mov [edi + 4088], eax
    mov edi, offset boot_pdpt_low - {base}
    mov eax, offset boot_pd - {base} + 3
    mov [edi + 4096 + 510 * 8], eax
    mov ecx, 4
7:  mov [edi], eax
    add edi, 8
    add eax, 4096
    loop 7b
    mov edi, offset boot_pd - {base}
    mov eax, 0x83
    mov ecx, 2048
2:  mov [edi], eax
    add edi, 8
    add eax, 0x200000
    loop 2b
    mov eax, cr4
    or eax, 0x20
    mov cr4, eax
    mov eax, offset boot_pml4 - {base}
    mov cr3, eax
    mov ecx, {efer}
    rdmsr
    or eax, 0x100
    wrmsr
    mov eax, cr0
    or eax, 0x80010000
    mov cr0, eax
    mov eax, offset boot_gdt_pointer - {base}
    lgdt [eax]
    push 0x10
    mov eax, offset long_start - {base}
    push eax
    retf
.size pvh_start, . - pvh_start

.code64
.type long_start, @function
long_start:
    mov eax, 0x18
    mov ds, eax
    mov es, eax
    mov ss, eax
    movabs rsp, offset boot_stack_top
    mov edi, ebp
    xor ebp, ebp
    movabs rax, offset {rust}
    call rax
    ud2
.size long_start, . - long_start
.popsection
"#,
    base = const kmap::KERNEL_BASE,
    stack = const BOOT_STACK,
    efer = const cpu::MSR_EFER,
    rust = sym rust_start,
);

unsafe extern "C" {
    static boot_stack_guard: u8;
    static x86_boot_tables: u8;
}

/// The page below the boot stack, to be left unmapped.
pub fn boot_stack_guard_address() -> usize {
    &raw const boot_stack_guard as usize
}

/// Seven pages below 4 GiB (physically) that nobody uses once the final map is live.
pub fn spare_tables() -> *mut u8 {
    (&raw const x86_boot_tables).cast_mut()
}

/// The boot CPU's first Rust code. Nothing is behind it but the boot tables.
extern "C" fn rust_start(start_info: u32) -> ! {
    // SAFETY: first thing on the boot CPU, interrupts off, once.
    unsafe {
        smp::init_boot_cpu();
        cpu::detect();
        cpu::enable();
        descriptor::init_idt();
        smp::load_boot_tables();
    }
    console::init();
    // SAFETY: the boot tables still map the first 4 GiB at 0, and the image writable.
    let mut info = unsafe {
        uaccess::init();
        pvh::parse(start_info as usize)
    };
    fpu::init();
    // SAFETY: the tables ACPI leads to lie below 4 GiB, which the boot tables still map.
    unsafe { acpi::parse(info.rsdp) };
    // The boot tables map the local APIC at its physical address.
    apic::init(acpi::machine().local_apic as usize);
    apic::enable();
    time::calibrate();
    // SAFETY: once, on the boot CPU.
    unsafe { kmap::build(&mut info) };
    crate::arch::above::start(&BootInfo {
        memory: info.memory(),
        reserved: info.reserved(),
        initrd: info.initrd,
        command_line: pvh::command_line(),
    })
}
