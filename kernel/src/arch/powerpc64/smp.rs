//! Starting CPUs through RTAS.

use super::layout::to_phys;
use super::stack::FIRST;
use super::{cpu, cpus, devicetree, interrupt, irq, rtas, spr, time};
use crate::mm::KernelStack;
use crate::sched::cpu::CpuLocal;
use crate::sync::MAX_CPUS;
use alloc::vec::Vec;
use core::arch::asm;
use core::sync::atomic::{AtomicUsize, Ordering};
use limen_linux_abi::Errno;

pub use cpus::{count, cpu_data, cpu_id, cpu_local, current, current_again, set_current};

/// What a secondary CPU finds (`head::secondary_start`).
#[repr(C)]
pub(super) struct Start {
    /// Its stack pointer.
    pub(super) stack: AtomicUsize,
    /// Its first Rust function.
    pub(super) function: AtomicUsize,
    /// The machine state for that.
    pub(super) msr: AtomicUsize,
    /// The argument.
    pub(super) argument: AtomicUsize,
}

/// Each CPU's, in the image, because firmware passes 32 bits.
static START: [Start; MAX_CPUS] = [const {
    Start {
        stack: AtomicUsize::new(0),
        function: AtomicUsize::new(0),
        msr: AtomicUsize::new(0),
        argument: AtomicUsize::new(0),
    }
}; MAX_CPUS];

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
/// [`crate::arch::above::secondary`]. Returns when it has begun.
pub fn start(
    cpu: usize,
    local: &'static CpuLocal,
    stack_top: usize,
    _before_alone: fn() -> Result<(), Errno>,
) -> Result<(), Errno> {
    unsafe extern "C" {
        fn secondary_start();
    }
    let start = &START[cpu];
    start.stack.store(stack_top - FIRST, Ordering::Relaxed);
    start
        .function
        .store(secondary as *const () as usize, Ordering::Relaxed);
    start.msr.store(spr::MSR_KERNEL, Ordering::Relaxed);
    let local = core::ptr::from_ref(local).addr();
    start.argument.store(local, Ordering::Relaxed);
    let entry = to_phys(secondary_start as *const () as usize);
    let argument = to_phys(core::ptr::from_ref(start).addr());
    // SAFETY: a barrier: what the new CPU reads is written before it starts.
    unsafe { asm!("sync", options(nostack, preserves_flags)) }
    let arguments = [cpus::server(cpu) as u32, entry as u32, argument as u32];
    rtas::call::<1>("start-cpu", &arguments).ok_or(Errno::ENODEV)?;
    let deadline = time::now_ns() + 1_000_000_000;
    while time::now_ns() < deadline && start.argument.load(Ordering::Acquire) != 0 {
        irq::spin_hint();
    }
    // From here on it may not begin.
    if claim(local) {
        Err(Errno::ETIMEDOUT)
    } else {
        Ok(())
    }
}

/// Ends the start of the CPU with this block: only one of the CPU that comes and its starter can.
fn claim(local: usize) -> bool {
    START.iter().any(|start| {
        start
            .argument
            .compare_exchange(local, 0, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    })
}

/// A secondary CPU's first Rust function: on its idle stack, interrupts off, on the kernel map.
extern "C" fn secondary(local: *const CpuLocal) -> ! {
    // It finds none if its starter has given up before.
    if local.is_null() || !claim(local.addr()) {
        // The starter waits no more. Nothing may be used here: changes of the map do not wait for this CPU.
        loop {
            irq::spin_hint();
        }
    }
    cpus::set_local(local);
    cpu::init();
    interrupt::init_cpu();
    crate::arch::above::secondary()
}
