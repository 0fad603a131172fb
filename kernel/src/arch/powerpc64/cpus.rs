//! The CPUs: which there are, the block of this one (r13, which compiled code leaves alone; `SPRG0` keeps it
//! for the entry stubs), and the thread that it runs. How they are started is `smp`'s.

use super::spr;
use crate::sched::{CpuData, cpu::CpuLocal};
use crate::sync::MAX_CPUS;
use crate::task::ThreadInfo;
use core::arch::asm;
use core::mem::offset_of;
use core::sync::atomic::{AtomicUsize, Ordering};
use limen_rcu::Presence;

/// Words of scratch in the local block: r12 and the condition register on entry, the table of contents.
pub const SCRATCH_R12: usize = 0;
/// See [`SCRATCH_R12`].
pub const SCRATCH_CR: usize = 1;
/// See [`SCRATCH_R12`].
pub const SCRATCH_TOC: usize = 2;

/// The boot CPU's block and its thread until the scheduler has made proper ones.
static mut BOOT_LOCAL: CpuLocal = CpuLocal {
    this: &raw const BOOT_LOCAL,
    current: &raw const BOOT_THREAD,
    kernel_stack_top: 0,
    scratch: [0; 4],
    irq_stack_top: 0,
    id: 0,
    data: core::ptr::null(),
    float_owner: core::ptr::null(),
    presence: Presence::new(),
    lent: [0; 4],
};
static BOOT_THREAD: ThreadInfo = ThreadInfo::new();

/// CPUs of the machine.
static COUNT: AtomicUsize = AtomicUsize::new(1);
/// The number of each CPU as interrupt server, which is how firmware names it.
static SERVER: [AtomicUsize; MAX_CPUS] = [const { AtomicUsize::new(0) }; MAX_CPUS];

/// The boot CPU's block and thread. The first thing Rust does.
pub(super) fn init_boot_cpu() {
    set_local(&raw const BOOT_LOCAL);
}

/// Makes `local` this CPU's block.
pub(super) fn set_local(local: *const CpuLocal) {
    let toc: usize;
    // SAFETY: the registers are ours, and `local` lives for good; its scratch is this CPU's own.
    unsafe {
        asm!("mr {}, 2", out(reg) toc, options(nomem, nostack, preserves_flags));
        (*local.cast_mut()).scratch[SCRATCH_TOC] = toc;
        asm!(
            "mr 13, {0}", "mtspr {1}, {0}", in(reg) local, const spr::SPRG0,
            options(nostack, preserves_flags),
        );
        // User mode reads its CPU's number here (`getcpu`).
        spr::write!(spr::SPRG3, (*local).id);
    }
}

/// The boot CPU's interrupt stack.
///
/// # Safety
/// Interrupts are still off.
pub(super) unsafe fn init_irq_stack(top: usize) {
    // SAFETY: the boot CPU's own block; nothing uses the field before interrupts go on.
    unsafe { BOOT_LOCAL.irq_stack_top = top }
}

/// Notes what firmware calls the CPUs, the boot CPU first; those beyond [`MAX_CPUS`] are not used.
pub(super) fn note(servers: &[usize]) {
    for (slot, server) in SERVER.iter().zip(servers) {
        slot.store(*server, Ordering::Relaxed);
    }
    COUNT.store(servers.len().clamp(1, MAX_CPUS), Ordering::Release);
}

/// What firmware calls CPU `cpu`.
pub(super) fn server(cpu: usize) -> usize {
    SERVER[cpu].load(Ordering::Relaxed)
}

/// One load from this CPU's block. Unsafe as `asm!` is; it is sound: r13 always points to that block in the
/// kernel.
macro_rules! local {
    ($field:ident) => {
        local!($field, readonly)
    };
    ($field:ident, $($option:ident),+) => {{
        let value;
        asm!(
            "ld {}, {}(13)", out(reg) value, const offset_of!(CpuLocal, $field),
            options(nostack, preserves_flags, $($option),+),
        );
        value
    }};
}

/// This CPU's local block. The caller must not be migrated while it uses it (interrupts or preemption off).
#[inline(always)]
pub fn cpu_local() -> *const CpuLocal {
    let local;
    // SAFETY: only reads the register. (Not `pure`: after a migration it is another.)
    unsafe { asm!("mr {}, 13", out(reg) local, options(nomem, nostack, preserves_flags)) }
    local
}

/// This CPU's number; stable only while preemption is off.
#[inline(always)]
pub fn cpu_id() -> usize {
    // SAFETY: as the macro says. CPUs beyond the limit are not started.
    unsafe {
        let id = local!(id);
        core::hint::assert_unchecked(id < MAX_CPUS);
        id
    }
}

/// What the scheduler has for this CPU; null until it works. The caller must not be migrated while it uses
/// it.
#[inline(always)]
pub fn cpu_data() -> *const CpuData {
    // SAFETY: as the macro says.
    unsafe { local!(data) }
}

/// The running thread's info, the first field of its `Task`. Always valid, from the first Rust line on.
#[inline(always)]
pub fn current() -> *const ThreadInfo {
    // SAFETY: as the macro says; whatever CPU this is, its block names the thread that executes it, so the
    // compiler may keep the result.
    unsafe { local!(current, pure, nomem) }
}

/// The same, asked again: no register has to keep it since it was asked before.
#[inline(always)]
pub fn current_again() -> *const ThreadInfo {
    // SAFETY: as for `current`.
    unsafe { local!(current, nomem) }
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
        (&raw mut (*local).current).write_volatile(thread);
        (*local).kernel_stack_top = kernel_stack_top;
    }
}

/// How many CPUs the machine has (at least 1; the boot CPU is 0).
pub fn count() -> usize {
    COUNT.load(Ordering::Acquire)
}
