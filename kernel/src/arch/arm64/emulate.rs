//! Instructions that user mode may use because the kernel does them: reading the identification registers
//! (`HWCAP_CPUID`). What a program sees there agrees with `AT_HWCAP`: features whose state the kernel does
//! not keep are hidden.

use super::frame::Frame;
use super::{cpu, sysreg};

/// Emulates the instruction at the frame's program counter. `false` if it is none of ours.
pub fn instruction(frame: &mut Frame) -> bool {
    let mut word = [0u8; 4];
    if frame.pc & 3 != 0 || crate::mm::user::read_bytes(&mut word, frame.pc).is_err() {
        return false;
    }
    let word = u32::from_le_bytes(word);
    // mrs xt, s3_0_c0_cm_op2
    if word & 0xffff_f000 != 0xd538_0000 {
        return false;
    }
    let (crm, op2, rt) = (word >> 8 & 0xf, word >> 5 & 7, word & 0x1f);
    let Some(value) = id_register(crm, op2) else {
        return false;
    };
    if rt != 31 {
        frame.regs[rt as usize] = value as usize;
    }
    frame.pc += 4;
    true
}

fn id_register(crm: u32, op2: u32) -> Option<u64> {
    Some(match (crm, op2) {
        (0, 0) => sysreg::read!("midr_el1"),
        // The affinity of whatever CPU this is would mean nothing a moment later.
        (0, 5) => 1 << 31,
        (0, 6) => sysreg::read!("revidr_el1"),
        (4, 0) => cpu::visible_pfr0(),
        (4, 1) => cpu::visible_pfr1(),
        (4, 4) => cpu::visible_zfr0(),
        (5, 0) => 6, // ID_AA64DFR0_EL1: debug architecture version 8
        (6, 0) => cpu::visible_isar0(),
        (6, 1) => cpu::visible_isar1(),
        (6, 2) => cpu::visible_isar2(),
        // ID_AA64MMFR0_EL1: no page size at any stage is promised.
        (7, 0) => 0x111_ff00_0000,
        (7, 1) => 0,
        (7, 2) => cpu::visible_mmfr2(),
        // The rest of the space reads as zero.
        (1..=7, _) => 0,
        _ => return None,
    })
}
