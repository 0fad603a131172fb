//! System registers by name, and the encodings of those bits of them that the kernel sets.

use crate::mm::PAGE_SHIFT;

/// Reads a system register.
macro_rules! read {
    ($name:literal) => {{
        let value: u64;
        // SAFETY: reading this register has no side effect that the caller does not want.
        unsafe { core::arch::asm!(concat!("mrs {}, ", $name), out(reg) value,
            options(nomem, nostack, preserves_flags)) }
        value
    }};
}
pub(super) use read;

/// Writes a system register. Used inside `unsafe` blocks, which say why the new value is right.
macro_rules! write {
    ($name:literal, $value:expr) => {
        core::arch::asm!(
            concat!("msr ", $name, ", {}"), in(reg) u64::from($value), options(nostack, preserves_flags),
        )
    };
}
pub(super) use write;

/// Waits until earlier system register writes have taken effect.
#[inline(always)]
pub fn isb() {
    // SAFETY: a barrier.
    unsafe { core::arch::asm!("isb", options(nostack, preserves_flags)) }
}

/// `SCTLR_EL1`: bits that are one in every kernel: M, C, I (memory management unit and caches), SA and SA0
/// (stack alignment checks), DZE, UCT, UCI (`dc zva`, `ctr_el0` and cache maintenance in user mode, as on
/// Linux), nTWI off (`wfi` traps), nTWE (`wfe` does not), EIS and EOS (exceptions synchronise), LSMAOE,
/// nTLSMD, nAA (reserved ones of the first version); SPAN stays zero (privileged-access-never is set on
/// entry).
pub const SCTLR_EL1: u64 = 1 // M
    | 1 << 2 // C
    | 1 << 3 // SA
    | 1 << 4 // SA0
    | 1 << 8 // SED
    | 1 << 11 // EOS
    | 1 << 12 // I
    | 1 << 14 // DZE
    | 1 << 15 // UCT
    | 1 << 18 // nTWE
    | 1 << 20 // TSCXT
    | 1 << 22 // EIS
    | 1 << 26 // UCI
    | 1 << 28 // nTLSMD
    | 1 << 29; // LSMAOE

/// `SCTLR_EL1` before the memory management unit is on: the reserved-one bits.
pub const SCTLR_EL1_OFF: u64 = 1 << 11 | 1 << 20 | 1 << 22 | 1 << 23 | 1 << 28 | 1 << 29;

/// `MAIR_EL1`: attribute 0 is device memory nGnRE, 1 is normal write-back, 2 is normal non-cached.
pub const MAIR_EL1: u64 = 0x04 | 0xff << 8 | 0x44 << 16;

/// How registers name the page size.
struct Granule {
    /// In `TCR_EL1`, for the lower half of the addresses and for the upper one.
    tg0: u64,
    tg1: u64,
    /// The first bit of the field of `ID_AA64MMFR0_EL1` that says whether the processor has such pages, and
    /// what it then says: the least and the most.
    shift: u32,
    least: u64,
    most: u64,
}

const GRANULE: Granule = {
    let (tg0, tg1, shift, least, most) = match PAGE_SHIFT {
        12 => (0, 2, 28, 0, 7),
        14 => (2, 1, 20, 1, 15),
        _ => (1, 3, 24, 0, 7),
    };
    Granule {
        tg0,
        tg1,
        shift,
        least,
        most,
    }
};

/// Whether the processor has pages of the size the kernel was built for.
#[inline(always)]
pub fn has_page_size() -> bool {
    let says = read!("id_aa64mmfr0_el1") >> GRANULE.shift & 15;
    (GRANULE.least..=GRANULE.most).contains(&says)
}

/// `TCR_EL1` without the fields that depend on the processor (IPS, AS, HA): 48-bit user and kernel halves,
/// the page size, write-back inner shareable walks, the top byte of user addresses ignored (`TBI0`, part of
/// Linux's ABI).
pub const TCR_EL1: u64 = 16 // T0SZ
    | 1 << 8 | 1 << 10 | 3 << 12 // IRGN0, ORGN0, SH0
    | 16 << 16 // T1SZ
    | 1 << 24 | 1 << 26 | 3 << 28 // IRGN1, ORGN1, SH1
    | GRANULE.tg0 << 14
    | GRANULE.tg1 << 30
    | 1 << 37; // TBI0

