//! Registers of the system control coprocessor by name, the encodings of those bits of them that the kernel
//! sets, and what `arm_common` asks of the processor.

use crate::sched::cpu::CpuLocal;
use crate::task::ThreadInfo;
use core::arch::asm;

/// A 32-bit register or operation of a coprocessor, as `mrc` and `mcr` name it.
pub struct Register {
    pub coprocessor: u32,
    pub op1: u32,
    pub crn: u32,
    pub crm: u32,
    pub op2: u32,
}

impl Register {
    /// Of the system control coprocessor.
    const fn of_p15(op1: u32, crn: u32, crm: u32, op2: u32) -> Self {
        Self {
            coprocessor: 15,
            op1,
            crn,
            crm,
            op2,
        }
    }
}

/// A 64-bit register of the system control coprocessor, as `mrrc` and `mcrr` name it: `op1`, `CRm`.
pub struct Wide(pub u32, pub u32);

/// Registers and operations by their names in the manual.
pub mod register {
    use super::{Register, Wide};

    pub const MIDR: Register = Register::of_p15(0, 0, 0, 0);
    pub const CTR: Register = Register::of_p15(0, 0, 0, 1);
    pub const MPIDR: Register = Register::of_p15(0, 0, 0, 5);
    pub const ID_PFR0: Register = Register::of_p15(0, 0, 1, 0);
    pub const ID_PFR1: Register = Register::of_p15(0, 0, 1, 1);
    pub const ID_ISAR0: Register = Register::of_p15(0, 0, 2, 0);
    pub const ID_ISAR5: Register = Register::of_p15(0, 0, 2, 5);
    pub const CPACR: Register = Register::of_p15(0, 1, 0, 2);
    pub const TTBR0: Register = Register::of_p15(0, 2, 0, 0);
    pub const TTBCR: Register = Register::of_p15(0, 2, 0, 2);
    pub const DACR: Register = Register::of_p15(0, 3, 0, 0);
    pub const ICC_PMR: Register = Register::of_p15(0, 4, 6, 0);
    pub const DFSR: Register = Register::of_p15(0, 5, 0, 0);
    pub const IFSR: Register = Register::of_p15(0, 5, 0, 1);
    pub const DFAR: Register = Register::of_p15(0, 6, 0, 0);
    pub const IFAR: Register = Register::of_p15(0, 6, 0, 2);
    pub const ICIALLUIS: Register = Register::of_p15(0, 7, 1, 0);
    pub const BPIALLIS: Register = Register::of_p15(0, 7, 1, 6);
    pub const ICIALLU: Register = Register::of_p15(0, 7, 5, 0);
    pub const BPIALL: Register = Register::of_p15(0, 7, 5, 6);
    pub const DCCMVAC: Register = Register::of_p15(0, 7, 10, 1);
    pub const DCCMVAU: Register = Register::of_p15(0, 7, 11, 1);
    pub const TLBIALLIS: Register = Register::of_p15(0, 8, 3, 0);
    pub const TLBIMVAIS: Register = Register::of_p15(0, 8, 3, 1);
    pub const TLBIASIDIS: Register = Register::of_p15(0, 8, 3, 2);
    pub const TLBIMVAAIS: Register = Register::of_p15(0, 8, 3, 3);
    pub const TLBIALL: Register = Register::of_p15(0, 8, 7, 0);
    pub const TLBIMVA: Register = Register::of_p15(0, 8, 7, 1);
    pub const PMUSERENR: Register = Register::of_p15(0, 9, 14, 0);
    pub const MAIR0: Register = Register::of_p15(0, 10, 2, 0);
    pub const MAIR1: Register = Register::of_p15(0, 10, 2, 1);
    pub const VBAR: Register = Register::of_p15(0, 12, 0, 0);
    pub const ICC_IAR0: Register = Register::of_p15(0, 12, 8, 0);
    pub const ICC_EOIR0: Register = Register::of_p15(0, 12, 8, 1);
    pub const ICC_BPR0: Register = Register::of_p15(0, 12, 8, 3);
    pub const ICC_IAR1: Register = Register::of_p15(0, 12, 12, 0);
    pub const ICC_EOIR1: Register = Register::of_p15(0, 12, 12, 1);
    pub const ICC_BPR1: Register = Register::of_p15(0, 12, 12, 3);
    pub const ICC_CTLR: Register = Register::of_p15(0, 12, 12, 4);
    pub const ICC_SRE: Register = Register::of_p15(0, 12, 12, 5);
    pub const ICC_IGRPEN0: Register = Register::of_p15(0, 12, 12, 6);
    pub const ICC_IGRPEN1: Register = Register::of_p15(0, 12, 12, 7);
    pub const CONTEXTIDR: Register = Register::of_p15(0, 13, 0, 1);
    pub const TPIDRURW: Register = Register::of_p15(0, 13, 0, 2);
    pub const TPIDRURO: Register = Register::of_p15(0, 13, 0, 3);
    pub const TPIDRPRW: Register = Register::of_p15(0, 13, 0, 4);
    pub const CNTFRQ: Register = Register::of_p15(0, 14, 0, 0);
    pub const CNTKCTL: Register = Register::of_p15(0, 14, 1, 0);
    pub const CNTV_CTL: Register = Register::of_p15(0, 14, 3, 1);
    pub const VPIDR: Register = Register::of_p15(4, 0, 0, 0);
    pub const VMPIDR: Register = Register::of_p15(4, 0, 0, 5);
    pub const HCR: Register = Register::of_p15(4, 1, 1, 0);
    pub const HDCR: Register = Register::of_p15(4, 1, 1, 1);
    pub const HCPTR: Register = Register::of_p15(4, 1, 1, 2);
    pub const HSTR: Register = Register::of_p15(4, 1, 1, 3);
    pub const ICC_HSRE: Register = Register::of_p15(4, 12, 9, 5);
    pub const ICH_HCR: Register = Register::of_p15(4, 12, 11, 0);
    pub const CNTHCTL: Register = Register::of_p15(4, 14, 1, 0);
    pub const TEECR: Register = Register {
        coprocessor: 14,
        op1: 6,
        crn: 0,
        crm: 0,
        op2: 0,
    };

