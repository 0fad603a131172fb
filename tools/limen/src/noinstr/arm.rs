//! Flow of control of A32 instructions (Arm Architecture Reference Manual for v7-A, A5 "Arm instruction set
//! encoding"). The kernel has no Thumb code.

use super::{Flow, Step};

/// The condition "always".
const ALWAYS: u32 = 0b1110;
const SP: u32 = 13;
const LR: u32 = 14;
const PC: u32 = 15;

/// Decodes the instruction at `address`.
pub(crate) fn decode(code: &[u8], address: u64) -> Step {
    let Some(bytes) = code.get(..4) else {
        return Step {
            length: 4,
            flow: Flow::End,
        };
    };
    let word = u32::from_le_bytes(bytes.try_into().expect("four bytes"));
    Step {
        length: 4,
        flow: flow(word, address),
    }
}

fn flow(word: u32, address: u64) -> Flow {
    let condition = word >> 28;
    // The program counter reads as the address of the instruction after the next.
    let target = || {
        let offset = ((word << 8) as i32 >> 6) as i64;
        address.wrapping_add_signed(8 + offset) & 0xffff_ffff
    };
    if condition == 0b1111 {
        return match word {
            // BLX (immediate)
            _ if word & 0xfe00_0000 == 0xfa00_0000 => Flow::Call(target()),
            // RFE
            _ if word & 0xfe50_0000 == 0xf810_0000 => Flow::End,
            _ => Flow::Next,
        };
    }
    // A conditional return or jump may also continue with the next instruction.
    let (back, end) = if condition == ALWAYS {
        (Flow::Return, Flow::End)
    } else {
        (Flow::ReturnIf, Flow::Next)
    };
    let register = word & 0xf;
    match word {
        _ if word & 0x0f00_0000 == 0x0a00_0000 => match condition {
            ALWAYS => Flow::Jump(target()),
            _ => Flow::Branch(target()),
        },
        _ if word & 0x0f00_0000 == 0x0b00_0000 => Flow::Call(target()),
        // BX, BLX (register)
        _ if word & 0x0fff_fff0 == 0x012f_ff10 && register == LR => back,
        _ if word & 0x0fff_fff0 == 0x012f_ff10 => Flow::IndirectJump,
        _ if word & 0x0fff_fff0 == 0x012f_ff30 => Flow::IndirectCall,
        // UDF
        _ if word & 0x0ff0_00f0 == 0x07f0_00f0 => end,
        // LDM with the program counter: a return from the stack, or from an exception
        _ if word & 0x0e10_8000 == 0x0810_8000 => {
            let exception = word & 1 << 22 != 0;
            if exception {
                end
            } else if (word >> 16) & 0xf == SP {
                back
            } else {
                Flow::IndirectJump
            }
        }
        // LDR into the program counter; bits 25 and 4 together are media instructions
        _ if word & 0x0c10_f000 == 0x0410_f000 && word & 0x0200_0010 != 0x0200_0010 => {
            if (word >> 16) & 0xf == SP {
                back
            } else {
                Flow::IndirectJump
            }
        }
        // Data processing into the program counter: not the comparisons and status register moves, nor
        // multiplications
        _ if word & 0x0c00_f000 == PC << 12
            && word & 0x0180_0000 != 0x0100_0000
            && word & 0x0200_0090 != 0x0000_0090 =>
        {
            let exception = word & 1 << 20 != 0;
            let from_lr = word & 0x0fff_ffff == 0x01a0_f00e;
            if exception {
                end
            } else if from_lr {
                back
            } else {
                Flow::IndirectJump
            }
        }
        _ => Flow::Next,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches() {
        let flow = |word: u32| decode(&word.to_le_bytes(), 0xc000_1000).flow;
        assert_eq!(flow(0xea00_0000), Flow::Jump(0xc000_1008));
        assert_eq!(flow(0xeaff_fffe), Flow::Jump(0xc000_1000));
        assert_eq!(flow(0x0aff_fffe), Flow::Branch(0xc000_1000));
        assert_eq!(flow(0xebff_fffd), Flow::Call(0xc000_0ffc));
        // bx lr; bxne lr; bx r3; blx r3
        assert_eq!(flow(0xe12f_ff1e), Flow::Return);
        assert_eq!(flow(0x112f_ff1e), Flow::ReturnIf);
        assert_eq!(flow(0xe12f_ff13), Flow::IndirectJump);
        assert_eq!(flow(0xe12f_ff33), Flow::IndirectCall);
        // pop {r4, pc}; ldmia sp, {r0-pc}^; ldmia r0, {r1, pc}; pop {pc}; ldr pc, [pc, #4]
        assert_eq!(flow(0xe8bd_8010), Flow::Return);
        assert_eq!(flow(0xe8dd_ffff), Flow::End);
        assert_eq!(flow(0xe890_8002), Flow::IndirectJump);
        assert_eq!(flow(0xe49d_f004), Flow::Return);
        assert_eq!(flow(0xe59f_f004), Flow::IndirectJump);
        // movs pc, lr; subs pc, lr, #4; mov pc, lr; add pc, pc, r0, lsl #2; mov pc, r3
        assert_eq!(flow(0xe1b0_f00e), Flow::End);
        assert_eq!(flow(0xe25e_f004), Flow::End);
        assert_eq!(flow(0xe1a0_f00e), Flow::Return);
        assert_eq!(flow(0xe08f_f100), Flow::IndirectJump);
        assert_eq!(flow(0xe1a0_f003), Flow::IndirectJump);
        // rfeia sp!; udf #0; nop; msr cpsr_c, #0xd3; svc; mul r0, r1, r2; cpsid i; dsb
        assert_eq!(flow(0xf8bd_0a00), Flow::End);
        assert_eq!(flow(0xe7f0_00f0), Flow::End);
        for word in [
            0xe320_f000,
            0xe321_f0d3,
            0xef12_3456,
            0xe000_0291,
            0xf10c_0080,
            0xf57f_f04f,
        ] {
            assert_eq!(flow(word), Flow::Next, "{word:#x}");
        }
    }
}
