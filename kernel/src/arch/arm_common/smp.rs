//! Starting CPUs, by the firmware (PSCI) or in the board's own way.

use super::cpus::{self, START};
use super::{board, cpu, devicetree, entry, interrupt, kmap, mmu, psci, sysreg, time};
use crate::mm::KernelStack;
use crate::sched::cpu::CpuLocal;
use core::sync::atomic::Ordering;
use limen_linux_abi::Errno;

pub use cpus::{count, cpu_data, cpu_id, cpu_local, current, current_again, set_current};

/// The boot CPU's interrupt stack, and the CPUs the devicetree names, the boot CPU first. Heap working, no
/// interrupt yet.
pub(super) fn init() {
    let Some(stack) = KernelStack::new() else {
        panic!("no memory for an interrupt stack")
    };
    // SAFETY: as said above.
    unsafe { cpus::init_irq_stack(stack.top()) }
    core::mem::forget(stack);
    cpus::note(|each| devicetree::cpus(each));
    board::init();
}

/// Starts CPU `cpu`: it runs on `stack_top` with `local` as its block and calls
/// [`crate::arch::above::secondary`].
/// Returns when it has begun.
pub fn start(cpu: usize, local: &'static CpuLocal, stack_top: usize) -> Result<(), Errno> {
    START.stack_top.store(stack_top, Ordering::Relaxed);
    START
        .local
        .store(core::ptr::from_ref(local).cast_mut(), Ordering::Release);
    START.publish();
    // It begins where the boot CPU did: with the image's first instruction.
    let entry = kmap::image_to_phys(mmu::IMAGE_BASE);
    if !board::start(cpu, entry) {
        psci::cpu_on(cpus::mpidr(cpu), entry, 0)?;
    }
    let deadline = time::now_ns() + 1_000_000_000;
    while !START.local.load(Ordering::Acquire).is_null() {
        if time::now_ns() > deadline {
            return Err(Errno::ETIMEDOUT);
        }
        core::hint::spin_loop();
    }
    Ok(())
}

/// A secondary CPU's first function where the kernel is linked: on its idle stack, interrupts off, on the
/// kernel map.
pub(super) extern "C" fn secondary(local: *const CpuLocal) -> ! {
    if !cpu::fits() {
        // The starter says that it did not come.
        loop {
            core::hint::spin_loop();
        }
    }
    START.local.store(core::ptr::null_mut(), Ordering::Release);
    sysreg::set_local(local);
    // SAFETY: the thread is from this CPU's own block, which the starter filled in.
    unsafe { sysreg::set_thread((*local).current) }
    mmu::switch_to_kernel();
    // The identity map must not stay in the TLB.
    sysreg::flush_own();
    entry::init_cpu();
    cpu::init();
    interrupt::init_cpu();
    crate::arch::above::secondary()
}
