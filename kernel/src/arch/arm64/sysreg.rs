//! System registers by name, and the encodings of those bits of them that the kernel sets.

/// Reads a system register.
macro_rules! read {
    ($name:literal) => {{
        let value: u64;
        // SAFETY: reading this register has no side effect that the caller does not want.
        unsafe { core::arch::asm!(concat!("mrs {}, ", $name), out(reg) value, options(nomem, nostack, preserves_flags)) }
        value
    }};
}
pub(super) use read;

/// Writes a system register. Used inside `unsafe` blocks, which say why the new value is right.
macro_rules! write {
    ($name:literal, $value:expr) => {
        core::arch::asm!(concat!("msr ", $name, ", {}"), in(reg) u64::from($value), options(nostack, preserves_flags))
    };
}
pub(super) use write;

/// Waits until earlier system register writes have taken effect.
#[inline(always)]
pub fn isb() {
    // SAFETY: a barrier.
    unsafe { core::arch::asm!("isb", options(nostack, preserves_flags)) }
}

/// `SCTLR_EL1`: bits that are one in every kernel: M, C, I (memory management unit and caches), SA and SA0 (stack alignment checks),
/// DZE, UCT, UCI (`dc zva`, `ctr_el0` and cache maintenance in user mode, as on Linux), nTWI off (`wfi` traps), nTWE (`wfe` does not), EIS and EOS
/// (exceptions synchronise), LSMAOE, nTLSMD, nAA (reserved ones of the first version); SPAN stays zero (privileged-access-never is set on entry).
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

/// `TCR_EL1` without the fields that depend on the processor (IPS, AS, HA): 48-bit user and kernel halves, 4K pages, write-back inner
/// shareable walks, the top byte of user addresses ignored (`TBI0`, part of Linux's ABI).
pub const TCR_EL1: u64 = 16 // T0SZ
    | 1 << 8 | 1 << 10 | 3 << 12 // IRGN0, ORGN0, SH0
    | 16 << 16 // T1SZ
    | 1 << 24 | 1 << 26 | 3 << 28 // IRGN1, ORGN1, SH1
    | 2 << 30 // TG1: 4K
    | 1 << 37; // TBI0

/// `SPSR`: EL1 with its own stack pointer, everything masked.
pub const SPSR_EL1H_MASKED: u64 = 0x3c5;
