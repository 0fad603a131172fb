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
/// Returns when it has begun. Errors but `ETIMEDOUT`: it came, and the kernel's map cannot be such that it
/// may use it.
pub fn start(
    cpu: usize,
    local: &'static CpuLocal,
    stack_top: usize,
    before_alone: fn() -> Result<(), Errno>,
) -> Result<(), Errno> {
    START.stack_top.store(stack_top, Ordering::Relaxed);
    let local = core::ptr::from_ref(local).cast_mut();
    START.local.store(local, Ordering::Release);
    START.publish();
    // It begins where the boot CPU did: with the image's first instruction.
    let entry = kmap::image_to_phys(mmu::IMAGE_BASE);
    if !board::start(cpu, entry) {
        psci::cpu_on(cpus::mpidr(cpu), entry, 0)?;
    }
    let mut refused = Errno::ETIMEDOUT;
    let soon = || time::now_ns() + 1_000_000_000;
    let mut deadline = soon();
    while time::now_ns() < deadline && !START.local.load(Ordering::Acquire).is_null() {
        core::hint::spin_loop();
        match cpu::receive(cpu, before_alone) {
            Ok(true) => deadline = soon(),
            Ok(false) => {}
            Err(errno) => {
                refused = errno;
                break;
            }
        }
    }
    // From here on it may not begin.
    if claim(local) { Err(refused) } else { Ok(()) }
}

/// Ends a start: only one of the CPU that comes and its starter can.
fn claim(local: *mut CpuLocal) -> bool {
    let none = core::ptr::null_mut();
    START
        .local
        .compare_exchange(local, none, Ordering::AcqRel, Ordering::Relaxed)
        .is_ok()
}

/// A secondary CPU's first function where the kernel is linked: on its idle stack, interrupts off, on the
/// kernel map.
pub(super) extern "C" fn secondary(local: *const CpuLocal) -> ! {
    cpu::arrive();
    // It finds none if its starter has given up before.
    if local.is_null() || !claim(local.cast_mut()) {
        // The starter waits no more. Nothing may be used here: changes of the map do not wait for this CPU.
        loop {
            core::hint::spin_loop();
        }
    }
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
