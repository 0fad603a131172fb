//! Coprocessor registers by name, the encodings of those bits of them that the kernel sets, and what
//! `arm_common` asks of the processor.

use crate::sched::cpu::CpuLocal;
use crate::task::ThreadInfo;
use core::arch::asm;

/// Reads a 32-bit coprocessor register: `read!("p15, 0, {}, c0, c0, 0")`.
macro_rules! read {
    ($name:literal) => {{
        let value: u32;
        // SAFETY: reading this register has no side effect that the caller does not want.
        unsafe { core::arch::asm!(concat!("mrc ", $name), out(reg) value,
            options(nomem, nostack, preserves_flags)) }
        value
    }};
}
pub(super) use read;

/// Writes a 32-bit coprocessor register. Used inside `unsafe` blocks, which say why the new value is right.
macro_rules! write {
    ($name:literal, $value:expr) => {
        core::arch::asm!(concat!("mcr ", $name), in(reg) u32::from($value), options(nostack, preserves_flags))
    };
}
pub(super) use write;

/// Reads a 64-bit coprocessor register: `read64!("p15, 0, {}, {}, c14")`.
macro_rules! read64 {
    ($name:literal) => {{
        let (low, high): (u32, u32);
        // SAFETY: as for `read`.
        unsafe { core::arch::asm!(concat!("mrrc ", $name), out(reg) low, out(reg) high,
            options(nomem, nostack, preserves_flags)) }
        u64::from(low) | u64::from(high) << 32
    }};
}

/// Writes a 64-bit coprocessor register.
macro_rules! write64 {
    ($name:literal, $value:expr) => {{
        let value: u64 = $value;
        core::arch::asm!(
            concat!("mcrr ", $name), in(reg) value as u32, in(reg) (value >> 32) as u32,
            options(nostack, preserves_flags),
        )
    }};
}
pub(super) use write64;

/// `SCTLR`: M, C, I (memory management unit and caches), Z (branch prediction), U and the like read as one on
/// v7; XP; A (alignment checks) off, V (high vectors) off, TE (Thumb exceptions) off, EE off, AFE (access
/// flag; always so with long descriptors).
pub const SCTLR: u32 = 1 // M
    | 1 << 2 // C
    | 1 << 3 | 1 << 4 // reserved, one
    | 1 << 5 // CP15 barriers in user mode (v8)
    | 1 << 11 // Z
    | 1 << 12 // I
    | 1 << 16 | 1 << 18 // nTWI, nTWE: `wfi` and `wfe` do not trap (v8); reserved, one, before
    | 1 << 22 // U
    | 1 << 23 // SPAN (v8.1): the kernel closes user space itself; reserved, one, before
    | 1 << 29; // AFE

/// `TTBCR`: long descriptors; the top gigabyte through `TTBR1` (T1SZ 2), the rest through `TTBR0` (T0SZ 0);
/// write-back inner shareable walks.
pub const TTBCR: u32 = 1 << 31 // EAE
    | 1 << 8 | 1 << 10 | 3 << 12 // IRGN0, ORGN0, SH0
    | 2 << 16 // T1SZ
    | 1 << 24 | 1 << 26 | 3 << 28; // IRGN1, ORGN1, SH1

/// `MAIR0`: attribute 0 is device memory nGnRE, 1 is normal write-back, 2 is normal non-cached.
pub const MAIR0: u32 = 0x04 | 0xff << 8 | 0x44 << 16;

/// Waits until earlier coprocessor writes have taken effect.
#[inline(always)]
pub fn isb() {
    // SAFETY: a barrier.
    unsafe { asm!("isb", options(nostack, preserves_flags)) }
}

/// Waits until everything before it is done, cache and TLB maintenance included.
#[inline(always)]
pub fn full_barrier() {
    // SAFETY: a barrier.
    unsafe { asm!("dsb sy", options(nostack, preserves_flags)) }
}

/// The same for what the CPUs of the kernel share.
#[inline(always)]
pub fn barrier_inner() {
    // SAFETY: a barrier.
    unsafe { asm!("dsb ish", options(nostack, preserves_flags)) }
}

/// Calls the firmware through the hypervisor. Arguments and result as the SMC calling convention says.
///
/// # Safety
/// The firmware does what the function number says.
pub unsafe fn hvc(function: usize, a: usize, b: usize, c: usize) -> usize {
    let result;
    // SAFETY: r0 to r3 in and out. `hvc #0` by its encoding: the target's base architecture does not have it.
    unsafe {
        asm!(".inst 0xe1400070", inout("r0") function => result, inout("r1") a => _, inout("r2") b => _,
            inout("r3") c => _,
            out("r12") _, out("lr") _, options(nostack))
    }
    result
}

/// Calls the secure firmware.
///
/// # Safety
/// As for [`hvc`].
pub unsafe fn smc(function: usize, a: usize, b: usize, c: usize) -> usize {
    let result;
    // SAFETY: r0 to r3 in and out. `smc #0` by its encoding: the target's base architecture does not
    // have it.
    unsafe {
        asm!(".inst 0xe1600070", inout("r0") function => result, inout("r1") a => _, inout("r2") b => _,
            inout("r3") c => _,
            out("r12") _, out("lr") _, options(nostack))
    }
    result
}

/// Ends the machine through semihosting.
///
/// # Safety
/// A debugger (or QEMU) was promised; without one the instruction is a system call from the kernel.
pub unsafe fn semihosting(operation: usize, block: *const usize) {
    // SAFETY: as the caller promises; `block` is what the call reads. The result comes in r0; the link
    // register is the exception's.
    unsafe {
        asm!("svc #0x123456", inout("r0") operation => _, in("r1") block, out("lr") _, options(nostack))
    }
}

