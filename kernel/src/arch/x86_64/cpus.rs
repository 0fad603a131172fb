//! The CPUs: which there are, the block of this one, the thread that it runs. How they are started is
//! `smp`'s.

use super::{acpi, cpu};
use crate::mm::{PAGE_SIZE, STACK_SHIFT};
use crate::sched::{CpuData, cpu::CpuLocal};
use crate::sync::MAX_CPUS;
use crate::task::ThreadInfo;
use core::arch::asm;
use core::cell::UnsafeCell;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, Ordering};
use limen_rcu::Presence;

/// Bytes of a kernel stack.
const STACK: usize = 1 << STACK_SHIFT;

/// The boot CPU's stacks: a page that `kmap` leaves unmapped, the stack it boots on, which becomes its idle
/// thread's, and its interrupt stack.
#[repr(C, align(4096))]
struct BootStacks {
    guard: [u8; PAGE_SIZE],
    idle: [u8; STACK],
    interrupt: [u8; STACK],
}

struct Stacks(UnsafeCell<BootStacks>);

// SAFETY: only the boot CPU runs on them.
unsafe impl Sync for Stacks {}

static BOOT_STACKS: Stacks = Stacks(UnsafeCell::new(BootStacks {
    guard: [0; PAGE_SIZE],
    idle: [0; STACK],
    interrupt: [0; STACK],
}));

/// The top of the stack the boot CPU boots on.
pub const fn boot_stack_top() -> *mut u8 {
    let stacks = BOOT_STACKS.0.get().cast::<u8>();
    stacks.wrapping_byte_add(offset_of!(BootStacks, idle) + STACK)
}

/// The page below that stack, to be left unmapped.
pub fn boot_stack_guard() -> usize {
    BOOT_STACKS.0.get() as usize + offset_of!(BootStacks, guard)
}

#[repr(transparent)]
struct Local(UnsafeCell<CpuLocal>);

// SAFETY: the boot CPU's block; only that CPU changes it.
unsafe impl Sync for Local {}

static BOOT_THREAD: ThreadInfo = ThreadInfo::new();
static BOOT_LOCAL: Local = Local(UnsafeCell::new(CpuLocal {
    this: (&raw const BOOT_LOCAL).cast(),
    current: &raw const BOOT_THREAD,
    kernel_stack_top: 0,
    scratch: [0; 4],
    irq_stack_top: 0,
    id: 0,
    data: core::ptr::null(),
    float_owner: core::ptr::null(),
    presence: Presence::new(),
    lent: [0; 4],
}));

/// Makes [`cpu_local`] and [`current`] work on the boot CPU, and returns its block.
///
/// # Safety
/// The boot CPU's first Rust line.
pub unsafe fn init_boot_cpu() -> *const CpuLocal {
    let local = BOOT_LOCAL.0.get();
    // SAFETY: nobody else uses the block yet; the register points to memory that lives for ever.
    unsafe {
        let interrupt = BOOT_STACKS.0.get() as usize + offset_of!(BootStacks, interrupt);
        (*local).irq_stack_top = interrupt + STACK;
        cpu::wrmsr(cpu::MSR_GS_BASE, local as u64);
    }
    local
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

/// The same, asked again: no register has to keep it since it was asked before.
#[inline(always)]
pub fn current_again() -> *const ThreadInfo {
    // SAFETY: as for `current`.
    unsafe { local!(current, nomem) }
}

/// How many CPUs the machine has (at least 1; the boot CPU is 0).
pub fn count() -> usize {
    (COUNT.load(Ordering::Relaxed) as usize).max(1)
}

/// Local APIC identifiers by CPU number.
static APIC_IDS: [AtomicU32; MAX_CPUS] = [const { AtomicU32::new(0) }; MAX_CPUS];
static COUNT: AtomicU32 = AtomicU32::new(1);

/// The local APIC identifier of CPU `cpu`.
pub fn apic_id(cpu: usize) -> u32 {
    APIC_IDS[cpu].load(Ordering::Relaxed)
}

/// Numbers the CPUs: the boot CPU, whose local APIC has the identifier `boot`, is 0, the others follow in the
/// firmware's order.
pub fn number(boot: u32) {
    APIC_IDS[0].store(boot, Ordering::Relaxed);
    let mut n = 1;
    for id in acpi::machine().cpus.iter().filter(|id| *id != boot) {
        // In xAPIC mode a destination has 8 bits, and all ones is everybody.
        if n < MAX_CPUS && (id < 255 || cpu::has(cpu::Features::X2APIC)) {
            APIC_IDS[n].store(id, Ordering::Relaxed);
            n += 1;
        }
    }
    COUNT.store(n as u32, Ordering::Relaxed);
}
