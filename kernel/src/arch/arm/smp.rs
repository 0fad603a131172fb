//! CPUs: the running thread (`TPIDRPRW`), this CPU's local block (`CONTEXTIDR`, of which short descriptors need the low byte), starting the
//! others through PSCI or the board's own way.

use super::mmu::{IMAGE_BASE, LOCAL_MASK};
use super::switch::USER_THREAD;
use super::{cpu, kmap, psci, sysreg, vexpress};
use crate::sched::{CpuData, cpu::CpuLocal};
use crate::sync::MAX_CPUS;
use crate::task::ThreadInfo;
use core::arch::asm;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use limen_linux_abi::Errno;

/// The boot CPU's block and its thread until the scheduler has made proper ones.
static mut BOOT_LOCAL: CpuLocal = CpuLocal {
    this: &raw const BOOT_LOCAL,
    current: &raw const BOOT_THREAD.info,
    kernel_stack_top: 0,
    scratch: [0; 4],
    irq_stack_top: 0,
    id: 0,
    data: core::ptr::null(),
    lent: [0; 4],
};
static BOOT_THREAD: BootThread = BootThread {
    info: ThreadInfo::new(),
    rest: [0; USER_THREAD],
};

/// It is not a whole task; what is looked at behind its beginning says that it is not a user's.
#[repr(C)]
struct BootThread {
    info: ThreadInfo,
    rest: [u8; USER_THREAD],
}

/// CPUs of the machine.
static COUNT: AtomicUsize = AtomicUsize::new(1);
/// The affinity fields of each CPU's `MPIDR`.
static MPIDR: [AtomicU64; MAX_CPUS] = [const { AtomicU64::new(0) }; MAX_CPUS];

/// What CPUs find when they start (`head::start`), before their caches are on. One at a time: it empties `local` when it has read it.
#[repr(C, align(16))]
pub(super) struct Start {
    /// The kernel's table, for `TTBR1` or one for `TTBR0`; zero until it is made.
    pub(super) table: AtomicU32,
    pub(super) local: AtomicPtr<CpuLocal>,
    pub(super) stack_top: AtomicUsize,
}

// The boot CPU looks at it before there are zeroes where the image has none.
#[unsafe(link_section = ".data.start")]
pub(super) static START: Start = Start {
    table: AtomicU32::new(0),
    local: AtomicPtr::new(core::ptr::null_mut()),
    stack_top: AtomicUsize::new(0),
};

/// The affinity bits of `MPIDR`.
const AFFINITY: u64 = 0xff_ffff;

/// The boot CPU's block and thread. The first thing Rust does.
pub(super) fn init_boot_cpu() {
    set_local(&raw const BOOT_LOCAL);
    // SAFETY: interrupts are off, and this is the boot stack.
    unsafe { set_current(&raw const BOOT_THREAD.info, 0) }
    MPIDR[0].store(
        u64::from(sysreg::read!("p15, 0, {}, c0, c0, 5")) & AFFINITY,
        Ordering::Relaxed,
    );
}

fn set_local(local: *const CpuLocal) {
    // SAFETY: the register is ours, and `local` lives for good.
    unsafe { sysreg::write!("p15, 0, {}, c13, c0, 1", local as u32) }
    sysreg::isb();
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
    vexpress::init();
    super::mmu::init_roots();
}

/// The affinity of CPU `cpu`.
pub(super) fn mpidr(cpu: usize) -> u64 {
    MPIDR[cpu].load(Ordering::Relaxed)
}

/// This CPU's local block. The caller must not be migrated while it uses it (interrupts or preemption off).
#[inline(always)]
pub fn cpu_local() -> *const CpuLocal {
    let local: usize;
    // SAFETY: only reads the register. Not `nomem`: the value changes with the CPU, so with preemption.
    unsafe { asm!("mrc p15, 0, {}, c13, c0, 1", out(reg) local, options(nomem, nostack, preserves_flags)) }
    (local & LOCAL_MASK) as *const CpuLocal
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
    unsafe {
        asm!("mrc p15, 0, {}, c13, c0, 4", out(reg) thread, options(pure, nomem, nostack, preserves_flags))
    }
    thread
}

/// Makes `thread` the running thread of this CPU (the context switch, and boot). `kernel_stack_top` is where entries from user mode start.
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
        sysreg::write!("p15, 0, {}, c13, c0, 4", thread as u32);
    }
}

/// How many CPUs the machine has (at least 1; the boot CPU is 0).
pub fn count() -> usize {
    COUNT.load(Ordering::Acquire)
}

/// Starts CPU `cpu`: it runs on `stack_top` with `local` as its block and calls [`crate::boot::secondary`]. Returns when it has begun.
pub fn start(cpu: usize, local: &'static CpuLocal, stack_top: usize) -> Result<(), Errno> {
    START.stack_top.store(stack_top, Ordering::Relaxed);
    START
        .local
        .store(core::ptr::from_ref(local).cast_mut(), Ordering::Release);
    // What the new CPU reads is in memory before it starts.
    // SAFETY: cleaning a cache line changes nothing. DCCMVAC.
    unsafe { sysreg::write!("p15, 0, {}, c7, c10, 1", &raw const START as u32) }
    sysreg::barrier();
    // The image begins with the way in.
    let entry = kmap::image_to_phys(IMAGE_BASE);
    if !vexpress::start(cpu, entry) {
        psci::cpu_on(mpidr(cpu), entry, 0)?;
    }
    let deadline = super::time::now_ns() + 1_000_000_000;
    while !START.local.load(Ordering::Acquire).is_null() {
        if super::time::now_ns() > deadline {
            return Err(Errno::ETIMEDOUT);
        }
        core::hint::spin_loop();
    }
    Ok(())
}

/// A secondary CPU's first Rust function: on its idle stack, interrupts off, on the kernel map.
pub(super) extern "C" fn secondary(local: *const CpuLocal) -> ! {
    START.local.store(core::ptr::null_mut(), Ordering::Release);
    set_local(local);
    // SAFETY: the register is loaded from this CPU's own block, which the starter filled in.
    unsafe { sysreg::write!("p15, 0, {}, c13, c0, 4", (*local).current as u32) }
    super::mmu::switch_to_kernel();
    // The identity map must not stay in the TLB.
    // SAFETY: forgetting translations is always allowed. TLBIALL.
    unsafe { sysreg::write!("p15, 0, {}, c8, c7, 0", 0u32) }
    sysreg::barrier_inner();
    sysreg::isb();
    cpu::init();
    super::interrupt::init_cpu();
    crate::boot::secondary()
}

pub(super) use vexpress::{power_off as board_off, reset as board_reset};