    pub const TTBR0_64: Wide = Wide(0, 2);
    pub const TTBR1_64: Wide = Wide(1, 2);
    pub const VTTBR_64: Wide = Wide(6, 2);
    pub const ICC_SGI1R_64: Wide = Wide(0, 12);
    pub const ICC_SGI0R_64: Wide = Wide(2, 12);
    pub const CNTVCT_64: Wide = Wide(1, 14);
    pub const CNTV_CVAL_64: Wide = Wide(3, 14);
    pub const CNTVOFF_64: Wide = Wide(4, 14);
}

/// Reads a 32-bit register: `read!(MIDR)`.
macro_rules! read {
    ($name:ident) => {{
        const REGISTER: $crate::arch::imp::sysreg::Register = $crate::arch::imp::sysreg::register::$name;
        let value: u32;
        // SAFETY: reading this register has no side effect that the caller does not want.
        unsafe {
            core::arch::asm!(
                "mrc p{coprocessor}, {op1}, {}, c{crn}, c{crm}, {op2}", out(reg) value,
                coprocessor = const REGISTER.coprocessor, op1 = const REGISTER.op1,
                crn = const REGISTER.crn, crm = const REGISTER.crm, op2 = const REGISTER.op2,
                options(nomem, nostack, preserves_flags),
            )
        }
        value
    }};
}
pub(super) use read;

/// Writes a 32-bit register, or has an operation done (the value is its argument, or does not matter). Used
/// inside `unsafe` blocks, which say why the new value is right.
macro_rules! write {
    ($name:ident, $value:expr) => {{
        const REGISTER: $crate::arch::imp::sysreg::Register = $crate::arch::imp::sysreg::register::$name;
        core::arch::asm!(
            "mcr p{coprocessor}, {op1}, {}, c{crn}, c{crm}, {op2}", in(reg) u32::from($value),
            coprocessor = const REGISTER.coprocessor, op1 = const REGISTER.op1,
            crn = const REGISTER.crn, crm = const REGISTER.crm, op2 = const REGISTER.op2,
            options(nostack, preserves_flags),
        )
    }};
}
pub(super) use write;

/// Reads a 64-bit register: `read64!(CNTVCT_64)`.
macro_rules! read64 {
    ($name:ident) => {{
        const REGISTER: $crate::arch::imp::sysreg::Wide = $crate::arch::imp::sysreg::register::$name;
        let (low, high): (u32, u32);
        // SAFETY: as for `read`.
        unsafe {
            core::arch::asm!(
                "mrrc p15, {op1}, {}, {}, c{crm}", out(reg) low, out(reg) high,
                op1 = const REGISTER.0, crm = const REGISTER.1, options(nomem, nostack, preserves_flags),
            )
        }
        u64::from(low) | u64::from(high) << 32
    }};
}

