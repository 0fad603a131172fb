//! Starting CPUs through RTAS.

use super::layout::to_phys;
use super::stack::LEAST;
use super::{cpu, cpus, devicetree, interrupt, rtas, spr};
use crate::mm::KernelStack;
use crate::sched::cpu::CpuLocal;
use crate::sync::MAX_CPUS;
use alloc::vec::Vec;
use core::arch::asm;
use core::sync::atomic::{AtomicUsize, Ordering};
use limen_linux_abi::Errno;

pub use cpus::{count, cpu_data, cpu_id, cpu_local, current, set_current};

/// What each secondary CPU finds (`head::secondary_start`): stack pointer, function, machine state and
/// argument. In the image, because firmware passes 32 bits.
static START: [[AtomicUsize; 4]; MAX_CPUS] = [const { [const { AtomicUsize::new(0) }; 4] }; MAX_CPUS];

/// The boot CPU's interrupt stack, and the CPUs the devicetree names, the boot CPU first. Heap working, no
/// interrupt yet.
pub(super) fn init() {
    let Some(stack) = KernelStack::new() else {
        panic!("no memory for an interrupt stack")
    };
    // SAFETY: as said above.
    unsafe { cpus::init_irq_stack(stack.top()) }
    core::mem::forget(stack);
    let mut servers: Vec<usize> = devicetree::cpus()
        .filter_map(|node| {
            // One per thread; threads of a core beyond the first are not used.
            let value = node
                .property("ibm,ppc-interrupt-server#s")
                .or(node.property("reg"))?
                .value;
            Some(devicetree::cell(value, 0)? as usize)
        })
        .collect();
    // QEMU starts the one with the lowest number.
    servers.sort_unstable();
    cpus::note(&servers);
}

/// Starts CPU `cpu`: it runs on `stack_top` with `local` as its block and calls
/// [`crate::arch::above::secondary`]. Returns once the start was requested.
pub fn start(cpu: usize, local: &'static CpuLocal, stack_top: usize) -> Result<(), Errno> {
    unsafe extern "C" {
        fn secondary_start();
    }
    let start = [
        stack_top - LEAST,
        secondary as *const () as usize,
        spr::MSR_KERNEL,
        local as *const _ as usize,
    ];
    for (word, value) in START[cpu].iter().zip(start) {
        word.store(value, Ordering::Relaxed);
    }
    let entry = to_phys(secondary_start as *const () as usize);
    let argument = to_phys(&raw const START[cpu] as usize);
    // SAFETY: a barrier: what the new CPU reads is written before it starts.
    unsafe { asm!("sync", options(nostack, preserves_flags)) }
    let arguments = [cpus::server(cpu) as u32, entry as u32, argument as u32];
    rtas::call::<1>("start-cpu", &arguments).ok_or(Errno::ENODEV)?;
    Ok(())
}

/// A secondary CPU's first Rust function: on its idle stack, interrupts off, on the kernel map.
extern "C" fn secondary(local: *const CpuLocal) -> ! {
    cpus::set_local(local);
    cpu::init();
    interrupt::init_cpu();
    crate::arch::above::secondary()
}
