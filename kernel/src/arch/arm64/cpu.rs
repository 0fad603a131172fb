//! What this processor can do: features found once at boot, registers set on every CPU, and what user
//! programs are told (`AT_HWCAP`).

use super::{patch, sve, sysreg};
use crate::arch::settings::Setting;
use core::arch::asm;
use core::sync::atomic::{AtomicBool, Ordering};

static HAS_PAN: AtomicBool = AtomicBool::new(false);

unsafe extern "C" {
    static __pan_sites_start: [i32; 0];
    static __pan_sites_end: [i32; 0];
}

/// `nop`.
const NOP: u32 = 0xd503_201f;
/// `msr pan, #0` and `#1` are this plus the value shifted left by eight.
const MSR_PAN: u32 = 0xd500_409f;

/// Once, on the boot CPU, while the early tables still let text be written: puts the table of instructions
/// that may fault in order, finds features and puts the instructions for them in place.
pub fn init_boot() {
    super::extable::sort();
    // ID_AA64MMFR1_EL1.PAN
    let pan = sysreg::read!("id_aa64mmfr1_el1") >> 20 & 0xf != 0;
    HAS_PAN.store(pan, Ordering::Relaxed);
    if !pan {
        return;
    }
    let mut site = (&raw const __pan_sites_start).cast::<i32>();
    let end = (&raw const __pan_sites_end).cast::<i32>();
    while site < end {
        // SAFETY: the section is an array of offsets to one-instruction places (`uaccess`); the value of PAN
        // to set stands in the `nop`-like placeholder's immediate. Nothing else runs, and the early tables
        // make text writable.
        unsafe {
            let place = site
                .cast::<u8>()
                .wrapping_offset(site.read() as isize)
                .cast_mut()
                .cast::<u32>();
            // The placeholders are `nop` (to close: PAN 1) and `yield` (to open: PAN 0).
            let close = place.read() == NOP;
            patch::write(place, MSR_PAN | u32::from(close) << 8);
            site = site.add(1);
        }
    }
    patch::text_has_changed();
}

/// What the command line says about the processor. Once, before the final map is live.
pub fn options(words: &str) {
    super::bbm::init(words);
    sve::init(words);
}

pub(super) use super::bbm::{arrive, receive};

/// On every CPU, once the final map is live: traps, what user mode may do.
pub fn init() {
    // ID_AA64DFR0_EL1.PMUVer: there are performance counters, as the architecture defines them.
    let counts = (1..0xf).contains(&(sysreg::read!("id_aa64dfr0_el1") >> 8 & 0xf));
    // SAFETY: the register values are explained beside each.
    unsafe {
        // Floating point for everyone; SVE traps until it is used; SME traps, so that no program comes to
        // have state that is not switched.
        sysreg::write!("cpacr_el1", sve::FLOAT);
        // The lock that keeps debug exceptions off is closed after a reset.
        sysreg::write!("oslar_el1", 0u64);
        if counts {
            sysreg::write!("pmuserenr_el0", 0u64);
        }
        // User mode may read the virtual counter; an event every 2^12 ticks ends a `wfe` that nobody ends.
        sysreg::write!("cntkctl_el1", 1u64 << 1 | 1 << 2 | (11 << 4));
        sysreg::write!("tpidrro_el0", 0u64);
        let sctlr = sysreg::SCTLR_EL1 | u64::from(!HAS_PAN.load(Ordering::Relaxed)) << 23;
        sysreg::write!("sctlr_el1", sctlr);
        if HAS_PAN.load(Ordering::Relaxed) {
            core::arch::asm!(".inst {}", const MSR_PAN | 1 << 8, options(nostack, preserves_flags));
        }
    }
    sve::init_cpu();
    super::debug::init();
    sysreg::isb();
}

/// A mask that keeps the four-bit fields of an identification register that begin at these bits.
const fn keep(fields: &[u32]) -> u64 {
    let mut mask = 0;
    let mut i = 0;
    while i < fields.len() {
        mask |= 0xf << fields[i];
        i += 1;
    }
    mask
}

/// Settings that only this processor has.
pub const SETTINGS: &[Setting] = &[sve::DEFAULT_LENGTH];

/// `ID_AA64PFR0_EL1` as user mode sees it: EL0 and EL1 with AArch64 only, floating point and SIMD, DIT, CSV,
/// SVE.
pub fn visible_pfr0() -> u64 {
    let register = sysreg::read!("id_aa64pfr0_el1");
    let sve = if sve::is_there() {
        register & keep(&[32])
    } else {
        0
    };
    register & keep(&[16, 20, 48]) | sve | 0x11
}
/// `ID_AA64ZFR0_EL1`: what there is of SVE.
pub fn visible_zfr0() -> u64 {
    if !sve::is_there() {
        return 0;
    }
    sysreg::read!("S3_0_C0_C4_4") & keep(&[0, 4, 16, 20, 32, 40, 44, 52, 56])
}
/// `ID_AA64PFR1_EL1`: SSBS; no BTI, MTE, SME.
pub fn visible_pfr1() -> u64 {
    sysreg::read!("id_aa64pfr1_el1") & keep(&[4])
}
/// `ID_AA64ISAR0_EL1`: all of it but TLB maintenance.
pub fn visible_isar0() -> u64 {
    sysreg::read!("id_aa64isar0_el1") & keep(&[4, 8, 12, 16, 20, 28, 32, 36, 40, 44, 48, 52, 60])
}
/// `ID_AA64ISAR1_EL1`: without pointer authentication and the 64-byte accesses.
pub fn visible_isar1() -> u64 {
    sysreg::read!("id_aa64isar1_el1") & keep(&[0, 12, 16, 20, 32, 36, 40, 44, 48, 52])
}
/// `ID_AA64ISAR2_EL1`: RPRES, and the hinted conditional branches.
pub fn visible_isar2() -> u64 {
    sysreg::read!("id_aa64isar2_el1") & keep(&[4, 20])
}
/// `ID_AA64MMFR2_EL1`: unaligned atomicity (LSE2).
pub fn visible_mmfr2() -> u64 {
    sysreg::read!("id_aa64mmfr2_el1") & keep(&[32])
}

