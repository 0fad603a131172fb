//! Flow of control of Power instructions (Power ISA 3.1, book I, 2.4 "Branch instructions", and book III, 4.3
//! "System linkage").

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
    Step {
        // A prefix and its instruction are one.
        length: if word >> 26 == 1 { 8 } else { 4 },
        flow: flow(word, address),
    }
}

fn flow(word: u32, address: u64) -> Flow {
    let links = word & 1 != 0;
    // A displacement of so many bits whose lowest two are those of the flags, from here or absolute.
    let target = |bits: u32| {
        let field = (word << (32 - bits)) as i32 >> (32 - bits) & !3;
        let from = if word & 2 != 0 { 0 } else { address };
        from.wrapping_add_signed(i64::from(field))
    };
    // Neither a condition nor the counter decides.
    let always = (word >> 21) & 0b10100 == 0b10100;
    match word >> 26 {
        18 if links => Flow::Call(target(26)),
        18 => Flow::Jump(target(26)),
        // `bcl 20,31,.+4` asks where it is.
        16 if links && target(16) == address + 4 => Flow::Next,
        16 if links => Flow::Call(target(16)),
        16 if always => Flow::Jump(target(16)),
        16 => Flow::Branch(target(16)),
        19 => match (word >> 1) & 0x3ff {
            // bclr; bcctr, bctar
            16 | 528 | 560 if links => Flow::IndirectCall,
            16 if always => Flow::Return,
            16 => Flow::ReturnIf,
            528 | 560 => Flow::IndirectJump,
            // rfid, rfscv, hrfid
            18 | 82 | 274 => Flow::End,
            _ => Flow::Next,
        },
        // trap; no instruction
        31 if word == 0x7fe0_0008 => Flow::End,
        0 => Flow::End,
        _ => Flow::Next,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches() {
        let flow = |word: u32| decode(&word.to_le_bytes(), 0x1000).flow;
        assert_eq!(flow(0x4800_0008), Flow::Jump(0x1008));
        assert_eq!(flow(0x4bff_fffd), Flow::Call(0xffc));
        assert_eq!(flow(0x4800_0102), Flow::Jump(0x100));
        // beq; bdnz; b by bc; bcl 20,31,.+4
        assert_eq!(flow(0x4182_0010), Flow::Branch(0x1010));
        assert_eq!(flow(0x4200_fffc), Flow::Branch(0xffc));
        assert_eq!(flow(0x4280_0010), Flow::Jump(0x1010));
        assert_eq!(flow(0x429f_0005), Flow::Next);
        // blr; beqlr; blrl; bctr; bctrl
        assert_eq!(flow(0x4e80_0020), Flow::Return);
        assert_eq!(flow(0x4d82_0020), Flow::ReturnIf);
        assert_eq!(flow(0x4e80_0021), Flow::IndirectCall);
        assert_eq!(flow(0x4e80_0420), Flow::IndirectJump);
        assert_eq!(flow(0x4e80_0421), Flow::IndirectCall);
        // rfid; rfscv; hrfid; trap
        assert_eq!(flow(0x4c00_0024), Flow::End);
        assert_eq!(flow(0x4c00_00a4), Flow::End);
        assert_eq!(flow(0x4c00_0224), Flow::End);
        assert_eq!(flow(0x7fe0_0008), Flow::End);
        // nop; sc 1; isync; crclr
        for word in [0x6000_0000, 0x4400_0022, 0x4c00_012c, 0x4cc6_3182] {
            assert_eq!(flow(word), Flow::Next, "{word:#x}");
        }
        assert_eq!(decode(&0x0600_0000u32.to_le_bytes(), 0).length, 8);
    }
}