/// Sleeps until an interrupt is pending, masked or not.
pub fn wfi() {
    full_barrier();
    // SAFETY: sleeps.
    unsafe { asm!("wfi", options(nostack, preserves_flags)) }
}

/// What was written before is visible to other CPUs before what is written after.
#[inline(always)]
pub fn store_barrier() {
    // SAFETY: a barrier.
    unsafe { asm!("dsb ishst", options(nostack, preserves_flags)) }
}

/// Empties the TLB on every CPU, after earlier stores to tables.
pub fn flush_all() {
    store_barrier();
    // SAFETY: forgetting translations is always allowed. TLBIALLIS.
    unsafe { write!("p15, 0, {}, c8, c3, 0", 0u32) }
    barrier_inner();
    isb();
}

/// Empties this CPU's TLB.
pub fn flush_own() {
    // SAFETY: forgetting translations is always allowed. TLBIALL.
    unsafe { write!("p15, 0, {}, c8, c7, 0", 0u32) }
    barrier_inner();
    isb();
}

/// Begins to write the cached line at `address` to memory.
pub fn clean(address: usize) {
    // SAFETY: cleaning a cache line changes nothing. DCCMVAC.
    unsafe { write!("p15, 0, {}, c7, c10, 1", address as u32) }
}

/// This CPU's `MPIDR`.
pub fn affinity() -> u64 {
    u64::from(read!("p15, 0, {}, c0, c0, 5"))
}

/// `CONTEXTIDR` with short descriptors: the low byte is the address space's identifier.
const LOCAL_MASK: usize = if cfg!(feature = "short-descriptors") {
    !0xff
} else {
    !0
};

/// This CPU's block (`CONTEXTIDR`).
#[inline(always)]
pub fn local() -> *const CpuLocal {
    let local: usize;
    // SAFETY: only reads the register. Not `pure`: the value changes with the CPU, so with preemption.
    unsafe { asm!("mrc p15, 0, {}, c13, c0, 1", out(reg) local, options(nomem, nostack, preserves_flags)) }
    (local & LOCAL_MASK) as *const CpuLocal
}

/// Makes `local` this CPU's block.
pub fn set_local(local: *const CpuLocal) {
    // SAFETY: the register is ours, and `local` lives for good.
    unsafe { write!("p15, 0, {}, c13, c0, 1", local as u32) }
    isb();
}

/// The running thread's info (`TPIDRPRW`).
#[inline(always)]
pub fn thread() -> *const ThreadInfo {
    let thread;
    // SAFETY: only reads the register. The result is the same whenever the running thread asks, so the
    // compiler may keep it.
    unsafe {
        asm!("mrc p15, 0, {}, c13, c0, 4", out(reg) thread, options(pure, nomem, nostack, preserves_flags))
    }
    thread
}

/// Makes the register say that `thread` runs.
///
/// # Safety
/// It does, or is about to; interrupts are off.
#[inline(always)]
pub unsafe fn set_thread(thread: *const ThreadInfo) {
    // SAFETY: as the caller promises.
    unsafe { write!("p15, 0, {}, c13, c0, 4", thread as u32) }
}

/// Frequency of the architected counter, in hertz.
pub fn counter_frequency() -> u64 {
    u64::from(read!("p15, 0, {}, c14, c0, 0"))
}

/// The virtual counter, not read early.
#[inline(always)]
pub fn counter() -> u64 {
    isb();
    read64!("p15, 1, {}, {}, c14")
}

/// When this CPU's virtual timer fires.
#[inline(always)]
pub fn set_timer_compare(value: u64) {
    // SAFETY: this CPU's own timer; its interrupt is handled. CNTV_CVAL.
    unsafe { write64!("p15, 3, {}, {}, c14", value) }
}

/// `CNTV_CTL`.
#[inline(always)]
pub fn set_timer_control(value: u64) {
    // SAFETY: this CPU's own timer; its interrupt is handled. CNTV_TVAL.
    unsafe { write!("p15, 0, {}, c14, c3, 1", value as u32) }
    isb();
}

/// GICv3: enables this CPU's interface: all priorities, one group, no preemption.
pub fn gic_enable() {
    let sre = read!("p15, 0, {}, c12, c12, 5");
    // SAFETY: the interface's own registers: ICC_SRE, ICC_PMR, ICC_BPR1, ICC_CTLR, ICC_IGRPEN1.
    unsafe {
        write!("p15, 0, {}, c12, c12, 5", sre | 1);
        isb();
        write!("p15, 0, {}, c4, c6, 0", 0xf0u32);
        write!("p15, 0, {}, c12, c12, 3", 0u32);
        write!("p15, 0, {}, c12, c12, 4", 0u32);
        write!("p15, 0, {}, c12, c12, 7", 1u32);
    }
    isb();
}

/// GICv3: `ICC_IAR1`.
#[inline(always)]
pub fn gic_acknowledge() -> u32 {
    let id = read!("p15, 0, {}, c12, c12, 0");
    full_barrier();
    id
}

/// GICv3: `ICC_EOIR1`.
#[inline(always)]
pub fn gic_end(id: u32) {
    // SAFETY: ends the interrupt that was acknowledged.
    unsafe { write!("p15, 0, {}, c12, c12, 1", id) }
}

/// GICv3: `ICC_SGI1R`.
#[inline(always)]
pub fn gic_send(value: u64) {
    // SAFETY: interrupts a CPU, which handles it.
    unsafe { write64!("p15, 0, {}, {}, c12", value) }
    isb();
}
