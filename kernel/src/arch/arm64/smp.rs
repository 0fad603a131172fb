//! CPUs: this CPU's local block (`TPIDR_EL1`), the running thread (`SP_EL0` while in the kernel), starting the others through PSCI.

use super::{cpu, kmap, psci, sysreg};
use crate::sched::{CpuData, cpu::CpuLocal};
use crate::sync::MAX_CPUS;
use crate::task::ThreadInfo;
use core::arch::asm;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use limen_linux_abi::Errno;

/// The boot CPU's block and its thread until the scheduler has made proper ones.
static mut BOOT_LOCAL: CpuLocal = CpuLocal {
    this: &raw const BOOT_LOCAL,
    current: &raw const BOOT_THREAD,
    kernel_stack_top: 0,
    scratch: [0; 4],
    irq_stack_top: 0,
    id: 0,
    data: core::ptr::null(),
    lent: [0; 4],
};
static BOOT_THREAD: ThreadInfo = ThreadInfo::new();

/// CPUs of the machine.
static COUNT: AtomicUsize = AtomicUsize::new(1);
/// The affinity fields of each CPU's `MPIDR_EL1`.
static MPIDR: [AtomicU64; MAX_CPUS] = [const { AtomicU64::new(0) }; MAX_CPUS];

/// What a secondary CPU finds (`head::secondary_entry`).
#[repr(C)]
struct Start {
    stack_top: usize,
    local: *const CpuLocal,
}

/// The affinity bits of `MPIDR_EL1`.
const AFFINITY: u64 = 0xff_00ff_ffff;

/// The boot CPU's block and thread. The first thing Rust does.
pub(super) fn init_boot_cpu() {
    set_local(&raw const BOOT_LOCAL);
    // SAFETY: interrupts are off, and this is the boot stack.
    unsafe { set_current(&raw const BOOT_THREAD, 0) }
    MPIDR[0].store(sysreg::read!("mpidr_el1") & AFFINITY, Ordering::Relaxed);
}

fn set_local(local: *const CpuLocal) {
    // SAFETY: the register is ours, and `local` lives for good.
    unsafe { asm!("msr tpidr_el1, {}", in(reg) local, options(nostack, preserves_flags)) }
}

/// The boot CPU's interrupt stack, and the CPUs the devicetree names, the boot CPU first. Heap working, no interrupt yet.
pub(super) fn init() {
    let Some(stack) = crate::mm::KernelStack::new() else {
        panic!("no memory for an interrupt stack")
    };
    // SAFETY: the boot CPU's own block; nothing uses the field before interrupts go on.
    unsafe { BOOT_LOCAL.irq_stack_top = stack.top() }
    core::mem::forget(stack);
    let boot = MPIDR[0].load(Ordering::Relaxed);
    let count = super::devicetree::cpus(|count, id| {
        if id & AFFINITY == boot || count >= MAX_CPUS {
            return false;
        }
        MPIDR[count].store(id & AFFINITY, Ordering::Relaxed);
        true
    });
    COUNT.store(count, Ordering::Release);
}

/// The affinity of CPU `cpu`.
pub(super) fn mpidr(cpu: usize) -> u64 {
    MPIDR[cpu].load(Ordering::Relaxed)
}

/// This CPU's local block. The caller must not be migrated while it uses it (interrupts or preemption off).
#[inline(always)]
pub fn cpu_local() -> *const CpuLocal {
    let local;
    // SAFETY: only reads the register.
    unsafe { asm!("mrs {}, tpidr_el1", out(reg) local, options(nomem, nostack, preserves_flags)) }
    local
}

/// This CPU's number; stable only while preemption is off.
#[inline(always)]
pub fn cpu_id() -> usize {
    // SAFETY: the block lives for good, and its number never changes. CPUs beyond the limit are not started.
    unsafe {
        let id = (*cpu_local()).id;
        core::hint::assert_unchecked(id < MAX_CPUS);
        id
    }
}

/// What the scheduler has for this CPU; null until it works. The caller must not be migrated while it uses it.
#[inline(always)]
pub fn cpu_data() -> *const CpuData {
    // SAFETY: the block is this CPU's and always there.
    unsafe { (*cpu_local()).data }
}

/// The running thread's info, the first field of its `Task`. Always valid, from the first Rust line on.
#[inline(always)]
pub fn current() -> *const ThreadInfo {
    let thread;
    // SAFETY: only reads the register. The result is the same whenever the running thread asks, so the compiler may keep it.
    unsafe { asm!("mrs {}, sp_el0", out(reg) thread, options(pure, nomem, nostack, preserves_flags)) }
    thread
}

/// Makes `thread` the running thread of this CPU (the context switch, and boot). `kernel_stack_top` is where entries from user mode start.
///
/// # Safety
/// Interrupts are off, and the caller runs (or is about to run) on that thread's stack.
#[inline(always)]
pub unsafe fn set_current(thread: *const ThreadInfo, kernel_stack_top: usize) {
    let local = cpu_local().cast_mut();
    // SAFETY: this CPU's own block, interrupts off. The entry stub reloads the register from the block.
    unsafe {
        (*local).current = thread;
        (*local).kernel_stack_top = kernel_stack_top;
        asm!("msr sp_el0, {}", in(reg) thread, options(nostack, preserves_flags));
    }
}

/// How many CPUs the machine has (at least 1; the boot CPU is 0).
pub fn count() -> usize {
    COUNT.load(Ordering::Acquire)
}

/// Starts CPU `cpu`: it runs on `stack_top` with `local` as its block and calls [`crate::boot::secondary`]. Returns once the start was requested.
pub fn start(cpu: usize, local: &'static CpuLocal, stack_top: usize) -> Result<(), Errno> {
    unsafe extern "C" {
        fn secondary_entry();
    }
    // Lives until the CPU has read it, which nobody tells: for good.
    let start = alloc::boxed::Box::leak(alloc::boxed::Box::new(Start { stack_top, local }));
    let entry = kmap::image_to_phys(secondary_entry as *const () as usize);
    // SAFETY: a barrier: what the new CPU reads is written before it starts.
    unsafe { asm!("dsb ish", options(nostack, preserves_flags)) }
    psci::cpu_on(mpidr(cpu), entry, core::ptr::from_ref(start) as usize)
}

/// A secondary CPU's first Rust function: on its idle stack, interrupts off, on the kernel map.
pub(super) extern "C" fn secondary(local: *const CpuLocal) -> ! {
    set_local(local);
    // SAFETY: the register is loaded from this CPU's own block, which the starter filled in.
    unsafe { asm!("msr sp_el0, {}", in(reg) (*local).current, options(nostack, preserves_flags)) }
    super::mmu::switch_to_kernel();
    // The identity map must not stay in the TLB.
    // SAFETY: forgetting translations is always allowed.
    unsafe {
        asm!(
            "tlbi vmalle1",
            "dsb nsh",
            "isb",
            options(nostack, preserves_flags)
        )
    }
    cpu::init();
    super::interrupt::init_cpu();
    crate::boot::secondary()
}

/// Turns a machine without firmware off, if this is one.
pub(super) fn board_off() {}

/// Restarts a machine without firmware, if this is one.
pub(super) fn board_reset() {}