/// What SVE adds to [`hwcap`].
#[cold]
fn scalable_hwcap() -> (usize, usize) {
    let zfr0 = visible_zfr0();
    // Field, least value, bit.
    let second = [
        (0, 1, 1),   // SVE2
        (4, 1, 2),   // SVEAES
        (4, 2, 3),   // SVEPMULL
        (16, 1, 4),  // SVEBITPERM
        (32, 1, 5),  // SVESHA3
        (40, 1, 6),  // SVESM4
        (44, 1, 9),  // SVEI8MM
        (52, 1, 10), // SVEF32MM
        (56, 1, 11), // SVEF64MM
        (20, 1, 12), // SVEBF16
        (20, 2, 33), // SVE_EBF16
    ];
    let has = |(field, least, bit): (u32, u64, u32)| usize::from(zfr0 >> field & 0xf >= least) << bit;
    (1 << 22, second.into_iter().map(has).sum())
}

/// `AT_HWCAP` and `AT_HWCAP2`: what programs may use.
pub fn hwcap() -> (usize, usize) {
    let (pfr0, pfr1) = (visible_pfr0(), visible_pfr1());
    let (isar0, isar1, isar2) = (visible_isar0(), visible_isar1(), visible_isar2());
    let (mmfr2, mut one, mut two) = (visible_mmfr2(), 0usize, 0usize);
    // Register, field, least value, bit (Linux: `uapi/asm/hwcap.h`).
    let first = [
        (isar0, 4, 1, 3),   // AES
        (isar0, 4, 2, 4),   // PMULL
        (isar0, 8, 1, 5),   // SHA1
        (isar0, 12, 1, 6),  // SHA2
        (isar0, 16, 1, 7),  // CRC32
        (isar0, 20, 2, 8),  // ATOMICS
        (isar0, 28, 1, 12), // ASIMDRDM
        (isar1, 12, 1, 13), // JSCVT
        (isar1, 16, 1, 14), // FCMA
        (isar1, 20, 1, 15), // LRCPC
        (isar1, 0, 1, 16),  // DCPOP
        (isar0, 32, 1, 17), // SHA3
        (isar0, 36, 1, 18), // SM3
        (isar0, 40, 1, 19), // SM4
        (isar0, 44, 1, 20), // ASIMDDP
        (isar0, 12, 2, 21), // SHA512
        (isar0, 48, 1, 23), // ASIMDFHM
        (pfr0, 48, 1, 24),  // DIT
        (mmfr2, 32, 1, 25), // USCAT
        (isar1, 20, 2, 26), // ILRCPC
        (isar0, 52, 1, 27), // FLAGM
        (pfr1, 4, 2, 28),   // SSBS
        (isar1, 36, 1, 29), // SB
    ];
    let second = [
        (isar1, 0, 2, 0),   // DCPODP
        (isar0, 52, 2, 7),  // FLAGM2
        (isar1, 32, 1, 8),  // FRINT
        (isar1, 52, 1, 13), // I8MM
        (isar1, 44, 1, 14), // BF16
        (isar1, 48, 1, 15), // DGH
        (isar0, 60, 1, 16), // RNG
        (isar2, 4, 1, 21),  // RPRES
    ];
    for (register, field, least, bit) in first {
        one |= usize::from(register >> field & 0xf >= least) << bit;
    }
    for (register, field, least, bit) in second {
        two |= usize::from(register >> field & 0xf >= least) << bit;
    }
    if sve::is_there() {
        let (scalable_one, scalable_two) = scalable_hwcap();
        one |= scalable_one;
        two |= scalable_two;
    }
    // Signed: 0 is there, 1 with half precision, 15 is not there.
    for (field, bits) in [(16, (0, 9)), (20, (1, 10))] {
        match pfr0 >> field & 0xf {
            0xf => {}
            0 => one |= 1 << bits.0,
            _ => one |= 1 << bits.0 | 1 << bits.1,
        }
    }
    // The event stream is on, and identification registers can be read.
    one |= 1 << 2 | 1 << 11;
    (one, two)
}

/// A number from the processor's random number generator, if it has one and it has any.
pub fn random() -> Option<u64> {
    // ID_AA64ISAR0_EL1.RNDR
    if sysreg::read!("id_aa64isar0_el1") >> 60 == 0 {
        return None;
    }
    let (value, failed): (u64, u64);
    // SAFETY: the instruction exists; it reports failure in the flags.
    unsafe {
        core::arch::asm!(
            "mrs {}, S3_3_C2_C4_0", "cset {}, eq", out(reg) value, out(reg) failed, options(nomem, nostack),
        )
    }
    (failed == 0).then_some(value)
}

/// All bits if `index` is below `len`, none if it is not, without a branch that could be guessed wrong.
#[inline(always)]
pub fn index_mask(index: usize, len: usize) -> usize {
    let mask;
    // SAFETY: only calculates.
    unsafe {
        asm!(
            "cmp {}, {}", "sbc {}, xzr, xzr", "hint #20", in(reg) index, in(reg) len, out(reg) mask,
            options(pure, nomem, nostack),
        );
    }
    mask
}
