//! What the portable rooms ask about CPUs, and how those other than the boot CPU are started: INIT, then
//! start-up interrupts that name a page below 1 MiB. The code there (`head`) goes on in the image, on tables
//! that map one page of it (read and execute only) where it is physically, and the kernel.

pub use super::cpus::{count, cpu_data, cpu_id, cpu_local, current, current_again};

use super::cpu::{self, EFER_LME, EFER_NXE};
use super::descriptor::{self, EmergencyStacks};
use super::head::{self, START};
use super::kernel_map::image_phys;
use super::mmu::{self, PAGE_SHIFT, PRESENT, TABLE_SHIFT, WRITE, phys_to_virt};
use super::pvh::TRAMPOLINE;
use super::{apic, cpus, debug, fpu, irq, tables, time, tlb};
use crate::mm::{KernelStack, PAGE_SIZE, PhysAddr};
use crate::sched::cpu::CpuLocal;
use crate::task::ThreadInfo;
use core::arch::asm;
use core::mem::offset_of;
use core::sync::atomic::{AtomicUsize, Ordering};
use limen_linux_abi::Errno;

/// Makes `thread` the running thread of this CPU (the context switch, and boot). `kernel_stack_top` is where
/// entries from user mode start.
///
/// # Safety
/// Interrupts are off, and the caller runs (or is about to run) on that thread's stack.
#[inline(always)]
pub unsafe fn set_current(thread: *const ThreadInfo, kernel_stack_top: usize) {
    let top = kernel_stack_top - fpu::area_size();
    // SAFETY: GS points to this CPU's block, which only this CPU changes, with interrupts off.
    unsafe {
        asm!(
            "mov gs:[{}], {}", const offset_of!(CpuLocal, current), in(reg) thread,
            options(nostack, preserves_flags),
        );
        asm!(
            "mov gs:[{}], {}", const offset_of!(CpuLocal, kernel_stack_top), in(reg) top,
            options(nostack, preserves_flags),
        );
        tables::set_kernel_stack(cpu_id(), top);
    }
}

/// For the CPU that is being started: its block, its emergency stacks. Zero `LOCAL`: it has taken them.
static LOCAL: AtomicUsize = AtomicUsize::new(0);
static EMERGENCY: AtomicUsize = AtomicUsize::new(0);

/// Copies the first code to the page for it and makes the tables, in the memory of those the boot CPU began
/// with. Returns the root (physical).
fn prepare() -> u64 {
    let passage = image_phys(head::passage()) & !(PAGE_SIZE as u64 - 1);
    let tables = (&raw const head::TABLES).cast::<u8>().cast_mut();
    let root = image_phys(tables as usize);
    // SAFETY: the first tables are not in use any more, nor is the reserved page below 1 MiB; all is mapped
    // writable where it is written.
    unsafe {
        let entry = |table: usize, level: usize| {
            let index = passage as usize >> (PAGE_SHIFT + TABLE_SHIFT * level) & ((1 << TABLE_SHIFT) - 1);
            tables.add(table * PAGE_SIZE).cast::<u64>().add(index)
        };
        tables.write_bytes(0, 4 * PAGE_SIZE);
        mmu::init_user_root(PhysAddr::new(root));
        for n in 0..3 {
            entry(n, 3 - n).write((root + ((n + 1) * PAGE_SIZE) as u64) | PRESENT | WRITE);
        }
        entry(3, 0).write(passage | PRESENT);
        let (code, len) = head::trampoline();
        core::ptr::copy_nonoverlapping(code, phys_to_virt(PhysAddr::new(TRAMPOLINE)), len);
    }
    root
}

/// Starts CPU `cpu`: it runs on `stack_top` with `local` as its block and calls
/// [`crate::arch::above::secondary`]. One at a time; returns when it is on its way.
pub fn start(
    cpu: usize,
    local: &'static CpuLocal,
    stack_top: usize,
    _before_alone: fn() -> Result<(), Errno>,
) -> Result<(), Errno> {
    const MILLISECOND: u64 = 1_000_000;
    if cpu >= count() {
        return Err(Errno::ENODEV);
    }
    let emergency = KernelStack::new().ok_or(Errno::ENOMEM)?;
    const _: () = assert!(size_of::<EmergencyStacks>() <= 1 << crate::mm::STACK_SHIFT);
    EMERGENCY.store(emergency.top() - size_of::<EmergencyStacks>(), Ordering::Relaxed);
    core::mem::forget(emergency);
    START.root.store(prepare() as *mut u8, Ordering::Relaxed);
    START.stack.store(stack_top as *mut u8, Ordering::Relaxed);
    START.main.store(secondary_main as *mut (), Ordering::Relaxed);
    // The kernel's tables have pages that are not executable.
    START.efer.store((EFER_LME | EFER_NXE) as u32, Ordering::Relaxed);
    let local = core::ptr::from_ref(local) as usize;
    LOCAL.store(local, Ordering::Release);
    let taken = |within: u64| {
        let until = time::now_ns() + within;
        while LOCAL.load(Ordering::Acquire) != 0 && time::now_ns() < until {
            irq::spin_hint();
        }
        LOCAL.load(Ordering::Acquire) == 0
    };
    let id = cpus::apic_id(cpu);
    let startup = apic::ICR_STARTUP | (TRAMPOLINE / PAGE_SIZE as u64) as u32;
    apic::send(id, apic::ICR_INIT);
    apic::send(id, startup);
    // A second one, should the first have been lost; a running CPU ignores it.
    if taken(10 * MILLISECOND) {
        return Ok(());
    }
    apic::send(id, startup);
    // From then on it may not begin.
    if !taken(1000 * MILLISECOND) && claim(local) {
        Err(Errno::ETIMEDOUT)
    } else {
        Ok(())
    }
}

/// Ends a start: only one of the CPU that comes and its starter can.
fn claim(local: usize) -> bool {
    LOCAL
        .compare_exchange(local, 0, Ordering::AcqRel, Ordering::Relaxed)
        .is_ok()
}

/// The first Rust code of a CPU other than the boot CPU: on its idle stack, interrupts off.
extern "C" fn secondary_main() -> ! {
    let local = LOCAL.load(Ordering::Acquire);
    let emergency = EMERGENCY.load(Ordering::Relaxed) as *mut EmergencyStacks;
    if local == 0 || !claim(local) {
        // The starter waits no more. Nothing may be used here: this CPU is not told of changes of the map.
        loop {
            irq::spin_hint();
        }
    }
    let local = local as *const CpuLocal;
    // SAFETY: the starter made `local` and the emergency stacks for this CPU; the kernel's map is the one in
    // use, less the page it came by.
    unsafe {
        cpu::write_cr3(mmu::kernel_root().as_u64());
        cpu::enable();
        descriptor::load(local, emergency);
    }
    fpu::init();
    debug::init();
    apic::enable();
    time::start_cpu();
    tlb::set_online(cpu_id());
    crate::arch::above::secondary()
}
