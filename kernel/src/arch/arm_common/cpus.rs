//! The CPUs: which there are, the block of this one, the thread that it runs, and what a CPU that starts has
//! to know. How they are started is `smp`'s.

use super::sysreg::{self, AFFINITY};
use crate::sched::{CpuData, cpu::CpuLocal};
use crate::sync::MAX_CPUS;
use crate::task::ThreadInfo;
use core::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use limen_rcu::Presence;

/// The boot CPU's block until the scheduler has made a proper one.
static mut BOOT_LOCAL: CpuLocal = CpuLocal {
    this: &raw const BOOT_LOCAL,
    current: core::ptr::null(),
    kernel_stack_top: 0,
    scratch: [0; 4],
    irq_stack_top: 0,
    id: 0,
    data: core::ptr::null(),
    float_owner: core::ptr::null(),
    presence: Presence::new(),
    lent: [0; 4],
};

/// CPUs of the machine.
static COUNT: AtomicUsize = AtomicUsize::new(1);
/// The affinity fields of each CPU's `MPIDR`.
static MPIDR: [AtomicU64; MAX_CPUS] = [const { AtomicU64::new(0) }; MAX_CPUS];

/// What CPUs find when they start (`head::start`), before their caches are on. CPUs start one at a time: each
/// sets `local` to null when it has read everything.
#[repr(C, align(32))]
pub(super) struct Start {
    /// The physical address of the kernel's table; zero until it is made.
    pub(super) table: AtomicUsize,
    /// The block of the CPU that starts.
    pub(super) local: AtomicPtr<CpuLocal>,
    /// Where its stack begins.
    pub(super) stack_top: AtomicUsize,
}

// Not in `.bss`: the boot CPU reads it before that is zeroed.
#[unsafe(link_section = ".data.start")]
pub(super) static START: Start = Start {
    table: AtomicUsize::new(0),
    local: AtomicPtr::new(core::ptr::null_mut()),
    stack_top: AtomicUsize::new(0),
};

impl Start {
    /// Writes it to memory, where a CPU whose caches are off finds it.
    pub(super) fn publish(&self) {
        sysreg::clean(core::ptr::from_ref(self).addr());
        sysreg::full_barrier();
    }
}

/// The boot CPU's block, and the thread that boots. The first thing Rust does where the kernel is linked.
pub(super) fn init_boot(thread: *const ThreadInfo) {
    sysreg::set_local(&raw const BOOT_LOCAL);
    // SAFETY: interrupts are off, and this is the boot stack.
    unsafe { set_current(thread, 0) }
    MPIDR[0].store(sysreg::affinity(), Ordering::Relaxed);
}

/// The boot CPU's interrupt stack.
///
/// # Safety
/// Interrupts are still off.
pub(super) unsafe fn init_irq_stack(top: usize) {
    // SAFETY: the boot CPU's own block; nothing uses the field before interrupts go on.
    unsafe { BOOT_LOCAL.irq_stack_top = top }
}

/// Notes the affinities of all CPUs, of which the boot CPU is the first whatever the order.
pub(super) fn note(each: impl FnOnce(&mut dyn FnMut(usize, u64) -> bool) -> usize) {
    let boot = MPIDR[0].load(Ordering::Relaxed);
    let count = each(&mut |count, id| {
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
    sysreg::local()
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

/// What the scheduler has for this CPU; null until it works. The caller must not be migrated while it uses
/// it.
#[inline(always)]
pub fn cpu_data() -> *const CpuData {
    // SAFETY: the block is this CPU's and always there.
    unsafe { (*cpu_local()).data }
}

/// The running thread's info, the first field of its `Task`. Always valid, from the first Rust line on.
#[inline(always)]
pub fn current() -> *const ThreadInfo {
    sysreg::thread()
}

/// The same. Registers are saved in pairs, so the compiler may as well keep it.
#[inline(always)]
pub fn current_again() -> *const ThreadInfo {
    current()
}

/// Makes `thread` the running thread of this CPU (the context switch, and boot). `kernel_stack_top` is where
/// entries from user mode start.
///
/// # Safety
/// Interrupts are off, and the caller runs (or is about to run) on that thread's stack.
#[inline(always)]
pub unsafe fn set_current(thread: *const ThreadInfo, kernel_stack_top: usize) {
    let local = cpu_local().cast_mut();
    // SAFETY: this CPU's own block, interrupts off.
    unsafe {
        (*local).current = thread;
        (*local).kernel_stack_top = kernel_stack_top;
        sysreg::set_thread(thread);
    }
}

/// How many CPUs the machine has (at least 1; the boot CPU is 0).
pub fn count() -> usize {
    COUNT.load(Ordering::Acquire)
}