/// `SPSR`: EL1 with its own stack pointer, everything masked.
pub const SPSR_EL1H_MASKED: u64 = 0x3c5;

pub use shared::*;

/// What the files of `arm_common` ask of the processor, by the same names on both Arms.
mod shared {
    use crate::sched::cpu::CpuLocal;
    use crate::task::ThreadInfo;
    use core::arch::asm;

    /// Calls the firmware through the hypervisor. Arguments and result as the SMC calling convention says.
    ///
    /// # Safety
    /// The firmware does what the function number says.
    pub unsafe fn hvc(function: usize, a: usize, b: usize, c: usize) -> usize {
        let result;
        // SAFETY: x0 to x3 in, x0 to x17 clobbered.
        unsafe {
            asm!("hvc #0", inout("x0") function => result, inout("x1") a => _, inout("x2") b => _,
                inout("x3") c => _,
                clobber_abi("C"), options(nostack))
        }
        result
    }
    /// Calls the secure firmware.
    ///
    /// # Safety
    /// As for [`hvc`].
    pub unsafe fn smc(function: usize, a: usize, b: usize, c: usize) -> usize {
        let result;
        // SAFETY: the same registers, whether `hvc` or `smc` is the way.
        unsafe {
            asm!("smc #0", inout("x0") function => result, inout("x1") a => _, inout("x2") b => _,
                inout("x3") c => _,
                clobber_abi("C"), options(nostack))
        }
        result
    }
    /// Ends the machine through semihosting.
    ///
    /// # Safety
    /// A debugger (or QEMU) was promised; without one the instruction is undefined.
    pub unsafe fn semihosting(operation: usize, block: *const usize) {
        // SAFETY: as the caller promises; `block` is what the call reads.
        unsafe { asm!("hlt #0xf000", in("x0") operation, in("x1") block, options(nostack)) }
    }
    /// Sleeps until an interrupt is pending, masked or not.
    pub fn wfi() {
        // SAFETY: sleeps.
        unsafe { asm!("dsb sy", "wfi", options(nostack, preserves_flags)) }
    }
    /// What was written before is visible to other CPUs before what is written after.
    #[inline(always)]
    pub fn store_barrier() {
        // SAFETY: a barrier.
        unsafe { asm!("dsb ishst", options(nostack, preserves_flags)) }
    }
    /// Everything before is complete.
    #[inline(always)]
    pub fn full_barrier() {
        // SAFETY: a barrier.
        unsafe { asm!("dsb sy", options(nostack, preserves_flags)) }
    }
    /// Empties the TLB on every CPU, after earlier stores to tables.
    pub fn flush_all() {
        // SAFETY: forgetting translations is always allowed.
        unsafe {
            asm!(
                "dsb ishst",
                "tlbi vmalle1is",
                "dsb ish",
                "isb",
                options(nostack, preserves_flags)
            )
        }
    }
    /// Empties this CPU's TLB.
    pub fn flush_own() {
        // SAFETY: forgetting translations is always allowed.
        unsafe {
            asm!(
                "tlbi vmalle1",
                "dsb nsh",
                "isb",
                options(nostack, preserves_flags)
            )
        }
    }
    /// Begins to write the cached line at `address` to memory.
    pub fn clean(address: usize) {
        // SAFETY: cleaning a cache line changes nothing.
        unsafe { asm!("dc cvac, {}", in(reg) address, options(nostack, preserves_flags)) }
    }
    /// The affinity fields of `MPIDR_EL1`.
    pub const AFFINITY: u64 = 0xff_00ff_ffff;
    /// This CPU's affinity.
    pub fn affinity() -> u64 {
        super::read!("mpidr_el1") & AFFINITY
    }
    /// This CPU's block (`TPIDR_EL1`).
    #[inline(always)]
    pub fn local() -> *const CpuLocal {
        let local;
        // SAFETY: only reads the register.
        unsafe { asm!("mrs {}, tpidr_el1", out(reg) local, options(nomem, nostack, preserves_flags)) }
        local
    }
    /// Makes `local` this CPU's block.
    pub fn set_local(local: *const CpuLocal) {
        // SAFETY: the register is ours, and `local` lives for good.
        unsafe { asm!("msr tpidr_el1, {}", in(reg) local, options(nostack, preserves_flags)) }
    }
    /// The running thread's info (`SP_EL0` while in the kernel).
    #[inline(always)]
    pub fn thread() -> *const ThreadInfo {
        let thread;
        // SAFETY: only reads the register. The result is the same whenever the running thread asks, so the
        // compiler may keep it.
        unsafe { asm!("mrs {}, sp_el0", out(reg) thread, options(pure, nomem, nostack, preserves_flags)) }
        thread
    }
    /// Makes the register say that `thread` runs. Entries from user mode take it from the CPU's block.
    ///
    /// # Safety
    /// It does, or is about to; interrupts are off.
    #[inline(always)]
    pub unsafe fn set_thread(thread: *const ThreadInfo) {
        // SAFETY: as the caller promises.
        unsafe { asm!("msr sp_el0, {}", in(reg) thread, options(nostack, preserves_flags)) }
    }
    /// Frequency of the architected counter, in hertz.
    pub fn counter_frequency() -> u64 {
        super::read!("cntfrq_el0")
    }
    /// The virtual counter, not read early.
    #[inline(always)]
    pub fn counter() -> u64 {
        super::isb();
        super::read!("cntvct_el0")
    }
    /// When this CPU's virtual timer fires.
    #[inline(always)]
    pub fn set_timer_compare(value: u64) {
        // SAFETY: this CPU's own timer; its interrupt is handled.
        unsafe { super::write!("cntv_cval_el0", value) }
    }
    /// `CNTV_CTL`.
    #[inline(always)]
    pub fn set_timer_control(value: u64) {
        // SAFETY: this CPU's own timer; its interrupt is handled.
        unsafe { super::write!("cntv_ctl_el0", value) }
        super::isb();
    }
    /// GICv3: enables this CPU's interface: all priorities. Only FIQs, if there are any, preempt.
    pub fn gic_enable(fiqs: bool) {
        let sre = super::read!("ICC_SRE_EL1");
        // SAFETY: the interface's own registers.
        unsafe {
            super::write!("ICC_SRE_EL1", sre | 1);
            super::isb();
            super::write!("ICC_PMR_EL1", 0xf0u64);
            super::write!("ICC_BPR1_EL1", 0u64);
            super::write!("ICC_CTLR_EL1", 0u64);
            super::write!("ICC_IGRPEN1_EL1", 1u64);
            if fiqs {
                super::write!("ICC_BPR0_EL1", 0u64);
                super::write!("ICC_IGRPEN0_EL1", 1u64);
            }
        }
        super::isb();
    }
    /// GICv3: `ICC_IAR0`.
    pub fn gic_acknowledge_fiq() -> u32 {
        let id = super::read!("ICC_IAR0_EL1") as u32;
        full_barrier();
        id & 0x3ff
    }
    /// GICv3: `ICC_EOIR0`.
    pub fn gic_end_fiq(id: u32) {
        // SAFETY: ends the interrupt that was acknowledged.
        unsafe { super::write!("ICC_EOIR0_EL1", u64::from(id)) }
    }
    /// GICv3: `ICC_SGI0R`.
    pub fn gic_send_fiq(value: u64) {
        // SAFETY: interrupts a CPU, which handles it.
        unsafe { super::write!("ICC_SGI0R_EL1", value) }
        super::isb();
    }
    /// GICv3: `ICC_IAR1`.
    #[inline(always)]
    pub fn gic_acknowledge() -> u32 {
        let id = super::read!("ICC_IAR1_EL1") as u32;
        full_barrier();
        id
    }
    /// GICv3: `ICC_EOIR1`.
    #[inline(always)]
    pub fn gic_end(id: u32) {
        // SAFETY: ends the interrupt that was acknowledged.
        unsafe { super::write!("ICC_EOIR1_EL1", u64::from(id)) }
    }
    /// GICv3: `ICC_SGI1R`.
    #[inline(always)]
    pub fn gic_send(value: u64) {
        // SAFETY: interrupts a CPU, which handles it.
        unsafe { super::write!("ICC_SGI1R_EL1", value) }
        super::isb();
    }
}
