//! Flow of control of A64 instructions (Arm Architecture Reference Manual, C4.1 "Branches, exception
//! generating and system instructions").

use super::{Flow, Step};

/// Decodes the instruction at `address`.
pub(crate) fn decode(code: &[u8], address: u64) -> Step {
    let Some(bytes) = code.get(..4) else {
        return Step {
            length: 4,
            flow: Flow::End,
        };
    };
    let word = u32::from_le_bytes(bytes.try_into().expect("four bytes"));
    let to = |field: u32, bits: u32| -> u64 {
        let offset = (((field << (32 - bits)) as i32) >> (32 - bits)) as i64 * 4;
        address.wrapping_add_signed(offset)
    };
    let flow = if word & 0xfc00_0000 == 0x1400_0000 {
        Flow::Jump(to(word & 0x03ff_ffff, 26))
    } else if word & 0xfc00_0000 == 0x9400_0000 {
        Flow::Call(to(word & 0x03ff_ffff, 26))
    } else if word & 0xff00_0000 == 0x5400_0000 || word & 0x7e00_0000 == 0x3400_0000 {
        // B.cond, BC.cond; CBZ, CBNZ
        Flow::Branch(to((word >> 5) & 0x7_ffff, 19))
    } else if word & 0x7e00_0000 == 0x3600_0000 {
        // TBZ, TBNZ
        Flow::Branch(to((word >> 5) & 0x3fff, 14))
    } else if word & 0xfe00_0000 == 0xd600_0000 {
        // Unconditional branch (register): opc in bits 24:21; with pointer authentication, bit 24 is set for
        // BRAA and BLRAA.
        match (word >> 21) & 0b111 {
            0b000 => Flow::IndirectJump,
            0b001 => Flow::IndirectCall,
            0b010 => Flow::Return,
            _ => Flow::End,
        }
    } else if word & 0xffe0_001f == 0xd420_0000 || word & 0xffff_0000 == 0 {
        // BRK, UDF
        Flow::End
    } else {
        Flow::Next
    };
    Step { length: 4, flow }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(word: u32) -> Flow {
        decode(&word.to_le_bytes(), 0x1000).flow
    }

    #[test]
    fn branches() {
        assert_eq!(flow(0x1400_0002), Flow::Jump(0x1008));
        assert_eq!(flow(0x97ff_ffff), Flow::Call(0xffc));
        assert_eq!(flow(0x5400_0041), Flow::Branch(0x1008));
        assert_eq!(flow(0xb500_0043), Flow::Branch(0x1008));
        assert_eq!(flow(0x3607_ffe1), Flow::Branch(0xffc));
        assert_eq!(flow(0xd61f_0200), Flow::IndirectJump);
        assert_eq!(flow(0xd63f_0100), Flow::IndirectCall);
        assert_eq!(flow(0xd65f_03c0), Flow::Return);
        assert_eq!(flow(0xd69f_03e0), Flow::End);
        assert_eq!(flow(0xd420_0020), Flow::End);
        assert_eq!(flow(0xd503_201f), Flow::Next);
    }
}
