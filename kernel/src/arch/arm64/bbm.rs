//! Whether the size of a live mapping may change in one store (`FEAT_BBM` level 2, and no TLB conflict
//! abort): known of some processors by name, as on Linux, and trusted of those that are software.
//! `arm64.bbml2=` on the command line decides otherwise. The rules are `limen_linear_map::rule`'s.
//!
//! The boot CPU decides for itself; so it is with live changes that the first map is made. When a CPU comes
//! that cannot bear them, the others change to break before make for good, and only then does it take part.
//! Until then it uses nothing but the image, its stack and words of the image, which are not in blocks whose
//! size changes.

use super::{cpus, sysreg};
use crate::sync::MAX_CPUS;
use core::hint::spin_loop;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use limen_linear_map::{Rule, rule};
use limen_linux_abi::Errno;

/// Whether all CPUs can.
static LIVE: AtomicBool = AtomicBool::new(false);
/// Whether the command line takes it from them.
static OFF: AtomicBool = AtomicBool::new(false);
/// Whether the command line says that they can.
static FORCE: AtomicBool = AtomicBool::new(false);
/// CPUs, as bits, of which `arm64.bbml2_lacks=` says that they cannot, for tests: the first 64.
static LACKS: AtomicU64 = AtomicU64::new(0);
/// A CPU waits in [`arrive`] that cannot.
static WAITS: AtomicBool = AtomicBool::new(false);

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

/// This CPU's number, by its affinity: it may have no local block yet.
fn own_number() -> usize {
    let own = sysreg::affinity();
    (0..MAX_CPUS).find(|&cpu| cpus::mpidr(cpu) == own).unwrap_or(0)
}

/// Whether this CPU, of that number, can.
fn has(cpu: usize) -> bool {
    if LACKS.load(Relaxed) >> cpu.min(63) & 1 != 0 {
        return false;
    }
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
        if let Some(list) = word.strip_prefix("arm64.bbml2_lacks=") {
            let numbers = list.split(',').filter_map(|n| n.parse::<u32>().ok());
            let bits = numbers
                .filter_map(|n| 1u64.checked_shl(n))
                .fold(0, |all, bit| all | bit);
            LACKS.store(bits, Relaxed);
        }
        match word.strip_prefix("arm64.bbml2=") {
            Some("off") => OFF.store(true, Relaxed),
            Some("on") => {
                OFF.store(false, Relaxed);
                FORCE.store(false, Relaxed);
            }
            Some("force") => {
                OFF.store(false, Relaxed);
                FORCE.store(true, Relaxed);
            }
            _ => {}
        }
    }
    LIVE.store(!off() && (FORCE.load(Relaxed) || has(0)), Relaxed);
}

/// A CPU has come to the kernel's map: returns when it may use it. If sizes change live and it cannot bear
/// that, its starter must see to it ([`receive`]). Until then it uses the image and its stack only, and it
/// keeps no translation from before.
pub(super) fn arrive() {
    if FORCE.load(Relaxed) || has(own_number()) {
        return;
    }
    if live() {
        WAITS.store(true, Release);
    }
    while LIVE.load(Acquire) {
        spin_loop();
    }
    sysreg::flush_own();
}

/// If CPU `cpu`, which is being started, waits in [`arrive`]: sizes change no more while others read, for
/// good. Returns whether it did. Thread, at boot: nothing else changes the map. Errors: that is not possible,
/// and it must not begin.
pub(super) fn receive(cpu: usize, before_alone: fn() -> Result<(), Errno>) -> Result<bool, Errno> {
    if !WAITS.swap(false, Acquire) {
        return Ok(false);
    }
    before_alone()?;
    LIVE.store(false, Release);
    info!("CPU {cpu} cannot bear live changes of the kernel map (FEAT_BBM): from now on all wait for them");
    Ok(true)
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
