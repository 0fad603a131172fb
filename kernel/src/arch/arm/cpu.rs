//! What this processor can do: what the kernel needs is checked at boot, registers are set on every CPU, and
//! user programs are told (`AT_HWCAP`).

use super::{debug, patch, sysreg};
use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering};
use limen_arm_registers::Features;
use limen_linux_abi::Errno;

/// `MVFR0` and `MVFR1`.
static FLOAT: AtomicU64 = AtomicU64::new(0);

/// Once, on the boot CPU.
pub fn init_boot() {}

/// The exception table gets its order. What the command line says about the processor: `nopan` leaves user
/// space open to the kernel, to measure what closing it costs. Once, while the early tables still let text be
/// written.
pub fn options(words: &str) {
    unsafe extern "C" {
        static __pan_sites_start: [i32; 0];
        static __pan_sites_end: [i32; 0];
    }
    const NOP: u32 = 0xe320_f000;
    super::extable::sort();
    if !words.split_ascii_whitespace().any(|word| word == "nopan") {
        return;
    }
    let mut site = (&raw const __pan_sites_start).cast::<i32>();
    let end = (&raw const __pan_sites_end).cast::<i32>();
    while site < end {
        // SAFETY: the section is an array of offsets of instructions that write `TTBCR`. Nothing else runs,
        // and the early tables make text writable.
        unsafe {
            let place = (site as usize).wrapping_add_signed(site.read() as isize) as *mut u32;
            patch::write(place, NOP);
            site = site.add(1);
        }
    }
    patch::text_has_changed();
}

/// A CPU has come to the kernel's map: any can run on it.
pub(super) fn arrive() {}

/// The starter's part of that; whether there was one.
pub(super) fn receive(_cpu: usize, _before_alone: fn() -> Result<(), Errno>) -> Result<bool, Errno> {
    Ok(false)
}

/// On every CPU, once the final map is live: traps, what user mode may do.
pub fn init() {
    let thumb_ee = sysreg::read!(ID_PFR0) >> 12 & 0xf == 1;
    // SAFETY: the register values are explained beside each.
    unsafe {
        // CPACR: floating point for everyone.
        sysreg::write!(CPACR, 0xfu32 << 20);
        // User mode may read the virtual counter; an event every 2^12 ticks ends a `wfe` that nobody ends.
        sysreg::write!(CNTKCTL, 1u32 << 1 | 1 << 2 | (11 << 4));
        // PMUSERENR: no performance counters in user mode.
        sysreg::write!(PMUSERENR, 0u32);
        sysreg::write!(TPIDRURW, 0u32);
        sysreg::write!(TPIDRURO, 0u32);
        // TEECR: ThumbEE's register, which no switch saves, is not for user mode. (Later processors have
        // neither.)
        if thumb_ee {
            sysreg::write!(TEECR, 1u32);
        }
    }
    sysreg::isb();
    debug::init();
    FLOAT.store(super::switch::init_fp(), Ordering::Relaxed);
}

/// A number from the processor's random number generator: there is none.
pub fn random() -> Option<u64> {
    None
}

/// Settings that only this processor has: none.
pub const SETTINGS: &[crate::arch::settings::Setting] = &[];

/// `AT_HWCAP` and `AT_HWCAP2`: what programs may use.
pub fn hwcap() -> (usize, usize) {
    let float = FLOAT.load(Ordering::Relaxed);
    let features = Features {
        mvfr0: float as u32,
        mvfr1: (float >> 32) as u32,
        isar0: sysreg::read!(ID_ISAR0),
        isar5: sysreg::read!(ID_ISAR5),
    };
    features.hwcap().into()
}

/// All bits if `index` is below `len`, none if it is not, without a branch that could be guessed wrong.
#[inline(always)]
pub fn index_mask(index: usize, len: usize) -> usize {
    let mask;
    // SAFETY: only calculates.
    unsafe {
        asm!(
            "cmp {}, {}", "sbc {mask}, {mask}, {mask}", ".inst 0xe320f014", in(reg) index, in(reg) len,
            mask = out(reg) mask, options(pure, nomem, nostack),
        );
    }
    mask
}
