//! What this processor can do: registers set on every CPU, and what user programs are told (`AT_HWCAP`).

use super::spr;
use super::window::AMR_SHUT;
use core::arch::asm;

/// `FSCR`: facilities user mode may use: `DSCR`, `TAR`, `scv`; on power10 prefixed instructions. No
/// transactions, no performance monitor.
const FSCR: usize = 1 << 2 | 1 << 8 | 1 << 12;
const FSCR_PREFIX: usize = 1 << 13;
/// `IAMR`: the kernel never executes user pages.
const IAMR_NO_USER: usize = 1 << 62;

/// Whether this is an implementation of version 3.1 (power10 or later).
pub(super) fn is_31() -> bool {
    // Processor versions grow but for a few old ones; radix trees rule those out.
    version() >= 0x80
}

/// The processor's version (`PVR`, upper half).
pub fn version() -> usize {
    spr::read!(spr::PVR) >> 16
}

/// On every CPU, once the final map is live: which accesses the kernel may make, what user mode may do.
pub fn init() {
    // SAFETY: the register values are explained beside each.
    unsafe {
        spr::write!(spr::UAMOR, 0usize);
        spr::write!(spr::AMR, AMR_SHUT);
        spr::write!(spr::IAMR, IAMR_NO_USER);
        spr::write!(spr::FSCR, FSCR | if is_31() { FSCR_PREFIX } else { 0 });
        spr::write!(spr::DSCR, 0usize);
        spr::write!(spr::PIDR, super::pid::NOBODY);
    }
    spr::isync();
}

/// Random bits, if there are any at the moment.
pub fn random() -> Option<u64> {
    let value: u64;
    // SAFETY: every processor with radix trees has the instruction; all ones say that it failed.
    unsafe { asm!("darn {}, 1", out(reg) value, options(nomem, nostack, preserves_flags)) }
    (value != u64::MAX).then_some(value)
}

/// `AT_PLATFORM`.
pub fn platform() -> &'static str {
    if is_31() { "power10" } else { "power9" }
}

/// Settings that only this processor has: none.
pub const SETTINGS: &[crate::arch::settings::Setting] = &[];

/// `AT_HWCAP` and `AT_HWCAP2`: what programs may use (Linux: `uapi/asm/cputable.h`).
pub fn hwcap() -> (usize, usize) {
    // 32, 64, AltiVec, FPU, MMU, SMT, snooping instruction cache, decimal floating point, 2.06, VSX,
    // performance monitor, true little-endian.
    let one = 0xdc00_65c2;
    // 2.07, DSCR, ISEL, TAR, vector crypto, 3.00, IEEE 128, DARN, SCV; 3.1.
    let two = 0xaef0_0000 | if is_31() { 0x0004_0000 } else { 0 };
    (one, two)
}

/// All bits if `index` is below `len`, none if it is not, without a branch that could be guessed wrong.
#[inline(always)]
pub fn index_mask(index: usize, len: usize) -> usize {
    let mask;
    // SAFETY: only calculates.
    unsafe {
        asm!(
            "subfc {mask}, {}, {}", "subfe {mask}, {mask}, {mask}", in(reg) len, in(reg) index,
            mask = out(reg) mask, out("xer") _, options(pure, nomem, nostack),
        );
    }
    mask
}
