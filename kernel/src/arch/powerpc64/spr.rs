//! Special-purpose registers by number, and the bits of the machine state register that the kernel uses
//! (Power ISA, books II and III).

/// `MSR`: 64-bit mode.
pub const MSR_SF: usize = 1 << 63;
/// `MSR`: vector (VMX) available.
pub const MSR_VEC: usize = 1 << 25;
/// `MSR`: vector-scalar (VSX) available.
pub const MSR_VSX: usize = 1 << 23;
/// `MSR`: external interrupts and the decrementer enabled.
pub const MSR_EE: usize = 1 << 15;
/// `MSR`: problem state, that is user mode.
pub const MSR_PR: usize = 1 << 14;
/// `MSR`: floating point available.
pub const MSR_FP: usize = 1 << 13;
/// `MSR`: machine checks enabled.
pub const MSR_ME: usize = 1 << 12;
/// `MSR`: which floating-point exceptions that `FPSCR` enables are interrupts (0: none, to 3: precise), in
/// two places.
pub const MSR_FE0: usize = 1 << 11;
pub const MSR_FE1: usize = 1 << 8;
/// `MSR`: single step, and branch trace.
pub const MSR_STEP: usize = MSR_SE | MSR_BE;
/// After an instruction.
pub const MSR_SE: usize = 1 << 10;
/// After a branch.
pub const MSR_BE: usize = 1 << 9;
/// `MSR`: instruction and data relocation.
pub const MSR_RELOCATE: usize = 3 << 4;
/// `MSR`: recoverable interrupt.
pub const MSR_RI: usize = 1 << 1;
/// `MSR`: little-endian.
pub const MSR_LE: usize = 1;

/// Kernel mode, interrupts off.
pub const MSR_KERNEL: usize = MSR_SF | MSR_ME | MSR_RELOCATE | MSR_RI | MSR_LE;
/// User mode.
pub const MSR_USER: usize = MSR_KERNEL | MSR_EE | MSR_PR;
/// What lets user mode touch floating-point and vector registers: given and taken together.
pub const MSR_MATH: usize = MSR_FP | MSR_VEC | MSR_VSX;

/// Link register, and count register.
pub const LR: usize = 8;
pub const CTR: usize = 9;
/// Data stream control.
pub const DSCR: usize = 17;
/// Data storage interrupt status.
pub const DSISR: usize = 18;
/// Data address.
pub const DAR: usize = 19;
/// Decrementer.
pub const DEC: usize = 22;
/// Where an interrupt came from.
pub const SRR0: usize = 26;
/// The machine state there, and for some why it came.
pub const SRR1: usize = 27;
/// Authority mask: which accesses the kernel may make to user pages.
pub const AMR: usize = 29;
/// Process identifier: which user tree is current.
pub const PIDR: usize = 48;
/// Instruction authority mask.
pub const IAMR: usize = 61;
/// Facilities user mode may use.
pub const FSCR: usize = 153;
/// Which bits of the authority mask user mode may change.
pub const UAMOR: usize = 157;
/// `VRSAVE`.
pub const VRSAVE: usize = 256;
/// The time base.
pub const TB: usize = 268;
/// What user mode may read of [`SPRG3`].
pub const USPRG3: usize = 259;
/// Software's: this CPU's local block.
pub const SPRG0: usize = 272;
/// Software's: r13 on entry.
pub const SPRG1: usize = 273;
/// Software's: r11 on entry.
pub const SPRG2: usize = 274;
/// Software's, readable in user mode: the CPU's number.
pub const SPRG3: usize = 275;
/// Processor version.
pub const PVR: usize = 287;
/// Target address.
pub const TAR: usize = 815;
/// Program priority, which user mode may lower and raise again.
pub const PPR: usize = 896;

/// Reads a special-purpose register.
macro_rules! read {
    ($number:expr) => {{
        let value: usize;
        #[allow(unused_unsafe, reason = "also used where other things are unsafe")]
        // SAFETY: reading this register has no side effect.
        unsafe { core::arch::asm!("mfspr {}, {}", out(reg) value, const $number,
            options(nomem, nostack, preserves_flags)) }
        value
    }};
}
pub(super) use read;

/// Writes a special-purpose register. Used inside `unsafe` blocks, which say why the new value is right.
macro_rules! write {
    ($number:expr, $value:expr) => {
        core::arch::asm!("mtspr {}, {}", const $number, in(reg) $value, options(nostack, preserves_flags))
    };
}
pub(super) use write;

/// The machine state register.
#[inline(always)]
pub fn msr() -> usize {
    let value: usize;
    // SAFETY: only reads it.
    unsafe { core::arch::asm!("mfmsr {}", out(reg) value, options(nomem, nostack, preserves_flags)) }
    value
}

/// Sets it, but for what only returns from interrupts can change. What follows runs with it, and with other
/// registers as they were set before (`mtmsrd` with L = 0 is context synchronising: Power ISA, book III).
#[inline(always)]
pub fn set_msr(msr: usize) {
    // SAFETY: the callers change whether interrupts arrive and which registers the kernel may touch. Not
    // `nomem`: accesses must not move across.
    unsafe { core::arch::asm!("mtmsrd {}", in(reg) msr, options(nostack, preserves_flags)) }
}

/// Waits until earlier register writes have taken effect.
#[inline(always)]
pub fn isync() {
    // SAFETY: a barrier.
    unsafe { core::arch::asm!("isync", options(nostack, preserves_flags)) }
}
