//! The preempt count of the running thread.

use crate::arch::smp;
use crate::task::ThreadInfo;
use core::sync::atomic::Ordering;
use limen_entry::ThreadFlags;

/// One level of disabled preemption.
pub const PREEMPT: u32 = 1;
/// One level of hardware interrupt.
pub const HARDIRQ: u32 = 1 << 16;
/// All levels of hardware interrupts.
pub const HARDIRQ_MASK: u32 = NMI - HARDIRQ;
/// One level of NMI.
pub const NMI: u32 = 1 << 20;
/// All levels of NMIs.
pub const NMI_MASK: u32 = 0xf << 20;

/// What exists only while preemption is off.
///
/// # Safety
///
/// As long as there is a reference to it, preemption is off on the CPU that has the reference.
pub unsafe trait Still {}

/// The running thread's info.
#[inline(always)]
pub fn current_info() -> &'static ThreadInfo {
    // SAFETY: `smp::current` is always valid, and a thread that runs this code is alive.
    unsafe { &*smp::current() }
}

/// Keeps the compiler from moving memory accesses across it. Against interrupts on the same CPU no more is
/// needed. `compiler_fence` would say the same, but some back ends of the compiler turn it into an
/// instruction that waits for all earlier stores.
#[inline(always)]
fn keep_order() {
    // SAFETY: no instruction is emitted; the compiler only assumes that any memory was read and written.
    unsafe { core::arch::asm!("", options(nostack, preserves_flags)) };
}

/// Adds to the preempt count. Only this thread, and interrupts on top of it, which restore the count, change
/// it; so the addition need not be atomic.
#[inline(always)]
pub fn add(n: u32) {
    let count = &current_info().preempt_count;
    count.store(count.load(Ordering::Relaxed) + n, Ordering::Relaxed);
    keep_order();
}

/// Subtracts from the preempt count.
#[inline(always)]
pub fn sub(n: u32) {
    keep_order();
    let count = &current_info().preempt_count;
    count.store(count.load(Ordering::Relaxed) - n, Ordering::Relaxed);
}

/// The preempt count.
#[inline(always)]
pub fn count() -> u32 {
    current_info().preempt_count.load(Ordering::Relaxed)
}

/// Turns preemption off (nests).
#[inline(always)]
pub fn disable() {
    add(PREEMPT);
}

/// Turns preemption on again and, if a reschedule is due, calls the scheduler.
#[inline(always)]
pub fn enable() {
    sub(PREEMPT);
    check_resched();
}

/// Turns preemption on again without checking for a due reschedule.
#[inline(always)]
pub fn enable_no_resched() {
    sub(PREEMPT);
}

/// Calls the scheduler if a reschedule is due and allowed here.
#[inline(always)]
pub fn check_resched() {
    if current_info().work.has(ThreadFlags::NEED_RESCHED) {
        resched();
    }
}

#[cold]
#[inline(never)]
fn resched() {
    if count() == 0 && crate::arch::irq::enabled() {
        super::preempt_current();
    }
}
