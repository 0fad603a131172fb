//! The Scalable Vector Extension: what the CPUs have of it, its registers, and who may use them. Whose they
//! are is `vectors`' business.
//!
//! User mode may use it or not, CPU by CPU (`CPACR_EL1`); the kernel may always. Whether the boot CPU has it
//! decides at boot what code does at places that ask [`is_on`]: they cost nothing otherwise.

use super::{jump_label, patch, sysreg};
use crate::arch::jump_table::{self, PROCESSOR};
use crate::arch::settings::Setting;
use core::arch::asm;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

/// Bytes of a quadword: vectors are as long as some of them.
pub const QUADWORD: usize = 16;
/// Bytes of the longest vectors of the architecture.
pub const LONGEST: usize = 256;
/// Bytes of the longest that may be asked for (`SVE_VL_MAX`).
const LONGEST_ASKED: usize = 8192;

/// `CPACR_EL1`: floating point is for everyone. SVE is for the kernel; for user mode, too.
pub const FLOAT: u64 = 3 << 20;
const KERNEL: u64 = 1 << 16;
const USER: u64 = 1 << 17;

/// The lengths that all CPUs have: bit `n` is that of `n + 1` quadwords. 0: there is no SVE.
static LENGTHS: AtomicU32 = AtomicU32::new(0);
/// Bytes of vectors that programs begin with, if that is a length; else the next shorter one counts.
static DEFAULT: AtomicUsize = AtomicUsize::new(64);

/// Whether this CPU has it.
fn is_here() -> bool {
    // ID_AA64PFR0_EL1.SVE
    sysreg::read!("id_aa64pfr0_el1") >> 32 & 0xf != 0
}

/// Whether the boot CPU has it, and it may be used. One instruction if not.
#[inline(always)]
pub fn is_on() -> bool {
    jump_table::is_on::<PROCESSOR>()
}

/// Whether programs may use it: all CPUs have it.
#[inline(always)]
pub fn is_there() -> bool {
    is_on() && LENGTHS.load(Relaxed) != 0
}

/// Finds out whether it is to be used, and has all places know. On the boot CPU, while the early tables let
/// text be written and before one of the places was executed.
pub fn init(command_line: &str) {
    let mut words = command_line
        .split_ascii_whitespace()
        .take_while(|word| *word != "--");
    if !is_here() || words.any(|word| word == "arm64.nosve") {
        return;
    }
    LENGTHS.store(u32::MAX >> (32 - LONGEST / QUADWORD), Relaxed);
    for jump in jump_table::all().filter(|jump| jump.key == PROCESSOR) {
        // SAFETY: the table has places of one instruction, and nobody executes them yet.
        unsafe { patch::write(jump.site as *mut u32, jump_label::word(&jump, true)) };
    }
    patch::text_has_changed();
}

/// On every CPU: the kernel may use it, user mode may not; the lengths that this CPU does not have are no
/// lengths.
pub fn init_cpu() {
    if LENGTHS.load(Relaxed) == 0 {
        return;
    }
    if !is_here() {
        LENGTHS.store(0, Relaxed);
        return;
    }
    // SAFETY: the kernel's own bit.
    unsafe { sysreg::write!("cpacr_el1", FLOAT | KERNEL) };
    sysreg::isb();
    let mut own = 0;
    let mut quadwords = LONGEST / QUADWORD;
    while quadwords > 0 {
        // The processor takes the longest that it has and that is not longer.
        set_length(quadwords * QUADWORD);
        let has = length() / QUADWORD;
        own |= 1 << (has - 1);
        quadwords = has - 1;
    }
    LENGTHS.fetch_and(own, Relaxed);
}

/// This CPU's vectors get this length, bytes, which it has. The bits that they lose or gain mean nothing.
fn set_length(length: usize) {
    // SAFETY: ZCR_EL1; lengths mean nothing to the kernel. What comes after sees it.
    unsafe { sysreg::write!("S3_0_C1_C2_0", (length / QUADWORD - 1) as u64) }
}

/// Bytes of this CPU's vectors.
fn length() -> usize {
    let length;
    // SAFETY: only reads the length.
    unsafe {
        asm!(".arch_extension sve", "rdvl {}, #1", out(reg) length,
            options(nomem, nostack, preserves_flags))
    };
    length
}

/// Whether user mode may use it on this CPU.
#[inline(always)]
pub fn is_allowed() -> bool {
    sysreg::read!("cpacr_el1") & USER != 0
}

/// User mode may use it on this CPU, with vectors of that length, bytes.
pub fn allow(length: usize) {
    set_length(length);
    if !is_allowed() {
        // SAFETY: the running thread has the registers. On the way to user mode it takes effect.
        unsafe { sysreg::write!("cpacr_el1", FLOAT | KERNEL | USER) };
    }
}

