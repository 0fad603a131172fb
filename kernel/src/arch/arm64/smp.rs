//! CPUs: this CPU's local block, starting the others.

use crate::sched::cpu::CpuLocal;
use crate::task::ThreadInfo;

/// This CPU's local block. The caller must not be migrated while it uses it (interrupts or preemption off).
#[inline(always)]
pub fn cpu_local() -> *const CpuLocal {
    core::ptr::null()
}

/// This CPU's number; stable only while preemption is off.
#[inline(always)]
pub fn cpu_id() -> usize {
    0
}

/// The running thread's info, the first field of its `Task`. Always valid, from the first Rust line on.
#[inline(always)]
pub fn current() -> *const ThreadInfo {
    core::ptr::null()
}

/// Makes `thread` the running thread of this CPU (the context switch, and boot). `kernel_stack_top` is where entries from user mode start.
///
/// # Safety
/// Interrupts are off, and the caller runs (or is about to run) on that thread's stack.
#[inline(always)]
pub unsafe fn set_current(thread: *const ThreadInfo, kernel_stack_top: usize) {
    let _ = (thread, kernel_stack_top);
}

/// How many CPUs the machine has (at least 1; the boot CPU is 0).
pub fn count() -> usize {
    1
}

/// Starts CPU `cpu`: it runs on `stack_top` with `local` as its block and calls [`crate::boot::secondary`]. Returns once the start was requested.
pub fn start(cpu: usize, local: &'static CpuLocal, stack_top: usize) -> Result<(), limen_linux_abi::Errno> {
    let _ = (cpu, local, stack_top);
    Err(limen_linux_abi::Errno::ENODEV)
}
