//! CPUs: this CPU's local block, starting the others.

use super::descriptor;
use super::{acpi, apic, fpu};
use crate::sched::{CpuData, cpu::CpuLocal};
use crate::sync::MAX_CPUS;
use crate::task::ThreadInfo;
use core::arch::asm;
use core::cell::UnsafeCell;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, Ordering};

/// Bytes of the boot CPU's interrupt stack.
const IRQ_STACK: usize = 1 << crate::mm::STACK_SHIFT;

#[repr(C, align(4096))]
struct Stacks(UnsafeCell<[u8; IRQ_STACK + descriptor::IST_COUNT * descriptor::IST_STACK]>);

// SAFETY: only the boot CPU's entry code uses them, one at a time each.
unsafe impl Sync for Stacks {}

static BOOT_STACKS: Stacks = Stacks(UnsafeCell::new(
    [0; IRQ_STACK + descriptor::IST_COUNT * descriptor::IST_STACK],
));

struct Local(UnsafeCell<CpuLocal>);

// SAFETY: the boot CPU's block; only that CPU changes it.
unsafe impl Sync for Local {}

static BOOT_THREAD: ThreadInfo = ThreadInfo::new();
static BOOT_LOCAL: Local = Local(UnsafeCell::new(CpuLocal {
    this: core::ptr::null(),
    current: &raw const BOOT_THREAD,
    kernel_stack_top: 0,
    scratch: [0; 4],
    irq_stack_top: 0,
    id: 0,
    data: core::ptr::null(),
    float_owner: core::ptr::null(),
    lent: [0; 4],
}));

/// Makes [`cpu_local`] and [`current`] work on the boot CPU.
///
/// # Safety
/// The boot CPU's first Rust line.
pub unsafe fn init_boot_cpu() {
    // SAFETY: nobody else uses the block yet; the register points to memory that lives for ever.
    unsafe {
        let local = BOOT_LOCAL.0.get();
        (*local).this = local;
        (*local).irq_stack_top = BOOT_STACKS.0.get() as usize + IRQ_STACK;
        super::cpu::wrmsr(super::cpu::MSR_GS_BASE, local as u64);
    }
}

/// Loads the boot CPU's descriptor tables.
///
/// # Safety
/// After [`init_boot_cpu`], once.
pub unsafe fn load_boot_tables() {
    // SAFETY: the emergency stacks follow the interrupt stack and are nobody else's.
    unsafe { descriptor::load(BOOT_LOCAL.0.get(), BOOT_STACKS.0.get() as usize + IRQ_STACK) }
}

/// One load from this CPU's block. Unsafe as `asm!` is; it is sound: GS always points to that block in kernel
/// mode.
macro_rules! local {
    ($field:ident) => {
        local!($field, readonly)
    };
    ($field:ident, $($option:ident),+) => {{
        let value;
        asm!(
            "mov {}, gs:[{}]", out(reg) value, const offset_of!(CpuLocal, $field),
            options(nostack, preserves_flags, $($option),+),
        );
        value
    }};
}

/// This CPU's local block. The caller must not be migrated while it uses it (interrupts or preemption off).
#[inline(always)]
pub fn cpu_local() -> *const CpuLocal {
    // SAFETY: the block starts with its own address.
    unsafe { local!(this) }
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
    // SAFETY: as the macro says. The result is the same whenever the running thread asks, so the compiler may
    // keep it.
    unsafe { local!(current, pure, nomem) }
}

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
        descriptor::set_kernel_stack(cpu_id(), top);
    }
}

/// How many CPUs the machine has (at least 1; the boot CPU is 0).
pub fn count() -> usize {
    (COUNT.load(Ordering::Relaxed) as usize).max(1)
}

/// Local APIC identifiers by CPU number.
static APIC_IDS: [AtomicU32; MAX_CPUS] = [const { AtomicU32::new(0) }; MAX_CPUS];
static COUNT: AtomicU32 = AtomicU32::new(1);

/// The local APIC identifier of CPU `cpu`.
pub(super) fn apic_id(cpu: usize) -> u32 {
    APIC_IDS[cpu].load(Ordering::Relaxed)
}

/// Numbers the CPUs: the boot CPU is 0, the others follow in the firmware's order.
pub(super) fn init() {
    let boot = apic::id();
    APIC_IDS[0].store(boot, Ordering::Relaxed);
    let mut n = 1;
    for id in acpi::machine().cpus.iter().filter(|id| *id != boot) {
        // In xAPIC mode a destination has 8 bits, and all ones is everybody.
        if n < MAX_CPUS && (id < 255 || super::cpu::has(super::cpu::Features::X2APIC)) {
            APIC_IDS[n].store(id, Ordering::Relaxed);
            n += 1;
        }
    }
    COUNT.store(n as u32, Ordering::Relaxed);
}

/// Halts this CPU for good.
pub(super) fn stop_this_cpu() -> ! {
    loop {
        super::irq::local_disable();
        // SAFETY: halts with interrupts off.
        unsafe { asm!("hlt", options(nomem, nostack)) };
    }
}
pub use super::trampoline::start;
