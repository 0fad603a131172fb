//! Starting the other CPUs: INIT, then start-up interrupts that name a page below 1 MiB. The code there goes
//! from real mode to the kernel's map by way of tables that map that one page (read and execute only) besides
//! the kernel.

use super::cpu::write_cr3;
use super::kmap::image_phys;
use super::mmu::{self, phys_to_virt};
use super::pvh::TRAMPOLINE;
use super::{apic, boot, cpu, descriptor, fpu, irq, smp, time, tlb};
use crate::mm::{KernelStack, PhysAddr};
use crate::sched::cpu::CpuLocal;
use core::arch::global_asm;
use core::sync::atomic::{AtomicUsize, Ordering};
use limen_linux_abi::Errno;

global_asm!(
    r#"
.pushsection .rodata.x86_trampoline, "a"
.balign 8
.globl x86_trampoline, x86_trampoline_root, x86_trampoline_end
x86_trampoline:
.code16
    cli
    cld
    xorw %ax, %ax
    movw %ax, %ds
    lgdtl {at} + tramp_gdtr - x86_trampoline
    movl %cr0, %eax
    orl $1, %eax
    movl %eax, %cr0
    ljmpl $0x08, ${at} + tramp_32 - x86_trampoline
.code32
tramp_32:
    movl $0x10, %eax
    movl %eax, %ds
    movl %eax, %ss
    movl %cr4, %eax
    orl $0x20, %eax
    movl %eax, %cr4
    movl {at} + x86_trampoline_root - x86_trampoline, %eax
    movl %eax, %cr3
    movl ${efer}, %ecx
    rdmsr
    orl $0x900, %eax
    wrmsr
    movl %cr0, %eax
    orl $0x80010000, %eax
    movl %eax, %cr0
    ljmpl $0x18, ${at} + tramp_64 - x86_trampoline
.code64
tramp_64:
    movq ${stack}, %rax
    movq (%rax), %rsp
    xorl %ebp, %ebp
    movq ${main}, %rax
    callq *%rax
    ud2
.balign 8
tramp_gdt:
    .quad 0, 0x00cf9b000000ffff, 0x00cf93000000ffff, 0x00af9b000000ffff
tramp_gdtr:
    .word 31
    .long {at} + tramp_gdt - x86_trampoline
x86_trampoline_root:
    .long 0
x86_trampoline_end:
.popsection
"#,
    at = const TRAMPOLINE,
    efer = const cpu::MSR_EFER,
    stack = sym STACK,
    main = sym secondary_main,
    options(att_syntax)
);

unsafe extern "C" {
    static x86_trampoline: u8;
    static x86_trampoline_root: u8;
    static x86_trampoline_end: u8;
}

/// For the CPU being started: its stack, its block, its emergency stacks. Zero `LOCAL`: it has taken them.
static STACK: AtomicUsize = AtomicUsize::new(0);
static LOCAL: AtomicUsize = AtomicUsize::new(0);
static IST: AtomicUsize = AtomicUsize::new(0);

/// Copies the code into place and builds its tables, in the pages the boot tables took.
fn prepare() -> u32 {
    const PRESENT: u64 = 1;
    const WRITE: u64 = 2;
    let tables = boot::spare_tables();
    let root = image_phys(tables as usize);
    // SAFETY: the boot tables are not in use any more, nor is the reserved trampoline page; all is mapped
    // writable where it is written.
    unsafe {
        let table = |n: usize| tables.add(n * 4096).cast::<u64>();
        tables.write_bytes(0, 4 * 4096);
        mmu::init_user_root(PhysAddr::new(root));
        for n in 0..3 {
            table(n).write((root + (n as u64 + 1) * 4096) | PRESENT | WRITE);
        }
        table(3)
            .add(TRAMPOLINE as usize >> 12)
            .write(TRAMPOLINE | PRESENT);
        let code = &raw const x86_trampoline;
        let len = (&raw const x86_trampoline_end).offset_from(code) as usize;
        let to = phys_to_virt(PhysAddr::new(TRAMPOLINE));
        core::ptr::copy_nonoverlapping(code, to, len);
        let root_at = (&raw const x86_trampoline_root).offset_from(code) as usize;
        to.add(root_at).cast::<u32>().write_unaligned(root as u32);
    }
    (TRAMPOLINE >> 12) as u32
}

/// Starts CPU `cpu`: it runs on `stack_top` with `local` as its block and calls
/// [`crate::arch::above::secondary`]. One at a time; returns when it is on its way.
pub fn start(cpu: usize, local: &'static CpuLocal, stack_top: usize) -> Result<(), Errno> {
    const MILLISECOND: u64 = 1_000_000;
    if cpu >= smp::count() {
        return Err(Errno::ENODEV);
    }
    let page = prepare();
    let emergency = KernelStack::new().ok_or(Errno::ENOMEM)?;
    const _: () = assert!(descriptor::IST_COUNT * descriptor::IST_STACK <= 1 << crate::mm::STACK_SHIFT);
    IST.store(
        emergency.top() - descriptor::IST_COUNT * descriptor::IST_STACK,
        Ordering::Relaxed,
    );
    core::mem::forget(emergency);
    STACK.store(stack_top, Ordering::Relaxed);
    LOCAL.store(core::ptr::from_ref(local) as usize, Ordering::Release);
    let taken = |within: u64| {
        let until = time::now_ns() + within;
        while LOCAL.load(Ordering::Acquire) != 0 && time::now_ns() < until {
            irq::spin_hint();
        }
        LOCAL.load(Ordering::Acquire) == 0
    };
    let id = smp::apic_id(cpu);
    apic::send(id, apic::ICR_INIT);
    apic::send(id, apic::ICR_STARTUP | page);
    // A second one, should the first have been lost; a running CPU ignores it.
    if taken(10 * MILLISECOND) {
        return Ok(());
    }
    apic::send(id, apic::ICR_STARTUP | page);
    if taken(1000 * MILLISECOND) {
        Ok(())
    } else {
        Err(Errno::ETIMEDOUT)
    }
}

/// The first Rust code of a CPU other than the boot CPU: on its idle stack, interrupts off.
extern "C" fn secondary_main() -> ! {
    let local = LOCAL.load(Ordering::Acquire) as *const CpuLocal;
    // SAFETY: the starter made `local` and the emergency stacks for this CPU; the kernel's map is the one in
    // use, less the trampoline.
    unsafe {
        write_cr3(mmu::kernel_root().as_u64());
        cpu::enable();
        descriptor::load(local, IST.load(Ordering::Relaxed));
    }
    fpu::init();
    apic::enable();
    time::start_cpu();
    tlb::set_online(smp::cpu_id());
    LOCAL.store(0, Ordering::Release);
    crate::arch::above::secondary()
}
