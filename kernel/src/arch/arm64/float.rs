//! The 32 vector registers of 128 bits that every processor has, with status and control.

use core::arch::asm;

/// `V0` to `V31`, `FPSR`, `FPCR`: also what a signal frame's `fpsimd_context` carries.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
pub struct FpState {
    /// Vector registers.
    pub v: [u128; 32],
    /// Floating-point status.
    pub fpsr: u32,
    /// Floating-point control.
    pub fpcr: u32,
}

/// Instruction `$op` (`st1` or `ld1`) for all vector registers and the memory at `{at}`, which is what
/// follows that memory then.
macro_rules! vectors {
    ($op:literal) => {
        $crate::arch::imp::float::vectors!($op, "0" "3", "4" "7", "8" "11", "12" "15", "16" "19",
            "20" "23", "24" "27", "28" "31")
    };
    ($op:literal, $($first:literal $last:literal),+) => {
        concat!(
            ".arch_extension fp\n.arch_extension simd\n",
            $($op, " {{v", $first, ".2d-v", $last, ".2d}}, [{at}], #64\n"),+
        )
    };
}
pub(super) use vectors;

impl FpState {
    /// A fresh program's.
    pub const ZERO: Self = Self {
        v: [0; 32],
        fpsr: 0,
        fpcr: 0,
    };

    /// Writes the processor's registers there.
    ///
    /// # Safety
    /// As for `sched::float::Registers::save`.
    #[inline(never)]
    pub(super) unsafe fn save(&mut self) {
        let (status, control): (u64, u64);
        // SAFETY: as the caller promises.
        unsafe {
            asm!(
                vectors!("st1"),
                "mrs {status}, fpsr",
                "mrs {control}, fpcr",
                at = inout(reg) &raw mut *self => _, status = out(reg) status, control = out(reg) control,
                options(nostack)
            );
        }
        (self.fpsr, self.fpcr) = (status as u32, control as u32);
    }

    /// Reads the processor's registers from there. The rest of SVE's vectors is zero then.
    ///
    /// # Safety
    /// As for `sched::float::Registers::load`.
    #[inline(never)]
    pub(super) unsafe fn load(&self) {
        // SAFETY: as the caller promises.
        unsafe {
            asm!(
                vectors!("ld1"),
                "msr fpsr, {status}",
                "msr fpcr, {control}",
                at = inout(reg) &raw const *self => _, status = in(reg) u64::from(self.fpsr),
                control = in(reg) u64::from(self.fpcr), options(nostack)
            );
        }
    }
}