/// User mode may not use it on this CPU: its next use traps. In early code, too.
#[inline(always)]
pub fn deny() {
    if is_allowed() {
        // SAFETY: user mode's bit; on the way there it takes effect.
        unsafe { sysreg::write!("cpacr_el1", FLOAT | KERNEL) };
    }
}

/// Bytes of all registers with vectors of that length, bytes: Z0 to Z31, P0 to P15, FFR.
pub const fn registers_size(length: usize) -> usize {
    32 * length + 17 * length / 8
}

/// Whether a program may ask for that length, bytes.
pub fn is_length(length: usize) -> bool {
    (QUADWORD..=LONGEST_ASKED).contains(&length) && length.is_multiple_of(QUADWORD)
}

/// The longest length that is there and not longer, bytes; else the shortest. 0: there is no SVE.
pub fn supported(length: usize) -> usize {
    let all = LENGTHS.load(Relaxed);
    let most = (length / QUADWORD).clamp(1, LONGEST / QUADWORD);
    let fit = all & u32::MAX >> (32 - most);
    let quadwords = match (all, fit) {
        (0, _) => 0,
        (_, 0) => all.trailing_zeros() + 1,
        _ => 32 - fit.leading_zeros(),
    };
    quadwords as usize * QUADWORD
}

/// The longest length that is there, bytes.
pub fn longest() -> usize {
    supported(LONGEST)
}

/// What programs begin with, bytes.
pub fn default_length() -> usize {
    supported(DEFAULT.load(Relaxed))
}

/// `/proc/sys/abi/sve_default_vector_length`.
pub const DEFAULT_LENGTH: Setting = Setting {
    path: "abi/sve_default_vector_length",
    is_there,
    get: || default_length() as i64,
    set: |value| {
        let length = match value {
            -1 => longest(),
            _ => usize::try_from(value).unwrap_or(0),
        };
        let fits = is_length(length);
        if fits {
            DEFAULT.store(supported(length), Relaxed);
        }
        fits
    },
};

/// Instructions for each of the given registers: `$op`, the first letter of the register's name, its number,
/// and the memory of its number behind `$at`.
macro_rules! each {
    ($op:literal, $kind:literal, $at:literal, [$($n:literal)+]) => {
        concat!($($op, " ", $kind, $n, ", [", $at, ", #", $n, ", mul vl]\n"),+)
    };
}

/// All vectors, then all predicates, at `{at}` and at `{behind}`, which becomes what follows the vectors.
macro_rules! all_registers {
    ($op:literal) => {
        concat!(
            each!($op, "z", "{at}", [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26
                27 28 29 30 31]),
            each!($op, "p", "{behind}", [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15])
        )
    };
}

/// `{behind}` is what follows 32 vectors at `{at}`.
macro_rules! behind_vectors {
    () => {
        ".arch_extension sve\naddvl {behind}, {at}, #16\naddvl {behind}, {behind}, #16\n"
    };
}

/// Writes all registers to `to`.
///
/// # Safety
/// There is room for [`registers_size`] of this CPU's length.
pub unsafe fn save(to: *mut u128) {
    // SAFETY: as the caller promises. FFR goes through a predicate register, which is stored before.
    unsafe {
        asm!(
            behind_vectors!(),
            all_registers!("str"),
            "rdffr p0.b",
            "str p0, [{behind}, #16, mul vl]",
            "ldr p0, [{behind}]",
            at = in(reg) to, behind = out(reg) _, options(nostack, preserves_flags)
        );
    }
}

/// Reads all registers from `from`.
///
/// # Safety
/// They lie there, for this CPU's length; what the registers hold is not needed any more.
pub unsafe fn load(from: *const u128) {
    // SAFETY: as the caller promises. FFR goes through a predicate register, which is loaded behind it.
    unsafe {
        asm!(
            behind_vectors!(),
            "ldr p0, [{behind}, #16, mul vl]",
            "wrffr p0.b",
            all_registers!("ldr"),
            at = in(reg) from, behind = out(reg) _, options(nostack, preserves_flags, readonly)
        );
    }
}

/// Zeroes what is above the lower parts of vectors, all predicates and FFR.
///
/// # Safety
/// What they hold is not needed any more.
pub unsafe fn clear() {
    macro_rules! each_vector {
        ($($n:literal)+) => { concat!($("mov v", $n, ".16b, v", $n, ".16b\n"),+) };
    }
    macro_rules! each_predicate {
        ($($n:literal)+) => { concat!($("pfalse p", $n, ".b\n"),+) };
    }
    // SAFETY: as the caller promises. A write to the lower part of a vector zeroes what is above.
    unsafe {
        asm!(
            ".arch_extension fp\n.arch_extension simd\n.arch_extension sve",
            each_vector!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30
                31),
            each_predicate!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15),
            "wrffr p0.b",
            options(nomem, nostack, preserves_flags)
        );
    }
}