/// Writes a 64-bit register.
macro_rules! write64 {
    ($name:ident, $value:expr) => {{
        const REGISTER: $crate::arch::imp::sysreg::Wide = $crate::arch::imp::sysreg::register::$name;
        let value: u64 = $value;
        core::arch::asm!(
            "mcrr p15, {op1}, {}, {}, c{crm}", in(reg) value as u32, in(reg) (value >> 32) as u32,
            op1 = const REGISTER.0, crm = const REGISTER.1, options(nostack, preserves_flags),
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

/// What `TTBR0` has besides the table's address with short descriptors: walks write-back, inner shareable.
pub const TTBR0_WALKS: u32 = 1 << 6 | 1 << 5 | 1 << 3 | 1 << 1;

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
    // SAFETY: forgetting translations is always allowed.
    unsafe { write!(TLBIALLIS, 0u32) }
    barrier_inner();
    isb();
}

/// Empties this CPU's TLB.
pub fn flush_own() {
    // SAFETY: forgetting translations is always allowed.
    unsafe { write!(TLBIALL, 0u32) }
    barrier_inner();
    isb();
}

/// Begins to write the cached line at `address` to memory.
pub fn clean(address: usize) {
    // SAFETY: cleaning a cache line changes nothing.
    unsafe { write!(DCCMVAC, address as u32) }
}

/// The affinity fields of `MPIDR`.
pub const AFFINITY: u64 = 0xff_ffff;

/// This CPU's affinity.
pub fn affinity() -> u64 {
    u64::from(read!(MPIDR)) & AFFINITY
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
    unsafe { write!(CONTEXTIDR, local as u32) }
    isb();
}

/// The running thread's info (`TPIDRPRW`).
#[inline(always)]
pub fn thread() -> *const ThreadInfo {
    let thread;
    // SAFETY: only reads the register. The result is the same whenever the running thread asks, so the
    // compiler may keep it.
    unsafe {
        asm!(
            "mrc p15, 0, {}, c13, c0, 4", out(reg) thread,
            options(pure, nomem, nostack, preserves_flags),
        )
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
    unsafe { write!(TPIDRPRW, thread as u32) }
}

/// Frequency of the architected counter, in hertz.
pub fn counter_frequency() -> u64 {
    u64::from(read!(CNTFRQ))
}

/// The virtual counter, not read early.
#[inline(always)]
pub fn counter() -> u64 {
    isb();
    read64!(CNTVCT_64)
}

/// When this CPU's virtual timer fires.
#[inline(always)]
pub fn set_timer_compare(value: u64) {
    // SAFETY: this CPU's own timer; its interrupt is handled.
    unsafe { write64!(CNTV_CVAL_64, value) }
}

/// `CNTV_CTL`.
#[inline(always)]
pub fn set_timer_control(value: u64) {
    // SAFETY: this CPU's own timer; its interrupt is handled.
    unsafe { write!(CNTV_CTL, value as u32) }
    isb();
}

/// GICv3: enables this CPU's interface: all priorities. Only FIQs, if there are any, preempt.
pub fn gic_enable(fiqs: bool) {
    let sre = read!(ICC_SRE);
    // SAFETY: the interface's own registers.
    unsafe {
        write!(ICC_SRE, sre | 1);
        isb();
        write!(ICC_PMR, 0xf0u32);
        write!(ICC_BPR1, 0u32);
        write!(ICC_CTLR, 0u32);
        write!(ICC_IGRPEN1, 1u32);
        if fiqs {
            write!(ICC_BPR0, 0u32);
            write!(ICC_IGRPEN0, 1u32);
        }
    }
    isb();
}

/// GICv3: `ICC_IAR0`.
pub fn gic_acknowledge_fiq() -> u32 {
    let id = read!(ICC_IAR0);
    full_barrier();
    id & 0x3ff
}

/// GICv3: `ICC_EOIR0`.
pub fn gic_end_fiq(id: u32) {
    // SAFETY: ends the interrupt that was acknowledged.
    unsafe { write!(ICC_EOIR0, id) }
}

/// GICv3: `ICC_SGI0R`.
pub fn gic_send_fiq(value: u64) {
    // SAFETY: interrupts a CPU, which handles it.
    unsafe { write64!(ICC_SGI0R_64, value) }
    isb();
}

/// GICv3: `ICC_IAR1`.
#[inline(always)]
pub fn gic_acknowledge() -> u32 {
    let id = read!(ICC_IAR1);
    full_barrier();
    id
}

/// GICv3: `ICC_EOIR1`.
#[inline(always)]
pub fn gic_end(id: u32) {
    // SAFETY: ends the interrupt that was acknowledged.
    unsafe { write!(ICC_EOIR1, id) }
}

/// GICv3: `ICC_SGI1R`.
#[inline(always)]
pub fn gic_send(value: u64) {
    // SAFETY: interrupts a CPU, which handles it.
    unsafe { write64!(ICC_SGI1R_64, value) }
    isb();
}
