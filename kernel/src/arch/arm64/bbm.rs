//! Whether the size of a live mapping may change in one store (`FEAT_BBM` level 2, and no TLB conflict
//! abort): known of some processors by name, as on Linux, and trusted of those that are software.
//! `arm64.bbml2=` on the command line decides otherwise. The rules are `limen_linear_map::rule`'s.

use super::sysreg;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use limen_linear_map::{Rule, rule};

/// Whether all CPUs can.
static LIVE: AtomicBool = AtomicBool::new(false);
/// Whether the command line takes it from them.
static OFF: AtomicBool = AtomicBool::new(false);
/// Whether the command line says that they can.
static FORCE: AtomicBool = AtomicBool::new(false);

/// A processor: implementer and part (`MIDR_EL1`), and from which revision to which (variant and revision, of
/// four bits each) it is known to change sizes rightly and to raise no TLB conflict aborts.
struct Known(u64, u64, u64, u64);

/// Linux's list.
const KNOWN: [Known; 6] = [
    // Cortex-X4 from r0p3 on, Neoverse V3 and V3AE from r0p2 on: before, an erratum demands break before
    // make.
    Known(0x41, 0xd82, 0x03, 0x0f),
    Known(0x41, 0xd84, 0x02, 0x0f),
    Known(0x41, 0xd83, 0x02, 0x0f),
    // NVIDIA Olympus.
    Known(0x4e, 0x010, 0x00, 0xff),
    // Ampere 1 and 1A.
    Known(0xc0, 0xac3, 0x00, 0xff),
    Known(0xc0, 0xac4, 0x00, 0xff),
];

/// Implementer 0 is for software, `Q` is QEMU's `max`: it says what it has.
const SOFTWARE: (u64, u64) = (0, b'Q' as u64);

/// Whether this CPU can.
fn has() -> bool {
    let midr = sysreg::read!("midr_el1");
    let (implementer, part) = (midr >> 24 & 0xff, midr >> 4 & 0xfff);
    let revision = midr >> 16 & 0xf0 | midr & 0xf;
    // ID_AA64MMFR2_EL1.BBM
    let level = sysreg::read!("id_aa64mmfr2_el1") >> 52 & 0xf;
    (implementer, part) == SOFTWARE && level >= 2
        || KNOWN
            .iter()
            .any(|known| (known.0, known.1) == (implementer, part) && (known.2..=known.3).contains(&revision))
}

/// Decides for the boot CPU, by the command line and by itself.
pub(super) fn init(words: &str) {
    for word in words.split_ascii_whitespace() {
        match word.strip_prefix("arm64.bbml2=") {
            Some("off") => OFF.store(true, Relaxed),
            Some("on") => OFF.store(false, Relaxed),
            Some("force") => {
                OFF.store(false, Relaxed);
                FORCE.store(true, Relaxed);
            }
            _ => {}
        }
    }
    LIVE.store(!off() && (FORCE.load(Relaxed) || has()), Relaxed);
}

/// Whether this CPU may take part: if sizes change live, it must be able to bear that. Another one's map is
/// not made again.
pub(super) fn fits() -> bool {
    !live() || FORCE.load(Relaxed) || has()
}

/// Whether the command line takes it away: then the map is of pages, as Linux's on processors without it.
pub(super) fn off() -> bool {
    OFF.load(Relaxed)
}

/// Whether sizes change live.
pub(super) fn live() -> bool {
    LIVE.load(Relaxed)
}

/// The rule that holds. Where sizes may not change live, other CPUs wait while one does: blocks are kept,
/// which Linux does not do.
pub(super) fn rule() -> Rule {
    if live() {
        rule::ARM64_BBM_2_NO_ABORT
    } else {
        rule::ARM_BREAK
    }
}
